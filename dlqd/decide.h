/* decide: an operator's word that a dead letter needs no retry. */
#ifndef DLQD_DECIDE_H
#define DLQD_DECIDE_H

#include "dlqd.h"

/* dead → resolved or discarded, with its note, and the message to the
 * sequencer, whose lane it may halt: all or nothing. false: refused in any
 * other state, `why` says why. */
bool decide_dead_letter(struct dlqd *d, const char *id, int state,
                        const char *note, const char *who, char why[200]);

/* Hand messages to the link, forget those that arrived; a bounded number. Returns
 * ms until it must be called again, negative for never. */
int decide_work(struct dlqd *d);
/* links.h's callback, for a row of `decisions`. */
bool decide_load(struct dlqd *d, int64_t ref, struct buf *out);

#endif
