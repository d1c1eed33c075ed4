/* watch: asks deliverers about deliveries whose results are overdue.
 *
 * A deliverer that has had a delivery for longer than any attempt takes is asked about it
 * (`check`), by its link's log and so after the task. If it does not know the delivery, it
 * responds `missing`, by its own log and so after every result that it had. The delivery
 * is then dispatched again, with a warning: nothing else would ever end it. A deliverer
 * does not respond about a delivery that waits there for a retry, a rate limit or its turn.
 *
 * This is a safety net below the protocol, so it is cheap rather than quick: a bounded
 * number of rows each second, the endpoints in turn. */
#ifndef SEQUENCER_WATCH_H
#define SEQUENCER_WATCH_H

#include "alloc.h"

struct sequencer;

/* Once a turn. */
void watch_work(struct sequencer *q);
/* A `check` message of a deliverer's link, as it leaves; false: it no longer applies. */
bool watch_load(struct sequencer *q, uint64_t n, int64_t ref, struct buf *out);

#endif
