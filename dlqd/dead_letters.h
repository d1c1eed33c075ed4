/* dead_letters: stores dead letters with their events, applies what the sequencer reports about
 * them, and deletes old ones. */
#ifndef DLQD_DEAD_LETTERS_H
#define DLQD_DEAD_LETTERS_H

#include "dlqd.h"

/* Apply one message of the link, in the turn's transaction (links.h). After the commit dlqd
 * owns the dead letter, and the sequencer may delete it. Each is applied once by id, generation
 * and time of failure, however often it is received. */
gr_rc dead_letters_apply(void *self, const char *from, uint64_t n,
                         struct bytes msg);

/* The only function that changes the state of a dead letter: row, history, counters, and `l`. */
void dead_letter_transition(struct dlqd *d, struct dead_letter *l, int to,
                            const char *what);

/* Delete dead letters whose state is older than dlq.keep; never a requeued one, because its
 * delivery is still open. A limited number; returns ms until it must be called again. */
int dead_letters_purge(struct dlqd *d);

/* daemon_plan's `erase` (daemon_erase.h): deletes the dead letters of a workspace; a lane that one of them
 * halts continues. self: struct dlqd. */
erase_fn dlqd_erase;
erase_owns_fn dlqd_owns;

#endif
