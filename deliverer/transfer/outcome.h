/* outcome: decides the outcome of an ended attempt, and writes it to the disk, to the
 * sequencer and to the log, in this order.
 *
 * One transaction holds all of an outcome: the attempt, the scheduled retry (or the
 * end of the task's row), and the result's number in the link's log. Until it is
 * committed the attempt counts as in flight, and the result is kept here. */
#ifndef DELIVERER_OUTCOME_H
#define DELIVERER_OUTCOME_H

#include "rc.h"

struct deliverer;
struct grant;

/* Inside of the transaction: record the outcomes of ended attempts, if their batch is
 * due. Returns how many. */
int outcome_work(struct deliverer *d);
/* How long ended attempts may still wait for their batch; -1: none has ended. */
int outcome_wait_ms(const struct deliverer *d);
/* It was committed. */
void outcome_after_commit(struct deliverer *d);
/* The transaction was rolled back: record them again in the next turn. */
void outcome_undo(struct deliverer *d);

/* Inside of the transaction: this delivery is given up untried. */
void outcome_put_dropped(struct deliverer *d, const struct grant *g,
                         const char *event_id, uint64_t attempts,
                         int64_t first_ms, const char *why);

/* The same: it crashed this process, and is dead. */
void outcome_put_crashed(struct deliverer *d, const struct grant *g,
                         const char *event_id, uint64_t attempts,
                         int64_t first_ms);

const char *outcome_name(int outcome);

#endif
