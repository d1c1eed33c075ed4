/* timeline: merges what several processes report of an event into one list. Pure. For `grapnel
 * trace` and the HTTP API. */
#ifndef COMMANDS_TIMELINE_H
#define COMMANDS_TIMELINE_H

#include <jansson.h>

/* Append the entries of reply["timeline"]; they are shared with the reply. */
void timeline_add(json_t *timeline, const json_t *reply);
/* Append the attempts of a deliverer's reply that `event` (the sequencer's reply, or NULL) does
 * not have: those whose results have not reached the sequencer. To those that it has, add
 * "sends", "request", "timings" and "response". */
void timeline_add_attempts(json_t *timeline, const json_t *event,
                           const json_t *reply);
/* The entries sorted by time. With the same time, first those of the process that received the event, which
 * all else follows; else they keep their order. Takes `timeline` over; the result is
 * the caller's. */
json_t *timeline_sorted(json_t *timeline);

#endif
