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

/* Enough for three years of a machine that is off every night. */
enum { SPANS_MAX = 1024 };

struct spans {
    struct {
        int64_t first_ms, last_ms; /* wall */
    } at[SPANS_MAX];               /* oldest first */
    int count;
};

/* Notes that the clock says `now_ms`. true: a new span has begun. If there were too many,
 * the shortest one before it is removed and its time no longer counts; if all of them are
 * longer than an hour, the oldest is removed, because nothing would ever be old otherwise. */
bool spans_see(struct spans *s, int64_t now_ms);
/* The moment before which rows are older than `keep_ms`. */
int64_t spans_before(const struct spans *s, int64_t now_ms, int64_t keep_ms);
/* The moment after which rows were written with a clock that was ahead, longer ago than
 * that too. INT64_MAX: there are no such rows. */
int64_t spans_after(const struct spans *s, int64_t now_ms, int64_t keep_ms);

#endif
