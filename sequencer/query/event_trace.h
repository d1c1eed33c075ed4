/* event_trace: all that this process knows about one event, for `grapnel trace`: what the event
 * is, which endpoints get it and why, each attempt, and what delayed it.
 *
 * A row has only the present state. So what it says of an end is noted in `actions`, inside
 * the turn's transaction, before a person's action overwrites it. */
#ifndef SEQUENCER_TRACE_H
#define SEQUENCER_TRACE_H

#include "delivery.h"
#include <jansson.h>

struct sequencer;

/* This delivery, or this refused event, is about to be sent again: note how it ended. */
void event_trace_keep_end(struct sequencer *q, const struct delivery *d,
                          const char *endpoint);
void event_trace_keep_refusal(struct sequencer *q, int64_t event);

/* The control command `trace`. */
json_t *event_trace(void *self, json_t *args, char why[200]);

#endif
