/* explain: judges subscriptions rule by rule, and finds what an open delivery waits for. */
#include "explain.h"
#include "clock.h"
#include "conf.h"
#include "dead_letters.h"
#include "endpoint_index.h"
#include "glob.h"
#include "json_text.h"
#include "managed_endpoints.h"
#include "operational.h"
#include "rules.h"
#include "sequencer.h"
#include "store.h"
#include "store_lanes.h"
#include "store_order.h"
#include "tenants.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHY_MAX_BYTES = 8192,
    PATTERNS_SHOWN = 20,
    SUBSCRIPTIONS_SHOWN = 10,
    LOOK_MAX = 20000, /* endpoints that one request looks at */
    LIMIT_USUAL = 100,
};

/* ---- one endpoint's subscription ---- */

struct judgement {
    enum rule_result result;
    struct buf why;
    json_t
        *rules; /* of the subscription that matches, or of those that do not */
};

static json_t *rule_json(const struct rule *r, size_t route)
{
    json_t *patterns = json_array();
    size_t count = r->patterns ? r->patterns->count : 0;

    for (size_t i = 0; i < count && i < PATTERNS_SHOWN; i++)
        json_array_append_new(patterns, json_text_of(r->patterns->items[i]));
    return json_pack(
        "{s:s,s:o,s:o,s:o,s:I,s:o,s:o}", "rule", r->name, "route",
        json_number_or_null((int64_t)route), "value",
        r->value ? json_text_of(r->value) : json_null(), "patterns", patterns,
        "patterns_more",
        (json_int_t)(count > PATTERNS_SHOWN ? count - PATTERNS_SHOWN : 0),
        "pattern", r->pattern ? json_text_of(r->pattern) : json_null(), "met",
        r->result == RULE_UNKNOWN ? json_null()
                                  : json_boolean(r->result == RULE_MET));
}

/* Takes one subscription into account. */
static void judge_one(struct judgement *j, const struct subscription *w,
                      size_t route, struct subject *s)
{
    struct rule rules[RULES];
    enum rule_result result;
    struct buf why;

    buf_init(&why, WHY_MAX_BYTES);
    result = rules_judge(w, s, rules, &why);
    /* One that matches certainly is better than one that may. */
    if (j->result == RULE_NOT_MET ||
        (j->result == RULE_UNKNOWN && result == RULE_MET)) {
        if (result !=
            RULE_NOT_MET) { /* those that do not match matter no more */
            json_array_clear(j->rules);
            buf_reset(&j->why);
            buf_puts(&j->why, route ? "" : "by its own subscription: ");
            j->result = result;
        } else if (j->why.len) {
            buf_puts(&j->why, "; ");
        }
        if (route)
            buf_printf(&j->why,
                       result == RULE_NOT_MET ? "route %zu: "
                                              : "by route %zu: ",
                       route);
        buf_put(&j->why, why.data ? why.data : "", why.len);
        if (json_array_size(j->rules) < (size_t)SUBSCRIPTIONS_SHOWN * RULES)
            for (size_t i = 0; i < RULES; i++)
                json_array_append_new(j->rules, rule_json(&rules[i], route));
    }
    buf_fini(&why);
}

static void judge_managed(struct sequencer *q, const struct endpoint *e,
                          struct subject *s, struct judgement *j)
{
    const struct own_subscription *own = managed_subscription(q, e);
    struct subscription w;

    if (!own) {
        buf_puts(&j->why, "its settings cannot be read");
        return;
    }
    w = (struct subscription){&own->sources, &own->types, &own->workspaces,
                              &own->where};
    judge_one(j, &w, 0, s);
}

static void judge(struct sequencer *q, const struct endpoint *e,
                  struct subject *s, struct judgement *j)
{
    struct subscription w;
    size_t n = 0, route;

    *j = (struct judgement){.result = RULE_NOT_MET, .rules = json_array()};
    buf_init(&j->why, WHY_MAX_BYTES);
    if (e->managed)
        judge_managed(q, e, s, j);
    else if (!e->settings)
        buf_puts(&j->why, "it is no longer in the configuration");
    else if (!e->settings->enabled)
        buf_puts(&j->why, "it is switched off (enabled: false)");
    else
        while (j->result != RULE_MET &&
               rules_next(q->d.settings, e->settings, &n, &w, &route))
            judge_one(j, &w, route, s);
}

/* Also when a subscription's texts did not fit. */
static json_t *why_json(const struct judgement *j)
{
    return j->why.failed ? json_string("its subscription is too long to say")
                         : json_text((struct bytes){
                               j->why.data ? j->why.data : "", j->why.len});
}

static void judgement_fini(struct judgement *j)
{
    buf_fini(&j->why);
    json_decref(j->rules);
}

/* ---- which endpoints ---- */

struct walk {
    const char *pattern, *tenant;
    int64_t after, limit, looked;
    bool more;
};

static bool walk_begin(struct walk *w, json_t *args, const char *pattern,
                       char why[200])
{
    const char *after = json_string_value(json_object_get(args, "after"));
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    char *end = NULL;

    *w = (struct walk){.pattern = pattern,
                       .tenant = tenant_of(args),
                       .limit = limit ? limit : LIMIT_USUAL,
                       .after = after ? strtoll(after, &end, 10) : 0};
    if (!after || (end != after && !*end))
        return true;
    control_fail(why, CONTROL_INVALID,
                 "\"after\" must be the \"next\" of a reply");
    return false;
}

/* The first slot whose endpoint has an id above `after`. */
static size_t slot_above(const struct sequencer *q, int64_t after)
{
    size_t lo = 0, hi = q->endpoint_count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (q->endpoints[mid].id <= after)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The one above `after`; of a tenant's own by their index, as others may have many. */
static struct endpoint *next_endpoint(struct sequencer *q, const struct walk *w)
{
    size_t i = slot_above(q, w->after);
    int64_t id;

    if (w->tenant)
        return managed_page(q, w->tenant, w->after, 1, &id)
                   ? endpoint_by_id(q, id)
                   : NULL;
    return i < q->endpoint_count ? &q->endpoints[i] : NULL;
}

/* The next endpoint that the request is about; NULL: no further one in this reply. `list` has those
 * that it has found. */
static struct endpoint *walk_next(struct sequencer *q, struct walk *w,
                                  const json_t *list)
{
    struct endpoint *e;

    /* A name leads to its endpoint at once. */
    if (w->pattern && !strchr(w->pattern, '*')) {
        e = w->looked++ || w->after ? NULL : endpoint_find(q, w->pattern);
        return e && tenant_has_endpoint(q, w->tenant, e->id) ? e : NULL;
    }
    for (;;) {
        e = next_endpoint(q, w);
        if (!e)
            return NULL;
        w->more = (int64_t)json_array_size(list) >= w->limit ||
                  w->looked++ >= LOOK_MAX;
        if (w->more)
            return NULL;
        w->after = e->id;
        if ((w->pattern && !glob_match(w->pattern, e->name)) ||
            (e->settings && e->settings->internal))
            continue;
        return e;
    }
}

static json_t *walk_end(const struct walk *w)
{
    return w->more ? json_sprintf("%lld", (long long)w->after) : json_null();
}

/* ---- what a delivery waits for ---- */

/* Borrows; "" and 0: not there. */
struct cause {
    const char *name; /* of `causes` in the declaration */
    char why[400];
    int64_t since_ms, until_ms;
    char event_id[EVENT_ID_BYTES + 1]; /* the event that it waits for */
    char dead_letter[DEAD_LETTER_ID_BYTES];
};

GR_PRINTF(3, 4)
static void set(struct cause *c, const char *name, const char *fmt, ...)
{
    va_list ap;

    c->name = name;
    va_start(ap, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, ap);
    va_end(ap);
}

/* The endpoint itself: false: attempts are made. */
static bool is_stopped(const struct endpoint *e, struct cause *c)
{
    const char *why = e->why ? e->why : "";

    c->since_ms = endpoint_waits_since_ms(e);
    if (!endpoint_is_configured(e))
        set(c, "removed",
            "the endpoint is no longer in the configuration: the delivery "
            "becomes a dead letter");
    else if (e->settings && !e->settings->enabled)
        set(c, "off",
            "the endpoint is switched off (enabled: false): deliveries wait "
            "until that changes");
    else if (e->state == ENDPOINT_PAUSED)
        set(c, "paused", "the endpoint is paused until somebody resumes it: %s",
            why);
    else if (e->state == ENDPOINT_DISABLED)
        set(c, "disabled",
            "the endpoint is disabled until somebody resumes it: %s", why);
    else if (e->state == ENDPOINT_HELD)
        set(c, "held",
            "the endpoint refuses every event, and gets one attempt at a time: "
            "%s",
            why);
    return c->name != NULL;
}

static void set_lane(struct sequencer *q, const struct endpoint *e,
                     const struct delivery *d, struct cause *c)
{
    struct lane lane = delivery_lane(d);
    struct event_row first = {0};
    int64_t route_order, event = 0;
    bool halted = e->halts &&
                  store_halted(q->lanes, e->id, lane, &route_order) &&
                  d->route_order > route_order;

    event = halted ? store_halting(q->lanes, e->id, lane)
                   : store_lane_first(q->lanes, e->id, lane);
    if (event && store_event(q->store, event, &first))
        snprintf(c->event_id, sizeof c->event_id, "%s", first.id);
    event_fini(&first);
    if (halted) {
        if (*c->event_id)
            dead_letter_id(c->dead_letter, c->event_id, e->name);
        set(c, "lane_halted",
            "a dead letter halts its lane (on_dead: halt): retry, resolve or "
            "discard it");
    } else {
        set(c, "lane_blocked",
            "the endpoint is ordered: an earlier event of the same lane has to "
            "end first%s%s",
            *c->event_id ? ", now " : "", c->event_id);
    }
}

static void set_retry(const struct delivery *d, struct cause *c)
{
    c->until_ms = d->next_ms;
    if (!d->attempts)
        set(c, "retry_scheduled", "its first attempt is scheduled");
    else if (*d->error)
        set(c, "retry_scheduled",
            "attempt %lld failed (%.200s), a retry is scheduled",
            (long long)d->attempts, d->error);
    else
        set(c, "retry_scheduled",
            "attempt %lld was answered with %lld, a retry is scheduled",
            (long long)d->attempts, (long long)d->http_status);
}

static void set_open(struct sequencer *q, const struct endpoint *e,
                     const struct delivery *d, struct cause *c)
{
    if (is_stopped(e, c) && e->state != ENDPOINT_HELD)
        return;
    if (d->behind) {
        set_lane(q, e, d, c);
    } else if (e->state == ENDPOINT_HELD) {
        ; /* said */
    } else if (d->next_ms > q->d.loop.now_ms) {
        set_retry(d, c);
    } else if (!e->owner) {
        set(c, "no_deliverer",
            "no deliverer has the endpoint: none runs, or it is being given to "
            "one");
    } else if (delivery_is_out(e, d)) {
        set(c, "in_flight",
            "its deliverer %s has it: an attempt is in progress, or is made as "
            "soon as the limits of the endpoint permit one",
            e->owner->name);
    } else {
        set(c, "capacity",
            "it is due; its deliverer has %lld deliveries of the endpoint and "
            "gets it when one of them has ended",
            (long long)e->in_window);
    }
}

static void set_final(const struct endpoint *e, const struct event_row *ev,
                      const struct delivery *d, struct cause *c)
{
    c->since_ms = d->at_ms ? d->at_ms + d->duration_ms : 0;
    if (d->status == DELIVERY_DELIVERED) {
        set(c, "delivered", "delivered with attempt %lld",
            (long long)d->attempts);
        return;
    }
    if (!e->temporary)
        dead_letter_id(c->dead_letter, ev->id, e->name);
    set(c, d->status == DELIVERY_DEAD ? "dead" : "abandoned",
        "%s after %lld attempt%s: %s%s%.200s", delivery_status_name(d->status),
        (long long)d->attempts, d->attempts == 1 ? "" : "s", d->reason,
        *d->error ? ", " : "", d->error);
}

/* ---- why it has no delivery ---- */

/* When it was released: then it was routed. */
static int64_t routed_ms(const struct event_row *e)
{
    return e->released_ms ? e->released_ms : e->taken_ms;
}

/* The event as a whole has no deliveries; false: it was routed. */
static bool is_unrouted(struct sequencer *q, const struct event_row *ev,
                        struct cause *c)
{
    struct gap_row g;

    c->since_ms = routed_ms(ev);
    switch (ev->status) {
    case EVENT_DUPLICATE:
        snprintf(c->event_id, sizeof c->event_id, "%s",
                 ev->duplicate_of ? ev->duplicate_of : "");
        set(c, "duplicate",
            "the event is a duplicate of %s, so it is stored and goes to no "
            "endpoint; `release` delivers it",
            *c->event_id ? c->event_id : "an event that is no longer stored");
        return true;
    case EVENT_IGNORED:
        set(c, "ignored",
            "the event was ignored, and goes to no endpoint: %.200s",
            ev->reason);
        return true;
    case EVENT_REFUSED:
        dead_letter_id(c->dead_letter, ev->id, "");
        set(c, "refused",
            "the event was refused, and is a dead letter itself: %.200s",
            ev->reason);
        return true;
    case EVENT_BUFFERED:
        if (ev->numbered &&
            store_gap_before(q->order, ev->source, ev->workspace, ev->type,
                             ev->source_sequence, &g))
            set(c, "buffered",
                "the event waits for its turn: the numbers %" PRId64
                " to %" PRId64 " of its stream are missing (gap_%" PRId64 ")",
                g.span.first, g.span.last, g.id);
        else
            set(c, "buffered",
                "the event waits in case earlier events of its stream arrive");
        store_gap_before_done(q->order);
        return true;
    case EVENT_SPLIT:
        set(c, "split",
            "this is a request of several events: each of them is routed by "
            "itself");
        return true;
    default:
        return false;
    }
}

/* When the settings that an endpoint has now came into effect; *made_ms: 0: not known. */
static int64_t settings_since_ms(struct sequencer *q, const struct endpoint *e,
                                 int64_t *made_ms)
{
    int64_t since_ms = q->config_since_ms;
    struct managed_row row;

    *made_ms = 0;
    if (e->managed) {
        if (managed_read(q, e, &row)) {
            since_ms = row.changed_ms;
            *made_ms = row.created_ms;
        }
        managed_done(q);
    }
    return since_ms;
}

static void set_missing(struct sequencer *q, const struct endpoint *e,
                        const struct event_row *ev, const struct judgement *j,
                        bool *changed, struct cause *c)
{
    int64_t made_ms, at_ms = routed_ms(ev),
                     since_ms = settings_since_ms(q, e, &made_ms);

    /* In the same millisecond, the delivery that is missing shows which was first. */
    *changed = since_ms > at_ms || (since_ms == at_ms && j->result == RULE_MET);
    if (!endpoint_is_configured(e)) {
        *changed = true;
        set(c, "removed",
            "the endpoint is no longer in the configuration, and "
            "had no delivery of this event");
    } else if (made_ms && (made_ms > at_ms ||
                           (made_ms == at_ms && j->result == RULE_MET))) {
        c->since_ms = made_ms;
        set(c, "made_later",
            "the endpoint was made after the event was routed");
    } else if (e->settings && !e->settings->enabled) {
        set(c, "off", "the endpoint is switched off (enabled: false)");
    } else if (!ev->sequence) {
        set(c, "not_listed", "Grapnel made this event for one endpoint only");
    } else if (j->result == RULE_NOT_MET) {
        set(c, "not_subscribed", "%s", "");
    } else if (j->result == RULE_UNKNOWN) {
        set(c, "condition",
            "its subscription has a condition on headers or body, which are no "
            "longer stored");
    } else if (*changed) {
        c->since_ms = since_ms;
        set(c, "subscribed_later",
            "it is subscribed now, but the %s changed after the event was "
            "routed",
            e->managed ? "settings of the endpoint" : "configuration");
    } else if (settings_producer(q->d.settings, ev->source)) {
        set(c, "not_listed",
            "it is subscribed, but the producer did not list it in "
            "`endpoints`");
    } else if (strcmp(ev->source, OPERATIONAL_SOURCE) == 0) {
        set(c, "not_listed",
            "an operational event goes only to endpoints that may read about "
            "its subject");
    } else {
        set(c, "not_listed",
            "it is subscribed, but an operator sent the event to chosen "
            "endpoints only");
    }
}

/* ---- the replies ---- */

static void put_cause(json_t *out, const struct cause *c)
{
    json_object_set_new(out, "cause", json_string(c->name));
    json_object_set_new(out, "since", json_time(c->since_ms));
    json_object_set_new(out, "until", json_time(c->until_ms));
    json_object_set_new(out, "event_id", json_text_or_null(c->event_id));
    json_object_set_new(out, "dead_letter_id",
                        json_text_or_null(c->dead_letter));
}

static json_t *delivery_json(struct sequencer *q, const struct endpoint *e,
                             const struct event_row *ev,
                             const struct delivery *d)
{
    struct cause c = {0};
    json_t *out;

    if (d->status < DELIVERY_DELIVERED)
        set_open(q, e, d, &c);
    else
        set_final(e, ev, d, &c);
    out = json_pack(
        "{s:s,s:s,s:o,s:b,s:b,s:[],s:o}", "endpoint", e->name, "status",
        delivery_status_name(d->status), "why", json_text_of(c.why), "routed",
        true, "changed_since", false, "rules", "deliverer",
        e->owner && d->status < DELIVERY_DELIVERED ? json_string(e->owner->name)
                                                   : json_null());
    put_cause(out, &c);
    return out;
}

static json_t *missing_json(struct sequencer *q, const struct endpoint *e,
                            const struct event_row *ev, struct subject *s,
                            const struct cause *whole)
{
    struct judgement j;
    struct cause c = *whole;
    bool changed = false;
    json_t *out;

    if (!c.name) {
        judge(q, e, s, &j);
        c.since_ms = routed_ms(ev);
        set_missing(q, e, ev, &j, &changed, &c);
    }
    out = json_pack(
        "{s:s,s:s,s:o,s:b,s:b,s:o,s:n}", "endpoint", e->name, "status",
        "not_routed", "why", *c.why ? json_text_of(c.why) : why_json(&j),
        "routed", false, "changed_since", (int)changed, "rules",
        whole->name ? json_array() : json_incref(j.rules), "deliverer");
    if (!whole->name)
        judgement_fini(&j);
    put_cause(out, &c);
    return out;
}

json_t *event_routing_explain(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    json_t *list;
    struct event_row ev = {0};
    struct subject s;
    struct cause whole = {0};
    struct endpoint *e;
    struct delivery d;
    struct walk w;

    if (!walk_begin(&w, args,
                    json_string_value(json_object_get(args, "endpoint")), why))
        return NULL;
    if (!store_event_by_id(q->store, wire_text(id), &ev) ||
        !tenant_has_event(q, w.tenant, &ev)) {
        control_fail(why, CONTROL_NOT_FOUND, "no event has the id %.100s", id);
        event_fini(&ev);
        return NULL;
    }
    list = json_array();
    is_unrouted(q, &ev, &whole);
    s = (struct subject){
        .source = ev.source, .type = ev.type, .workspace = ev.workspace};
    s.gone = !store_body(q->store, ev.n, &s.headers, &s.body);
    while ((e = walk_next(q, &w, list)) != NULL) {
        bool has = delivery_load(q->deliveries, ev.n, e->id, &d);

        if (has)
            json_array_append_new(list, delivery_json(q, e, &ev, &d));
        else if (endpoint_is_configured(e) ||
                 (w.pattern && !strchr(w.pattern, '*')))
            json_array_append_new(list, missing_json(q, e, &ev, &s, &whole));
        delivery_fini(&d);
    }
    subject_fini(&s);
    store_body_done(q->store);
    event_fini(&ev);
    return json_pack("{s:o,s:o}", "endpoints", list, "next", walk_end(&w));
}

/* What would become of a delivery to this endpoint now. */
static json_t *prospect_json(const struct endpoint *e)
{
    struct cause c = {0};

    if (is_stopped(e, &c))
        return json_text_of(c.why);
    if (!e->owner)
        return json_string("it waits until a deliverer has the endpoint");
    return json_string(
        e->ordered == LANES_ALL ? "one delivery is made at a time, in order"
        : e->ordered == LANES_WORKSPACE
            ? "one delivery is made at a time in each workspace, in order"
            : "an attempt is made at once, as far as the limits of the "
              "endpoint permit");
}

static json_t *prospective_json(struct sequencer *q, const struct endpoint *e,
                                struct subject *s, json_t *note)
{
    struct judgement j;
    json_t *out;

    judge(q, e, s, &j);
    out = json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:I,s:O}", "endpoint", e->name,
                    "state", endpoint_state_name(e), "subscribed",
                    j.result == RULE_UNKNOWN
                        ? json_null()
                        : json_boolean(j.result == RULE_MET),
                    "why", why_json(&j), "rules", json_incref(j.rules), "then",
                    j.result == RULE_NOT_MET ? json_null() : prospect_json(e),
                    "halted_lanes", (json_int_t)e->halts, "note", note);
    judgement_fini(&j);
    return out;
}

/* A sentence about a source that no event can have; NULL: it may send such events. */
static json_t *source_note(const struct sequencer *q, const struct subject *s)
{
    const struct settings *all = q->d.settings;
    const struct source *source = settings_source(all, s->source);
    const struct producer *producer = settings_producer(all, s->source);
    struct conf_near near = {.text = s->source};
    struct sender sender;
    char hint[100];

    if (strcmp(s->source, OPERATIONAL_SOURCE) == 0)
        return json_null();
    if (!source && !producer) {
        for (size_t i = 0; i < all->source_count; i++)
            conf_near_try(&near, all->sources[i].name);
        return json_sprintf(
            "the configuration has no source, producer or relay of this "
            "name%s",
            conf_near_hint(&near, hint));
    }
    sender = source ? route_source(source) : route_producer(producer);
    if (!route_list_takes(sender.types, s->type))
        return json_string("this producer may not send events of this type");
    if (!route_list_takes(sender.workspaces, s->workspace))
        return json_string("this sender may not send events of this workspace");
    return json_null();
}

json_t *routing_explain(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *workspace = json_string_value(
        json_object_get(args, "workspace"));
    struct subject s = {
        .source = json_string_value(json_object_get(args, "source")),
        .type = json_string_value(json_object_get(args, "type")),
        .workspace = workspace ? workspace : "default",
        .gone = true};
    struct endpoint *e;
    struct walk w;
    json_t *list, *note;

    if (!walk_begin(&w, args,
                    json_string_value(json_object_get(args, "endpoint")), why))
        return NULL;
    if (w.tenant)
        s.workspace = w.tenant;
    list = json_array();
    note = w.tenant ? json_null() : source_note(q, &s);
    while ((e = walk_next(q, &w, list)) != NULL)
        if (endpoint_is_configured(e))
            json_array_append_new(list, prospective_json(q, e, &s, note));
    json_decref(note);
    return json_pack("{s:o,s:o}", "endpoints", list, "next", walk_end(&w));
}
