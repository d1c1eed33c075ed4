/* outcome: decides the outcome of an ended attempt, and writes it to the disk, to the link to
 * the sequencer and to the log file, in this order. The turn calls it (turn.c).
 *
 * One transaction has all of an outcome: the attempt, the scheduled retry (or the deletion of
 * the task's row), and the result's number in the link's log. Until it is committed the attempt
 * counts as in flight. A crash before the commit leaves the task in flight in inflight.h, and
 * it is tried again.
 *
 * An attempt's outcome is delivered, retrying, dead, or released: it was interrupted, or its
 * delivery became final elsewhere, and this deliverer has given it back. */
#ifndef DELIVERER_OUTCOME_H
#define DELIVERER_OUTCOME_H

#include "rc.h"

struct deliverer;
struct grant;

/* Inside the transaction: record the outcomes of ended attempts, if their batch is
 * due. Returns how many. */
int outcome_work(struct deliverer *d);
/* How long ended attempts may still wait for their batch; -1: none has ended. */
int outcome_wait_ms(const struct deliverer *d);
/* It was committed. */
void outcome_after_commit(struct deliverer *d);
/* The transaction was rolled back: record them again in the next turn. */
void outcome_undo(struct deliverer *d);

/* Inside the transaction: a delivery whose attempt has not begun is given back (released),
 * because it became final elsewhere. `why` is for people. */
void outcome_put_dropped(struct deliverer *d, const struct grant *g,
                         const char *event_id, uint64_t attempts,
                         int64_t first_ms, const char *why);

/* The same: a delivery is dead, because its attempts crash this process. */
void outcome_put_crashed(struct deliverer *d, const struct grant *g,
                         const char *event_id, uint64_t attempts,
                         int64_t first_ms);

/* Write the log's line of a result, and count it. */
struct attempt_row;
void outcome_note(struct deliverer *d, const struct attempt_row *row);

const char *outcome_name(int outcome);

#endif
