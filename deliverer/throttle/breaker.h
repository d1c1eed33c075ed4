/* breaker: an endpoint that fails repeatedly gets one attempt at a time. Pure; throttle.h
 * calls it.
 *
 *            BREAKER_FAILURES in a row           the gap has ended
 *   CLOSED ─────────────────────────▶ OPEN ─────────────────────▶ PROBING
 *      ▲                              │  ▲                         │   │
 *      └──────── a success ───────────┘  └── it fails or refuses ──┘   │
 *      └────────── a success, or a status about this event ────────────┘
 *
 * The probe is an attempt of the next delivery, and counts as an attempt like any
 * other. The gap before the k-th probe is about a twentieth of what the endpoint's
 * retry policy waits after its k-th attempt, at least what the endpoint asked
 * for by Retry-After, at most BREAKER_GAP_MAX_MS, and never past the time at
 * which a delivery that failed meanwhile is due: a lone delivery keeps its
 * schedule to the millisecond, and a thousand do not make a storm. Gaps have
 * jitter, because many endpoints may be one machine.
 *
 * Times are of a monotonic clock, in microseconds. */
#ifndef DELIVERER_BREAKER_H
#define DELIVERER_BREAKER_H

#include "settings.h"

enum {
    BREAKER_FAILURES = 5,
    BREAKER_PART = 20, /* a gap is this part of a policy's wait */
    BREAKER_GAP_MAX_MS = 30 * 1000,
    BREAKER_ASKED_MAX_MS = 5 * 60 * 1000, /* of Retry-After */
};

/* `status` and `trace` show these by name. */
enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_PROBING };

struct breaker {
    int state;        /* enum breaker_state */
    int failures;     /* in a row, while closed */
    uint64_t probe;   /* number of the last probe, from 1 */
    uint64_t failed;  /* probes that failed since it opened */
    int64_t since_us; /* OPEN or PROBING: when it opened */
    int64_t next_us;  /* OPEN: when the next probe may begin */
};

/* When the next attempt may begin. INT64_MAX: not before the probe ends. */
int64_t breaker_ready_us(const struct breaker *b);
/* An attempt has begun. Returns its number if it is a probe, or 0; pass it to the function
 * for its end. */
uint64_t breaker_began(struct breaker *b);
/* An attempt, probe or not, succeeded. true: it closes now. */
bool breaker_success(struct breaker *b);
/* An attempt failed; the endpoint asked to wait for `asked_ms`. true: the breaker opens. */
bool breaker_failure(struct breaker *b, uint64_t probe,
                     const struct retry_policy *policy, int64_t asked_ms,
                     uint64_t random, int64_t now_us);
/* The endpoint rejected this event alone: failures are no longer consecutive.
 * true: this was the probe, and the breaker closes. */
bool breaker_responded(struct breaker *b, uint64_t probe);
/* Another final status. Changes nothing unless it responds to the probe: the
 * breaker stays open, and the next gap is as after a failure. */
void breaker_refused(struct breaker *b, uint64_t probe,
                     const struct retry_policy *policy, uint64_t random,
                     int64_t now_us);
/* The probe says nothing about the endpoint: the next one follows in a second. */
void breaker_unknown(struct breaker *b, uint64_t probe, int64_t now_us);
/* The probe was not sent: another delivery may be the probe at once. */
void breaker_unsent(struct breaker *b, uint64_t probe, int64_t now_us);
/* Open it from any state. The first probe is due as after a failure; `now`: at once. */
void breaker_open(struct breaker *b, const struct retry_policy *policy,
                  bool now, uint64_t random, int64_t now_us);
/* A delivery that failed is due at `due_us`: the next probe may begin by then. */
void breaker_due(struct breaker *b, int64_t due_us);

const char *breaker_state_name(int state);

#endif
