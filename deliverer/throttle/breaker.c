/* breaker: the transitions of an endpoint's circuit breaker. */
#include "breaker.h"
#include "backoff.h"
#include "clock.h"

enum { US_PER_MS = 1000, UNKNOWN_GAP_MS = 1000 };

const char *breaker_state_name(int state)
{
    static const char *const names[] = {[BREAKER_CLOSED] = "closed",
                                        [BREAKER_OPEN] = "open",
                                        [BREAKER_PROBING] = "probing"};

    return names[state];
}

int64_t breaker_ready_us(const struct breaker *b)
{
    return b->state == BREAKER_CLOSED ? 0
           : b->state == BREAKER_OPEN ? b->next_us
                                      : INT64_MAX;
}

uint64_t breaker_began(struct breaker *b)
{
    if (b->state != BREAKER_OPEN)
        return 0;
    b->state = BREAKER_PROBING;
    return ++b->probe;
}

bool breaker_success(struct breaker *b)
{
    bool was_open = b->state != BREAKER_CLOSED;

    b->state = BREAKER_CLOSED;
    b->failures = 0;
    return was_open;
}

static int64_t gap_us(const struct breaker *b, const struct retry_policy *p,
                      int64_t asked_ms, uint64_t random)
{
    int64_t wait_ms = backoff_wait_ms(p, b->failed + 1);
    int64_t gap_ms = wait_ms < 0 ? BREAKER_GAP_MAX_MS : wait_ms / BREAKER_PART;
    int64_t us;

    if (gap_ms > BREAKER_GAP_MAX_MS)
        gap_ms = BREAKER_GAP_MAX_MS;
    if (asked_ms > BREAKER_ASKED_MAX_MS)
        asked_ms = BREAKER_ASKED_MAX_MS;
    /* Jitter: from half of the gap to one and a half of it. */
    us = gap_ms * US_PER_MS;
    us = us / 2 + (us > 0 ? (int64_t)(random % (uint64_t)us) : 0);
    return asked_ms * US_PER_MS > us ? asked_ms * US_PER_MS : us;
}

/* Any other probe began before a success. */
static bool is_the_probe(const struct breaker *b, uint64_t probe)
{
    return b->state == BREAKER_PROBING && probe == b->probe;
}

bool breaker_failure(struct breaker *b, uint64_t probe,
                     const struct retry_policy *policy, int64_t asked_ms,
                     uint64_t random, int64_t now_us)
{
    bool opens = false;

    if (b->state == BREAKER_CLOSED) {
        opens = ++b->failures >= BREAKER_FAILURES;
        if (!opens)
            return false;
        b->failed = 0;
        b->since_us = now_us;
    } else if (!is_the_probe(b, probe)) {
        return false; /* it began before the breaker opened */
    } else {
        b->failed++;
    }
    b->state = BREAKER_OPEN;
    b->next_us = now_us + gap_us(b, policy, asked_ms, random);
    return opens;
}

bool breaker_responded(struct breaker *b, uint64_t probe)
{
    if (b->state == BREAKER_CLOSED)
        b->failures = 0;
    return is_the_probe(b, probe) && breaker_success(b);
}

void breaker_refused(struct breaker *b, uint64_t probe,
                     const struct retry_policy *policy, uint64_t random,
                     int64_t now_us)
{
    if (is_the_probe(b, probe))
        (void)breaker_failure(b, probe, policy, 0, random, now_us);
}

void breaker_unsent(struct breaker *b, uint64_t probe, int64_t now_us)
{
    if (!is_the_probe(b, probe))
        return;
    b->state = BREAKER_OPEN;
    b->next_us = now_us;
}

void breaker_unknown(struct breaker *b, uint64_t probe, int64_t now_us)
{
    if (!is_the_probe(b, probe))
        return;
    b->state = BREAKER_OPEN;
    b->next_us = now_us + UNKNOWN_GAP_MS * US_PER_MS;
}

void breaker_open(struct breaker *b, const struct retry_policy *policy,
                  bool now, uint64_t random, int64_t now_us)
{
    if (b->state == BREAKER_CLOSED) {
        b->failed = 0;
        b->since_us = now_us;
    }
    b->state = BREAKER_OPEN;
    b->next_us = now_us + (now ? 0 : gap_us(b, policy, 0, random));
}

void breaker_due(struct breaker *b, int64_t due_us)
{
    if (b->state == BREAKER_OPEN && due_us < b->next_us)
        b->next_us = due_us;
}
