/* outcome: what an attempt came to, told to our disk, to the sequencer and to
 * the log, in this order.
 *
 * One transaction holds all of an outcome: the attempt, the parked row (or the
 * end of the task's row), and the result's number in the hop's log. Until it is
 * committed the attempt counts as in flight, and the result is kept here. */
#ifndef DELIVERER_OUTCOME_H
#define DELIVERER_OUTCOME_H

#include "rc.h"

struct deliverer;
struct grant;

/* Inside of the transaction: record what has ended, when it is time. Returns how
 * many. */
int outcome_work(struct deliverer *d);
/* How long what has ended may wait for company; -1: nothing has. */
int outcome_wait_ms(const struct deliverer *d);
/* It was committed. */
void outcome_tell(struct deliverer *d);
/* It was not: record it again in the next turn. */
void outcome_undo(struct deliverer *d);

/* Inside of the transaction: this delivery is given up untried. */
void outcome_release(struct deliverer *d, const struct grant *g,
                     const char *event_id, uint64_t attempts, int64_t first_ms,
                     const char *why);

/* The same: it takes us down, and is dead. */
void outcome_crashed(struct deliverer *d, const struct grant *g,
                     const char *event_id, uint64_t attempts, int64_t first_ms);

const char *outcome_name(int outcome);

#endif
