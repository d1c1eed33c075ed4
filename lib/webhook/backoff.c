/* backoff: the waits of a retry policy, with jitter, Retry-After and the limits of its budget. */
#include "backoff.h"
#include "clock.h"

enum { SPAN_ATTEMPTS = 10000 };

/* No wait is longer, so that no sum overflows. */
#define LONGEST_WAIT_MS (366 * DAY_MS)

static int64_t clamp(int64_t v, int64_t min, int64_t max)
{
    return v < min ? min : v > max ? max : v;
}

static int64_t exponential_ms(const struct retry_policy *p, uint64_t attempts)
{
    double max = (double)(p->max_wait_ms > 0 ? p->max_wait_ms
                                             : LONGEST_WAIT_MS);
    double wait = (double)p->first_wait_ms;

    /* Ends early: a growing wait reaches its maximum after few steps. */
    for (uint64_t i = 1; i < attempts && wait < max && p->factor > 1; i++)
        wait *= p->factor;
    return (int64_t)(wait < max ? wait : max);
}

int64_t backoff_wait_ms(const struct retry_policy *p, uint64_t attempts)
{
    int64_t wait = p->first_wait_ms;

    if (attempts < 1)
        attempts = 1;
    if (p->backoff == BACKOFF_EXPONENTIAL) {
        wait = exponential_ms(p, attempts);
    } else if (p->backoff == BACKOFF_SCHEDULE) {
        if (attempts <= p->schedule.count)
            wait = p->schedule.ms[attempts - 1];
        else if (p->schedule.count && p->repeat_last)
            wait = p->schedule.ms[p->schedule.count - 1];
        else
            wait = -1;
    }
    return wait < 0 ? -1 : clamp(wait, 0, LONGEST_WAIT_MS);
}

int64_t backoff_span_ms(const struct retry_policy *p, bool late)
{
    int64_t span = 0, max = p->max_attempts ? p->max_attempts : SPAN_ATTEMPTS;

    for (int64_t k = 1; k < max && k < SPAN_ATTEMPTS; k++) {
        int64_t wait = backoff_wait_ms(p, (uint64_t)k);

        if (wait < 0)
            break;
        span += wait + (late ? (int64_t)((double)wait * p->jitter.part) : 0);
        if (p->max_duration_ms && span >= p->max_duration_ms)
            return p->max_duration_ms;
    }
    return span;
}

int64_t backoff_longest_ms(const struct retry_policy *p)
{
    int64_t asked = p->respect_retry_after ? RETRY_AFTER_MAX_MS / 10 * 11 : 0;
    int64_t wait = p->first_wait_ms;

    if (p->backoff == BACKOFF_EXPONENTIAL)
        wait = p->max_wait_ms > 0 ? p->max_wait_ms : LONGEST_WAIT_MS;
    for (size_t i = 0; i < p->schedule.count; i++)
        if (wait < p->schedule.ms[i])
            wait = p->schedule.ms[i];
    wait = clamp(wait, 0, LONGEST_WAIT_MS);
    wait += (int64_t)((double)wait * p->jitter.part) + 1;
    return wait > asked ? wait : asked;
}

/* From 0 up to 1, without 1. */
static double fraction(uint64_t random)
{
    return (double)(random >> 11) / (double)(1ULL << 53);
}

static int64_t jittered_ms(const struct retry_policy *p, int64_t wait,
                           uint64_t random)
{
    double u = fraction(random), w = (double)wait;

    if (p->jitter.full)
        return (int64_t)(u * (w + 1));
    if (p->jitter.part > 0)
        return (int64_t)(w * (1 + p->jitter.part * (2 * u - 1)) + 0.5);
    return wait;
}

/* The wait that the endpoint asked for: never less, and up to a tenth more, so that
 * deliveries that were given the same time do not return all at once. */
static int64_t asked_ms(const struct backoff *b)
{
    const struct retry_policy *p = b->policy;
    int64_t asked = clamp(b->retry_after_ms, 0, RETRY_AFTER_MAX_MS);

    if (!p->respect_retry_after)
        return 0;
    if (p->jitter.full || p->jitter.part > 0)
        asked += (int64_t)(fraction(b->random) * (double)asked / 10);
    return asked;
}

enum backoff_end backoff_next(const struct backoff *b, int64_t *next_ms)
{
    const struct retry_policy *p = b->policy;
    int64_t wait = backoff_wait_ms(p, b->attempts), asked, end;

    if (wait < 0 ||
        (p->max_attempts > 0 && b->attempts >= (uint64_t)p->max_attempts))
        return BACKOFF_ATTEMPTS_USED;
    *next_ms = b->now_ms + jittered_ms(p, wait, b->random);
    end = b->first_ms + p->max_duration_ms;
    if (p->max_duration_ms > 0 && *next_ms > end)
        return BACKOFF_TIME_USED;
    asked = b->now_ms + asked_ms(b);
    if (p->max_duration_ms > 0 && asked > end)
        asked = end;
    if (asked > *next_ms)
        *next_ms = asked;
    return b->expires_ms > 0 && *next_ms >= b->expires_ms ? BACKOFF_EXPIRED
                                                          : BACKOFF_WAIT;
}
