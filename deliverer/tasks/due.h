/* due: reads due rows into memory, as far as there is space and their endpoint can begin
 * them. */
#ifndef DELIVERER_DUE_H
#define DELIVERER_DUE_H

#include "rc.h"

struct deliverer;
struct granted_endpoint;
struct grant;

void due_work(struct deliverer *d);
/* How long until due_work() has something to do; -1: nothing. */
int due_wait_ms(const struct deliverer *d);
/* wall: the latest time at which a row can be due, by the longest wait of the endpoint's
 * policy. A row that is due later was written by a wrong clock, and is due now. */
int64_t due_max_ms(const struct deliverer *d, const struct granted_endpoint *e);
/* Bring in the row of this event, whenever it is due. false: there is none. */
bool due_bring(struct deliverer *d, struct grant *g, const char *event_id);

#endif
