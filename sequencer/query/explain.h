/* explain: says which endpoints get an event and why: one that might come (`routing`), and one that is
 * stored (`event_routing`: delivered, what it waits for, why it is dead, why it was never routed). Reads
 * the store; control commands call it inside the turn's transaction.
 *
 * The rows have no copy of the configuration of their time. What is judged by the present one says
 * whether that has changed since. */
#ifndef SEQUENCER_EXPLAIN_H
#define SEQUENCER_EXPLAIN_H

#include "control.h"

json_t *routing_explain(void *self, json_t *args, char why[200]);
json_t *event_routing_explain(void *self, json_t *args, char why[200]);

#endif
