/* endpoint_plan: the control command with the retry plan of an endpoint. */
#include "endpoint_plan.h"
#include "choice.h"
#include "config.h"
#include "json_text.h"
#include "plan.h"
#include "sequencer.h"
#include "show_endpoints.h"
#include "store.h"
#include "tenants.h"
#include <stdlib.h>
#include <string.h>

enum {
    PLAN_SHOWN = 200,   /* attempts of one reply */
    PLACES_MAX = 1000,  /* deliveries that wait, and as many at the deliverer */
    POINTS_SHOWN = 100, /* of them, each by itself */
    RETRY_ON_BYTES = 4096,
};

/* An open delivery: how many attempts its budget has had, and when the next one is due. */
struct place {
    int64_t event, attempts, due_ms;
};

struct places {
    struct place items[2 * PLACES_MAX];
    size_t count;
    bool more;
};

/* ---- the policy ---- */

static json_t *attempts_json(const struct plan *p)
{
    json_t *out = json_array();

    for (size_t i = 0; i < p->count; i++) {
        const struct plan_attempt *a = &p->attempts[i];

        json_array_append_new(out, json_pack("{s:I,s:I,s:I,s:I,s:I}", "n",
                                             (json_int_t)i + 1, "wait_ms",
                                             (json_int_t)a->wait_ms, "min_ms",
                                             (json_int_t)a->min_ms, "max_ms",
                                             (json_int_t)a->max_ms, "at_ms",
                                             (json_int_t)a->at_ms));
    }
    return out;
}

static json_t *policy_json(const struct retry_policy *policy)
{
    static const char *const kinds[] = {[BACKOFF_EXPONENTIAL] = "exponential",
                                        [BACKOFF_FIXED] = "fixed",
                                        [BACKOFF_SCHEDULE] = "schedule"};
    struct buf retry_on;
    struct plan plan;
    json_t *out;

    buf_init(&retry_on, RETRY_ON_BYTES);
    settings_retry_on(&policy->retry_on, &retry_on);
    plan_make(&plan, policy, PLAN_SHOWN);
    out = json_pack(
        "{s:o,s:s,s:o,s:b,s:o,s:o,s:o,s:b,s:o}", "policy",
        json_text_of(policy->name), "backoff", kinds[policy->backoff],
        "retry_on", json_text((struct bytes){retry_on.data, retry_on.len}),
        "respect_retry_after", policy->respect_retry_after, "max_attempts",
        json_number_or_null(policy->max_attempts), "max_duration_ms",
        json_number_or_null(policy->max_duration_ms), "attempts",
        attempts_json(&plan), "attempts_more", plan.cut, "gives_up",
        plan.cut                            ? json_null()
        : plan.end == BACKOFF_ATTEMPTS_USED ? json_string("budget_attempts")
                                            : json_string("budget_time"));
    plan_fini(&plan);
    buf_fini(&retry_on);
    return out;
}

/* ---- the deliveries ---- */

static void add_place(struct sequencer *q, const struct endpoint *e,
                      const char *tenant, int64_t event, struct places *p)
{
    struct event_row ev = {0};
    struct delivery d;
    bool own;

    if (delivery_load(q->deliveries, event, e->id, &d) &&
        d.status < DELIVERY_DELIVERED) {
        own = !tenant || (store_event(q->store, event, &ev) &&
                          tenant_has_event(q, tenant, &ev));
        event_fini(&ev);
        if (own)
            p->items[p->count++] = (struct place){event, d.attempts - d.earlier,
                                                  d.next_ms};
    }
    delivery_fini(&d);
}

/* Of all open deliveries; or of this event's alone. */
static void find_places(struct sequencer *q, const struct endpoint *e,
                        const char *tenant, int64_t only, struct places *p)
{
    struct out_row *out = gr_alloc((PLACES_MAX + 1) * sizeof *out);
    int64_t *waiting = gr_alloc((PLACES_MAX + 1) * sizeof *waiting);
    struct out_row after = {.status = DELIVERY_IN_FLIGHT};
    int n = 0;

    if (only)
        add_place(q, e, tenant, only, p);
    if (!only && e->grant)
        n = store_out_after(q->store, e->id, e->grant, &after, PLACES_MAX + 1,
                            out);
    p->more = n > PLACES_MAX;
    for (int i = 0; i < n && i < PLACES_MAX; i++)
        add_place(q, e, tenant, out[i].event, p);
    n = only ? 0 : store_waiting(q->store, e->id, PLACES_MAX + 1, waiting);
    p->more |= n > PLACES_MAX;
    for (int i = 0; i < n && i < PLACES_MAX; i++)
        add_place(q, e, tenant, waiting[i], p);
    free(out);
    free(waiting);
}

/* Those with a scheduled attempt first, the next one to be due at the front. */
static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (!x->due_ms != !y->due_ms)
        return x->due_ms ? -1 : 1;
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

static int compare_attempts(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return (x->attempts > y->attempts) - (x->attempts < y->attempts);
}

static json_t *point_json(struct sequencer *q, const struct endpoint *e,
                          const struct place *p)
{
    struct event_row ev = {0};
    struct delivery d;
    json_t *out = NULL, *choice;
    int64_t begin_ms;

    if (store_event(q->store, p->event, &ev) &&
        delivery_load(q->deliveries, p->event, e->id, &d)) {
        begin_ms = endpoint_budget_ms(e, d.first_ms, d.paused_ms);
        choice = choice_json(q, e, d.retry_choice);
        out = json_pack(
            "{s:s,s:o,s:o,s:s,s:I,s:o,s:o,s:o,s:o}", "event_id", ev.id, "type",
            json_text_of(ev.type), "workspace", json_text_of(ev.workspace),
            "status", delivery_status_name(d.status), "attempts",
            (json_int_t)p->attempts, "first_attempt_at", json_time(d.first_ms),
            "next_attempt_at", json_time(d.next_ms), "due_after_ms",
            d.next_ms && begin_ms
                ? json_integer(d.next_ms > begin_ms ? d.next_ms - begin_ms : 0)
                : json_null(),
            "policy",
            json_is_null(choice)
                ? json_null()
                : json_incref(json_object_get(choice, "policy")));
        json_decref(choice);
        delivery_fini(&d);
    }
    event_fini(&ev);
    return out;
}

static json_t *counts_json(struct places *p)
{
    json_t *out = json_array();

    qsort(p->items, p->count, sizeof *p->items, compare_attempts);
    for (size_t i = 0, from; i < p->count;) {
        for (from = i;
             i < p->count && p->items[i].attempts == p->items[from].attempts;)
            i++;
        json_array_append_new(out,
                              json_pack("{s:I,s:I}", "attempts",
                                        (json_int_t)p->items[from].attempts,
                                        "deliveries", (json_int_t)(i - from)));
    }
    return out;
}

static void add_deliveries(struct sequencer *q, const struct endpoint *e,
                           const char *tenant, int64_t only, json_t *out)
{
    struct places *p = gr_alloc(sizeof *p);
    json_t *points = json_array(), *point;

    find_places(q, e, tenant, only, p);
    qsort(p->items, p->count, sizeof *p->items, compare_places);
    for (size_t i = 0; i < p->count && i < POINTS_SHOWN; i++)
        if ((point = point_json(q, e, &p->items[i])) != NULL)
            json_array_append_new(points, point);
    json_object_set_new(out, "deliveries", points);
    json_object_set_new(out, "counts", counts_json(p));
    json_object_set_new(out, "counts_more", json_boolean(p->more));
    free(p);
}

/* The policy of its delivery of this event; false: `why` says that it has none. */
static bool find_delivery(struct sequencer *q, const struct endpoint *e,
                          const char *tenant, const char *id, int64_t *event,
                          struct retry_policy *policy, char why[200])
{
    struct event_row ev = {0};
    struct delivery d = {0};
    bool has = store_event_by_id(q->store, wire_text(id), &ev) &&
               tenant_has_event(q, tenant, &ev) &&
               delivery_load(q->deliveries, ev.n, e->id, &d);

    if (has) {
        *event = ev.n;
        if (!choice_apply(q, e, d.retry_choice, policy))
            *policy = *e->settings->policy;
    } else {
        control_fail(why, CONTROL_NOT_FOUND, "%.60s has no delivery to %.60s",
                     id, e->name);
    }
    event_fini(&ev);
    delivery_fini(&d);
    return has;
}

json_t *endpoint_plan(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *name = json_string_value(json_object_get(args, "name")),
               *id = json_string_value(json_object_get(args, "event"));
    struct endpoint *e = endpoint_find(q, name);
    struct retry_policy policy;
    int64_t only = 0;
    json_t *out;

    if (!e || !endpoint_is_configured(e)) {
        endpoint_unknown(q, name, why);
        return NULL;
    }
    endpoint_wake(q, e);
    if (!e->settings || !e->settings->policy) {
        control_fail(why, CONTROL_REFUSED,
                     "the settings of %.60s cannot be read: %.100s", name,
                     e->why ? e->why : "");
        return NULL;
    }
    policy = *e->settings->policy;
    if (id && !find_delivery(q, e, tenant_of(args), id, &only, &policy, why))
        return NULL;
    out = policy_json(&policy);
    json_object_set_new(out, "name", json_string(e->name));
    json_object_set_new(out, "state", json_string(endpoint_state_name(e)));
    add_deliveries(q, e, tenant_of(args), only, out);
    return out;
}
