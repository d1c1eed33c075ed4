/* search: the control commands that list events and deliveries, newest first. They only
 * read. One request looks at a bounded number of rows; the client continues at "next". */
#ifndef SEQUENCER_SEARCH_H
#define SEQUENCER_SEARCH_H

#include "control.h"
#include "store_search.h"

struct sequencer;

json_t *events_search(void *self, json_t *args, char why[200]);
json_t *deliveries_search(void *self, json_t *args, char why[200]);
/* Fails a request, as after an upgrade the provider's ids of older events are not all known yet. Returns NULL. */
json_t *events_unread(const struct sequencer *q, char why[200]);
/* The newest events, at most SAME_ID_MAX, whose provider's id or delivery id is `id`, newest first. false: events_unread(). */
bool events_of_provider_id(struct sequencer *q, const char *id, event_fn *fn,
                           void *arg, char why[200]);
/* recent_events.c: the newest events, at most 250. */
json_t *events_recent(void *self, json_t *args, char why[200]);

#endif
