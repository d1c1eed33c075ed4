/* active: which instance of a process is asked, when more than one can be reached: a former one may hang, with its
 * connections still open.
 *
 * All that can be reached are asked in rounds. An instance that answers is active: a process that does not own its store,
 * or does not know whether it still does, answers nobody, or with an error. Pure. */
#ifndef CONSOLE_ACTIVE_H
#define CONSOLE_ACTIVE_H

#include <stdbool.h>
#include <stdint.h>

/* So many rounds in a row that the present one has not answered and another one has. */
enum { ACTIVE_MISSED = 3 };

struct candidate {
    bool open; /* it can be reached */
    /* The last round that it answered; of one that has just become reachable: the round then. */
    int64_t answered;
};

/* `present`: the one that is asked, or -1. Returns which one to ask; -1: none is open. */
int active_choose(const struct candidate *all, int count, int present);

#endif
