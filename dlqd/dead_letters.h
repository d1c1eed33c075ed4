/* dead_letters: store dead letters with their events, apply what becomes of them, and delete old ones. */
#ifndef DLQD_DEAD_LETTERS_H
#define DLQD_DEAD_LETTERS_H

#include "dlqd.h"

/* One message of the link, in the turn's transaction (links.h). From here on a
 * dead letter is ours: when this turn is committed, the sequencer may forget
 * it. Each counts once, by dead letter id, generation and time of failure, however often
 * it is said. */
gr_rc dead_letters_apply(void *self, const char *from, uint64_t n,
                         struct bytes msg);

/* The one mover of dead letters: state, history, counts. `l` follows. */
void dead_letter_transition(struct dlqd *d, struct dead_letter *l, int to,
                            const char *what);

/* Drop dead letters that have been as they are for longer than dlq.keep; never a
 * requeued one, whose story is not over. A bounded number; returns ms until
 * it must be called again. */
int dead_letters_purge(struct dlqd *d);

#endif
