/* own_grants_inside: what the own_grants*.c share. No other file includes it. */
#ifndef DELIVERER_OWN_GRANTS_INSIDE_H
#define DELIVERER_OWN_GRANTS_INSIDE_H

#include "own_grants.h"

/* own_grants_table.c. `id` must be new. */
struct grant *own_grants_add(struct deliverer *d, uint64_t id,
                             struct bytes name);
/* Frees it; it is in no list. */
void own_grants_drop(struct deliverer *d, struct grant *g);

/* own_grants_rows.c. Call it before the first change of a turn, so that undo() can
 * restore the grant. */
void own_grants_touch(struct deliverer *d, struct grant *g);
void own_grants_write(struct deliverer *d, struct grant *g);

/* own_grants_lease.c. Takes over `config`; NULL: unconfirmed. */
void own_grants_set_config(struct deliverer *d, struct grant *g,
                           struct endpoint_config *config);
/* After the lease only a response that is newer than the lease confirms a grant. */
void own_grants_lapse(struct deliverer *d, int64_t mono_now_ms);

#endif
