/* throttle: joins window, breaker, rate limit, ramp and hold of one endpoint. */
#include "throttle.h"
#include "granted_endpoint.h"

enum {
    US_PER_MS = 1000,
    /* The loop may wake so late without the ramp falling behind. */
    RAMP_SLACK_US = 10 * 1000,
    LATE_MS = 1000, /* a retry that is late by less is in time */
    DOUBT_MS = 30 *
               1000, /* the assumed length of an outage of unknown length */
};

void throttle_configure(struct throttle *t, const struct endpoint_config *c)
{
    window_set(&t->window, c->settings.max_in_flight);
    t->rated = c->settings.rate_limit.count > 0;
}

static bool on_ramp(const struct throttle *t, bool late)
{
    return t->ramp.on && (late || !t->ramp_late);
}

int64_t throttle_rate_ready_us(const struct throttle *t,
                               const struct endpoint_config *c)
{
    return t->rated ? bucket_ready_us(&t->rate_bucket,
                                      rate_slack_us(&c->settings.rate_limit))
                    : 0;
}

int64_t throttle_ready_us(const struct throttle *t,
                          const struct endpoint_config *c, bool late)
{
    int64_t at = breaker_ready_us(&t->breaker),
            then = throttle_rate_ready_us(t, c);

    at = then > at ? then : at;
    if (on_ramp(t, late)) {
        then = bucket_ready_us(&t->ramp_bucket, RAMP_SLACK_US);
        at = then > at ? then : at;
    }
    return at;
}

uint64_t throttle_began(struct throttle *t, const struct endpoint_config *c,
                        bool late, int64_t now_us)
{
    if (t->rated)
        bucket_take(&t->rate_bucket, rate_interval_us(&c->settings.rate_limit),
                    now_us);
    if (on_ramp(t, late))
        bucket_take(&t->ramp_bucket, ramp_interval_us(&t->ramp, now_us),
                    now_us);
    return breaker_began(&t->breaker);
}

static void begin_ramp(struct throttle *t, bool late, int64_t lost_ms,
                       int64_t now_us)
{
    ramp_begin(&t->ramp, lost_ms, now_us);
    t->ramp_late = late;
    t->ramp_bucket.due_us = now_us + RAMP_SLACK_US; /* no burst at its begin */
}

/* The breaker has closed. */
static enum throttle_change on_closed(struct throttle *t,
                                      const struct endpoint_config *c,
                                      const struct throttle_end *end)
{
    t->doubt = false;
    hold_end(&t->hold, end->health == HEALTH_GOOD, end->wall_ms);
    if (c->settings.breaker)
        window_restart(&t->window);
    begin_ramp(t, false, (end->now_us - t->breaker.since_us) / US_PER_MS,
               end->now_us);
    return THROTTLE_RECOVERED;
}

static enum throttle_change on_good(struct throttle *t,
                                    const struct endpoint_config *c,
                                    const struct throttle_end *end)
{
    window_grow(&t->window);
    if (breaker_success(&t->breaker))
        return on_closed(t, c, end);
    hold_end(&t->hold, true, end->wall_ms);
    if (!t->doubt || !c->settings.breaker)
        return THROTTLE_UNCHANGED;
    t->doubt = false;
    /* Only for retries that are pulled forward: nobody knows whether the endpoint was
     * down, so new events need not wait. */
    if (!t->ramp.on)
        begin_ramp(t, true, DOUBT_MS, end->now_us);
    return THROTTLE_CONFIRMED;
}

static enum throttle_change on_bad(struct throttle *t,
                                   const struct endpoint_config *c,
                                   const struct throttle_end *end)
{
    int64_t asked_ms = c->policy.respect_retry_after ? end->asked_ms : 0;

    if (!c->settings.breaker && !t->hold.on)
        return THROTTLE_UNCHANGED;
    if (c->settings.breaker)
        window_shrink(&t->window);
    if (!breaker_failure(&t->breaker, end->probe, &c->policy, asked_ms,
                         end->random, end->now_us))
        return THROTTLE_UNCHANGED;
    return THROTTLE_OPENED;
}

/* The response rejects one event, and a hold does not reject all events with it. */
static bool is_about_event(const struct throttle *t,
                           const struct throttle_end *end)
{
    return end->health == HEALTH_EVENT &&
           !(t->hold.on && end->status == t->hold.status);
}

bool throttle_keeps(const struct throttle *t, const struct endpoint_config *c,
                    const struct throttle_end *end)
{
    return c->settings.guard && t->hold.on && end->refused &&
           !is_about_event(t, end);
}

void throttle_restore(struct throttle *t, const struct endpoint_config *c,
                      bool healthy, int64_t status, int64_t since_ms,
                      int64_t past_ms, int64_t now_us)
{
    if (t->restored)
        return;
    t->restored = true;
    hold_restore(&t->hold, healthy, status, c->settings.guard ? since_ms : 0,
                 past_ms);
    if (t->hold.on)
        breaker_open(&t->breaker, &c->policy, true, 0, now_us);
}

static enum throttle_change on_end(struct throttle *t,
                                   const struct endpoint_config *c,
                                   const struct throttle_end *end)
{
    switch (end->health) {
    case HEALTH_GOOD:
        return on_good(t, c, end);
    case HEALTH_BAD:
        return on_bad(t, c, end);
    case HEALTH_EVENT:
        if (is_about_event(t, end)) {
            /* The endpoint processed the request, so the window grows again. */
            window_grow(&t->window);
            return breaker_responded(&t->breaker, end->probe)
                       ? on_closed(t, c, end)
                       : THROTTLE_UNCHANGED;
        }
        /* fall through */
    case HEALTH_REFUSED:
        breaker_refused(&t->breaker, end->probe, &c->policy, end->random,
                        end->now_us);
        break;
    case HEALTH_UNKNOWN:
        breaker_unknown(&t->breaker, end->probe, end->now_us);
        break;
    case HEALTH_UNSENT:
        breaker_unsent(&t->breaker, end->probe, end->now_us);
        break;
    }
    return THROTTLE_UNCHANGED;
}

enum throttle_change throttle_ended(struct throttle *t,
                                    const struct endpoint_config *c,
                                    const struct throttle_end *end)
{
    if (!c->settings.guard || !end->refused ||
        !hold_refused(&t->hold, end->status, end->wall_ms))
        return on_end(t, c, end);
    (void)on_end(t, c, end); /* the hold opens the breaker in any case */
    breaker_open(&t->breaker, &c->policy, false, end->random, end->now_us);
    return THROTTLE_HELD;
}

void throttle_doubt(struct throttle *t)
{
    t->doubt = true;
}

void throttle_late(struct throttle *t, int64_t lost_ms, int64_t now_us)
{
    (void)ramp_interval_us(&t->ramp,
                           now_us); /* ends it if its time has passed */
    if (lost_ms >= LATE_MS && !t->ramp.on)
        begin_ramp(t, true, lost_ms, now_us);
}
