/* take: what comes over the hop, and where it goes; and what was taken but is
 * on disk only once it has to be. */
#ifndef DELIVERER_TAKE_H
#define DELIVERER_TAKE_H

#include "rc.h"

struct deliverer;
struct grant;
struct task;
struct task_row;

/* The hop's apply (hop.h). */
gr_rc take_message(void *self, const char *from, uint64_t n, struct bytes msg);
/* The hop's set_back. */
void take_set_back(void *self, const char *peer, bool we_are_older);

/* This task is on disk now, in the transaction now open: as a row, as its
 * outcome, or as its grant's end. */
void take_settled(struct deliverer *d, struct task *t);
/* Give it its first row. */
void take_row(struct deliverer *d, struct task *t, const struct task_row *row);
/* Write rows for what has been open for too long, and move the hop's place. */
void take_work(struct deliverer *d);
/* How long until take_work() has something to do; -1: nothing. */
int take_wait_ms(const struct deliverer *d);
/* Bring due rows into memory. */
void take_due_rows(struct deliverer *d);
/* The same with the row of this event, whenever it is due; false: no row. */
bool take_row_of(struct deliverer *d, struct grant *g, const char *event_id);
int take_due_wait_ms(const struct deliverer *d);
/* Memory again as the disk has it: nothing waits, what flies goes on. */
void take_undo(struct deliverer *d);

#endif
