/* event_json: an event as it is told, in lists and at the head of its trace. */
#ifndef SEQUENCER_EVENT_JSON_H
#define SEQUENCER_EVENT_JSON_H

#include "store.h"

json_t *event_json(const struct event_row *e, enum event_end end);
const char *event_status_name(const struct event_row *e, enum event_end end);

#endif
