/* begin: which attempts begin, and what their ends say of their endpoints.
 * Called in tell(): what is begun is on disk, or comes again after a crash. */
#ifndef DELIVERER_BEGIN_H
#define DELIVERER_BEGIN_H

#include "rc.h"

struct deliverer;

/* What was answered makes way for the next at once: the endpoint is done with
 * it, whenever its outcome is committed. */
void begin_mark_ended(struct deliverer *d);
/* Begin what may begin. */
void begin_attempts(struct deliverer *d);
/* How long until begin_attempts() has something to do; -1: nothing. */
int begin_wait_ms(const struct deliverer *d);

#endif
