/* delivery_trace: what this deliverer knows of one event, for `grapnel trace`. */
#ifndef DELIVERER_DELIVERY_TRACE_H
#define DELIVERER_DELIVERY_TRACE_H

#include "transfer.h"
#include <jansson.h>

/* {"id"} → {"attempts":[…], "waiting":[…]} (control.h). */
json_t *delivery_trace_event(void *self, json_t *args, char why[200]);

/* Of an attempt: how long its steps took, and what was answered (null: nothing
 * was). */
json_t *delivery_trace_timings(const struct timings *t);
json_t *delivery_trace_response(struct bytes headers, struct bytes body,
                                int http_version);

#endif
