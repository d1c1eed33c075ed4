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
    int64_t due_us; /* when the next goes, evenly spaced; 0 at first */
};

/* "50/s", "600/m", "1000/h". GR_REFUSE: *why is what is wrong. */
GR_MUST_CHECK gr_rc rate_parse(const char *text, struct rate *r,
                               const char **why);
/* From one to the next; 0 without a limit. */
int64_t rate_interval_us(const struct rate *r);
/* How much a late bucket may make up for: one, or 20 ms' worth. */
int64_t rate_slack_us(const struct rate *r);

/* One may go now. */
bool bucket_has(const struct bucket *b, int64_t slack_us, int64_t now_us);
/* One goes now; the next an interval later. */
void bucket_take(struct bucket *b, int64_t interval_us, int64_t now_us);
/* When one may go; may be in the past. */
int64_t bucket_ready_us(const struct bucket *b, int64_t slack_us);

#endif
