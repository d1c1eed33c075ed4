#include "throttle.h"
#include "granted_endpoint.h"

enum {
    US_PER_MS = 1000,
    /* The loop may wake so late without the ramp falling behind. */
    RAMP_SLACK_US = 10 * 1000,
    LATE_MS = 1000,       /* what is late by less is in time */
    DOUBT_MS = 30 * 1000, /* an outage of which nothing is known */
};

void throttle_configure(struct throttle *g, const struct endpoint_config *c)
{
    window_set(&g->window, c->settings.max_in_flight);
    g->rated = c->settings.rate_limit.count > 0;
}

static bool on_ramp(const struct throttle *g, bool late)
{
    return g->ramp.on && (late || !g->ramp_late);
}

int64_t throttle_ready_us(const struct throttle *g,
                          const struct endpoint_config *c, bool late)
{
    int64_t at = breaker_ready_us(&g->breaker), then;

    if (g->rated) {
        then = bucket_ready_us(&g->rate_bucket,
                               rate_slack_us(&c->settings.rate_limit));
        at = then > at ? then : at;
    }
    if (on_ramp(g, late)) {
        then = bucket_ready_us(&g->ramp_bucket, RAMP_SLACK_US);
        at = then > at ? then : at;
    }
    return at;
}

uint64_t throttle_began(struct throttle *g, const struct endpoint_config *c,
                        bool late, int64_t now_us)
{
    if (g->rated)
        bucket_take(&g->rate_bucket, rate_interval_us(&c->settings.rate_limit),
                    now_us);
    if (on_ramp(g, late))
        bucket_take(&g->ramp_bucket, ramp_interval_us(&g->ramp, now_us),
                    now_us);
    return breaker_began(&g->breaker);
}

static void begin_ramp(struct throttle *g, bool late, int64_t lost_ms,
                       int64_t now_us)
{
    ramp_begin(&g->ramp, lost_ms, now_us);
    g->ramp_late = late;
    g->ramp_bucket.due_us = now_us + RAMP_SLACK_US; /* nothing at once */
}

/* New events need not wait for what is pulled forward: that it was weak is a
 * guess. */
static enum throttle_change on_well(struct throttle *g, int64_t now_us)
{
    g->doubt = false;
    if (!g->ramp.on)
        begin_ramp(g, true, DOUBT_MS, now_us);
    return THROTTLE_CONFIRMED;
}

static enum throttle_change on_closed(struct throttle *g,
                                      const struct endpoint_config *c,
                                      const struct throttle_end *end)
{
    g->doubt = false;
    hold_end(&g->hold, end->health == HEALTH_GOOD, end->wall_ms);
    if (c->settings.breaker)
        window_restart(&g->window);
    begin_ramp(g, false, (end->now_us - g->breaker.since_us) / US_PER_MS,
               end->now_us);
    return THROTTLE_RECOVERED;
}

static enum throttle_change on_good(struct throttle *g,
                                    const struct endpoint_config *c,
                                    const struct throttle_end *end)
{
    window_grow(&g->window);
    if (breaker_success(&g->breaker))
        return on_closed(g, c, end);
    hold_end(&g->hold, true, end->wall_ms);
    return g->doubt && c->settings.breaker ? on_well(g, end->now_us)
                                           : THROTTLE_UNCHANGED;
}

/* The endpoint processed the request, so the window grows again. */
static enum throttle_change on_event(struct throttle *g,
                                     const struct endpoint_config *c,
                                     const struct throttle_end *end)
{
    window_grow(&g->window);
    return breaker_responded(&g->breaker, end->probe) ? on_closed(g, c, end)
                                                      : THROTTLE_UNCHANGED;
}

static enum throttle_change on_bad(struct throttle *g,
                                   const struct endpoint_config *c,
                                   const struct throttle_end *end)
{
    int64_t asked_ms = c->policy.respect_retry_after ? end->asked_ms : 0;

    if (!c->settings.breaker && !g->hold.on) /* whatever becomes of others */
        return THROTTLE_UNCHANGED;
    if (c->settings.breaker)
        window_shrink(&g->window);
    if (!breaker_failure(&g->breaker, end->probe, &c->policy, asked_ms,
                         end->random, end->now_us))
        return THROTTLE_UNCHANGED;
    return THROTTLE_OPENED;
}

/* Of an event alone, and not what every event gets here. */
static bool is_about_event(const struct throttle *g,
                           const struct throttle_end *end)
{
    return end->health == HEALTH_EVENT &&
           !(g->hold.on && end->status == g->hold.status);
}

bool throttle_keeps(const struct throttle *g, const struct endpoint_config *c,
                    const struct throttle_end *end)
{
    return c->settings.guard && g->hold.on && end->refused &&
           !is_about_event(g, end);
}

void throttle_restore(struct throttle *g, const struct endpoint_config *c,
                      bool healthy, int64_t status, int64_t since_ms,
                      int64_t past_ms, int64_t now_us)
{
    if (g->restored)
        return;
    g->restored = true;
    hold_restore(&g->hold, healthy, status, c->settings.guard ? since_ms : 0,
                 past_ms);
    if (g->hold.on)
        breaker_open(&g->breaker, &c->policy, true, 0, now_us);
}

static enum throttle_change on_end(struct throttle *g,
                                   const struct endpoint_config *c,
                                   const struct throttle_end *end)
{
    switch (end->health) {
    case HEALTH_GOOD:
        return on_good(g, c, end);
    case HEALTH_BAD:
        return on_bad(g, c, end);
    case HEALTH_EVENT:
        if (is_about_event(g, end))
            return on_event(g, c, end);
        /* fall through */
    case HEALTH_REFUSED:
        breaker_refused(&g->breaker, end->probe, &c->policy, end->random,
                        end->now_us);
        break;
    case HEALTH_UNKNOWN:
        breaker_unknown(&g->breaker, end->probe, end->now_us);
        break;
    case HEALTH_UNSENT:
        breaker_unsent(&g->breaker, end->probe, end->now_us);
        break;
    }
    return THROTTLE_UNCHANGED;
}

enum throttle_change throttle_ended(struct throttle *g,
                                    const struct endpoint_config *c,
                                    const struct throttle_end *end)
{
    enum throttle_change news;

    if (!c->settings.guard || !end->refused ||
        !hold_refused(&g->hold, end->status, end->wall_ms))
        return on_end(g, c, end);
    news = on_end(g, c, end);
    breaker_open(&g->breaker, &c->policy, false, end->random, end->now_us);
    (void)news; /* that it opened is part of that it is held */
    return THROTTLE_HELD;
}

void throttle_doubt(struct throttle *g)
{
    g->doubt = true;
}

void throttle_late(struct throttle *g, int64_t lost_ms, int64_t now_us)
{
    (void)ramp_interval_us(&g->ramp, now_us); /* it may be long over */
    if (lost_ms >= LATE_MS && !g->ramp.on)
        begin_ramp(g, true, lost_ms, now_us);
}
