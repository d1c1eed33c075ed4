/* outcome: decides what an ended attempt means for its delivery, and records it. */
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
    /* The wait after a failure of this process (no descriptor, no memory). */
    FAULT_WAIT_MS = 5000,
    FAULT_SPREAD_MS = 10000,
    /* How long a delivery waits that a held endpoint refused. */
    HELD_MIN_MS = 1000,
    HELD_MAX_MS = 30 * 1000,
    /* While other attempts are in flight, outcomes are batched, up to so many and so
     * long: one commit, its fsync and its frame cost the same for all of them. */
    BATCH_COUNT = 128,
    BATCH_MS = 5,
};

const char *outcome_name(int outcome)
{
    static const char *const names[] = {[OUTCOME_DELIVERED] = "delivered",
                                        [OUTCOME_RETRYING] = "retrying",
                                        [OUTCOME_DEAD] = "dead",
                                        [OUTCOME_RETURNED] = "released"};

    return outcome > 0 && outcome < (int)COUNT_OF(names) ? names[outcome] : "?";
}

/* ---- decide: values only, once for each transfer ---- */

/* `held_ms`: how long the endpoint has been held in all. */
static void decide_retry(struct transfer *f, int64_t held_ms, int64_t now)
{
    static const char *const reasons[] = {
        [BACKOFF_WAIT] = "",
        [BACKOFF_ATTEMPTS_USED] = "budget_attempts",
        [BACKOFF_TIME_USED] = "budget_time",
        [BACKOFF_EXPIRED] = "expired"};
    const struct task *t = f->task;
    uint64_t base = t->w.budget_base;
    /* The time for which the endpoint was held since does not count. */
    int64_t first = f->first_ms + held_ms - f->held_ms;
    int64_t budget_first_ms = first < f->first_ms ? f->first_ms
                              : first < now       ? first
                                                  : now;
    struct backoff b = {.policy = f->policy,
                        .attempts = f->attempts > base ? f->attempts - base : 1,
                        .first_ms = budget_first_ms,
                        .now_ms = now,
                        .retry_after_ms = f->retry_after_ms,
                        .expires_ms = t->w.expires_ms,
                        .random = random_id() << 1};
    enum backoff_end end = backoff_next(&b, &f->next_ms);

    f->outcome = end == BACKOFF_WAIT ? OUTCOME_RETRYING : OUTCOME_DEAD;
    f->reason = reasons[end];
}

/* Refused by a held endpoint: the attempt does not count toward the delivery's budget,
 * and another delivery is the next probe. */
static void decide_held(struct transfer *f, int64_t now)
{
    int64_t wait_ms = backoff_wait_ms(f->policy, 1);
    size_t at = strlen(f->error);

    if (wait_ms < HELD_MIN_MS)
        wait_ms = HELD_MIN_MS;
    if (wait_ms > HELD_MAX_MS)
        wait_ms = HELD_MAX_MS;
    f->attempts = f->task->attempts;
    f->first_ms = f->task->first_ms;
    f->held_ms = f->task->held_ms;
    f->outcome = OUTCOME_RETRYING;
    f->reason = "held";
    f->next_ms = now + wait_ms + (int64_t)(random_id() % (uint64_t)wait_ms);
    snprintf(f->error + at, sizeof f->error - at, "; the endpoint is held");
}

static void decide(struct transfer *f, int64_t now)
{
    const struct task *t = f->task;
    int64_t held_ms = hold_total_ms(&t->grant->endpoint.throttle.hold, now);

    f->decided = true;
    f->reason = "";
    f->next_ms = 0;
    if (f->expired) { /* nothing was sent */
        f->attempts = t->attempts;
        f->first_ms = t->first_ms;
        f->judgement.verdict = VERDICT_DEAD;
        f->outcome = OUTCOME_DEAD;
        f->reason = "expired";
        snprintf(f->error, sizeof f->error,
                 "the event expired before it was sent");
        return;
    }
    f->attempts = t->attempts + 1;
    /* A first attempt in the future was written by a wrong clock. */
    f->first_ms = t->first_ms && t->first_ms < f->at_ms ? t->first_ms
                                                        : f->at_ms;
    f->held_ms = t->first_ms && t->held_ms >= 0 ? t->held_ms : held_ms;
    f->judgement = classify(&f->result, f->policy);
    classify_text(&f->result, f->error);
    if (f->interrupted && !f->result.responded) {
        f->judgement.verdict = VERDICT_RETRY;
        f->outcome = OUTCOME_RETURNED;
        snprintf(f->error, sizeof f->error, "interrupted: %s", f->interrupted);
        return;
    }
    if (f->endpoint_held) {
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
        f->outcome = OUTCOME_RETRYING;
        f->next_ms = now + FAULT_WAIT_MS +
                     (int64_t)(random_id() % FAULT_SPREAD_MS);
        break;
    case VERDICT_RETRY:
        decide_retry(f, held_ms, now);
        break;
    }
}

/* ---- record: rows ---- */

/* When the retry may be made early, if its endpoint recovers: not before the time that the
 * endpoint asked for, and not twice in a row, or a delivery that always fails would spend
 * its budget on the recoveries of others. */
static int64_t early_ms(const struct transfer *f, int64_t now)
{
    if (f->task->pulled)
        return f->next_ms;
    if (f->policy->respect_retry_after && f->retry_after_ms > 0)
        return now + f->retry_after_ms;
    return now;
}

static void schedule_retry(struct deliverer *d, struct transfer *f)
{
    struct task *t = f->task;
    struct task_row row = {.n = t->row,
                           .grant_id = t->grant->id,
                           .event_id = t->event_id,
                           .attempts = f->attempts,
                           .first_ms = f->first_ms,
                           .next_ms = f->next_ms,
                           .held_ms = f->held_ms,
                           .early_ms = early_ms(f, d->daemon.loop.now_ms),
                           .retrying = true,
                           .message = {t->bytes, t->bytes_count}};

    if (t->row)
        store_task_retry(&d->store, &row);
    else
        rows_put(d, t, &row);
}

static void record(struct deliverer *d, struct transfer *f)
{
    struct task *t = f->task;
    struct attempt_row row = {
        .attempt_id = f->attempt_id,
        .grant_id = t->grant->id,
        .endpoint = t->grant->name,
        .event_id = t->event_id,
        .outcome = f->outcome,
        .http_status = f->result.responded ? f->result.status : 0,
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

    /* The request of a delivered attempt can be made again from a template, unless the task
     * has a URL of its own. */
    if (f->sends && f->outcome == OUTCOME_DELIVERED && !t->w.url.n)
        row.template = templates_note(d, f);
    row.stamp_s = f->signed_ms / SECOND_MS - f->at_ms / SECOND_MS;
    buf_init(&sent, SENT_MAX_BYTES);
    if (f->sends && (f->outcome != OUTCOME_DELIVERED || t->w.url.n))
        sent_pack(f, &sent);
    row.request = (struct bytes){sent.data ? sent.data : "", sent.len};
    result_log_put(d, &row);
    buf_fini(&sent);
    /* Under a grant that is being released no retry is scheduled here: the sequencer
     * gets the counts and times with the result, and sends the task to the next owner. */
    if (f->outcome == OUTCOME_RETRYING && t->grant->state == GRANT_OPEN)
        schedule_retry(d, f);
    else if (t->row)
        store_task_gone(&d->store, t->row);
    rows_task_stored(d, t);
    f->recorded = true;
}

int outcome_wait_ms(const struct deliverer *d)
{
    const struct transfer_list *ended = &d->transfers.ended;
    int64_t left_ms;

    if (!ended->count)
        return -1;
    if (d->transfers.active.count == 0 || ended->count >= BATCH_COUNT ||
        d->lane_ended || d->full)
        return 0;
    left_ms = TAILQ_FIRST(&ended->all)->ended_ms + BATCH_MS -
              d->daemon.loop.awake_ms;
    return left_ms < 0 ? 0 : (int)left_ms;
}

int outcome_work(struct deliverer *d)
{
    struct transfer *f;

    if (outcome_wait_ms(d) != 0)
        return 0;
    TAILQ_FOREACH(f, &d->transfers.ended.all, link)
    {
        if (!f->decided)
            decide(f, d->daemon.loop.now_ms);
        /* The delivery is final elsewhere: it needs no retry. */
        if (f->task->dropped && f->outcome == OUTCOME_RETRYING)
            f->outcome = OUTCOME_RETURNED;
        record(d, f);
    }
    return d->transfers.ended.count;
}

void outcome_undo(struct deliverer *d)
{
    struct transfer *f;

    TAILQ_FOREACH(f, &d->transfers.ended.all, link)
    f->recorded = false;
}

void outcome_put_dropped(struct deliverer *d, const struct grant *g,
                         const char *event_id, uint64_t attempts,
                         int64_t first_ms, const char *why)
{
    struct attempt_row row = {.grant_id = g->id,
                              .endpoint = g->name,
                              .event_id = event_id,
                              .outcome = OUTCOME_RETURNED,
                              .error = why,
                              .reason = "dropped",
                              .at_ms = d->daemon.loop.now_ms,
                              .attempts = attempts,
                              .first_ms = first_ms};

    result_log_put(d, &row);
}

void outcome_put_crashed(struct deliverer *d, const struct grant *g,
                         const char *event_id, uint64_t attempts,
                         int64_t first_ms)
{
    struct attempt_row row = {
        .attempt_id = random_id(),
        .grant_id = g->id,
        .endpoint = g->name,
        .event_id = event_id,
        .outcome = OUTCOME_DEAD,
        .error = "the deliverer crashed twice while this was its only attempt",
        .reason = "crashed_deliverer",
        .at_ms = d->daemon.loop.now_ms,
        .attempts = attempts + 1,
        .first_ms = first_ms ? first_ms : d->daemon.loop.now_ms,
        .sends = 1};

    result_log_put(d, &row);
    d->metrics[METRIC_DEAD]++;
    log_error(event_id, "dead-lettered, because it crashes its deliverer",
              LS("endpoint", g->name));
}

/* ---- after the commit: memory and the log ---- */

static void log_outcome(const struct attempt_row *row)
{
    enum log_level level = row->outcome == OUTCOME_DELIVERED ? LEVEL_DEBUG
                           : row->outcome == OUTCOME_DEAD    ? LEVEL_WARN
                                                             : LEVEL_INFO;

    log_write(level, row->event_id, outcome_name(row->outcome),
              LOG_FIELDS(LS("endpoint", row->endpoint),
                         LN("attempt", row->attempt_id ? row->attempts : 0),
                         LN("http_status", row->http_status),
                         LI("duration_ms", row->duration_ms),
                         LO("reason", row->reason), LO("error", row->error),
                         LT("next_attempt_at", row->next_ms)));
}

static const char *status_class(int status)
{
    static const char *const classes[] = {"2xx", "3xx", "4xx", "5xx"};

    return status >= 200 && status < 600 ? classes[status / 100 - 2] : "none";
}

void outcome_note(struct deliverer *d, const struct attempt_row *row)
{
    static const enum deliverer_metric metrics[] = {
        [OUTCOME_DELIVERED] = METRIC_DELIVERED,
        [OUTCOME_RETRYING] = METRIC_RETRYING,
        [OUTCOME_DEAD] = METRIC_DEAD,
        [OUTCOME_RETURNED] = METRIC_RELEASED};
    struct metrics *m = d->daemon.metrics;
    const struct grant *g = own_grants_find(d, row->grant_id);
    const char *name = row->endpoint, *what = outcome_name(row->outcome);
    int64_t wait_ms = row->next_ms - d->daemon.loop.now_ms;

    log_outcome(row);
    d->metrics[METRIC_ATTEMPTS]++;
    d->metrics[metrics[row->outcome]]++;
    if (!row->attempt_id) /* no request was made */
        return;
    if (g && g->endpoint.temporary) /* no alert is about it */
        return;
    series_add(METRIC_SERIES(m, FAMILY_ATTEMPTS, name, what), 1);
    /* What was released was not tried to its end, and consumers of a pull endpoint send no status. */
    if (row->outcome != OUTCOME_RETURNED &&
        !(g && endpoint_is_pulled(&g->endpoint)))
        series_add(METRIC_SERIES(m, FAMILY_RESPONSES, name,
                                 status_class(row->http_status)),
                   1);
    if (row->attempts > 1)
        series_add(METRIC_SERIES(m, FAMILY_RETRIES, name, what), 1);
    series_observe(METRIC_SERIES(m, FAMILY_ATTEMPT_SECONDS, name),
                   row->duration_ms);
    if (row->outcome == OUTCOME_RETRYING && wait_ms > 0)
        series_add(METRIC_SERIES(m, FAMILY_RETRY_WAIT, name), wait_ms);
}

/* Its outcome is committed: free the transfer and the task. */
static void finish(struct deliverer *d, struct transfer *f)
{
    struct task *t = f->task;
    struct granted_endpoint *e = &t->grant->endpoint;
    bool waits = f->outcome == OUTCOME_RETRYING &&
                 t->grant->state == GRANT_OPEN;

    outcome_note(d, &(struct attempt_row){.attempt_id = f->attempt_id,
                                          .endpoint = t->grant->name,
                                          .event_id = t->event_id,
                                          .outcome = f->outcome,
                                          .http_status = f->result.responded
                                                             ? f->result.status
                                                             : 0,
                                          .duration_ms = f->duration_ms,
                                          .attempts = f->attempts,
                                          .reason = f->reason,
                                          .error = f->error,
                                          .next_ms = f->next_ms});
    if (t->row) {
        e->rows_here--;
        e->rows -= !waits;
        own_grants_count_retries(d, t->grant, (int)waits - (int)t->retrying);
    }
    if (waits)
        endpoint_retry_due(e, f->next_ms);
    e->in_flight--;
    e->ended--;
    e->blocked = false;
    if (t->lane)
        busy_lanes_remove(&d->busy_lanes, t->lane);
    quarantine_ended(d, t);
    transfer_done(&d->transfers, f);
    tasks_drop(&d->tasks, t);
    endpoint_schedule(e, &d->schedule);
}

void outcome_after_commit(struct deliverer *d)
{
    struct transfer *f, *next;

    for (f = TAILQ_FIRST(&d->transfers.ended.all); f; f = next) {
        next = TAILQ_NEXT(f, link);
        if (f->recorded)
            finish(d, f);
    }
    d->lane_ended = d->lane_ended && d->transfers.ended.count > 0;
}
