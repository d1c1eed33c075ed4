/* due: rows whose time has come go into memory, as far as there is room and their
 * endpoint has use for them. */
#ifndef DELIVERER_DUE_H
#define DELIVERER_DUE_H

#include "rc.h"

struct deliverer;
struct grant;

void due_work(struct deliverer *d);
/* How long until due_work() has something to do; -1: nothing. */
int due_wait_ms(const struct deliverer *d);
/* Bring in the row of this event, whenever it is due. false: there is none. */
bool due_bring(struct deliverer *d, struct grant *g, const char *event_id);

#endif
