/* resend: an operator sends archived events again.
 *
 * Each becomes a small row with a number of the link to the sequencer, in the commit that
 * precedes the response. So it takes effect exactly once, after all events received before it,
 * also if a process is killed. Events that are no longer in the archive are listed in the
 * response. */
#ifndef RESEND_H
#define RESEND_H

#include "control.h"

/* Control commands `archive` and `resend`. self: struct archive. */
json_t *replay_archive(void *self, json_t *args, char why[200]);
json_t *replay_resend(void *self, json_t *args, char why[200]);

/* Rows are in the order of their numbers, and times ascend with them up to this much. */
#define REPLAY_OUT_OF_ORDER_MS (10 * MINUTE_MS)
struct archive;
struct replay_row;
/* The last row that is certainly before all that were received at `ms` or later. */
int64_t replay_row_before(struct archive *a, int64_t ms);
/* Inside the transaction: sends an archived event again. The row's `n` and time are set here. */
void replay_put(struct archive *a, struct replay_row *row);

/* Append the replays of an event to its timeline. true: there were some. */
bool replay_timeline(struct archive *a, const char *event_id, json_t *timeline);

#endif
