/* purge_pace: how many old rows may be deleted now, so that deletions do not delay what someone waits for. Pure.
 *
 * A deletion shares a commit with the work of its turn. So a step is small, and the next one comes
 * PURGE_PACE_MS later at the earliest: at most 4,000 rows a second, fewer when turns take longer. While old rows
 * are left, each step also deletes as many as were added since the one before. So a table does not grow, however
 * long turns are, unless turn after turn adds more than a step may delete. */
#ifndef BASE_PURGE_PACE_H
#define BASE_PURGE_PACE_H

#include "rc.h"

enum {
    PURGE_PACE_ROWS = 32, /* in a step, beyond those that were added */
    PURGE_PACE_MS = 8,
    /* In a step; what is above that is carried to the next ones. */
    PURGE_PACE_MAX = 1024,
};

/* All 0 at first. */
struct purge_pace {
    int64_t next_ms; /* mono: the earliest next step */
    int64_t counted; /* of the added rows: those that steps had in view */
    bool left;       /* the last step left old rows */
};

/* Takes a step: how many rows may be deleted now; 0: none yet. `added`: how many rows have been added to the
 * table since any moment; if it goes back, nothing was added. */
int purge_pace_step(struct purge_pace *p, int64_t mono_ms, int64_t added);
/* Call it after each step. `left`: it may have left old rows, so the rows that arrive until the next step
 * count. Else the next step is as small as the first one, however many arrive until then. */
void purge_pace_stepped(struct purge_pace *p, bool left);
/* How long until the next step may be made. */
int purge_pace_wait_ms(const struct purge_pace *p, int64_t mono_ms);

#endif
