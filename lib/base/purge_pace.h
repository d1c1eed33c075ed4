/* purge_pace: how many old rows may be deleted now, so that deletions do not delay what someone waits for. Pure.
 *
 * A deletion shares a commit with the work of its turn. So a step is small, and the next one comes
 * PURGE_PACE_MS later at the earliest: 4,000 rows a second, and as many more as are added meanwhile, so
 * that tables do not grow however many rows arrive. */
#ifndef BASE_PURGE_PACE_H
#define BASE_PURGE_PACE_H

#include "rc.h"

enum {
    PURGE_PACE_ROWS = 32, /* in a step, beyond those that were added */
    PURGE_PACE_MS = 8,
};

/* All 0 at first: the first step may be made at once. */
struct purge_pace {
    int64_t next_ms; /* mono: the earliest next step */
    int64_t step_ms; /* mono: the last one; 0: none yet */
    int64_t added;   /* rows added until then */
};

/* How many rows may be deleted in a step now; 0: none yet. If not 0, this is the step. `added`: rows
 * that the process has added to the table since any moment; a number that goes back counts as none. */
int64_t purge_pace_step(struct purge_pace *p, int64_t mono_ms, int64_t added);
/* How long until the next step may be made. */
int purge_pace_wait_ms(const struct purge_pace *p, int64_t mono_ms);

#endif
