/* rows: when a task gets a row, and which of the link's numbers are on our disk.
 *
 * Most tasks end soon and never cost a row. Until one has ended, or has a row, its
 * number is not settled, and a crash makes the sequencer send it again. */
#ifndef DELIVERER_ROWS_H
#define DELIVERER_ROWS_H

#include "rc.h"

struct deliverer;
struct grant;
struct task;
struct task_row;

/* All inside of the transaction. Number n has come: as stored_numbers_receive() says. */
GR_MUST_CHECK gr_rc rows_number_received(struct deliverer *d, uint64_t n,
                                         uint64_t epoch);
/* Of number n there is nothing to keep in memory. */
void rows_number_done(struct deliverer *d, uint64_t n);
/* The link was set back: numbers mean nothing any more. */
void rows_numbers_reset(struct deliverer *d, uint64_t cursor);

/* This task is on disk now: as a row, as its outcome, or as its grant's end. */
void rows_task_stored(struct deliverer *d, struct task *t);
/* Give it its first row. */
void rows_put(struct deliverer *d, struct task *t, const struct task_row *row);
/* Write a row for a task that has none. A waiting task may then leave memory. */
void rows_write(struct deliverer *d, struct task *t);
/* The same for all tasks whose numbers are not settled. */
void rows_write_all(struct deliverer *d);
/* Keep it as a row and nothing else; `t` stays the caller's. */
void rows_keep(struct deliverer *d, struct task *t);
/* This row goes. */
void rows_gone(struct deliverer *d, struct grant *g, int64_t row,
               bool retrying);

/* Write rows for what has been open for too long, and move the link's cursor. */
void rows_work(struct deliverer *d);
/* How long until rows_work() has something to do; -1: nothing. */
int rows_wait_ms(const struct deliverer *d);
/* Memory again as the disk has it: nothing waits, requests in flight continue. */
void rows_undo(struct deliverer *d);

#endif
