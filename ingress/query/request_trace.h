/* request_trace: the control command that tells what the archive knows of an event. */
#ifndef INGRESS_REQUEST_TRACE_H
#define INGRESS_REQUEST_TRACE_H

#include "control.h"

/* Control commands (control.h). self: struct ingress. */
json_t *trace_event(void *self, json_t *args, char why[200]);
json_t *trace_find(void *self, json_t *args, char why[200]);

#endif
