/* progress: one line on standard error while a command works on many things: a bar, a count and
 * the time left. For commands. */
#ifndef CTL_PROGRESS_H
#define CTL_PROGRESS_H

#include "rc.h"

struct progress {
    bool shows; /* standard error is a terminal, and --json is not given */
    bool drawn; /* its line has not ended yet */
    int64_t begun_ms; /* mono */
};

void progress_begin(struct progress *p, bool shows);
/* Draws the line again: `part` of the work, from 0 to 1, is done. */
void progress_show(struct progress *p, double part, const char *fmt, ...)
    GR_PRINTF(3, 4);
/* Ends the line, so that the next output begins on a new one. */
void progress_end(struct progress *p);

/* The time left, in ms, when `part` took `took_ms`; -1: it is too early to estimate. Pure. */
int64_t progress_left_ms(double part, int64_t took_ms);

#endif
