/* progress: one line on standard error while a command works on many things: a
 * bar, how many of how many, and the time left. */
#ifndef CTL_PROGRESS_H
#define CTL_PROGRESS_H

#include "rc.h"

struct progress {
    bool shows;       /* standard error is a terminal and nothing is scripted */
    bool drawn;       /* its line is not ended yet */
    int64_t begun_ms; /* mono */
};

void progress_begin(struct progress *p, bool shows);
/* `part` of the work is done, from 0 to 1. Draws the line anew. */
void progress_show(struct progress *p, double part, const char *fmt, ...)
    GR_PRINTF(3, 4);
/* Ends the line; whatever is printed next has a line of its own. */
void progress_end(struct progress *p);

/* The time left, in ms, when `part` took `took_ms`; -1: too early to tell. Pure. */
int64_t progress_left_ms(double part, int64_t took_ms);

#endif
