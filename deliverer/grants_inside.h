/* grants_inside: what the grants*.c share; nobody else's. */
#ifndef DELIVERER_GRANTS_INSIDE_H
#define DELIVERER_GRANTS_INSIDE_H

#include "grants.h"

/* grants_table.c. One that is not there yet. */
struct grant *grants_add(struct deliverer *d, uint64_t id, struct bytes name);
/* Frees it; it is in no list. */
void grants_drop(struct deliverer *d, struct grant *g);

/* grants_rows.c. Call it before the first change of a turn: undo() brings back what
 * was. */
void grants_touch(struct deliverer *d, struct grant *g);
void grants_write(struct deliverer *d, struct grant *g);

/* grants_lease.c. Takes over `config`; NULL: unconfirmed. */
void grants_set_config(struct deliverer *d, struct grant *g,
                       struct endpoint_config *config);
/* Past the lease nothing is confirmed but by an answer that is newer than it. */
void grants_lapse(struct deliverer *d, int64_t mono_now_ms);

#endif
