/* delivery_trace: tells `grapnel trace` what this deliverer knows of one event. It reads memory
 * and committed rows, and changes nothing. */
#ifndef DELIVERER_DELIVERY_TRACE_H
#define DELIVERER_DELIVERY_TRACE_H

#include "transfer.h"
#include <jansson.h>

/* The command `trace` (control.h): {"id", "endpoint"?, "n"?, "newest"?} → {"attempts":[…], "waiting":[…]}. NULL: `why`. */
json_t *delivery_trace_event(void *self, json_t *args, char why[200]);
/* The newest attempts, at most 250, without requests and responses. */
json_t *delivery_trace_recent(void *self, json_t *args, char why[200]);

/* Of an attempt: how long its steps took, and its response (null: there was none) without
 * values of headers that are secret. */
json_t *delivery_trace_timings(const struct timings *t);
json_t *delivery_trace_response(struct bytes headers, struct bytes body,
                                int http_version);

#endif
