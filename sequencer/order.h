/* order: what may go now, and what waits. Pure decisions; streams.c keeps the
 * rows.
 *
 *              place < next                         late: goes at once, marked
 *   arrives ── place - next <= tolerance ────────▶  goes; next := place + 1
 *              else                                 held, in the buffer
 *
 *   the first that is held goes when nothing is missing before it, or no more
 *   than is tolerated, or what is missing was given up: its time is over, a
 *   person closed it, the buffer is full. */
#ifndef SEQUENCER_ORDER_H
#define SEQUENCER_ORDER_H

#include "rc.h"

/* Of a gap. On disk forever. */
enum gap_status {
    GAP_OPEN = 0,
    GAP_FILLED = 1,  /* all of it came after all */
    GAP_SKIPPED = 2, /* its time is over, or the buffer was full */
    GAP_CLOSED = 3,  /* by a person */
};

struct span {
    int64_t first, last; /* first > last: empty */
};

enum order_verdict { ORDER_GOES, ORDER_LATE, ORDER_HELD };

/* An event comes with this number. `draining`: some of what is held may go
 * already, and goes first. */
enum order_verdict order_arrives(int64_t next, int64_t number,
                                 int64_t tolerance, bool draining);
/* The numbers that its coming shows to be missing. `high` is the highest seen
 * so far. */
struct span order_missing(int64_t high, int64_t number);

enum order_head { HEAD_GOES, HEAD_WAITS, HEAD_GIVES_UP };

/* The first that is held. `gap`: how what is missing before it stands. */
enum order_head order_head(int64_t next, int64_t head, int64_t tolerance,
                           enum gap_status gap, bool full);

/* ---- gaps ---- */

/* What becomes of a gap when one of its numbers comes: that one, and what is
 * still missing before and behind it. */
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
