/* attempts: begins attempts, and updates their endpoints' throttles when they end. Called after
 * the commit, or while a later turn is committed: a task that begins is on disk, or the
 * sequencer sends it again after a crash. */
#ifndef DELIVERER_ATTEMPTS_H
#define DELIVERER_ATTEMPTS_H

#include "rc.h"

struct deliverer;

/* Mark ended transfers, so that each frees its place in its endpoint's window at once, before
 * its outcome is committed: the endpoint has finished with it. */
void attempts_mark_ended(struct deliverer *d);
/* Begin all attempts that may begin. */
void attempts_begin(struct deliverer *d);
/* How long until attempts_begin() has something to do; -1: nothing. */
int attempts_wait_ms(const struct deliverer *d);

#endif
