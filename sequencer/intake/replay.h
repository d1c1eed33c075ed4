/* replay: events that an operator sends again: from ingress's archive, or a dead letter to
 * another endpoint.
 *
 * A final delivery is reopened: a new generation with a new budget, the same id and number,
 * and grapnel-replay on each attempt. An open delivery is due now (actions.h), with the
 * budget that it has. A delivery that is final while a copy of it is still out waits on disk
 * until the deliverer has answered for the copy (P5). An action has an id: if it is received
 * twice, as after a restore, it is applied once.
 *
 * The first two are called for messages of durable links, inside the turn's transaction.
 * GR_AGAIN: the disk is nearly full; GR_REFUSE: the message is malformed. */
#ifndef SEQUENCER_REPLAY_H
#define SEQUENCER_REPLAY_H

#include "control.h"
#include "rc.h"
#include "wire.h"

struct sequencer;
struct event_row;

/* `from`: the process whose archive has the event. */
gr_rc replay_taken(struct sequencer *q, const char *from,
                   const struct wire_replayed *m);
gr_rc replay_redirected(struct sequencer *q, const struct wire_redirected *m);
/* Sends an operational event again, with what is stored of it (operational_archive.h); `endpoint`:
 * only to this one, "": to all; `always`: also if it is not subscribed. */
void replay_stored(struct sequencer *q, const struct event_row *ev,
                   struct bytes headers, struct bytes body,
                   const char *endpoint, bool always);
/* Once a turn: reopen deliveries that waited for a copy. Returns how long the loop may sleep
 * (ms); -1: no limit. */
int replay_work(struct sequencer *q);

/* The control command `facts`: what is known about a list of events. */
json_t *replay_facts(void *self, json_t *args, char why[200]);

#endif
