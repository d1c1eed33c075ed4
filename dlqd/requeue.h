/* requeue: a dead letter's way back to the sequencer, on an operator's word. */
#ifndef DLQD_REQUEUE_H
#define DLQD_REQUEUE_H

#include "dlqd.h"

/* dead → requeued, and the message to the sequencer, in the transaction now
 * open: both or neither. `who` asks for it, NULL when he does not say. false: refused
 * in any other state, `why` says why. */
bool requeue_dead_letter(struct dlqd *d, const char *id, const char *who,
                         char why[200]);

/* What is stored of it, here or where it came from, is not what was accepted: it is sent
 * to nobody. `why` says so. */
bool content_damaged(struct dlqd *d, const struct dead_letter *l,
                     char why[200]);

/* links.h's callbacks for the log of requeues. */
bool requeue_load(void *self, const char *peer, uint64_t n, int kind,
                  int64_t ref, struct buf *out);
/* One of us came back from an older copy, so a requeue may be forgotten over
 * there: all that wait are said again. The sequencer takes those only whose
 * delivery is dead in that generation, so none is tried twice. */
void requeue_set_back(void *self, const char *peer, bool we_are_older);

/* Hand what is to be said again to the link, a bounded number. Returns ms until
 * it must be called again, negative for never. */
int requeue_work(struct dlqd *d);

#endif
