/* endpoints: whether an endpoint is to be tried at all.
 *
 *              operator: pause              410, or failed for too long
 *   PAUSED ◀────────────────── ACTIVE ──────────────────────▶ DISABLED
 *      └──────────────────────▶   ◀──────────────────────────────┘
 *                           operator: resume
 *
 * Who is not ACTIVE has no grant: what was out comes back by a recall, and waits
 * here with what comes in. That time is in no delivery's budget: the start of a
 * budget goes out moved by as long as its endpoint was paused since. */
#include "clock.h"
#include "json_text.h"
#include "log.h"
#include "store.h"
#include "store_lanes.h"
#include "store_search.h"
#include "trouble.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT_MOST = 10000, /* a longer line is not counted to its end */
    HALTS_SHOWN = 100,
    BUDGET_ATTEMPTS = 10000, /* of a policy: more are not added up */
    GROWTH_STEPS = 64,
    SAVE_FAILING_MS = 10 * 1000, /* a crash forgets at most so much of it */
};

/* Of the time after which it is disabled, in percent. */
static const int warn_at[] = {50, 70, 90};

bool endpoint_is_on(const struct endpoint *e)
{
    return e->settings && e->settings->enabled && e->state == ENDPOINT_ACTIVE;
}

int64_t endpoint_budget_ms(const struct endpoint *e, int64_t first_ms,
                           int64_t paused_ms)
{
    int64_t first = first_ms + endpoint_paused_ms(e, now_ms()) - paused_ms;

    return !first_ms ? 0 : first < first_ms ? first_ms : first;
}

int64_t endpoint_paused_ms(const struct endpoint *e, int64_t at_ms)
{
    return e->paused_ms +
           (e->held_ms && at_ms > e->held_ms ? at_ms - e->held_ms : 0);
}

/* ---- failing continuously ---- */

static int64_t wait_ms(const struct retry_policy *p, int64_t attempt)
{
    double wait = (double)p->first_wait_ms;

    if (p->backoff == BACKOFF_SCHEDULE && !p->schedule_count)
        return 0;
    if (p->backoff == BACKOFF_SCHEDULE)
        return p->schedule_ms[attempt <= (int64_t)p->schedule_count
                                  ? attempt - 1
                                  : (int64_t)p->schedule_count - 1];
    for (int64_t i = 1;
         p->backoff == BACKOFF_EXPONENTIAL && i < attempt && i < GROWTH_STEPS &&
         (!p->max_wait_ms || wait < (double)p->max_wait_ms);
         i++)
        wait *= p->factor;
    return p->max_wait_ms && wait > (double)p->max_wait_ms ? p->max_wait_ms
                                                           : (int64_t)wait;
}

/* How long a delivery is tried at the most, jitter aside. */
static int64_t budget_ms(const struct retry_policy *p)
{
    int64_t all = 0,
            attempts = p->max_attempts ? p->max_attempts : BUDGET_ATTEMPTS;

    if (p->backoff == BACKOFF_SCHEDULE && !p->repeat_last &&
        attempts > (int64_t)p->schedule_count + 1)
        attempts = (int64_t)p->schedule_count + 1;
    for (int64_t i = 1; i < attempts && i < BUDGET_ATTEMPTS &&
                        (!p->max_duration_ms || all < p->max_duration_ms);
         i++)
        all += wait_ms(p, i);
    return p->max_duration_ms && all > p->max_duration_ms ? p->max_duration_ms
                                                          : all;
}

/* So that a trace can say what held an event up. */
static void note_act(struct sequencer *q, const struct endpoint *e,
                     const char *what, const char *by)
{
    char *subject = gr_printf("endpoint %s", e->name);
    char *text = gr_printf("%s%s", what, by);

    store_act_add(q->search, q->d.loop.now_ms, subject, text);
    free(subject);
    free(text);
}

static const char *who_of(json_t *args)
{
    const char *who = json_string_value(json_object_get(args, "who"));

    return who && *who ? who : "an operator";
}

/* ---- held back by its home ---- */

static void put_held(const struct endpoint *e, char *out, size_t n)
{
    if (e->held_status)
        snprintf(out, n, "it refuses every event with status %lld",
                 (long long)e->held_status);
    else
        snprintf(out, n, "its address or URL cannot be used for any event");
}

void endpoint_resumed(struct sequencer *q, struct endpoint *e)
{
    e->resumed_ms = q->d.loop.now_ms;
    e->changed = true;
}

void endpoint_end_hold(struct sequencer *q, struct endpoint *e)
{
    if (!e->held_ms)
        return;
    e->paused_ms = endpoint_paused_ms(e, q->d.loop.now_ms);
    e->held_ms = e->held_status = 0;
    endpoint_resumed(q, e);
    log_info(NULL, "an endpoint is no longer held", LS("endpoint", e->name));
}

void endpoint_note_hold(struct sequencer *q, struct endpoint *e,
                        const struct wire_result *r)
{
    bool held = r->outcome == OUTCOME_PARKED && wire_is(r->reason, "held");
    bool judged = r->outcome == OUTCOME_DEAD && wire_is(r->reason, "rejected");
    char what[80];

    if (r->outcome == OUTCOME_DELIVERED && !e->healthy)
        e->healthy = e->changed = true;
    if (r->outcome == OUTCOME_DELIVERED || judged)
        endpoint_end_hold(q, e);
    if (!held || e->held_ms || !endpoint_is_on(e) || !e->settings->guard)
        return;
    /* The last attempts under a grant that is being revoked, perhaps because an
     * operator ended the hold: the next home sees for itself. */
    if (e->recall || e->recalling)
        return;
    e->held_ms = r->at_ms;
    e->held_status = (int64_t)r->http_status;
    e->changed = true;
    put_held(e, what, sizeof what);
    note_act(q, e, "held: ", what);
    log_error(NULL,
              "an endpoint that worked refuses every event: its deliveries "
              "are held back",
              LS("endpoint", e->name), LN("http_status", e->held_status));
}

static void stop_trying(struct sequencer *q, struct endpoint *e,
                        enum endpoint_state state, const char *why)
{
    endpoint_end_hold(q, e);
    e->state = state;
    e->since_ms = q->d.loop.now_ms;
    snprintf(e->why, sizeof e->why, "%s", why);
    e->changed = true;
    e->recall = e->grant != 0;
}

void endpoint_disable(struct sequencer *q, struct endpoint *e, const char *why)
{
    if (e->state == ENDPOINT_DISABLED)
        return;
    if (e->state == ENDPOINT_PAUSED) /* that time counts, too */
        e->paused_ms += q->d.loop.now_ms - e->since_ms;
    stop_trying(q, e, ENDPOINT_DISABLED, why);
    note_act(q, e, "disabled: ", why);
    q->metrics[METRIC_ENDPOINTS_DISABLED]++;
    log_error(NULL,
              "an endpoint is disabled: its deliveries wait until `grapnel "
              "endpoints resume`",
              LS("endpoint", e->name), LS("reason", why));
}

void endpoints_alive(struct sequencer *q, const struct deliverer *d,
                     int64_t alive_ms)
{
    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (!e->failing_ms || e->home != d || !e->grant || e->recalling ||
            !endpoint_is_on(e))
            continue;
        e->failing_for_ms += alive_ms;
        if (e->failing_for_ms - e->failing_saved_ms >= SAVE_FAILING_MS)
            e->changed = true;
    }
}

static void judge_failing(struct sequencer *q, struct endpoint *e)
{
    int64_t limit = e->settings->disable_after_ms,
            budget = budget_ms(e->settings->policy);
    int64_t failing = e->failing_for_ms;
    char why[80], for_text[32];

    if (limit < budget)
        limit = budget;
    while (e->warned < (int)COUNT_OF(warn_at) &&
           failing >= limit / 100 * warn_at[e->warned]) {
        log_warn(NULL, "an endpoint fails continuously",
                 LS("endpoint", e->name), LI("failing_ms", failing),
                 LI("disable_after_ms", limit),
                 LI("percent", warn_at[e->warned]));
        e->warned++;
        e->changed = true;
    }
    if (failing < limit || e->state != ENDPOINT_ACTIVE)
        return;
    rfc3339(for_text, e->failing_ms);
    snprintf(why, sizeof why, "it has failed continuously since %s", for_text);
    endpoint_disable(q, e, why);
}

static void forget_failing(struct endpoint *e)
{
    e->failing_ms = e->failing_for_ms = e->failing_saved_ms = 0;
    e->warned = 0;
}

static void tally(struct endpoint *e, bool delivered, int64_t duration_ms,
                  int64_t now_ms)
{
    int64_t minute = now_ms / MINUTE_MS;
    struct tally_minute *m = &e->minutes[minute % MINUTES_KEPT];

    if (m->minute != minute)
        *m = (struct tally_minute){.minute = minute};
    m->delivered += delivered;
    m->failed += !delivered;
    m->duration_ms += delivered ? duration_ms : 0;
}

void endpoint_answered(struct sequencer *q, struct endpoint *e, bool delivered,
                       int64_t duration_ms, int64_t at_ms)
{
    tally(e, delivered, duration_ms, q->d.loop.now_ms);
    if (!e->settings)
        return;
    if (delivered) {
        e->changed = e->changed || e->failing_ms;
        forget_failing(e);
        return;
    }
    if (!e->failing_ms) {
        e->failing_ms = at_ms;
        e->changed = true;
    }
    judge_failing(q, e);
}

/* ---- the turn ---- */

void endpoints_work(struct sequencer *q)
{
    int64_t halts = 0;

    for (size_t i = 0; i < q->endpoint_count; i++) {
        struct endpoint *e = &q->endpoints[i];

        halts += e->halts;
        if (!e->changed)
            continue;
        e->changed = false;
        e->failing_saved_ms = e->failing_for_ms;
        store_endpoint_state(q->store, &(struct endpoint_row){
                                           .id = e->id,
                                           .ordered = e->ordered,
                                           .state = (int)e->state,
                                           .since_ms = e->since_ms,
                                           .why = e->why,
                                           .failing_ms = e->failing_ms,
                                           .warned = e->warned,
                                           .paused_ms = e->paused_ms,
                                           .failing_for_ms = e->failing_for_ms,
                                           .healthy = e->healthy,
                                           .held_ms = e->held_ms,
                                           .held_status = e->held_status,
                                           .resumed_ms = e->resumed_ms,
                                           .gone_after = e->gone_after});
    }
    q->metrics[METRIC_LANES_HALTED] = halts;
}

/* ---- what an operator asks ---- */

static bool is_held(const struct endpoint *e)
{
    return e->held_ms && endpoint_is_on(e);
}

static const char *state_name(const struct endpoint *e)
{
    static const char *const names[] = {[ENDPOINT_ACTIVE] = "active",
                                        [ENDPOINT_PAUSED] = "paused",
                                        [ENDPOINT_DISABLED] = "disabled"};

    return !e->settings            ? "removed"
           : !e->settings->enabled ? "off"
           : is_held(e)            ? "held"
                                   : names[e->state];
}

int64_t endpoint_waits_since_ms(const struct endpoint *e)
{
    if (is_held(e))
        return e->held_ms;
    return e->state == ENDPOINT_ACTIVE ? 0 : e->since_ms;
}

/* The same, and why (`why` has TROUBLE_BYTES). */
static int64_t trouble_since_ms(const struct endpoint *e, char *why)
{
    *why = 0;
    if (is_held(e))
        put_held(e, why, TROUBLE_BYTES);
    else if (e->state != ENDPOINT_ACTIVE)
        snprintf(why, TROUBLE_BYTES, "%s", e->why);
    return endpoint_waits_since_ms(e);
}

static void add_trouble(struct sequencer *q, const struct endpoint *e,
                        int64_t since_ms, const char *why, json_t *list)
{
    json_t *one = trouble_json(e->name, state_name(e), since_ms, why);
    int64_t waiting = store_count_waiting(q->store, e->id, COUNT_MOST);

    json_object_set_new(one, "waiting", json_integer(waiting));
    json_object_set_new(one, "waiting_more",
                        json_boolean(waiting >= COUNT_MOST));
    json_array_append_new(list, one);
}

void endpoints_troubles(void *self, json_t *out)
{
    struct sequencer *q = self;
    json_t *list = json_array();
    char why[TROUBLE_BYTES];
    json_int_t more = 0;

    for (size_t i = 0; i < q->endpoint_count; i++) {
        const struct endpoint *e = &q->endpoints[i];
        int64_t since_ms = trouble_since_ms(e, why);

        if (!e->settings || !e->settings->enabled || !since_ms)
            continue;
        if (json_array_size(list) < TROUBLES_SHOWN)
            add_trouble(q, e, since_ms, why, list);
        else
            more++;
    }
    json_object_set_new(out, "troubles", list);
    json_object_set_new(out, "troubles_more", json_integer(more));
}

struct halts_json {
    json_t *list;
    const char *endpoint;
};

static void add_halt(void *arg, const struct halt_row *h)
{
    struct halts_json *j = arg;
    char id[LETTER_ID_BYTES];

    letter_id(id, h->event_id, j->endpoint);
    json_array_append_new(
        j->list, json_pack("{s:o,s:o,s:s,s:s}", "workspace",
                           h->lane ? json_text_of(h->workspace) : json_null(),
                           "since", json_time(h->at_ms), "event_id",
                           h->event_id, "letter_id", id));
}

static void add_rates(json_t *out, const struct endpoint *e, int64_t now_ms)
{
    int64_t delivered = 0, failed = 0, duration_ms = 0;

    for (int i = 0; i < MINUTES_KEPT; i++) {
        const struct tally_minute *m = &e->minutes[i];

        if (now_ms / MINUTE_MS - m->minute >= MINUTES_KEPT)
            continue;
        delivered += m->delivered;
        failed += m->failed;
        duration_ms += m->duration_ms;
    }
    json_object_set_new(
        out, "success_rate",
        delivered + failed
            ? json_real((double)delivered / (double)(delivered + failed))
            : json_null());
    json_object_set_new(out, "latency_ms",
                        delivered
                            ? json_real((double)duration_ms / (double)delivered)
                            : json_null());
}

static json_t *endpoint_json(struct sequencer *q, const struct endpoint *e)
{
    static const char *const ordered[] = {[LANES_NONE] = "none",
                                          [LANES_WORKSPACE] = "workspace",
                                          [LANES_ALL] = "all"};
    struct halts_json halts = {json_array(), e->name};
    int64_t waiting = store_count_waiting(q->store, e->id, COUNT_MOST);
    char why[TROUBLE_BYTES];
    int64_t since_ms = trouble_since_ms(e, why);
    json_t *out = json_pack(
        "{s:s,s:s,s:o,s:o,s:o,s:s,s:o,s:I,s:I,s:b,s:I,s:I}", "name", e->name,
        "state", state_name(e), "since", json_time(since_ms), "reason",
        json_text_or_null(why), "failing_since", json_time(e->failing_ms),
        "ordered", e->settings ? ordered[e->settings->ordered] : "none", "home",
        e->home ? json_string(e->home->name) : json_null(), "in_flight",
        (json_int_t)e->out, "waiting", (json_int_t)waiting, "waiting_more",
        waiting >= COUNT_MOST, "retrying",
        (json_int_t)store_count_parked(q->store, e->id, e->grant, COUNT_MOST),
        "halted_lanes", (json_int_t)e->halts);

    json_object_set_new(out, "failing_seconds",
                        json_real((double)e->failing_for_ms / 1000));
    add_rates(out, e, q->d.loop.now_ms);
    store_halts(q->lanes, e->id, HALTS_SHOWN, add_halt, &halts);
    json_object_set_new(out, "halted", halts.list);
    return out;
}

void endpoint_unknown(struct sequencer *q, const char *name, char why[200])
{
    const struct settings *s = q->d.settings;
    struct conf_near near = {.text = name};
    char hint[100];

    for (size_t i = 0; i < s->endpoint_count; i++)
        conf_near_try(&near, s->endpoints[i].name);
    snprintf(why, 200, "the configuration has no endpoint \"%.63s\"%s", name,
             conf_near_hint(&near, hint));
}

json_t *endpoints_show(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *name = json_string_value(json_object_get(args, "name"));
    json_t *out = json_array();

    for (size_t i = 0; i < q->endpoint_count; i++)
        if (!name || strcmp(name, q->endpoints[i].name) == 0)
            json_array_append_new(out, endpoint_json(q, &q->endpoints[i]));
    if (name && !json_array_size(out)) {
        endpoint_unknown(q, name, why);
        json_decref(out);
        return NULL;
    }
    return out;
}

static struct endpoint *named(struct sequencer *q, json_t *args, char why[200])
{
    const char *name = json_string_value(json_object_get(args, "name"));
    struct endpoint *e = name ? endpoint_find(q, name) : NULL;

    if (e && e->settings)
        return e;
    if (name)
        endpoint_unknown(q, name, why);
    else
        snprintf(why, 200, "args.name: the name of an endpoint is needed");
    return NULL;
}

json_t *endpoints_pause(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct endpoint *e = named(q, args, why);

    if (!e)
        return NULL;
    if (e->state == ENDPOINT_ACTIVE) {
        snprintf(why, sizeof e->why, "by %s", who_of(args));
        stop_trying(q, e, ENDPOINT_PAUSED, why);
        note_act(q, e, "paused by ", who_of(args));
        log_info(NULL, "an endpoint is paused", LS("endpoint", e->name));
    }
    return endpoint_json(q, e);
}

json_t *endpoints_resume(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct endpoint *e = named(q, args, why);

    if (!e)
        return NULL;
    if (is_held(e)) {
        endpoint_end_hold(q, e);
        e->recall = e->grant != 0; /* a new grant tells its home */
        note_act(q, e, "resumed by ", who_of(args));
        log_info(NULL, "an endpoint is resumed", LS("endpoint", e->name));
    } else if (e->state != ENDPOINT_ACTIVE) {
        e->paused_ms += q->d.loop.now_ms - e->since_ms;
        e->state = ENDPOINT_ACTIVE;
        e->since_ms = 0;
        *e->why = 0;
        forget_failing(e);
        endpoint_resumed(q, e);
        e->waiting = q->place = true;
        note_act(q, e, "resumed by ", who_of(args));
        log_info(NULL, "an endpoint is resumed", LS("endpoint", e->name));
    }
    return endpoint_json(q, e);
}
