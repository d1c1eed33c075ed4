/* archive_replay: an operator has archived events sent again.
 *
 * Each becomes a small row with a number of the link to the sequencer, in the
 * commit that precedes the response: so it takes effect exactly once, whatever is
 * killed, and behind all that was received before. What the archive has no
 * more is named, not passed over. */
#ifndef INGRESS_ARCHIVE_REPLAY_H
#define INGRESS_ARCHIVE_REPLAY_H

#include "control.h"

/* self: struct ingress. */
json_t *replay_archive(void *self, json_t *args, char why[200]);
json_t *replay_resend(void *self, json_t *args, char why[200]);

/* Append what was done to an event to its timeline. true: something was. */
struct ingress;
bool replay_timeline(struct ingress *g, const char *event_id, json_t *timeline);

#endif
