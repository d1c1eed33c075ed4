/* request_trace: control commands that show what the archive holds about an event. */
#ifndef ARCHIVE_REQUEST_TRACE_H
#define ARCHIVE_REQUEST_TRACE_H

#include "control.h"

/* `trace` and `find`. self: struct archive. */
json_t *trace_event(void *self, json_t *args, char why[200]);
json_t *trace_find(void *self, json_t *args, char why[200]);

#endif
