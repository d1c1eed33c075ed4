/* grants_inside: what the grants*.c share; nobody else's. */
#ifndef SEQUENCER_GRANTS_INSIDE_H
#define SEQUENCER_GRANTS_INSIDE_H

#include "sequencer.h"

/* grants_rows.c. Made, in memory only, when it was never here. */
struct deliverer *grants_deliverer(struct sequencer *q, const char *name);
/* Made, with a row, when it was never there or is forgotten. */
struct endpoint *grants_endpoint(struct sequencer *q, const char *name);
/* It is none of the settings: up to now events may have deliveries for it. */
void grants_note_gone(struct sequencer *q, struct endpoint *e);
/* Forgets removed endpoints that no event is held for any more. All are read anew
 * then; match them with the settings next. */
void grants_forget_gone(struct sequencer *q);

/* grants_configure.c. Of what its grant would carry today. */
int64_t grants_digest(const struct endpoint *e);
/* Once nothing that was begun under the longest timeout of then can be in flight,
 * today's is enough. */
void grants_forget_longest(struct sequencer *q);

/* grants.c. NULL: `grant` is no present one of this home. */
struct endpoint *grants_endpoint_under(struct sequencer *q, uint64_t grant,
                                       const struct deliverer *d);
void grants_end_all(struct sequencer *q, struct deliverer *d, const char *why);

#endif
