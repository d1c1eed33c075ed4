/* search: the control commands that list events and deliveries, newest first. They only
 * read. One request looks at a bounded number of rows; the client continues at "next". */
#ifndef SEQUENCER_SEARCH_H
#define SEQUENCER_SEARCH_H

#include "control.h"

json_t *events_search(void *self, json_t *args, char why[200]);
json_t *deliveries_search(void *self, json_t *args, char why[200]);
/* recent_events.c: the newest events, at most 250. */
json_t *events_recent(void *self, json_t *args, char why[200]);

#endif
