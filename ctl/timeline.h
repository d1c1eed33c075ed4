/* timeline: what several processes saw of an event, as one story. Pure. */
#ifndef CTL_TIMELINE_H
#define CTL_TIMELINE_H

#include <jansson.h>

/* Append the entries of answer["timeline"] to `timeline`; copies nothing. */
void timeline_add(json_t *timeline, const json_t *answer);
/* A deliverer answers with "attempts": append each that `event` (the
 * sequencer's answer, may be NULL) does not tell of already. So what it did
 * while the sequencer was away, or what never got there, is not left out. To
 * those that it tells of are added "sends", "timings" and "response". */
void timeline_add_attempts(json_t *timeline, const json_t *event,
                           const json_t *answer);
/* The same, sorted by time; what has the same time stays in order. The
 * caller's; takes `timeline` over. */
json_t *timeline_sorted(json_t *timeline);

#endif
