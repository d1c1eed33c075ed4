/* temporary: how long temporary endpoints live. They are managed endpoints (managed_endpoints.h)
 * that `grapnel listen` makes, and each is a pull endpoint.
 *
 * One is deleted, with the deliveries that wait for it, when no consumer has taken from it for
 * `temporary_endpoints.ttl`. This time is counted while the sequencer runs, and stored now and
 * then, so a wall clock that jumps and a process that is down delete nothing; a crash makes an
 * endpoint live a little longer. Deliverers report takes about once a minute (`taken`), and
 * consumers that find no deliverer ask the sequencer (`pull_want`).
 *
 * Everything happens inside the turn's transaction. */
#ifndef SEQUENCER_TEMPORARY_H
#define SEQUENCER_TEMPORARY_H

#include "alloc.h"

struct sequencer;
struct endpoint;

/* A consumer takes from it. Does nothing for other endpoints. */
void temporary_used(struct sequencer *q, struct endpoint *e);
/* Once a second: delete those that were not used for too long, a bounded number. */
void temporary_work(struct sequencer *q);
/* Wall: when it is deleted if it is not used until then; 0: it is not temporary, or is deleted. */
int64_t temporary_expires_ms(const struct sequencer *q,
                             const struct endpoint *e);
/* Whether one more may be made now. If not, `why` says why, with CONTROL_LIMITED. Counts it if it
 * may. */
bool temporary_may_make(struct sequencer *q, char why[200]);
/* The ids of those of which deliveries may be open, ascending; the caller's. */
int64_t *temporary_ids(const struct sequencer *q, size_t *count);

#endif
