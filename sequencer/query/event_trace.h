/* trace: what this process knows of one event, for `grapnel trace`; and what is kept for
 * that when a person sends something again. */
#ifndef SEQUENCER_TRACE_H
#define SEQUENCER_TRACE_H

#include "delivery.h"
#include <jansson.h>

struct sequencer;

/* It is about to be sent again: what its row says of its end is kept. */
void event_trace_keep_end(struct sequencer *q, const struct delivery *d,
                          const char *endpoint);
void event_trace_keep_refusal(struct sequencer *q, int64_t event);

/* The control command. */
json_t *event_trace(void *self, json_t *args, char why[200]);

#endif
