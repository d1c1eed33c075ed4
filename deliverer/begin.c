#include "begin.h"
#include "clock.h"
#include "daemon.h"
#include "deliverer.h"
#include "log.h"

enum { BEGIN_MAX = 512 /* attempts begun in one turn */ };

/* ---- ends ---- */

static enum health health_of(const struct flight *f)
{
    const struct answer *a = &f->answer;

    if (f->expired)
        return HEALTH_UNSENT;
    if (f->interrupted && !a->answered)
        return HEALTH_UNKNOWN;
    switch (classify(a, &f->config->policy).verdict) {
    case VERDICT_DELIVERED:
        return HEALTH_GOOD;
    case VERDICT_RETRY:
        return HEALTH_BAD;
    case VERDICT_DEAD:
        if (!a->answered)
            return HEALTH_REFUSED;
        return a->status >= 500                  ? HEALTH_BAD
               : classify_about_event(a->status) ? HEALTH_EVENT
                                                 : HEALTH_REFUSED;
    case VERDICT_FAULT:
        break;
    }
    return HEALTH_UNKNOWN;
}

/* A final status or a blocked address: the delivery would be dead. 410 disables the
 * endpoint, which holds the others back in another way. */
static bool is_refused(const struct flight *f)
{
    const struct answer *a = &f->answer;

    if (f->expired || (f->interrupted && !a->answered))
        return false;
    return classify(a, &f->config->policy).verdict == VERDICT_DEAD &&
           !(a->answered && a->status == 410);
}

static void on_opened(struct deliverer *d, struct endpoint *e)
{
    d->metrics[METRIC_OPENED]++;
    e->recovered_ms = 0;
    log_warn(
        NULL,
        "an endpoint fails continuously: one attempt at a time asks whether it "
        "is back",
        LS("endpoint", grants_of(e)->name), LI("failures", BREAKER_FAILURES));
}

static void on_held(struct endpoint *e)
{
    e->recovered_ms = 0;
    log_error(NULL,
              "an endpoint that worked refuses every event: its deliveries are "
              "held back, and one at a time is sent until one is accepted",
              LS("endpoint", grants_of(e)->name),
              LN("http_status", e->gate.hold.status),
              LI("refusals", HOLD_REFUSALS));
}

/* All that was parked until now is due. */
static void pull_forward(struct endpoint *e)
{
    e->recovered_ms = now_ms();
    if (e->rows > e->rows_here)
        endpoint_row_due(e, e->recovered_ms);
}

static void on_recovered(struct endpoint *e)
{
    pull_forward(e);
    log_info(NULL, "an endpoint is back: what waits for it goes on a ramp",
             LS("endpoint", grants_of(e)->name),
             LI("away_ms", (mono_us() - e->gate.breaker.since_us) / 1000),
             LI("parked", e->parked));
}

static void tell_gate(struct deliverer *d, struct flight *f)
{
    struct endpoint *e = &f->task->grant->endpoint;
    struct gate_end end = {.health = health_of(f),
                           .refused = is_refused(f),
                           .status = f->answer.answered ? f->answer.status : 0,
                           .probe = f->task->probe,
                           .asked_ms = f->retry_after_ms,
                           .random = random_id(),
                           .now_us = mono_us(),
                           .wall_ms = now_ms()};
    /* Of a grant that is given back, the next home sees for itself. */
    enum gate_news news = f->task->grant->state == GRANT_OPEN
                              ? gate_ended(&e->gate, f->config, &end)
                              : GATE_NOTHING;

    f->held = gate_keeps(&e->gate, f->config, &end);
    if (end.health == HEALTH_BAD && e->gate.breaker.state != BREAKER_CLOSED)
        classify_text(&f->answer, e->failure);
    switch (news) {
    case GATE_HELD:
        on_held(e);
        break;
    case GATE_OPENED:
        on_opened(d, e);
        break;
    case GATE_RECOVERED:
        on_recovered(e);
        break;
    case GATE_WELL:
        pull_forward(e);
        break;
    case GATE_NOTHING:
        break;
    }
}

void begin_mark_ended(struct deliverer *d)
{
    for (struct flight *f = d->flights.ended.first; f; f = f->next) {
        struct endpoint *e = &f->task->grant->endpoint;

        if (f->task->state == TASK_ENDED)
            continue;
        f->task->state = TASK_ENDED;
        e->ended++;
        d->lane_ended = d->lane_ended || f->task->lane;
        tell_gate(d, f);
        endpoint_schedule(e, &d->schedule);
    }
}

/* ---- begins ---- */

static int in_flight(const struct deliverer *d)
{
    return d->flights.active.count + d->flights.ended.count;
}

/* It may have as much as it leaves to others (a dynamic threshold, as switches
 * share their buffers): so there is always room for one more endpoint, however
 * slow these are. */
static bool has_share(const struct deliverer *d, const struct endpoint *e)
{
    return e->in_flight < FLIGHTS_MAX - in_flight(d);
}

static void begin_one(struct deliverer *d, struct endpoint *e, struct task *t,
                      bool chosen)
{
    t->state = TASK_FLYING;
    t->lane = endpoint_lane(e, t);
    if (t->lane)
        lanes_take(&d->lanes, t->lane);
    t->probe = gate_began(&e->gate, e->config, t->due_queue, mono_us());
    d->metrics[METRIC_PROBES] += t->probe != 0;
    d->metrics[METRIC_PULLED] += t->pulled;
    e->in_flight++;
    care_begins(d, t, chosen);
    flight_begin(&d->flights, t, e->config, now_ms());
}

/* false: nobody may, for now. */
static bool begin_in_turn(struct deliverer *d, struct endpoint **skipped)
{
    struct endpoint *e = d->schedule.first;
    struct task *t;

    if (!e)
        return false;
    if (e == *skipped) /* once round, and nobody could */
        return false;
    endpoint_rotate(e, &d->schedule);
    if (!has_share(d, e)) {
        *skipped = *skipped ? *skipped : e;
        return true;
    }
    t = endpoint_next(e, &d->lanes, d->turn, mono_us());
    if (t)
        begin_one(d, e, t, false);
    endpoint_schedule(e, &d->schedule);
    if (t)
        *skipped = NULL;
    else if (e->runnable && !*skipped)
        *skipped = e; /* when this turn is committed */
    return true;
}

/* false: not now. */
static bool begin_next(struct deliverer *d, struct endpoint **skipped)
{
    bool hold;
    struct task *t = care_next(d, &hold);
    struct endpoint *e = t ? &t->grant->endpoint : NULL;

    if (t) {
        endpoint_remove(e, t);
        begin_one(d, e, t, true);
        endpoint_schedule(e, &d->schedule);
        return true;
    }
    return !hold && begin_in_turn(d, skipped);
}

void begin_attempts(struct deliverer *d)
{
    struct endpoint *skipped = NULL;

    d->stuck = false;
    schedule_wake(&d->schedule, mono_us());
    for (int n = 0; n < BEGIN_MAX && (d->schedule.first || d->care.count) &&
                    flights_room(&d->flights) && grants_may_begin(d);
         n++)
        if (!begin_next(d, &skipped)) {
            d->stuck = true;
            return;
        }
}

int begin_wait_ms(const struct deliverer *d)
{
    int care, gate;

    if (!grants_may_begin(d) || !flights_room(&d->flights))
        return -1; /* an answer, of whomever, wakes us */
    if (d->schedule.first && !d->stuck)
        return 0;
    care = care_wait_ms(d);
    gate = schedule_wait_ms(&d->schedule);
    return care < 0 ? gate : gate < 0 || care < gate ? care : gate;
}
