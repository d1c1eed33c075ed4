/* show_endpoints: the control commands about endpoints, and their part of `status`. */
#include "show_endpoints.h"
#include "clock.h"
#include "conf.h"
#include "dead_letters.h"
#include "json_text.h"
#include "managed_commands.h"
#include "managed_endpoints.h"
#include "sequencer.h"
#include "store.h"
#include "store_lanes.h"
#include "tally.h"
#include "temporary.h"
#include "tenants.h"
#include "trouble.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT_MAX = 10000, /* waiting deliveries are counted up to here */
    HALTS_SHOWN = 100,
    /* One reply counts this many deliveries (about 10 ms), and has this many halted lanes. */
    LOOK_MAX = 50000,
    HALTS_MAX = 5000,
    LIMIT_USUAL = 100,
};

static int compare_slots(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static json_t *show_temporary(struct sequencer *q)
{
    json_t *list = json_array();

    for (size_t i = 0; i < q->lists[ENDPOINTS_TEMPORARY].count &&
                       json_array_size(list) < TROUBLES_SHOWN;
         i++) {
        const struct endpoint *e = endpoint_listed(q, ENDPOINTS_TEMPORARY, i);

        json_array_append_new(
            list, json_pack("{s:s,s:o,s:I}", "endpoint", e->name, "expires_at",
                            json_time(temporary_expires_ms(q, e)), "waiting",
                            (json_int_t)store_count_waiting(q->store, e->id,
                                                            COUNT_MAX)));
    }
    return list;
}

/* In the order in which they were made. */
void endpoints_troubles(void *self, json_t *out)
{
    struct sequencer *q = self;
    json_t *list = json_array();
    json_int_t more = 0;
    size_t count = q->lists[ENDPOINTS_STOPPED].count;
    uint32_t *slots = gr_alloc(count * sizeof *slots);

    if (count)
        memcpy(slots, q->lists[ENDPOINTS_STOPPED].slots, count * sizeof *slots);
    qsort(slots, count, sizeof *slots, compare_slots);
    for (size_t i = 0; i < count; i++) {
        const struct endpoint *e = &q->endpoints[slots[i]];
        int64_t since_ms = endpoint_waits_since_ms(e), waiting;
        json_t *one;

        if (!endpoint_is_configured(e) ||
            (e->settings && !e->settings->enabled) || !since_ms || e->temporary)
            continue;
        if (json_array_size(list) >= TROUBLES_SHOWN) {
            more++;
            continue;
        }
        one = trouble_json(e->name, endpoint_state_name(e), since_ms,
                           e->why ? e->why : "");
        waiting = store_count_waiting(q->store, e->id, COUNT_MAX);
        json_object_set_new(one, "waiting", json_integer(waiting));
        json_object_set_new(one, "waiting_more",
                            json_boolean(waiting >= COUNT_MAX));
        json_array_append_new(list, one);
    }
    free(slots);
    json_object_set_new(out, "troubles", list);
    json_object_set_new(out, "troubles_more", json_integer(more));
    json_object_set_new(out, "temporary", show_temporary(q));
}

struct halts_json {
    json_t *list;
    const char *endpoint;
};

static void add_halt(void *arg, const struct halt_row *h)
{
    struct halts_json *j = arg;
    char id[DEAD_LETTER_ID_BYTES];

    dead_letter_id(id, h->event_id, j->endpoint);
    json_array_append_new(
        j->list,
        json_pack("{s:o,s:o,s:o,s:s,s:s}", "workspace",
                  h->lane.n ? json_text_of(h->workspace) : json_null(),
                  "ordering_key",
                  json_text_or_null(h->lane.key ? h->ordering_key : ""),
                  "since", json_time(h->at_ms), "event_id", h->event_id,
                  "dead_letter_id", id));
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* The share of attempts that delivered; NAN: there were none. */
static double success_rate(const struct tally_sum *sum)
{
    int64_t all = sum->outcomes[OUTCOME_DELIVERED] +
                  sum->outcomes[OUTCOME_RETRYING] + sum->outcomes[OUTCOME_DEAD];

    return (double)sum->outcomes[OUTCOME_DELIVERED] / (double)all;
}

static void add_rates(json_t *out, const struct sequencer *q,
                      const struct endpoint *e)
{
    struct tally_sum sum;

    tallies_sum(q->tallies, e->id, TALLY_SLOT_MS, q->d.loop.now_ms, &sum);
    json_object_set_new(out, "success_rate",
                        number_or_null(success_rate(&sum)));
    json_object_set_new(
        out, "latency_ms",
        number_or_null((double)sum.delivered_ms /
                       (double)sum.outcomes[OUTCOME_DELIVERED]));
}

json_t *endpoint_show(struct sequencer *q, const struct endpoint *e)
{
    static const char *const ordered[] = {[LANES_NONE] = "none",
                                          [LANES_WORKSPACE] = "workspace",
                                          [LANES_ALL] = "all"};
    struct halts_json halts = {json_array(), e->name};
    int64_t waiting = store_count_waiting(q->store, e->id, COUNT_MAX);
    int64_t since_ms = endpoint_waits_since_ms(e);
    json_t *out = json_pack(
        "{s:s,s:s,s:o,s:o,s:o,s:s,s:o,s:I,s:I,s:b,s:I,s:I}", "name", e->name,
        "state", endpoint_state_name(e), "since", json_time(since_ms), "reason",
        json_text_or_null(since_ms && e->why ? e->why : ""), "failing_since",
        json_time(e->failing_ms), "ordered",
        ordered[e->settings      ? e->settings->ordered
                : e->ordered < 0 ? LANES_NONE
                                 : e->ordered],
        "owner", e->owner ? json_string(e->owner->name) : json_null(),
        "in_flight", (json_int_t)e->in_window, "waiting", (json_int_t)waiting,
        "waiting_more", waiting >= COUNT_MAX, "retrying",
        (json_int_t)store_count_retrying(q->store, e->id, e->grant, COUNT_MAX),
        "halted_lanes", (json_int_t)e->halts);

    json_object_set_new(out, "failing_seconds",
                        json_real((double)e->failing_for_ms / 1000));
    add_rates(out, q, e);
    store_halts(q->lanes, e->id, HALTS_SHOWN, add_halt, &halts);
    json_object_set_new(out, "halted", halts.list);
    managed_describe(q, e, out);
    return out;
}

void endpoint_unknown(struct sequencer *q, const char *name, char why[200])
{
    const struct settings *s = q->d.settings;
    struct conf_near near = {.text = name};
    char hint[100];

    for (size_t i = 0; i < s->endpoint_count; i++)
        conf_near_try(&near, s->endpoints[i].name);
    control_fail(why, CONTROL_NOT_FOUND,
                 endpoint_id_valid(name)
                     ? "there is no endpoint %.63s"
                     : "the configuration has no endpoint \"%.63s\"%s",
                 name, conf_near_hint(&near, hint));
}

json_t *endpoints_show_one(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *name = json_string_value(json_object_get(args, "name"));
    const struct endpoint *e = endpoint_find(q, name);

    if (e)
        return endpoint_show(q, e);
    endpoint_unknown(q, name, why);
    return NULL;
}

static json_t *stats_json(struct sequencer *q, const struct endpoint *e,
                          int64_t period_ms)
{
    int64_t now = q->d.loop.now_ms, *o;
    struct open_figures open = store_endpoint_figures(q->store, e->id, e->grant,
                                                      COUNT_MAX);
    struct tally_sum sum;
    json_t *out;

    tallies_sum(q->tallies, e->id, period_ms, now, &sum);
    o = sum.outcomes;
    out = json_pack(
        "{s:s,s:s,s:o,s:o,s:o,s:o,s:I,s:{s:I,s:I,s:I},s:{s:I,s:I,s:I,s:I,s:I},"
        "s:{s:o,s:o,s:o}}",
        "name", e->name, "state", endpoint_state_name(e), "owner",
        e->owner ? json_string(e->owner->name) : json_null(), "from",
        json_time(sum.from_ms), "to", json_time(now), "success_rate",
        number_or_null(success_rate(&sum)), "attempts",
        (json_int_t)(o[OUTCOME_DELIVERED] + o[OUTCOME_RETRYING] +
                     o[OUTCOME_DEAD]),
        "outcomes", "delivered", (json_int_t)o[OUTCOME_DELIVERED], "retrying",
        (json_int_t)o[OUTCOME_RETRYING], "dead", (json_int_t)o[OUTCOME_DEAD],
        "statuses", "2xx", (json_int_t)sum.classes[TALLY_2XX], "3xx",
        (json_int_t)sum.classes[TALLY_3XX], "4xx",
        (json_int_t)sum.classes[TALLY_4XX], "5xx",
        (json_int_t)sum.classes[TALLY_5XX], "none",
        (json_int_t)sum.classes[TALLY_NO_RESPONSE], "latency_ms", "p50",
        number_or_null(sum.latency_ms[0]), "p95",
        number_or_null(sum.latency_ms[1]), "p99",
        number_or_null(sum.latency_ms[2]));
    json_object_update_new(
        out,
        json_pack("{s:I,s:I,s:b,s:I,s:o,s:o,s:o,s:o}", "in_flight",
                  (json_int_t)e->in_window, "waiting",
                  (json_int_t)open.counts[DELIVERY_WAITING], "waiting_more",
                  open.counts[DELIVERY_WAITING] >= COUNT_MAX, "retrying",
                  (json_int_t)open.counts[DELIVERY_RETRYING],
                  "oldest_waiting_at",
                  json_time(store_oldest_open_ms(q->store, &open)),
                  "last_success_at", json_time(sum.success_ms),
                  "last_failure_at", json_time(sum.failure_ms), "failing_since",
                  json_time(e->failing_ms)));
    return out;
}

json_t *endpoints_stats(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *name = json_string_value(json_object_get(args, "name"));
    const json_t *period = json_object_get(args, "period_ms");
    const struct endpoint *e = endpoint_find(q, name);

    if (e)
        return stats_json(
            q, e, period ? json_integer_value(period) : TALLY_PERIOD_MAX_MS);
    endpoint_unknown(q, name, why);
    return NULL;
}

json_t *endpoints_want(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *name = json_string_value(json_object_get(args, "endpoint"));
    struct endpoint *e = endpoint_find(q, name);

    if (!e || strcmp(endpoint_state_name(e), "removed") == 0) {
        endpoint_unknown(q, name, why);
        return NULL;
    }
    if (endpoint_is_on(e))
        endpoint_wake(q, e);
    if (e->settings && e->settings->transport != TRANSPORT_PULL) {
        control_fail(why, CONTROL_REFUSED,
                     "%.60s is not a pull endpoint: set `transport: pull`",
                     name);
        return NULL;
    }
    temporary_used(q, e);
    if (endpoint_is_on(e) && !e->grant)
        e->waiting = true; /* there may be deliveries: it needs a grant */
    return json_pack("{s:s,s:s,s:o}", "name", e->name, "state",
                     endpoint_state_name(e), "owner",
                     e->owner ? json_string(e->owner->name) : json_null());
}

/* Of the endpoint that a page shows first; false: `text` is not the next of a page. */
static bool read_after(const char *text, int64_t *id)
{
    char *end;

    *id = 0;
    if (text)
        *id = strtoll(text, &end, 10);
    return !text || (end != text && !*end);
}

static json_int_t number_of(const json_t *e, const char *key)
{
    return json_integer_value(json_object_get(e, key));
}

/* The first endpoint above this id; of a workspace, if one is given. */
static const struct endpoint *next_of(struct sequencer *q,
                                      const char *workspace, int64_t after)
{
    size_t lo = 0, hi = q->endpoint_count;
    int64_t id;

    if (workspace)
        return managed_page(q, workspace, after, 1, &id) ? endpoint_by_id(q, id)
                                                         : NULL;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (q->endpoints[mid].id <= after)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < q->endpoint_count ? &q->endpoints[lo] : NULL;
}

json_t *endpoints_show(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *workspace = json_string_value(
        json_object_get(args, "workspace"));
    json_int_t limit = number_of(args, "limit"), looked = 0;
    size_t halts = 0;
    json_t *list, *next = json_null(), *e;
    const char *tenant = tenant_of(args);
    const struct endpoint *is;
    int64_t after;

    if (!read_after(json_string_value(json_object_get(args, "after")),
                    &after)) {
        control_fail(why, CONTROL_INVALID,
                     "\"after\" must be the \"next\" of a reply");
        return NULL;
    }
    list = json_array();
    if (!limit)
        limit = LIMIT_USUAL;
    if (tenant && workspace && strcmp(tenant, workspace) != 0)
        return json_pack("{s:o,s:o}", "endpoints", list, "next", next);
    workspace = tenant ? tenant : workspace;
    while ((is = next_of(q, workspace, after)) != NULL) {
        if ((json_int_t)json_array_size(list) >= limit || looked >= LOOK_MAX ||
            halts >= HALTS_MAX) {
            next = json_sprintf("%lld", (long long)after);
            break;
        }
        after = is->id;
        if (is->temporary && !is->managed && !is->at[ENDPOINTS_TEMPORARY])
            continue; /* deleted, and none of its deliveries is open */
        e = endpoint_show(q, is);
        looked += number_of(e, "waiting") + number_of(e, "retrying");
        halts += json_array_size(json_object_get(e, "halted"));
        json_array_append_new(list, e);
    }
    return json_pack("{s:o,s:o}", "endpoints", list, "next", next);
}

static const char *who_of(json_t *args)
{
    const char *who = json_string_value(json_object_get(args, "who"));

    return who && *who ? who : "an operator";
}

static struct endpoint *named(struct sequencer *q, json_t *args, char why[200])
{
    const char *name = json_string_value(json_object_get(args, "name"));
    struct endpoint *e = endpoint_find(q, name);

    if (e && endpoint_is_configured(e))
        return e;
    endpoint_unknown(q, name, why);
    return NULL;
}

json_t *endpoints_pause(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct endpoint *e = named(q, args, why);

    if (!e)
        return NULL;
    endpoint_pause(q, e, who_of(args));
    return endpoint_show(q, e);
}

json_t *endpoints_resume(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct endpoint *e = named(q, args, why);

    if (!e)
        return NULL;
    endpoint_resume(q, e, who_of(args));
    return endpoint_show(q, e);
}
