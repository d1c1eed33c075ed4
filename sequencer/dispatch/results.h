/* results: what deliverers report about deliveries: the results of attempts, and tasks that
 * they do not know. Called for messages of the durable link, inside the turn's
 * transaction. */
#ifndef SEQUENCER_RESULTS_H
#define SEQUENCER_RESULTS_H

#include "rc.h"
#include "wire.h"

struct sequencer;

/* GR_REFUSE: the message is malformed. A result for an unknown delivery is logged. */
gr_rc results_take(struct sequencer *q, const char *from,
                   const struct wire_result *r);
/* The deliverer does not know this delivery: it waits again. */
gr_rc results_missing(struct sequencer *q, const char *from,
                      const struct wire_missing *m);

#endif
