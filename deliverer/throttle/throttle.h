/* throttle: says when the next attempt at an endpoint may begin, by its window, its breaker,
 * its rate limit, the ramp and the hold. Pure: the caller gives the time and random numbers.
 *
 * There is one for each grant, in memory only, so after a start it is not known whether an
 * endpoint is failing. If there are retries that were scheduled before the start, the first
 * success counts as a recovery, because these retries would otherwise wait for their own
 * times, which may be hours away.
 *
 * One ramp serves two cases. After an outage of the endpoint all deliveries follow it.
 * After an outage of this process, or of the former owner, only late retries do: the
 * endpoint itself was not down. */
#ifndef DELIVERER_THROTTLE_H
#define DELIVERER_THROTTLE_H

#include "breaker.h"
#include "hold.h"
#include "ramp.h"
#include "rate.h"
#include "window.h"

struct endpoint_config;

/* What the end of an attempt says about its endpoint. */
enum health {
    HEALTH_GOOD,    /* 2xx */
    HEALTH_BAD,     /* no response, or a status that the policy retries */
    HEALTH_EVENT,   /* it rejects this event alone: the endpoint works */
    HEALTH_REFUSED, /* any other final status */
    HEALTH_UNKNOWN, /* our own failure, or we interrupted it */
    HEALTH_UNSENT,  /* nothing was sent: the event had expired */
};

enum throttle_change {
    THROTTLE_UNCHANGED,
    THROTTLE_OPENED,
    THROTTLE_RECOVERED,
    THROTTLE_CONFIRMED, /* the first success: pull forward older retries */
    THROTTLE_HELD, /* it refuses all events: refusals no longer end deliveries */
};

struct throttle {
    struct window window;
    struct breaker breaker;
    struct hold hold;
    bool restored; /* throttle_restore() was called */
    struct ramp ramp;
    bool ramp_late;            /* the ramp is for late retries only */
    struct bucket rate_bucket; /* of rate_limit */
    struct bucket ramp_bucket;
    bool rated; /* there is a rate limit */
    bool
        doubt; /* throttle_doubt() was called, and no attempt succeeded since */
};

void throttle_configure(struct throttle *t, const struct endpoint_config *c);

/* When the rate limit permits the next attempt; in the past: it does now. */
int64_t throttle_rate_ready_us(const struct throttle *t,
                               const struct endpoint_config *c);

/* When the next attempt may begin, if the window has space; INT64_MAX: not before an
 * attempt ends. `late`: the attempt is a due retry. */
int64_t throttle_ready_us(const struct throttle *t,
                          const struct endpoint_config *c, bool late);
/* An attempt has begun. Returns its number if it is a probe, else 0 (breaker.h). */
uint64_t throttle_began(struct throttle *t, const struct endpoint_config *c,
                        bool late, int64_t now_us);

/* An attempt has ended. */
struct throttle_end {
    enum health health;
    bool refused;     /* a final status, but not 410; or a blocked address */
    int64_t status;   /* of the response; 0: there was no response */
    uint64_t probe;   /* what throttle_began() returned */
    int64_t asked_ms; /* Retry-After; 0 */
    uint64_t random;
    int64_t now_us;
    int64_t wall_ms;
};
enum throttle_change throttle_ended(struct throttle *t,
                                    const struct endpoint_config *c,
                                    const struct throttle_end *end);

/* After throttle_ended(): the endpoint is held, and this refusal does not end its
 * delivery. */
bool throttle_keeps(const struct throttle *t, const struct endpoint_config *c,
                    const struct throttle_end *end);
/* What the sequencer knows of the endpoint (hold_restore()). Only the first call
 * counts: later the deliverer knows more than the sequencer. */
void throttle_restore(struct throttle *t, const struct endpoint_config *c,
                      bool healthy, int64_t status, int64_t since_ms,
                      int64_t past_ms, int64_t now_us);

/* There are retries that were scheduled before this process knew the endpoint. */
void throttle_doubt(struct throttle *t);

/* Retries were late by `lost_ms`, and the endpoint was not the reason. */
void throttle_late(struct throttle *t, int64_t lost_ms, int64_t now_us);

#endif
