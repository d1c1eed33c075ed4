/* due: rows whose time has come go into memory, as far as there is room and their
 * endpoint has use for them. */
#ifndef DELIVERER_DUE_H
#define DELIVERER_DUE_H

#include "rc.h"

struct deliverer;
struct endpoint;
struct grant;

void due_work(struct deliverer *d);
/* How long until due_work() has something to do; -1: nothing. */
int due_wait_ms(const struct deliverer *d);
/* wall: no row can be due later, by the longest wait of the endpoint's policy: one
 * that is was written by a clock that was ahead, ours or another deliverer's, and is
 * due now. */
int64_t due_most_ms(const struct deliverer *d, const struct endpoint *e);
/* Bring in the row of this event, whenever it is due. false: there is none. */
bool due_bring(struct deliverer *d, struct grant *g, const char *event_id);

#endif
