/* due: reads due rows into memory, as far as there is space and their endpoint can begin
 * them. Called inside the transaction; it changes a row only if its time is impossible or
 * its contents are damaged. */
#ifndef DELIVERER_DUE_H
#define DELIVERER_DUE_H

#include "rc.h"

struct deliverer;
struct granted_endpoint;
struct grant;

/* Once a turn: read the rows of endpoints whose next row is due. */
void due_work(struct deliverer *d);
/* How long until due_work() has something to do; -1: nothing. */
int due_wait_ms(const struct deliverer *d);
/* wall: the latest time at which a row can be due, by the longest wait of the policies of
 * its endpoint and of single deliveries. A row with a later time was written by a wrong clock: it is due now. */
int64_t due_max_ms(const struct deliverer *d, const struct granted_endpoint *e);
/* Read the row of this event, even if it is not due. false: there is no such row. */
bool due_bring(struct deliverer *d, struct grant *g, const char *event_id);

#endif
