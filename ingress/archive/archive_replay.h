/* archive_replay: an operator sends archived events again.
 *
 * Each becomes a small row with a number of the link to the sequencer, in the commit that
 * precedes the response. So it takes effect exactly once, after all events received before it,
 * also if a process is killed. Events that are no longer in the archive are listed in the
 * response. */
#ifndef INGRESS_ARCHIVE_REPLAY_H
#define INGRESS_ARCHIVE_REPLAY_H

#include "control.h"

/* Control commands `archive` and `resend`. self: struct ingress. */
json_t *replay_archive(void *self, json_t *args, char why[200]);
json_t *replay_resend(void *self, json_t *args, char why[200]);

/* Append the replays of an event to its timeline. true: there were some. */
struct ingress;
bool replay_timeline(struct ingress *g, const char *event_id, json_t *timeline);

#endif
