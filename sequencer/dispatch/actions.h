/* actions: what an operator does with a single open delivery: try it now, or abandon it.
 *
 * Both are stored before the response, so a kill -9 after it loses neither. A retry makes
 * the delivery due: here if it waits here, and by a message of the durable link at the
 * deliverer that has it. Its budget and its attempts do not change, and in an ordered lane
 * it stays behind earlier deliveries. An abandoned delivery is dead at once, with a dead
 * letter. If an attempt is in flight, its lane waits for the end of that (P5), and a success
 * still counts. */
#ifndef SEQUENCER_ACTIONS_H
#define SEQUENCER_ACTIONS_H

#include "control.h"

struct sequencer;
struct endpoint;
struct delivery;

/* Make an open delivery due now. Changes the row on disk and `d`. */
void actions_try_now(struct sequencer *q, struct endpoint *e,
                     struct delivery *d);

/* The control commands `retry` and `abandon`. */
json_t *actions_retry(void *self, json_t *args, char why[200]);
json_t *actions_abandon(void *self, json_t *args, char why[200]);

#endif
