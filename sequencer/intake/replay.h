/* replay: events that an operator sends again: from ingress's archive, or a dead letter
 * to another endpoint.
 *
 * A delivery of it is opened once more: one generation more, a new budget, the same id
 * and number, and grapnel-replay on each attempt. One that is still open is due now
 * (actions.h), with the budget that it has. One that is final while a copy of it is
 * still out waits for the response to that (P5), on disk. An action has an id; said
 * twice, as after a restore, it is done once. */
#ifndef SEQUENCER_REPLAY_H
#define SEQUENCER_REPLAY_H

#include "control.h"
#include "rc.h"
#include "wire.h"

struct sequencer;

gr_rc replay_taken(struct sequencer *q, const struct wire_replayed *m);
gr_rc replay_redirected(struct sequencer *q, const struct wire_redirected *m);
/* Those that wait for a copy. Returns how long it may sleep, -1: for ever. */
int replay_work(struct sequencer *q);

/* The control command: what is known of a list of events. */
json_t *replay_facts(void *self, json_t *args, char why[200]);

#endif
