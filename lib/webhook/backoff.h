/* backoff: computes when the next attempt is due, or that there will be none. Pure.
 *
 * Before jitter, the wait after the k-th attempt of a generation is
 *
 *   exponential  first_wait × factor^(k-1), at most max_wait
 *   fixed        first_wait
 *   schedule     the k-th entry; after the last one the last again, or the end
 *
 * Full jitter takes anything from 0 up to the wait, proportional jitter of p anything
 * within ± p. Retry-After of an endpoint (0 to 24 h) can only lengthen a wait, with a
 * little jitter upward if the policy has any, and never beyond the time budget. If the next
 * attempt would be outside of a budget, or after its event has expired, the delivery is
 * dead now, not at that time. */
#ifndef WEBHOOK_BACKOFF_H
#define WEBHOOK_BACKOFF_H

#include "settings.h"

enum { RETRY_AFTER_MAX_MS = 24 * 60 * 60 * 1000 };

struct backoff {
    const struct retry_policy *policy;
    uint64_t attempts; /* made in this generation, at least 1 */
    int64_t first_ms;  /* time of the first of them */
    int64_t now_ms;
    int64_t
        retry_after_ms; /* what the endpoint asked for, if it is > 0; any value is
                             * allowed */
    int64_t expires_ms; /* of the event; 0: never */
    uint64_t random;    /* 64 random bits */
};

enum backoff_end {
    BACKOFF_WAIT,
    BACKOFF_ATTEMPTS_USED,
    BACKOFF_TIME_USED,
    BACKOFF_EXPIRED,
};

/* for BACKOFF_WAIT: *next_ms is the time of the next attempt */
enum backoff_end backoff_next(const struct backoff *b, int64_t *next_ms);

/* The longest wait that this policy can cause, whatever an endpoint asks for. */
int64_t backoff_longest_ms(const struct retry_policy *policy);

/* The time from a delivery's first attempt to its last, without Retry-After: the sum of its
 * waits, of 10,000 at most. `late`: with the longest waits that proportional jitter makes. */
int64_t backoff_span_ms(const struct retry_policy *policy, bool late);

/* The wait before jitter; negative: the schedule has ended. */
int64_t backoff_wait_ms(const struct retry_policy *policy, uint64_t attempts);

#endif
