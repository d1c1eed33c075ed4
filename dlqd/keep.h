/* keep: dead letters in, with everything; what becomes of them; retention. */
#ifndef DLQD_KEEP_H
#define DLQD_KEEP_H

#include "dlqd.h"

/* One message of the hop, in the turn's transaction (hop.h). From here on a
 * dead letter is ours: when this turn is committed, the sequencer may forget
 * it. Each counts once, by letter id, life and time of death, however often
 * it is said. */
gr_rc keep_apply(void *self, const char *from, uint64_t n, struct bytes msg);

/* The one mover of letters: state, history, counts. `l` follows. */
void keep_move(struct dlqd *d, struct letter *l, int to, const char *what);

/* Drop letters that have been as they are for longer than dlq.keep; never a
 * requeued one, whose story is not over. A bounded number; returns ms until
 * it wants to be called again. */
int keep_purge(struct dlqd *d);

#endif
