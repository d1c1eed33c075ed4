/* rate: a rate such as `50/s`, and a bucket that enforces it. Pure.
 *
 * The bucket uses GCRA: it stores when the next item may go if all items were evenly spaced,
 * and permits it up to `slack` earlier. So a pause is not followed by a burst, and a loop
 * that wakes a little late still reaches the full rate. Times are microseconds of any clock
 * that never goes backwards. */
#ifndef BASE_RATE_H
#define BASE_RATE_H

#include "rc.h"

enum { RATE_COUNT_MAX = 1000000 };

struct rate {
    int64_t count; /* 0: no limit */
    int64_t per_ms;
};

struct bucket {
    int64_t
        due_us; /* when the next item is due if items are evenly spaced; 0 at first */
};

/* Reads "50/s", "600/m" or "1000/h". GR_REFUSE: *why says what is wrong. */
GR_MUST_CHECK gr_rc rate_parse(const char *text, struct rate *r,
                               const char **why);
/* The time from one item to the next; 0: no limit. */
int64_t rate_interval_us(const struct rate *r);
/* How much time a late caller may make up for: one interval, or 20 ms. */
int64_t rate_slack_us(const struct rate *r);

/* Whether an item may go now. */
bool bucket_has(const struct bucket *b, int64_t slack_us, int64_t now_us);
/* Counts an item that goes now. */
void bucket_take(struct bucket *b, int64_t interval_us, int64_t now_us);
/* When the next item may go; may be in the past. */
int64_t bucket_ready_us(const struct bucket *b, int64_t slack_us);

#endif
