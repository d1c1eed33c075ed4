/* search: the control commands that list events and deliveries, newest first. They only
 * read. One request looks at a bounded number of rows; the client continues at "next". */
#ifndef SEQUENCER_SEARCH_H
#define SEQUENCER_SEARCH_H

#include "control.h"
#include "store_search.h"

struct sequencer;

json_t *events_search(void *self, json_t *args, char why[200]);
json_t *deliveries_search(void *self, json_t *args, char why[200]);
/* At most 100 events, newest first, whose id or delivery id was given by the provider. `e` is valid until `fn` returns. */
void events_of_provider_id(struct sequencer *q, const char *id, event_fn *fn,
                           void *arg);
/* recent_events.c: the newest events, at most 250. */
json_t *events_recent(void *self, json_t *args, char why[200]);

#endif
