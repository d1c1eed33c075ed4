/* begin: begins attempts, and updates their endpoints' throttles when they end. Called after
 * the commit, or while a later turn is committed: a task that begins is on disk, or the
 * sequencer sends it again after a crash. */
#ifndef DELIVERER_BEGIN_H
#define DELIVERER_BEGIN_H

#include "rc.h"

struct deliverer;

/* Mark ended transfers, so that each frees its place in its endpoint's window at once, before
 * its outcome is committed: the endpoint has finished with it. */
void begin_mark_ended(struct deliverer *d);
/* Begin all attempts that may begin. */
void begin_attempts(struct deliverer *d);
/* How long until begin_attempts() has something to do; -1: nothing. */
int begin_wait_ms(const struct deliverer *d);

#endif
