#include "outcome.h"
#include "backoff.h"
#include "clock.h"
#include "deliverer.h"
#include "log.h"
#include "rows.h"
#include "sent.h"
#include "wire.h"
#include <stdio.h>
#include <string.h>

enum {
    /* After a failure of our own (no descriptor, no memory): soon, not at once.
     */
    FAULT_WAIT_MS = 5000,
    FAULT_SPREAD_MS = 10000,
    /* Until a delivery that a held endpoint refused is tried again. */
    HELD_LEAST_MS = 1000,
    HELD_MOST_MS = 30 * 1000,
    /* While others fly an outcome waits for company, up to so many, so long: a
     * commit, its fsync and the frame behind it cost as much for one as for
     * all of them. */
    COMPANY_COUNT = 128,
    COMPANY_MS = 5,
};

const char *outcome_name(int outcome)
{
    static const char *const names[] = {[OUTCOME_DELIVERED] = "delivered",
                                        [OUTCOME_PARKED] = "parked",
                                        [OUTCOME_DEAD] = "dead",
                                        [OUTCOME_RELEASED] = "released"};

    return outcome > 0 && outcome < (int)COUNT_OF(names) ? names[outcome] : "?";
}

/* ---- decide: values only, once per flight ---- */

/* The budget begins later by as long as the endpoint was held since. */
static int64_t budget_first_ms(const struct flight *f, int64_t total_ms,
                               int64_t now)
{
    int64_t first = f->first_ms + total_ms - f->held_ms;

    return first < f->first_ms ? f->first_ms : first < now ? first : now;
}

static void decide_retry(struct flight *f, int64_t total_ms, int64_t now)
{
    static const char *const reasons[] = {
        [BACKOFF_WAIT] = "",
        [BACKOFF_ATTEMPTS_USED] = "budget_attempts",
        [BACKOFF_TIME_USED] = "budget_time",
        [BACKOFF_EXPIRED] = "expired"};
    const struct task *t = f->task;
    uint64_t base = t->w.budget_base;
    struct backoff b = {.policy = &f->config->policy,
                        .attempts = f->attempts > base ? f->attempts - base : 1,
                        .first_ms = budget_first_ms(f, total_ms, now),
                        .now_ms = now,
                        .retry_after_ms = f->retry_after_ms,
                        .expires_ms = t->w.expires_ms,
                        .random = random_id() << 1};
    enum backoff_end end = backoff_next(&b, &f->next_ms);

    f->outcome = end == BACKOFF_WAIT ? OUTCOME_PARKED : OUTCOME_DEAD;
    f->reason = reasons[end];
}

/* Refused by an endpoint that refuses everything: that is no attempt of this
 * delivery's budget, and another one is the next probe. */
static void decide_held(struct flight *f, int64_t now)
{
    int64_t wait_ms = backoff_wait_ms(&f->config->policy, 1);
    size_t at = strlen(f->error);

    if (wait_ms < HELD_LEAST_MS)
        wait_ms = HELD_LEAST_MS;
    if (wait_ms > HELD_MOST_MS)
        wait_ms = HELD_MOST_MS;
    f->attempts = f->task->attempts;
    f->first_ms = f->task->first_ms;
    f->held_ms = f->task->held_ms;
    f->outcome = OUTCOME_PARKED;
    f->reason = "held";
    f->next_ms = now + wait_ms + (int64_t)(random_id() % (uint64_t)wait_ms);
    snprintf(f->error + at, sizeof f->error - at, "; the endpoint is held");
}

/* Nothing was tried. */
static void decide_expired(struct flight *f)
{
    f->attempts = f->task->attempts;
    f->first_ms = f->task->first_ms;
    f->judgement.verdict = VERDICT_DEAD;
    f->outcome = OUTCOME_DEAD;
    f->reason = "expired";
    snprintf(f->error, sizeof f->error, "the event expired before it was sent");
}

static void decide(struct flight *f, int64_t now)
{
    const struct task *t = f->task;
    int64_t total_ms = hold_total_ms(&t->grant->endpoint.gate.hold, now);

    f->decided = true;
    f->reason = "";
    f->next_ms = 0;
    if (f->expired) {
        decide_expired(f);
        return;
    }
    f->attempts = t->attempts + 1;
    /* A first attempt after this one was by a clock that was ahead. */
    f->first_ms = t->first_ms && t->first_ms < f->at_ms ? t->first_ms
                                                        : f->at_ms;
    f->held_ms = t->first_ms && t->held_ms >= 0 ? t->held_ms : total_ms;
    f->judgement = classify(&f->answer, &f->config->policy);
    classify_text(&f->answer, f->error);
    if (f->interrupted && !f->answer.answered) {
        f->judgement.verdict = VERDICT_RETRY;
        f->outcome = OUTCOME_RELEASED;
        snprintf(f->error, sizeof f->error, "interrupted: %s", f->interrupted);
        return;
    }
    if (f->held) {
        decide_held(f, now);
        return;
    }
    switch (f->judgement.verdict) {
    case VERDICT_DELIVERED:
        f->outcome = OUTCOME_DELIVERED;
        break;
    case VERDICT_DEAD:
        f->outcome = OUTCOME_DEAD;
        f->reason = f->judgement.reason;
        break;
    case VERDICT_FAULT:
        f->attempts = t->attempts;
        f->first_ms = t->first_ms;
        f->held_ms = t->held_ms;
        f->outcome = OUTCOME_PARKED;
        f->next_ms = now + FAULT_WAIT_MS +
                     (int64_t)(random_id() % FAULT_SPREAD_MS);
        break;
    case VERDICT_RETRY:
        decide_retry(f, total_ms, now);
        break;
    }
}

/* ---- record: rows ---- */

/* When it may be tried before its time, should its endpoint recover: not
 * before the endpoint said, nor a second time in a row, or a failing delivery
 * would spend its budget on the recoveries of others. */
static int64_t early_ms(const struct flight *f, int64_t now)
{
    if (f->task->pulled)
        return f->next_ms;
    if (f->config->policy.respect_retry_after && f->retry_after_ms > 0)
        return now + f->retry_after_ms;
    return now;
}

static void park(struct deliverer *d, struct flight *f)
{
    struct task *t = f->task;
    struct task_row row = {.n = t->row,
                           .grant = t->grant->id,
                           .event_id = t->event_id,
                           .attempts = f->attempts,
                           .first_ms = f->first_ms,
                           .next_ms = f->next_ms,
                           .held_ms = f->held_ms,
                           .early_ms = early_ms(f, d->daemon.loop.now_ms),
                           .parked = true,
                           .message = {t->bytes, t->bytes_count}};

    if (t->row)
        store_task_park(&d->store, &row);
    else
        rows_put(d, t, &row);
}

static void record(struct deliverer *d, struct flight *f)
{
    struct task *t = f->task;
    struct attempt_row row = {
        .attempt_id = f->attempt_id,
        .grant = t->grant->id,
        .endpoint = t->grant->name,
        .event_id = t->event_id,
        .outcome = f->outcome,
        .http_status = f->answer.answered ? f->answer.status : 0,
        .error = f->error,
        .reason = f->reason,
        .at_ms = f->at_ms,
        .duration_ms = f->duration_ms,
        .attempts = f->attempts,
        .first_ms = f->first_ms,
        .next_ms = f->next_ms,
        .response = {f->response.data, f->response.len},
        .headers = {f->headers.data, f->headers.len},
        .timings = f->timings,
        .http_version = (int)f->http_version,
        .sends = f->sends + t->lost};
    struct buf sent;

    /* Of one that delivered only what can't be made again. */
    if (f->sends && f->outcome == OUTCOME_DELIVERED && !t->w.url.n)
        row.template = templates_note(d, f);
    row.stamp_s = f->signed_ms / SECOND_MS - f->at_ms / SECOND_MS;
    buf_init(&sent, SENT_MAX_BYTES);
    if (f->sends && (f->outcome != OUTCOME_DELIVERED || t->w.url.n))
        sent_pack(f, &sent);
    row.request = (struct bytes){sent.data ? sent.data : "", sent.len};
    results_put(d, &row);
    buf_fini(&sent);
    /* Under a grant that is being given back nothing waits here: the sequencer
     * has its counts and times with the result, and hands it to the next. */
    if (f->outcome == OUTCOME_PARKED && t->grant->state == GRANT_OPEN)
        park(d, f);
    else if (t->row)
        store_task_gone(&d->store, t->row);
    rows_settled(d, t);
    f->recorded = true;
}

int outcome_wait_ms(const struct deliverer *d)
{
    const struct flight_list *ended = &d->flights.ended;
    int64_t left_ms;

    if (!ended->first)
        return -1;
    if (d->flights.active.count == 0 || ended->count >= COMPANY_COUNT ||
        d->lane_ended || d->full)
        return 0;
    left_ms = ended->first->ended_ms + COMPANY_MS - d->daemon.loop.awake_ms;
    return left_ms < 0 ? 0 : (int)left_ms;
}

int outcome_work(struct deliverer *d)
{
    if (outcome_wait_ms(d) != 0)
        return 0;
    for (struct flight *f = d->flights.ended.first; f; f = f->next) {
        if (!f->decided)
            decide(f, d->daemon.loop.now_ms);
        /* Final elsewhere by now: there is nothing to wait for. */
        if (f->task->dropped && f->outcome == OUTCOME_PARKED)
            f->outcome = OUTCOME_RELEASED;
        record(d, f);
    }
    return d->flights.ended.count;
}

void outcome_undo(struct deliverer *d)
{
    for (struct flight *f = d->flights.ended.first; f; f = f->next)
        f->recorded = false;
}

void outcome_release(struct deliverer *d, const struct grant *g,
                     const char *event_id, uint64_t attempts, int64_t first_ms,
                     const char *why)
{
    struct attempt_row row = {.grant = g->id,
                              .endpoint = g->name,
                              .event_id = event_id,
                              .outcome = OUTCOME_RELEASED,
                              .error = why,
                              .reason = "dropped",
                              .at_ms = d->daemon.loop.now_ms,
                              .attempts = attempts,
                              .first_ms = first_ms};

    results_put(d, &row);
}

void outcome_crashed(struct deliverer *d, const struct grant *g,
                     const char *event_id, uint64_t attempts, int64_t first_ms)
{
    struct attempt_row row = {
        .attempt_id = random_id(),
        .grant = g->id,
        .endpoint = g->name,
        .event_id = event_id,
        .outcome = OUTCOME_DEAD,
        .error = "our own process went down, twice, while this was all it did",
        .reason = "crashed_deliverer",
        .at_ms = d->daemon.loop.now_ms,
        .attempts = attempts + 1,
        .first_ms = first_ms ? first_ms : d->daemon.loop.now_ms,
        .sends = 1};

    results_put(d, &row);
    d->metrics[METRIC_DEAD]++;
    log_error(event_id, "given up: it takes its deliverer down",
              LS("endpoint", g->name));
}

/* ---- tell: memory and the log ---- */

static void log_outcome(const struct flight *f)
{
    enum log_level level = f->outcome == OUTCOME_DELIVERED ? LOG_DEBUG
                           : f->outcome == OUTCOME_DEAD    ? LOG_WARN
                                                           : LOG_INFO;

    log_write(
        level, f->task->event_id, outcome_name(f->outcome),
        LOG_FIELDS(LS("endpoint", f->task->grant->name),
                   LN("attempt", f->expired ? 0 : f->attempts),
                   LN("http_status", f->answer.answered ? f->answer.status : 0),
                   LI("duration_ms", f->duration_ms), LO("reason", f->reason),
                   LO("error", f->error), LT("next_attempt_at", f->next_ms)));
}

static void count_for_endpoint(struct deliverer *d, const struct flight *f)
{
    struct metrics *m = d->daemon.metrics;
    const char *name = f->task->grant->name, *what = outcome_name(f->outcome);
    int64_t wait_ms = f->next_ms - d->daemon.loop.now_ms;

    series_add(METRIC_SERIES(m, FAMILY_ATTEMPTS, name, what), 1);
    if (f->attempts > 1)
        series_add(METRIC_SERIES(m, FAMILY_RETRIES, name, what), 1);
    series_observe(METRIC_SERIES(m, FAMILY_ATTEMPT_SECONDS, name),
                   f->duration_ms);
    if (f->outcome == OUTCOME_PARKED && wait_ms > 0)
        series_add(METRIC_SERIES(m, FAMILY_RETRY_WAIT, name), wait_ms);
}

static void count_outcome(struct deliverer *d, const struct flight *f)
{
    static const enum deliverer_metric metrics[] = {
        [OUTCOME_DELIVERED] = METRIC_DELIVERED,
        [OUTCOME_PARKED] = METRIC_PARKED,
        [OUTCOME_DEAD] = METRIC_DEAD,
        [OUTCOME_RELEASED] = METRIC_RELEASED};

    d->metrics[METRIC_ATTEMPTS]++;
    d->metrics[metrics[f->outcome]]++;
    if (f->attempt_id)
        count_for_endpoint(d, f);
}

static void land(struct deliverer *d, struct flight *f)
{
    struct task *t = f->task;
    struct endpoint *e = &t->grant->endpoint;
    bool waits = f->outcome == OUTCOME_PARKED && t->grant->state == GRANT_OPEN;

    log_outcome(f);
    count_outcome(d, f);
    if (t->row) {
        e->rows_here--;
        e->rows -= !waits;
        grants_count_parked(d, t->grant, (int)waits - (int)t->parked);
    }
    if (waits)
        endpoint_retry_due(e, f->next_ms);
    e->in_flight--;
    e->ended--;
    e->blocked = false;
    if (t->lane)
        lanes_give(&d->lanes, t->lane);
    care_ended(d, t);
    flight_done(&d->flights, f);
    tasks_drop(&d->tasks, t);
    endpoint_schedule(e, &d->schedule);
}

void outcome_tell(struct deliverer *d)
{
    struct flight *f, *next;

    for (f = d->flights.ended.first; f; f = next) {
        next = f->next;
        if (f->recorded)
            land(d, f);
    }
    d->lane_ended = d->lane_ended && d->flights.ended.count > 0;
}
