/* endpoint_plan: the retry policy of an endpoint as a plan of attempts, and where its open
 * deliveries stand on it. Reads the store; control commands call it inside the turn's
 * transaction. */
#ifndef SEQUENCER_ENDPOINT_PLAN_H
#define SEQUENCER_ENDPOINT_PLAN_H

#include "control.h"

json_t *endpoint_plan(void *self, json_t *args, char why[200]);

#endif
