/* takes: makes takes, ends their deliveries, and records the results. */
#include "takes.h"
#include "backoff.h"
#include "clock.h"
#include "db_sums.h"
#include "deliverer.h"
#include "encoding.h"
#include "json_text.h"
#include "log.h"
#include "outcome.h"
#include "rows.h"
#include "ulid.h"
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPARE_ROWS =
        64, /* looked at beside the wanted ones: their lanes may be busy */
    PURGE_AT_ONCE = 16,
    LOOK_AGAIN_MS = 100, /* when none of many due rows could be taken */
};

static const char expired[] = "the lease ended before the delivery was "
                              "acknowledged";

/* ---- open takes ---- */

/* Before the first turn the loop has no time yet. */
static int64_t awake_ms(const struct deliverer *d)
{
    return d->daemon.loop.awake_ms ? d->daemon.loop.awake_ms : mono_ms();
}

static void add(struct deliverer *d, int64_t n, const struct grant *g,
                int64_t at_ms, int64_t count, int64_t left_ms)
{
    struct take *t = gr_alloc(sizeof *t);

    t->n = n;
    t->grant_id = g->id;
    t->at_ms = at_ms;
    t->count = count;
    d->takes.count += count;
    LIST_INSERT_HEAD(&d->takes.open, t, link);
    due_queue_put(&d->takes.leases, &t->until, awake_ms(d) + left_ms);
}

static void drop(struct deliverer *d, struct take *t)
{
    d->takes.count -= t->count;
    due_queue_drop(&d->takes.leases, &t->until);
    LIST_REMOVE(t, link);
    free(t);
}

static struct take *find(struct deliverer *d, int64_t n)
{
    struct take *t;

    LIST_FOREACH(t, &d->takes.open, link)
    if (t->n == n)
        return t;
    return NULL;
}

/* The clock may have changed while the process was down, so a lease never gets longer. */
static void on_open(void *self, const struct take_row *row)
{
    struct deliverer *d = self;
    struct grant *g = own_grants_find(d, row->grant_id);
    int64_t left_ms = row->at_ms + row->lease_ms - now_ms();

    if (!g) /* its grant is forgotten, and its tasks with it */
        return;
    left_ms = left_ms < 0               ? 0
              : left_ms > row->lease_ms ? row->lease_ms
                                        : left_ms;
    add(d, row->n, g, row->at_ms, row->open, left_ms);
    g->endpoint.taken += row->open;
}

static void read_all(struct deliverer *d)
{
    takes_still_open(&d->takes.rows, on_open, d);
}

void takes_open(struct deliverer *d)
{
    take_rows_open(&d->takes.rows, d->daemon.db);
    LIST_INIT(&d->takes.open);
    read_all(d);
}

void takes_close(struct deliverer *d)
{
    struct take *t;

    while ((t = LIST_FIRST(&d->takes.open)))
        drop(d, t);
    due_queue_fini(&d->takes.leases);
}

void takes_undo(struct deliverer *d)
{
    struct take *t;

    while ((t = LIST_FIRST(&d->takes.open)))
        drop(d, t);
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        g->endpoint.taken = 0;
    read_all(d);
}

/* ---- one delivery as JSON ---- */

/* As text if that is not longer than base64. */
static bool is_plain(struct bytes body)
{
    const unsigned char *p = body.p;
    size_t escaped = 0;

    for (size_t i = 0; i < body.n; i++) {
        if (!p[i])
            return false;
        escaped += p[i] < 0x20;
    }
    return escaped <= body.n / 8 + 16 && utf8_valid(body);
}

static json_t *number_or_null(uint64_t n)
{
    return n ? json_integer((json_int_t)n) : json_null();
}

static json_t *delivery_json(const struct endpoint_config *c,
                             const struct task *t, uint64_t attempt,
                             int64_t at_ms)
{
    const struct wire_task *w = &t->w;
    struct outgoing_request request;
    bool plain = is_plain(w->body);
    json_t *out;

    request_init(&request);
    (void)request_headers(
        &request, w, (struct bytes){c->headers, c->headers_bytes}, &c->signer,
        c->settings.trace_context != TRACE_HEADERS_NONE, attempt, at_ms);
    out = json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:o}", "event_id",
        t->event_id, "type", json_text(w->type), "workspace",
        json_text(w->workspace), "source", json_text(w->source), "received_at",
        json_time(w->received_ms), "sequence", number_or_null(w->sequence),
        "previous", number_or_null(w->previous), "clock",
        w->clock.n ? json_text(w->clock) : json_null(), "attempt",
        (json_int_t)attempt, "headers",
        request_headers_json(&request, (struct bytes){0}), "body",
        plain ? json_text(w->body) : json_null(), "body_base64",
        plain ? json_null() : encoding_base64_json(w->body));
    request_fini(&request);
    return out;
}

static json_t *take_json(const char *id, int64_t until_ms, json_t *deliveries)
{
    return json_pack("{s:s,s:o,s:o}", "take", id, "until", json_time(until_ms),
                     "deliveries", deliveries);
}

/* ---- tasks, read from their rows ---- */

/* NULL: the row is damaged. */
static struct task *task_of_row(const struct task_row *row)
{
    struct task *t = row->damaged ? NULL : task_new(row->message);

    if (!t)
        return NULL;
    t->row = row->n;
    t->retrying = row->retrying;
    t->attempts = row->attempts;
    t->first_ms = row->first_ms;
    t->next_ms = row->next_ms;
    t->held_ms = row->held_ms;
    return t;
}

struct sought {
    uint64_t grant;
    int64_t row;
    struct task *task;
    bool retrying;
};

static void see_row(void *self, const struct task_row *row)
{
    struct sought *s = self;

    if (row->grant_id != s->grant)
        return;
    s->row = row->n;
    s->retrying = row->retrying;
    s->task = task_of_row(row);
}

/* The row of a delivery; s->row 0: it has none. The caller frees s->task. */
static void seek(struct deliverer *d, uint64_t grant, const char *event_id,
                 struct sought *s)
{
    *s = (struct sought){.grant = grant};
    store_tasks_of_event(&d->store, event_id, see_row, s);
}

/* ---- make ---- */

bool takes_may(const struct deliverer *d, const struct grant *g)
{
    const struct granted_endpoint *e = &g->endpoint;

    return g->state == GRANT_OPEN && e->config &&
           e->config->settings.transport == TRANSPORT_PULL &&
           lease_may_begin(d) && !d->full && !d->daemon.loop.stopping;
}

static int64_t capacity(const struct granted_endpoint *e)
{
    return e->config->settings.max_in_flight - e->taken;
}

int64_t takes_ready_us(const struct deliverer *d, const struct grant *g)
{
    const struct granted_endpoint *e = &g->endpoint;
    int64_t rate_us, due_us;

    if (!takes_may(d, g) || capacity(e) <= 0 || e->due_ms == INT64_MAX)
        return INT64_MAX;
    rate_us = throttle_ready_us(&e->throttle, e->config, false);
    due_us = mono_us() + (e->due_ms - d->daemon.loop.now_ms) * 1000;
    return rate_us > due_us ? rate_us : due_us;
}

struct choice {
    struct deliverer *d;
    const char *tenant; /* NULL: all workspaces */
    bool foreign;       /* a task of another workspace is due */
    const char *database;
    struct task *tasks[TAKE_MAX_COUNT + SPARE_ROWS];
    int64_t damaged[SPARE_ROWS];
    size_t count, damaged_count, bytes;
};

static bool choose(void *self, const struct task_row *row)
{
    struct choice *c = self;
    struct task *t;

    t = task_of_row(row);
    if (!t) {
        if (c->damaged_count == COUNT_OF(c->damaged))
            return false;
        db_damage_found(row->event_id, c->database, "tasks");
        c->damaged[c->damaged_count++] = row->n;
        return true;
    }
    if (c->tenant && !wire_is(t->w.workspace, c->tenant)) {
        c->foreign = true;
        task_free(t);
        return true;
    }
    if (c->count && c->bytes + t->w.body.n + t->w.headers.n > TAKE_MAX_BYTES) {
        task_free(t);
        return false;
    }
    c->bytes += t->w.body.n + t->w.headers.n;
    c->tasks[c->count++] = t;
    return true;
}

/* Write the result, and note it in the log and in the metrics. */
static void put_result(struct deliverer *d, struct attempt_row *row)
{
    row->attempt_id = row->sends ? random_id() : 0;
    result_log_put(d, row);
    outcome_note(d, row);
}

/* The event expired before anyone took it. */
static void put_expired(struct deliverer *d, struct grant *g,
                        const struct task *t)
{
    put_result(d, &(struct attempt_row){
                      .grant_id = g->id,
                      .endpoint = g->name,
                      .event_id = t->event_id,
                      .outcome = OUTCOME_DEAD,
                      .error = "the event expired before it was taken",
                      .reason = "expired",
                      .at_ms = d->daemon.loop.now_ms,
                      .attempts = t->attempts,
                      .first_ms = t->first_ms});
    rows_gone(d, g, t->row, t->retrying);
}

/* Its lane's name, owned; NULL: it is in none. */
static char *lane_of(const struct granted_endpoint *e, const struct task *t)
{
    int ordered = e->config->settings.ordered;

    if (ordered == LANES_NONE)
        return NULL;
    if (ordered == LANES_ALL)
        return gr_strdup("");
    /* An ordering key has no control character. */
    return gr_printf("%.*s%s%.*s", (int)t->w.workspace.n,
                     (const char *)t->w.workspace.p,
                     t->w.ordering_key.n ? "\n" : "", (int)t->w.ordering_key.n,
                     (const char *)t->w.ordering_key.p);
}

static bool take_one(struct deliverer *d, struct grant *g, struct task *t,
                     int64_t take, int64_t now, json_t *deliveries)
{
    struct granted_endpoint *e = &g->endpoint;
    char *lane = lane_of(e, t);
    bool free_lane = !lane || !taken_has_lane(&d->takes.rows, g->id, lane);

    if (free_lane) {
        taken_add(&d->takes.rows,
                  &(struct taken_row){.take = take,
                                      .event_id = t->event_id,
                                      .grant_id = g->id,
                                      .task = t->row,
                                      .lane = lane,
                                      .attempt = t->attempts + 1});
        take_task_next(&d->takes.rows, t->row, TASK_TAKEN_MS);
        throttle_began(&e->throttle, e->config, false, mono_us());
        json_array_append_new(
            deliveries, delivery_json(e->config, t, t->attempts + 1, now));
    }
    free(lane);
    return free_lane;
}

static void put_id(struct deliverer *d, int64_t now, char *out, size_t n)
{
    static struct ulid ulid;
    char text[ULID_BYTES + 1];

    ulid_next(&ulid, now, text);
    snprintf(out, n, "take_%s_%s", text, d->daemon.name);
}

json_t *takes_make(struct deliverer *d, struct grant *g, const char *tenant,
                   int64_t max, int64_t lease_ms, const struct act_by *by)
{
    struct granted_endpoint *e = &g->endpoint;
    int64_t now = d->daemon.loop.now_ms, n = 0, count = 0;
    struct choice *c;
    json_t *deliveries;
    char id[NAME_MAX_BYTES + 64];
    bool all;

    if (takes_ready_us(d, g) > mono_us())
        return NULL;
    if (max > capacity(e))
        max = capacity(e);
    c = gr_alloc(sizeof *c);
    c->d = d;
    c->tenant = tenant;
    c->database = db_path(d->store.db);
    all = store_tasks_due(&d->store, g->id, now, (int)max + SPARE_ROWS, choose,
                          c) &&
          !c->foreign;
    deliveries = json_array();
    put_id(d, now, id, sizeof id);
    for (size_t i = 0; i < c->damaged_count; i++) {
        store_task_gone(&d->store, c->damaged[i]); /* as due.c does */
        e->rows--;
    }
    for (size_t i = 0; i < c->count; i++) {
        struct task *t = c->tasks[i];
        bool has_expired = t->w.expires_ms > 0 && t->w.expires_ms <= now;

        if (has_expired) {
            put_expired(d, g, t);
        } else if (count < max && throttle_ready_us(&e->throttle, e->config,
                                                    false) <= mono_us()) {
            if (!n)
                n = take_add(&d->takes.rows,
                             &(struct take_row){.id = id,
                                                .grant_id = g->id,
                                                .endpoint = g->name,
                                                .at_ms = now,
                                                .lease_ms = lease_ms,
                                                .owner = by->owner,
                                                .key = by->key,
                                                .digest = by->digest});
            count += take_one(d, g, t, n, now, deliveries);
        } else {
            all = false;
        }
        task_free(t);
    }
    free(c);
    /* What is due now and was not taken has a busy lane, which its end frees, or is left, or is for
     * others. */
    e->due_ms = all     ? store_next_due(&d->store, g->id, now)
                : count ? now
                        : now + LOOK_AGAIN_MS;
    if (n && !count)
        take_gone(&d->takes.rows, n);
    if (!count) {
        json_decref(deliveries);
        return NULL;
    }
    take_set_open(&d->takes.rows, n, count, 0);
    add(d, n, g, now, count, lease_ms);
    e->taken += count;
    control_tag(d->daemon.control, n);
    log_debug(NULL, "taken", LS("endpoint", g->name), LS("take", id),
              LI("deliveries", count));
    return take_json(id, now + lease_ms, deliveries);
}

/* ---- the same take again ---- */

struct again {
    struct deliverer *d;
    const char *digest;
    struct grant *g;
    int64_t n, at_ms, lease_ms, open;
    char *id;
    bool other;
    json_t *deliveries;
    char **events; /* of deliveries that have not ended */
    uint64_t *attempts;
    size_t count;
};

static void see_take(void *self, const struct take_row *row)
{
    struct again *a = self;

    a->other = strcmp(row->digest, a->digest) != 0;
    a->n = row->n;
    a->at_ms = row->at_ms;
    a->lease_ms = row->lease_ms;
    a->open = row->open;
    a->id = gr_strdup(row->id);
    a->g = own_grants_find(a->d, row->grant_id);
}

static void see_open(void *self, const struct taken_row *row)
{
    struct again *a = self;

    if (row->state != TAKEN_OPEN)
        return;
    a->events = gr_realloc(a->events, (a->count + 1) * sizeof *a->events);
    a->attempts = gr_realloc(a->attempts, (a->count + 1) * sizeof *a->attempts);
    a->attempts[a->count] = row->attempt;
    a->events[a->count++] = gr_strdup(row->event_id);
}

/* In the order of their ids, which is that of their arrival. */
static json_t *again_json(struct again *a)
{
    json_t *deliveries = json_array();

    taken_of(&a->d->takes.rows, a->n, see_open, a);
    for (size_t i = 0; i < a->count; i++) {
        struct sought s;

        seek(a->d, a->g->id, a->events[i], &s);
        if (s.task)
            json_array_append_new(deliveries,
                                  delivery_json(a->g->endpoint.config, s.task,
                                                a->attempts[i], a->at_ms));
        task_free(s.task);
        free(a->events[i]);
    }
    free(a->events);
    free(a->attempts);
    return take_json(a->id, a->at_ms + a->lease_ms, deliveries);
}

enum take_known takes_again(struct deliverer *d, const struct act_by *by,
                            json_t **reply)
{
    struct again a = {.d = d, .digest = by->digest};
    enum take_known known = TAKE_NEW;

    *reply = NULL;
    if (!*by->key ||
        !take_by_key(&d->takes.rows, by->owner, by->key, see_take, &a))
        return TAKE_NEW;
    if (a.other)
        known = TAKE_OTHER;
    else if (!a.open || !a.g)
        known = TAKE_OVER;
    else if (!a.g->endpoint.config)
        known = TAKE_BUSY;
    else
        known = TAKE_SAME;
    if (known == TAKE_SAME)
        *reply = again_json(&a);
    free(a.id);
    return known;
}

/* ---- the end of a delivery ---- */

/* The next attempt, or the reason why there is none. */
static void decide_retry(struct attempt_row *row, const struct task *t,
                         const struct granted_endpoint *e, int64_t delay_ms,
                         int64_t now)
{
    static const char *const reasons[] = {
        [BACKOFF_ATTEMPTS_USED] = "budget_attempts",
        [BACKOFF_TIME_USED] = "budget_time",
        [BACKOFF_EXPIRED] = "expired"};
    const struct retry_policy *policy = t->retry ? t->retry
                                                 : &e->config->policy;
    struct backoff b = {.policy = policy,
                        .attempts = row->attempts > t->w.budget_base
                                        ? row->attempts - t->w.budget_base
                                        : 1,
                        .first_ms = row->first_ms < now ? row->first_ms : now,
                        .now_ms = now,
                        .expires_ms = t->w.expires_ms,
                        .random = random_id() << 1};
    enum backoff_end end = backoff_next(&b, &row->next_ms);

    /* The consumer's delay replaces the policy's wait, within the same budget. */
    if (delay_ms >= 0 && end != BACKOFF_ATTEMPTS_USED) {
        row->next_ms = now + delay_ms;
        end = policy->max_duration_ms &&
                      row->next_ms > b.first_ms + policy->max_duration_ms
                  ? BACKOFF_TIME_USED
              : b.expires_ms && row->next_ms >= b.expires_ms ? BACKOFF_EXPIRED
                                                             : BACKOFF_WAIT;
    }
    row->outcome = end == BACKOFF_WAIT ? OUTCOME_RETRYING : OUTCOME_DEAD;
    if (end != BACKOFF_WAIT) {
        row->next_ms = 0;
        row->reason = reasons[end];
    }
}

/* A result of this take, of an attempt that was made. */
static struct attempt_row result_of(const struct deliverer *d,
                                    const struct grant *g,
                                    const struct taken_row *taken,
                                    int64_t at_ms)
{
    int64_t now = d->daemon.loop.now_ms;

    return (struct attempt_row){
        .grant_id = taken->grant_id,
        .endpoint = g->name,
        .event_id = taken->event_id,
        .outcome = OUTCOME_DELIVERED,
        .error = "",
        .reason = "",
        .at_ms = at_ms,
        .duration_ms = now > at_ms ? now - at_ms : 0,
        .attempts = taken->attempt,
        .first_ms = at_ms,
        .timings.total_us = now > at_ms ? (now - at_ms) * 1000 : 0,
        .sends = 1};
}

static void decide(struct deliverer *d, struct grant *g,
                   const struct taken_row *taken, const struct task *t,
                   const struct take_end *end, struct attempt_row *row)
{
    int64_t now = d->daemon.loop.now_ms;

    if (end->state == TAKEN_ACKED || taken->late)
        return;
    row->error = end->state == TAKEN_EXPIRED ? expired
                 : end->note                 ? end->note
                 : end->state == TAKEN_DEAD  ? "the consumer refused it"
                                             : "the consumer asked for a retry";
    if (end->state == TAKEN_DEAD) {
        row->outcome = OUTCOME_DEAD;
        row->reason = "rejected";
        return;
    }
    if (end->state == TAKEN_EXPIRED)
        row->reason = "lease_expired";
    if (t && g->state == GRANT_OPEN && g->endpoint.config && !taken->dropped) {
        decide_retry(row, t, &g->endpoint, end->delay_ms, now);
        return;
    }
    /* The next owner retries it, with this attempt counted. */
    row->outcome = OUTCOME_RETURNED;
    row->next_ms = now + (end->delay_ms > 0 ? end->delay_ms : 0);
}

/* The last delivery of a take has ended. */
static void forget_if_ended(struct deliverer *d, struct take *t)
{
    int64_t n = t->n, left = t->count;

    if (!left)
        drop(d, t);
    take_set_open(&d->takes.rows, n, left, left ? 0 : d->daemon.loop.now_ms);
}

static void end_one(struct deliverer *d, struct take *take, struct grant *g,
                    const struct taken_row *taken, const struct take_end *end)
{
    struct attempt_row row = result_of(d, g, taken, take->at_ms);
    bool retries = end->state == TAKEN_RETRIED || end->state == TAKEN_EXPIRED;
    struct sought s = {0};
    struct task_row known;

    if (retries) {
        seek(d, g->id, taken->event_id, &s);
        known.first_ms = s.task ? s.task->first_ms : 0;
    } else if (store_task_find(&d->store, g->id, taken->event_id, &known)) {
        s.row = known.n;
        s.retrying = known.retrying;
    } else {
        known.first_ms = 0;
    }
    if (known.first_ms)
        row.first_ms = known.first_ms;
    decide(d, g, taken, s.task, end, &row);
    put_result(d, &row);
    if (row.outcome == OUTCOME_RETRYING) {
        store_task_retry(&d->store,
                         &(struct task_row){.n = s.row,
                                            .attempts = row.attempts,
                                            .first_ms = row.first_ms,
                                            .next_ms = row.next_ms,
                                            .early_ms = row.next_ms,
                                            .held_ms = s.task->held_ms});
        own_grants_count_retries(d, g, !s.retrying);
        endpoint_row_due(&g->endpoint, row.next_ms);
    } else if (s.row) {
        rows_gone(d, g, s.row, s.retrying);
    }
    task_free(s.task);
    taken_end(&d->takes.rows, take->n, taken->event_id, end->state);
    take->count--;
    d->takes.count--;
    g->endpoint.taken--;
    endpoint_row_due(&g->endpoint,
                     d->daemon.loop.now_ms); /* its lane is free */
}

/* ---- what a consumer says ---- */

struct request {
    struct deliverer *d;
    int64_t n, at_ms;
    uint64_t grant_id;
    char endpoint[NAME_MAX_BYTES + 1];
    struct one {
        char *event_id;
        uint64_t grant_id, attempt;
        int64_t task;
        int state;
        bool late, dropped;
    } * all;
    size_t count;
};

static void take_found(void *self, const struct take_row *row)
{
    struct request *r = self;

    r->n = row->n;
    r->at_ms = row->at_ms;
    r->grant_id = row->grant_id;
    wire_copy(r->endpoint, sizeof r->endpoint, wire_text(row->endpoint));
}

static void taken_found(void *self, const struct taken_row *row)
{
    struct request *r = self;

    r->all = gr_realloc(r->all, (r->count + 1) * sizeof *r->all);
    r->all[r->count++] = (struct one){.event_id = gr_strdup(row->event_id),
                                      .grant_id = row->grant_id,
                                      .attempt = row->attempt,
                                      .task = row->task,
                                      .state = row->state,
                                      .late = row->late,
                                      .dropped = row->dropped};
}

static void request_end(struct request *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->all[i].event_id);
    free(r->all);
}

static const char *state_name(int state)
{
    static const char *const names[] = {
        [TAKEN_OPEN] = "is open",
        [TAKEN_ACKED] = "was acknowledged",
        [TAKEN_RETRIED] = "was given back for a retry",
        [TAKEN_DEAD] = "was refused",
        [TAKEN_EXPIRED] = "was not ended before the lease ended",
        [TAKEN_ACKED_LATE] = "was acknowledged after the lease had ended"};

    return names[state];
}

static bool has_event(const struct request *r, const char *event_id)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->all[i].event_id, event_id) == 0)
            return true;
    return false;
}

/* Reads the deliveries that are named; false: one is not of this take. */
static bool read_named(struct request *r, const json_t *events, char why[200])
{
    json_t *v;
    size_t i;

    if (!events) {
        taken_of(&r->d->takes.rows, r->n, taken_found, r);
        return true;
    }
    json_array_foreach((json_t *)(uintptr_t)events, i, v)
    {
        const char *id = json_string_value(v);

        if (has_event(r, id))
            continue; /* named twice */
        if (!taken_get(&r->d->takes.rows, r->n, id, taken_found, r)) {
            control_fail(why, CONTROL_NOT_FOUND,
                         "deliveries: the take has no delivery %.60s", id);
            return false;
        }
    }
    return true;
}

/* After the end of its lease: the sequencer gets a late result. */
static void ack_late(struct request *r, struct grant *g, const struct one *one)
{
    struct deliverer *d = r->d;
    struct grant away = {.id = r->grant_id};
    struct taken_row taken = {.take = r->n,
                              .event_id = one->event_id,
                              .grant_id = one->grant_id,
                              .attempt = one->attempt};
    struct attempt_row row;
    struct sought s = {0};

    taken_end(&d->takes.rows, r->n, one->event_id, TAKEN_ACKED_LATE);
    if (g)
        seek(d, g->id, one->event_id, &s);
    if (s.task && s.task->next_ms == TASK_TAKEN_MS) {
        /* Another consumer has it: its lane waits for that one's end. */
        taken_set_late(&d->takes.rows, s.row);
        task_free(s.task);
        return;
    }
    if (s.row)
        rows_gone(d, g, s.row, s.retrying);
    task_free(s.task);
    wire_copy(away.name, sizeof away.name, wire_text(r->endpoint));
    row = result_of(d, &away, &taken, r->at_ms);
    put_result(d, &row);
}

/* The delivery because of which the request is refused; NULL: none. `all`: those that have not
 * ended are meant, so others may have ended in any way but by the lease. */
static const struct one *wrong_one(const struct request *r,
                                   const struct take_end *end, bool all)
{
    const struct one *other = NULL;
    bool any = false;

    for (size_t i = 0; i < r->count; i++) {
        const struct one *one = &r->all[i];

        if (one->state == TAKEN_OPEN || one->state == (int)end->state)
            any = true;
        else if (!all || one->state == TAKEN_EXPIRED ||
                 one->state == TAKEN_ACKED_LATE)
            return one;
        else if (!other)
            other = one;
    }
    return any ? NULL : other;
}

/* All deliveries can be ended so, or are. */
static bool may_end(struct request *r, struct grant *g, const json_t *events,
                    const struct take_end *end, char why[200])
{
    const struct one *wrong = wrong_one(r, end, !events);

    if (!wrong)
        return true;
    control_fail(why, CONTROL_REFUSED,
                 "delivery %.60s %s: nothing was changed%s", wrong->event_id,
                 state_name(wrong->state),
                 end->state == TAKEN_ACKED && wrong->state == TAKEN_EXPIRED
                     ? ", but the acknowledgement is recorded as a late one"
                     : "");
    for (size_t i = 0; i < r->count && end->state == TAKEN_ACKED; i++)
        if (r->all[i].state == TAKEN_EXPIRED)
            ack_late(r, g, &r->all[i]);
    return false;
}

static json_t *end_all(struct request *r, struct grant *g,
                       const struct take_end *end)
{
    struct take *take = find(r->d, r->n);
    json_t *ids = json_array();
    int64_t left;

    for (size_t i = 0; i < r->count; i++) {
        const struct one *one = &r->all[i];

        if (one->state == TAKEN_OPEN && take && g)
            end_one(r->d, take, g,
                    &(struct taken_row){.take = r->n,
                                        .event_id = one->event_id,
                                        .grant_id = one->grant_id,
                                        .task = one->task,
                                        .attempt = one->attempt,
                                        .late = one->late,
                                        .dropped = one->dropped},
                    end);
        if (one->state == TAKEN_OPEN || one->state == (int)end->state)
            json_array_append_new(ids, json_string(one->event_id));
    }
    left = take ? take->count : 0;
    if (take)
        forget_if_ended(r->d, take);
    return json_pack("{s:o,s:I}", "deliveries", ids, "open", (json_int_t)left);
}

json_t *takes_end(struct deliverer *d, const char *endpoint, const char *id,
                  const json_t *events, const struct take_end *end,
                  char why[200])
{
    struct request r = {.d = d};
    struct grant *g;
    json_t *reply = NULL;

    if (!take_by_id(&d->takes.rows, id, take_found, &r) ||
        strcmp(r.endpoint, endpoint) != 0) {
        control_fail(why, CONTROL_NOT_FOUND,
                     "take: %.60s is unknown at %.60s: it was never made, or "
                     "ended more than a day ago",
                     id, endpoint);
        return NULL;
    }
    g = own_grants_find(d, r.grant_id);
    if (read_named(&r, events, why) && may_end(&r, g, events, end, why))
        reply = end_all(&r, g, end);
    request_end(&r);
    return reply;
}

void takes_note_dropped(struct deliverer *d, int64_t task)
{
    taken_set_dropped(&d->takes.rows, task);
}

/* ---- the end of leases, and of replies ---- */

static void expire(struct deliverer *d, struct take *take)
{
    static const struct take_end end = {.state = TAKEN_EXPIRED, .delay_ms = -1};
    struct request r = {.d = d, .n = take->n};
    struct grant *g = own_grants_find(d, take->grant_id);

    if (!g) { /* on_open() knows only takes of a grant, which then stays */
        drop(d, take);
        return;
    }
    taken_of(&d->takes.rows, take->n, taken_found, &r);
    log_info(NULL, "the lease of a take has ended", LS("endpoint", g->name),
             LI("deliveries", take->count));
    json_decref(end_all(&r, g, &end));
    request_end(&r);
}

void takes_give_back(struct deliverer *d, int64_t n)
{
    struct take *take = find(d, n);
    struct grant *g = take ? own_grants_find(d, take->grant_id) : NULL;
    struct request r = {.d = d, .n = n};

    if (!g)
        return;
    taken_of(&d->takes.rows, n, taken_found, &r);
    for (size_t i = 0; i < r.count; i++)
        if (r.all[i].state == TAKEN_OPEN)
            take_task_next(&d->takes.rows, r.all[i].task,
                           d->daemon.loop.now_ms);
    log_info(NULL, "a consumer left before its take was sent",
             LS("endpoint", g->name), LI("deliveries", take->count));
    g->endpoint.taken -= take->count;
    drop(d, take);
    take_gone(&d->takes.rows, n);
    endpoint_row_due(&g->endpoint, d->daemon.loop.now_ms);
    request_end(&r);
}

/* Deletes ended takes that are a day old, or are too many. */
static void purge(struct deliverer *d)
{
    int64_t before_ms = retention_before(&d->daemon.retention,
                                         d->daemon.loop.now_ms, DAY_MS);
    int64_t last = take_last(&d->takes.rows), ended_ms = 0, n;

    for (int i = 0; i < PURGE_AT_ONCE; i++) {
        n = take_oldest_ended(&d->takes.rows, &ended_ms);
        if (!n || (ended_ms >= before_ms && n > last - TAKES_KEPT_MAX))
            return;
        take_gone(&d->takes.rows, n);
    }
}

void takes_work(struct deliverer *d)
{
    struct due_item *item;
    int64_t n;

    while ((n = control_unsent(d->daemon.control)))
        takes_give_back(d, n);
    while (!d->full && !loop_spent(&d->daemon.loop) &&
           (item = due_queue_first(&d->takes.leases)) &&
           item->key <= d->daemon.loop.awake_ms)
        expire(d, DUE_ITEM_OWNER(item, struct take, until));
    if (d->daemon.loop.mono_ms >= d->takes.purge_ms && !d->full) {
        d->takes.purge_ms = d->daemon.loop.mono_ms + SECOND_MS;
        purge(d);
    }
}

int takes_wait_ms(const struct deliverer *d)
{
    const struct due_item *item = due_queue_first(&d->takes.leases);
    int64_t left;

    if (!item)
        return -1;
    left = item->key - d->daemon.loop.awake_ms;
    return left < 0 ? 0 : left > MINUTE_MS ? (int)MINUTE_MS : (int)left;
}
