/* trace: an event as it is told. */
#ifndef SEQUENCER_TRACE_H
#define SEQUENCER_TRACE_H

#include "store.h"

json_t *event_json(const struct event_row *e, enum event_end end);
const char *event_status_name(const struct event_row *e, enum event_end end);

#endif
