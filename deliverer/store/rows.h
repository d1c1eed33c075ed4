/* rows: decides when a task gets a row, and stores which of the link's numbers are on disk.
 *
 * Most tasks end soon and never cost a row. Until a task has ended or has a row, its number
 * is not stored, and after a crash the sequencer sends it again. All functions but
 * rows_wait_ms() and rows_undo() are called inside the turn's transaction. */
#ifndef DELIVERER_ROWS_H
#define DELIVERER_ROWS_H

#include "rc.h"

struct deliverer;
struct grant;
struct task;
struct task_row;

/* Number n was received. Returns what stored_numbers_receive() returns. */
GR_MUST_CHECK gr_rc rows_number_received(struct deliverer *d, uint64_t n,
                                         uint64_t epoch);
/* The message of number n has its effect in this transaction: the number is stored. */
void rows_number_done(struct deliverer *d, uint64_t n);
/* The link was rewound: forget all numbers, and continue at this cursor. */
void rows_numbers_reset(struct deliverer *d, uint64_t cursor);

/* This task's number is stored: the task has a row, or an outcome, or its grant has ended. */
void rows_task_stored(struct deliverer *d, struct task *t);
/* Give it its first row. */
void rows_put(struct deliverer *d, struct task *t, const struct task_row *row);
/* Write a row for a task that has no row. A WAITING task may be freed. */
void rows_write(struct deliverer *d, struct task *t);
/* The same for all tasks whose numbers are not stored. */
void rows_write_all(struct deliverer *d);
/* Write a row for a task that is not to be in memory; `t` stays the caller's. */
void rows_keep(struct deliverer *d, struct task *t);
/* The same for a WAITING task that is in memory, which is freed. */
void rows_move_out(struct deliverer *d, struct task *t);
/* Delete this row. */
void rows_gone(struct deliverer *d, struct grant *g, int64_t row,
               bool retrying);

/* Once a turn: write rows for tasks that have not ended for long, and move the link's cursor. */
void rows_work(struct deliverer *d);
/* How long until rows_work() has something to do; -1: nothing. */
int rows_wait_ms(const struct deliverer *d);
/* After a rollback: drop waiting tasks, and read counts again; requests in flight continue. */
void rows_undo(struct deliverer *d);

#endif
