/* timeline: what several processes saw of an event, as one story. Pure. */
#ifndef CTL_TIMELINE_H
#define CTL_TIMELINE_H

#include <jansson.h>

/* Append the entries of reply["timeline"] to `timeline`; copies nothing. */
void timeline_add(json_t *timeline, const json_t *reply);
/* A deliverer responds with "attempts": append each that `event` (the
 * sequencer's reply, may be NULL) does not tell of already. So what it did
 * while the sequencer was away, or what never got there, is not left out. To
 * those that it tells of are added "sends", "timings" and "response". */
void timeline_add_attempts(json_t *timeline, const json_t *event,
                           const json_t *reply);
/* The same, sorted by time; what has the same time stays in order. The
 * caller's; takes `timeline` over. */
json_t *timeline_sorted(json_t *timeline);

#endif
