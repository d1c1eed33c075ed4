/* order: decides whether an event of a stream is released now, is late, or is buffered.
 * Pure; streams.c calls it and stores the rows.
 *
 *              position < next                         late: released at once, marked
 *   arrives ── position - next <= tolerance ────────▶  released; next := position + 1
 *              otherwise                               buffered
 *
 * The first buffered event is released when all numbers before it have arrived, or when no
 * more are missing than `tolerance`, or when the missing ones are skipped: their wait has
 * expired, a person closed the gap, or the buffer is full. When the configuration of the order
 * has changed, streams.c releases all buffered events without asking here. */
#ifndef SEQUENCER_ORDER_H
#define SEQUENCER_ORDER_H

#include "rc.h"

/* These numbers are stored: never change them. */
enum gap_status {
    GAP_OPEN = 0,
    GAP_FILLED = 1, /* all of its numbers arrived */
    /* its wait has expired, the buffer was full, or the configuration of the order changed */
    GAP_SKIPPED = 2,
    GAP_CLOSED = 3, /* a person closed it */
    GAP_RECONCILED =
        4, /* of an event without a number that its provider lists */
};

struct span {
    int64_t first, last; /* first > last: empty */
};

enum order_verdict { ORDER_RELEASE, ORDER_LATE, ORDER_BUFFER };

/* An event arrives with this number. `draining`: buffered events that may be released already
 * are released first. */
enum order_verdict order_arrives(int64_t next, int64_t number,
                                 int64_t tolerance, bool draining);
/* The numbers that become missing when this one arrives. `high`: the highest number so far. */
struct span order_missing(int64_t high, int64_t number);

enum order_head { HEAD_RELEASE, HEAD_WAITS, HEAD_SKIPS };

/* May the first buffered event, with number `head`, be released? `gap`: the status of the gap
 * before it; `full`: of the buffer. */
enum order_head order_head(int64_t next, int64_t head, int64_t tolerance,
                           enum gap_status gap, bool full);

/* ---- gaps ---- */

/* What is left of a gap when one of its numbers arrives. */
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
