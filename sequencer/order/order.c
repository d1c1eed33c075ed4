/* order: decides whether an event of a stream is released now, is late, or is buffered. */
#include "order.h"
#include <inttypes.h>
#include <stdio.h>

enum order_verdict order_arrives(int64_t next, int64_t number,
                                 int64_t tolerance, bool draining)
{
    if (number < next)
        return ORDER_LATE;
    if (draining || number - next > tolerance)
        return ORDER_BUFFER;
    return ORDER_RELEASE;
}

struct span order_missing(int64_t high, int64_t number)
{
    return (struct span){high + 1, number - 1};
}

enum order_head order_head(int64_t next, int64_t head, int64_t tolerance,
                           enum gap_status gap, bool full)
{
    if (head - next <= tolerance || gap != GAP_OPEN)
        return HEAD_RELEASE;
    return full ? HEAD_SKIPS : HEAD_WAITS;
}

struct split_gap gap_split(struct span gap, int64_t number)
{
    return (struct split_gap){{gap.first, number - 1}, {number + 1, gap.last}};
}

void span_print(char out[SPAN_BYTES], struct span s)
{
    snprintf(out, SPAN_BYTES, "%" PRId64 "-%" PRId64, s.first, s.last);
}
