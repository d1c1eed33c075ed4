/* spans: computes how old a stored time is, although the wall clock may have been wrong.
 * Pure.
 *
 * A span is a period of wall time in which the clock ran without a step. When the clock
 * differs by more than an hour from what the last reading predicts, a new span begins:
 * either the process was down or the clock was set, and these cannot be told apart. The time
 * between two spans therefore counts toward no age. Rows are kept longer by the time that
 * the process was down; a clock that was wrong for a while, or that is corrected, removes
 * nothing too early. */
#ifndef BASE_SPANS_H
#define BASE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

/* Three years of a machine that is off every night. */
enum { SPANS_MAX = 1024 };

struct spans {
    struct {
        int64_t first_ms, last_ms; /* wall */
    } at[SPANS_MAX];               /* oldest first */
    int count;
};

/* The clock says this now. true: a new span has begun. Where there were too many, the
 * shortest former one is removed, and its time counts no more; but if all of them are
 * longer than an hour, the oldest is removed, or nothing would ever be old. */
bool spans_see(struct spans *s, int64_t now_ms);
/* What is dated before this moment is older than `keep_ms`. */
int64_t spans_before(const struct spans *s, int64_t now_ms, int64_t keep_ms);
/* And what is dated behind this one, in time to come: a clock that was ahead wrote
 * it, and all of that is longer ago. INT64_MAX: none is. */
int64_t spans_after(const struct spans *s, int64_t now_ms, int64_t keep_ms);

#endif
