/* trace: what this deliverer knows of one event, for `grapnel trace`. */
#ifndef DELIVERER_TRACE_H
#define DELIVERER_TRACE_H

#include <jansson.h>

/* {"id"} → {"attempts":[…], "waiting":[…]} (control.h). */
json_t *trace_event(void *self, json_t *args, char why[200]);

#endif
