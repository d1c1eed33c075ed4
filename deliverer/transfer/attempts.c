/* attempts: takes endpoints in turn and begins their next attempts; tells each throttle how its
 * attempts end. */
#include "attempts.h"
#include "clock.h"
#include "daemon.h"
#include "deliverer.h"
#include "log.h"

enum { BEGIN_MAX = 512 /* attempts begun in one turn */ };

/* ---- ends ---- */

static enum health health_of(const struct transfer *f)
{
    const struct transfer_result *a = &f->result;

    if (f->expired)
        return HEALTH_UNSENT;
    if (f->interrupted && !a->responded)
        return HEALTH_UNKNOWN;
    switch (classify(a, f->policy).verdict) {
    case VERDICT_DELIVERED:
        return HEALTH_GOOD;
    case VERDICT_RETRY:
        return HEALTH_BAD;
    case VERDICT_DEAD:
        if (!a->responded)
            return HEALTH_REFUSED;
        return a->status >= 500                  ? HEALTH_BAD
               : classify_about_event(a->status) ? HEALTH_EVENT
                                                 : HEALTH_REFUSED;
    case VERDICT_FAULT:
        break;
    }
    return HEALTH_UNKNOWN;
}

/* A final status or a blocked address: the delivery would be dead. Not 410, which
 * disables the endpoint. */
static bool is_refused(const struct transfer *f)
{
    const struct transfer_result *a = &f->result;

    if (f->expired || (f->interrupted && !a->responded))
        return false;
    return classify(a, f->policy).verdict == VERDICT_DEAD &&
           !(a->responded && a->status == 410);
}

/* All retries scheduled until now are due. */
static void pull_forward(struct granted_endpoint *e)
{
    e->recovered_ms = now_ms();
    if (e->rows > e->rows_here)
        endpoint_row_due(e, e->recovered_ms);
}

static void update_throttle(struct deliverer *d, struct transfer *f)
{
    struct grant *g = f->task->grant;
    struct granted_endpoint *e = &g->endpoint;
    struct throttle_end end = {.health = health_of(f),
                               .refused = is_refused(f),
                               .status = f->result.responded ? f->result.status
                                                             : 0,
                               .probe = f->task->probe,
                               .asked_ms = f->retry_after_ms,
                               .random = random_id(),
                               .now_us = mono_us(),
                               .wall_ms = now_ms()};
    /* If the grant is being released, the next owner finds out itself. */
    enum throttle_change change = g->state == GRANT_OPEN
                                      ? throttle_ended(&e->throttle, f->config,
                                                       &end)
                                      : THROTTLE_UNCHANGED;

    f->endpoint_held = throttle_keeps(&e->throttle, f->config, &end);
    if (end.health == HEALTH_BAD && e->throttle.breaker.state != BREAKER_CLOSED)
        classify_text(&f->result, e->failure);
    switch (change) {
    case THROTTLE_HELD:
        e->recovered_ms = 0;
        log_error(
            NULL,
            "an endpoint that worked now refuses every event; its deliveries "
            "are held, and one at a time is sent until it works again",
            LS("endpoint", g->name), LN("http_status", e->throttle.hold.status),
            LI("refusals", HOLD_REFUSALS));
        break;
    case THROTTLE_OPENED:
        d->metrics[METRIC_OPENED]++;
        e->recovered_ms = 0;
        log_warn(NULL,
                 "an endpoint fails continuously; it gets one attempt at a "
                 "time until it works again",
                 LS("endpoint", g->name), LI("failures", BREAKER_FAILURES));
        break;
    case THROTTLE_RECOVERED:
        pull_forward(e);
        log_info(
            NULL,
            "an endpoint works again; its waiting deliveries are sent at a "
            "growing rate",
            LS("endpoint", g->name),
            LI("away_ms", (mono_us() - e->throttle.breaker.since_us) / 1000),
            LI("scheduled_retries", e->scheduled_retries));
        break;
    case THROTTLE_CONFIRMED:
        pull_forward(e);
        break;
    case THROTTLE_UNCHANGED:
        break;
    }
}

void attempts_mark_ended(struct deliverer *d)
{
    struct transfer *f;

    TAILQ_FOREACH(f, &d->transfers.ended.all, link)
    {
        struct granted_endpoint *e = &f->task->grant->endpoint;

        if (f->task->state == TASK_ENDED)
            continue;
        f->task->state = TASK_ENDED;
        e->ended++;
        d->lane_ended = d->lane_ended || f->task->lane;
        update_throttle(d, f);
        endpoint_schedule(e, &d->schedule);
    }
}

/* ---- begins ---- */

static void begin_one(struct deliverer *d, struct granted_endpoint *e,
                      struct task *t, bool chosen)
{
    t->state = TASK_IN_FLIGHT;
    t->lane = endpoint_lane(e, t);
    if (t->lane)
        busy_lanes_add(&d->busy_lanes, t->lane);
    t->probe = throttle_began(&e->throttle, e->config, t->due_queue, mono_us());
    d->metrics[METRIC_PROBES] += t->probe != 0;
    d->metrics[METRIC_PULLED] += t->pulled;
    e->in_flight++;
    quarantine_began(d, t, chosen);
    transfer_begin(&d->transfers, t, e->config, now_ms());
}

/* Let the next endpoint begin an attempt. *skipped: the first endpoint that could not begin one
 * since the last that could. false: no endpoint can begin one now. */
static bool begin_in_turn(struct deliverer *d,
                          struct granted_endpoint **skipped)
{
    struct granted_endpoint *e = TAILQ_FIRST(&d->schedule.runnable);
    int in_flight = d->transfers.active.count + d->transfers.ended.count;
    struct task *t;

    if (!e)
        return false;
    if (e == *skipped) /* all endpoints were asked, and none of them could */
        return false;
    endpoint_rotate(e, &d->schedule);
    /* An endpoint may have as many attempts in flight as it leaves free for others (a dynamic
     * threshold, as switches share their buffers). So there is always space for one more
     * endpoint, however slow the others are. */
    if (e->in_flight >= TRANSFERS_MAX - in_flight) {
        *skipped = *skipped ? *skipped : e;
        return true;
    }
    t = endpoint_next(e, &d->busy_lanes, d->turn, mono_us());
    if (t)
        begin_one(d, e, t, false);
    endpoint_schedule(e, &d->schedule);
    if (t)
        *skipped = NULL;
    else if (e->runnable && !*skipped)
        *skipped = e; /* its tasks begin after this turn's commit */
    return true;
}

/* false: not now. */
static bool begin_next(struct deliverer *d, struct granted_endpoint **skipped)
{
    bool wait;
    struct task *t = quarantine_next(d, &wait);
    struct granted_endpoint *e = t ? &t->grant->endpoint : NULL;

    if (t) {
        endpoint_remove(e, t);
        begin_one(d, e, t, true);
        endpoint_schedule(e, &d->schedule);
        return true;
    }
    return !wait && begin_in_turn(d, skipped);
}

void attempts_begin(struct deliverer *d)
{
    struct granted_endpoint *skipped = NULL;

    d->stuck = false;
    schedule_wake(&d->schedule, mono_us());
    for (int n = 0;
         n < BEGIN_MAX &&
         (TAILQ_FIRST(&d->schedule.runnable) || d->quarantine.count) &&
         transfers_have_capacity(&d->transfers) && lease_may_begin(d);
         n++)
        if (!begin_next(d, &skipped)) {
            d->stuck = true;
            return;
        }
}

int attempts_wait_ms(const struct deliverer *d)
{
    int quarantine, throttle;

    if (!lease_may_begin(d) || !transfers_have_capacity(&d->transfers))
        return -1; /* the next response or heartbeat_ack wakes the loop */
    if (TAILQ_FIRST(&d->schedule.runnable) && !d->stuck)
        return 0;
    quarantine = quarantine_wait_ms(d);
    throttle = schedule_wait_ms(&d->schedule);
    return quarantine < 0                          ? throttle
           : throttle < 0 || quarantine < throttle ? quarantine
                                                   : throttle;
}
