/* backoff: when the next attempt is due, or that there is none. Pure.
 *
 * The wait after the k-th attempt of a generation is, before jitter,
 *   exponential  first_wait × factor^(k-1), at most max_wait
 *   fixed        first_wait
 *   schedule     the k-th entry; after the last one the last again, or the end
 * Full jitter takes anything from 0 up to it, proportional jitter of p anything
 * within ± p. What an endpoint asked for by Retry-After (0 to 24 h) only ever
 * lengthens, with a little jitter upward when the policy has any, and never
 * past the end of the time budget. A next try outside of a budget is no try:
 * the delivery is dead now, not then; and so is one of an event that will have
 * expired by then. */
#ifndef WEBHOOK_BACKOFF_H
#define WEBHOOK_BACKOFF_H

#include "settings.h"

enum { RETRY_AFTER_MAX_MS = 24 * 60 * 60 * 1000 };

struct backoff {
    const struct retry_policy *policy;
    uint64_t attempts; /* made in this generation, at least 1 */
    int64_t first_ms;  /* time of the first of them */
    int64_t now_ms;
    int64_t retry_after_ms; /* what the endpoint asked for; any value */
    int64_t expires_ms;     /* of the event; 0: never */
    uint64_t random;        /* 64 random bits */
};

enum backoff_end {
    BACKOFF_WAIT,
    BACKOFF_ATTEMPTS_USED,
    BACKOFF_TIME_USED,
    BACKOFF_EXPIRED,
};

/* BACKOFF_WAIT: *next_ms is when. */
enum backoff_end backoff_next(const struct backoff *b, int64_t *next_ms);

/* No wait that is made by this policy is longer, whatever an endpoint asks for. */
int64_t backoff_longest_ms(const struct retry_policy *policy);

/* From a delivery's first attempt to its last, without what endpoints ask for: the sum of
 * its waits, of 10,000 at most. `late`: each as late as proportional jitter makes it. */
int64_t backoff_span_ms(const struct retry_policy *policy, bool late);

/* The wait before jitter; negative: a schedule has come to its end. */
int64_t backoff_wait_ms(const struct retry_policy *policy, uint64_t attempts);

#endif
