/* order: decides whether an event of a stream is released now, is late, or is buffered.
 * Pure; streams.c stores the rows.
 *
 *              position < next                         late: goes at once, marked
 *   arrives ── position - next <= tolerance ────────▶  goes; next := position + 1
 *              else                                 held, in the buffer
 *
 *   the first buffered event is released when all numbers before it have arrived, or no more
 *   are missing than is tolerated, or the missing ones were given up: the wait has expired, a person
 *   closed the gap, or the buffer is full. */
#ifndef SEQUENCER_ORDER_H
#define SEQUENCER_ORDER_H

#include "rc.h"

/* Of a gap. On disk forever. */
enum gap_status {
    GAP_OPEN = 0,
    GAP_FILLED = 1,  /* all of it came after all */
    GAP_SKIPPED = 2, /* its time has expired, or the buffer was full */
    GAP_CLOSED = 3,  /* by a person */
};

struct span {
    int64_t first, last; /* first > last: empty */
};

enum order_verdict { ORDER_RELEASE, ORDER_LATE, ORDER_BUFFER };

/* An event arrives with this number. `draining`: some buffered events may be released
 * already, and are released first. */
enum order_verdict order_arrives(int64_t next, int64_t number,
                                 int64_t tolerance, bool draining);
/* The numbers that are newly missing when this one arrives. `high` is the highest number so
 * far. */
struct span order_missing(int64_t high, int64_t number);

enum order_head { HEAD_RELEASE, HEAD_WAITS, HEAD_GIVES_UP };

/* The first buffered event. `gap`: the status of the gap before it. */
enum order_head order_head(int64_t next, int64_t head, int64_t tolerance,
                           enum gap_status gap, bool full);

/* ---- gaps ---- */

/* A gap when one of its numbers arrives: the numbers still missing before and after it. */
struct split_gap {
    struct span before, behind;
};
struct split_gap gap_split(struct span gap, int64_t number);

/* "3-5" */
enum { SPAN_BYTES = 48 };
void span_print(char out[SPAN_BYTES], struct span s);
static inline bool span_is_empty(struct span s)
{
    return s.first > s.last;
}

#endif
