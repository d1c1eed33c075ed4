/* event_trace: all that this process knows about one event, as lines of a timeline. */
#include "event_trace.h"
#include "choice.h"
#include "delivery.h"
#include "json_text.h"
#include "route.h"
#include "search.h"
#include "sequencer.h"
#include "store.h"
#include "store_order.h"
#include "store_search.h"
#include "tenants.h"
#include "trace_context.h"
#include "ulid.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace {
    struct sequencer *q;
    char *event_id;
    const char *tenant; /* only its endpoints, and no names of others */
    int64_t newest;     /* attempts of each delivery; 0: all */
    json_t *timeline;
    json_t *tried; /* the part of it about attempts, appended at the end */
    json_t *deliveries;
    int count;
    /* Of the present delivery. */
    json_t *attempts;
    const char *endpoint;
};

enum { NAMES_MAX_BYTES = 4096, BEGUN_SHOWN = 3 };

/* ---- the timeline ---- */

GR_PRINTF(4, 0)
static void add(json_t *list, const struct sequencer *q, int64_t at_ms,
                const char *fmt, va_list ap)
{
    char *what = NULL;

    if (vasprintf(&what, fmt, ap) < 0)
        return;
    json_array_append_new(
        list, json_pack("{s:o,s:s,s:o}", "at", json_time(at_ms), "process",
                        q->d.name, "what", json_text_of(what)));
    free(what);
}

GR_PRINTF(3, 4)
static void add_line(struct trace *t, int64_t at_ms, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(t->timeline, t->q, at_ms, fmt, ap);
    va_end(ap);
}

GR_PRINTF(3, 4)
static void add_tried(struct trace *t, int64_t at_ms, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(t->tried, t->q, at_ms, fmt, ap);
    va_end(ap);
}

/* When it was released: then it got its number and was routed. */
static int64_t routed_ms(const struct event_row *e)
{
    return e->released_ms ? e->released_ms : e->taken_ms;
}

/* ---- actions of people ---- */

struct prefixed_actions {
    struct trace *t;
    const char *prefix; /* the subject; "": no prefix */
};

static void on_action(void *arg, int64_t at_ms, const char *what)
{
    struct prefixed_actions *a = arg;

    add_line(a->t, at_ms, "%s%s%s", a->prefix, *a->prefix ? ": " : "", what);
}

static void add_actions_of(struct trace *t, const char *subject,
                           const char *prefix, int64_t from_ms, int64_t to_ms)
{
    store_actions(t->q->search, subject, from_ms, to_ms, on_action,
                  &(struct prefixed_actions){t, prefix});
}

enum { WORD_BYTES = 8 };

/* The first word of an action, as far as it fits. */
static void action_word(void *arg, int64_t at_ms, const char *what)
{
    (void)at_ms;
    snprintf(arg, WORD_BYTES, "%.*s", (int)strcspn(what, " :"), what);
}

/* ---- ends of deliveries ---- */

/* The end that this row has, as a sentence that the caller frees; NULL: no end. The dead letter
 * says it for a delivery that was never sent, and the action for an abandoned one. */
static char *end_of(const struct delivery *d, const char *endpoint)
{
    if (d->status == DELIVERY_DELIVERED)
        return gr_printf("delivered to %s after %lld attempt(s)", endpoint,
                         (long long)d->attempts);
    if (d->status == DELIVERY_DEAD && d->at_ms &&
        strcmp(d->reason, "abandoned") != 0)
        return gr_printf("dead-lettered at %s: %s", endpoint, d->reason);
    if (d->status == DELIVERY_ABANDONED && d->at_ms)
        return gr_printf("abandoned at %s: %s", endpoint, d->reason);
    return NULL;
}

static char *end_subject_of(const char *event_id, const char *endpoint)
{
    return gr_printf("end of %s at %s", event_id, endpoint);
}

static void each_end(struct sequencer *q, const char *event_id,
                     const struct delivery *d, const char *endpoint,
                     action_fn *fn, void *arg)
{
    char *subject = end_subject_of(event_id, endpoint),
         *end = end_of(d, endpoint);

    if (d->reopened_ms)
        store_actions(q->search, subject, 0, INT64_MAX, fn, arg);
    if (end)
        fn(arg, d->at_ms + d->duration_ms, end);
    free(subject);
    free(end);
}

void event_trace_keep_end(struct sequencer *q, const struct delivery *d,
                          const char *endpoint)
{
    char *end = end_of(d, endpoint), *subject;
    struct event_row ev = {0};

    if (end && store_event(q->store, d->event, &ev)) {
        subject = end_subject_of(ev.id, endpoint);
        store_action_add(q->search, d->at_ms + d->duration_ms, subject, end);
        free(subject);
    }
    event_fini(&ev);
    free(end);
}

void event_trace_keep_refusal(struct sequencer *q, int64_t event)
{
    char *subject, *what;
    struct event_row ev = {0};

    if (store_event(q->store, event, &ev) &&
        (ev.status == EVENT_REFUSED || ev.status == EVENT_IGNORED)) {
        subject = gr_printf("event %s", ev.id);
        what = gr_printf("%s: %s",
                         ev.status == EVENT_REFUSED ? "refused" : "ignored",
                         ev.reason);
        store_action_add(q->search, routed_ms(&ev), subject, what);
        free(subject);
        free(what);
    }
    event_fini(&ev);
}

/* ---- the event itself ---- */

static void add_gap(struct trace *t, const struct gap_row *g)
{
    char subject[32];
    char *name = gr_printf("gap_%" PRId64 " (%" PRId64 "-%" PRId64 " missing)",
                           g->id, g->span.first, g->span.last);

    snprintf(subject, sizeof subject, "gap %" PRId64, g->id);
    add_line(t, g->opened_ms, "%s: opened", name);
    if (g->status == GAP_CLOSED)
        add_actions_of(t, subject, name, 0, INT64_MAX);
    else if (g->status != GAP_OPEN)
        add_line(t, g->closed_ms, "%s: %s%s%s", name,
                 g->status == GAP_FILLED ? "arrived later"
                                         : "skipped: the wait for it ended",
                 *g->note ? ": " : "", g->note);
    free(name);
}

static void add_order(struct trace *t, const struct event_row *e)
{
    struct gap_row g;

    if (e->late)
        add_line(t, routed_ms(e),
                 "late: later events of its stream were already delivered");
    else if (*e->note)
        add_line(t, routed_ms(e), "%s", e->note);
    if (*e->gap)
        add_line(t, routed_ms(e), "released without waiting for %s", e->gap);
    /* The gap before the event, if it waited for that or was released in spite of it. */
    if (e->numbered && (*e->gap || e->status == EVENT_BUFFERED) &&
        store_gap_before(t->q->order, e->source, e->workspace, e->type,
                         e->source_sequence, &g))
        add_gap(t, &g);
    store_gap_before_done(t->q->order);
}

/* Whether it was a duplicate when it arrived, perhaps released later. */
static void add_duplicate(struct trace *t, const struct event_row *e)
{
    bool refused = strstr(e->reason, "idempotency_key_reused") != NULL;
    char *subject = gr_printf("event %s", e->id);

    if (refused)
        add_line(t, e->taken_ms, "same idempotency key as %s", e->duplicate_of);
    else if (e->status == EVENT_DUPLICATE || *e->duplicate_of)
        add_line(t, e->taken_ms, "duplicate of %s: stored, not delivered",
                 *e->duplicate_of ? e->duplicate_of
                                  : "an event that is no longer stored");
    add_actions_of(t, subject, "", 0, INT64_MAX);
    free(subject);
}

static void add_transition(struct trace *t, const struct event_row *e)
{
    const char *object, *from, *to;

    if (!store_transition(t->q->store, e->n, &object, &from, &to))
        ;
    else if (*from)
        add_line(t, routed_ms(e), "state of %s: %s to %s", object, from, to);
    else
        add_line(t, routed_ms(e), "state of %s: starts as %s", object, to);
    store_transition_done(t->q->store);
}

/* Version 0.2.0 and earlier noted "held back for …". */
static bool was_buffered(const struct event_row *e)
{
    return e->released_ms && !*e->duplicate_of &&
           (strncmp(e->note, "buffered for ", 13) == 0 ||
            (event_reconciled(e) && strstr(e->note, "buffered for ")) ||
            strncmp(e->note, "held back for ", 14) == 0);
}

static void add_number(struct trace *t, const struct event_row *e)
{
    if (e->status == EVENT_ROUTED && e->sequence)
        add_line(t, routed_ms(e),
                 "sequenced: number %llu of workspace %s, type %s",
                 (unsigned long long)e->sequence, e->workspace, e->type);
}

static void add_event_itself(struct trace *t, const struct event_row *e)
{
    int64_t at_ms = routed_ms(e);

    add_duplicate(t, e);
    if (e->status == EVENT_BUFFERED || was_buffered(e))
        add_line(t, e->taken_ms,
                 e->numbered
                     ? "buffered: waits for earlier events of its stream"
                     : "buffered: waits up to `window` in case earlier "
                       "events arrive");
    add_order(t, e);
    add_transition(t, e);
    if (e->status == EVENT_SPLIT)
        add_line(t, e->taken_ms, "a request with %s: each becomes an event",
                 e->reason);
    else if (e->status == EVENT_REFUSED)
        add_line(t, at_ms, "refused: %s", e->reason);
    else if (e->status == EVENT_IGNORED)
        add_line(t, at_ms, "ignored: %s", e->reason);
    else if (e->status == EVENT_ROUTED && !e->sequence)
        add_line(t, at_ms, "made here: %s", e->type);
    else
        add_number(t, e);
}

/* ---- endpoints ---- */

/* Rows do not have the reason of a route. It is judged by the current configuration, and the
 * trace says so if that has changed since. */

enum { WHY_MAX_BYTES = 4096, UNROUTED_SHOWN = 20 };

static const char *as_of(const struct trace *t, const struct event_row *e)
{
    return routed_ms(e) < t->q->config_since_ms
               ? " (by the current configuration, which changed after this "
                 "event)"
               : "";
}

static void add_route(struct trace *t, const struct event_row *e,
                      struct subject *s, const struct endpoint *to,
                      const struct delivery *d)
{
    const char *now = as_of(t, e);
    struct buf why;

    buf_init(&why, WHY_MAX_BYTES);
    if (to->settings &&
        route_is_subscribed(t->q->d.settings, to->settings, s, &why))
        add_line(t, routed_ms(e), "routed to %s: %.*s%s", to->name,
                 (int)why.len, why.data, now);
    else if (d->action_id)
        add_line(t, routed_ms(e), "an operator sent it to %s", to->name);
    else if (to->settings && s->gone)
        add_line(t, routed_ms(e),
                 "routed to %s: the conditions of its subscription were met",
                 to->name);
    else
        add_line(t, routed_ms(e),
                 "routed to %s: by the configuration of that time", to->name);
    buf_fini(&why);
}

static void add_unrouted(struct trace *t, const struct event_row *e,
                         struct subject *s, const struct endpoint_settings *to)
{
    const char *now = as_of(t, e);
    struct buf why;

    buf_init(&why, WHY_MAX_BYTES);
    if (!route_is_subscribed(t->q->d.settings, to, s, &why))
        add_line(t, routed_ms(e), "not sent to %s: %.*s%s", to->name,
                 (int)why.len, why.data ? why.data : "", now);
    else if (settings_producer(t->q->d.settings, e->source))
        add_line(
            t, routed_ms(e),
            "not sent to %s: its producer did not list it in `endpoints`%s",
            to->name,
            *now ? ", or it was subscribed to such events only later" : "");
    else
        add_line(t, routed_ms(e),
                 "not sent to %s: it was subscribed to such events only later",
                 to->name);
    buf_fini(&why);
}

/* What paused, held or disabled the endpoint while the delivery was open, and since when. */
static void add_endpoint_stops(struct trace *t, const struct event_row *e,
                               const struct endpoint *to,
                               const struct delivery *d)
{
    int64_t from_ms = routed_ms(e), to_ms = d->status < DELIVERY_DELIVERED
                                                ? INT64_MAX
                                                : d->at_ms + d->duration_ms;
    char *subject = gr_printf("endpoint %s", to->name);
    char word[WORD_BYTES] = "";

    store_action_before(t->q->search, subject, from_ms, action_word, word);
    if (strcmp(word, "paused") == 0 || strcmp(word, "disable") == 0)
        store_action_before(t->q->search, subject, from_ms, on_action,
                            &(struct prefixed_actions){t, subject});
    if (to_ms >= from_ms)
        add_actions_of(t, subject, subject, from_ms, to_ms);
    free(subject);
}

struct had {
    int64_t *endpoints; /* ids, in the order of names */
    size_t count;
};

static void on_had(void *arg, const struct delivery *d, const char *endpoint)
{
    struct had *h = arg;

    (void)endpoint;
    h->endpoints = gr_realloc(h->endpoints,
                              (h->count + 1) * sizeof *h->endpoints);
    h->endpoints[h->count++] = d->endpoint;
}

static void add_routes(struct trace *t, const struct event_row *e)
{
    const struct settings *s = t->q->d.settings;
    /* The event for route_is_subscribed(). If its body is gone, conditions on it cannot be
     * judged any more. */
    struct subject subject = {
        .source = e->source, .type = e->type, .workspace = e->workspace};
    struct had had = {0};
    size_t unrouted = 0;

    subject.gone = !store_body(t->q->store, e->n, &subject.headers,
                               &subject.body);
    deliveries_of_event(t->q->deliveries, e->n, on_had, &had);
    for (size_t i = 0; i < had.count; i++) {
        struct endpoint *to = endpoint_by_id(t->q, had.endpoints[i]);
        struct delivery d;

        if (to && endpoint_is_configured(to))
            endpoint_wake(t->q, to); /* its settings tell why it was routed */
        if (to && delivery_load(t->q->deliveries, e->n, to->id, &d)) {
            add_route(t, e, &subject, to, &d);
            add_endpoint_stops(t, e, to, &d);
            delivery_fini(&d);
        }
    }
    free(had.endpoints);
    for (size_t i = 0; i < s->endpoint_count; i++) {
        struct endpoint *to = endpoint_find(t->q, s->endpoints[i].name);
        bool has = to && delivery_exists(t->q->deliveries, e->n, to->id);

        if (!has && !s->endpoints[i].internal && unrouted++ < UNROUTED_SHOWN)
            add_unrouted(t, e, &subject, &s->endpoints[i]);
    }
    if (unrouted > UNROUTED_SHOWN)
        add_line(t, routed_ms(e), "and not to %zu other endpoints",
                 unrouted - UNROUTED_SHOWN);
    subject_fini(&subject);
    store_body_done(t->q->store);
}

/* ---- attempts and deliveries ---- */

static void on_attempt(void *arg, int64_t n, int64_t at_ms, int64_t duration_ms,
                       int64_t http_status, const char *error,
                       const char *deliverer)
{
    struct trace *t = arg;

    json_array_append_new(
        t->attempts, json_pack("{s:I,s:o,s:o,s:o,s:I,s:o}", "n", (json_int_t)n,
                               "at", json_time(at_ms), "http_status",
                               json_number_or_null(http_status), "error",
                               json_text_or_null(error), "duration_ms",
                               (json_int_t)duration_ms, "deliverer",
                               json_text_or_null(deliverer)));
    if (*error)
        add_tried(t, at_ms, "attempt %lld at %s by %s: %s", (long long)n,
                  t->endpoint, deliverer, error);
    else
        add_tried(t, at_ms, "attempt %lld at %s by %s: responded %lld",
                  (long long)n, t->endpoint, deliverer, (long long)http_status);
}

static void on_end(void *arg, int64_t at_ms, const char *what)
{
    add_tried(arg, at_ms, "%s", what);
}

static void on_delivery(void *arg, const struct delivery *d,
                        const char *endpoint)
{
    struct trace *t = arg;
    int64_t left_out = 0;

    t->count++;
    if (!tenant_has_endpoint(t->q, t->tenant, d->endpoint))
        return;
    t->endpoint = endpoint;
    t->attempts = json_array();
    if (t->newest)
        left_out = store_attempts_count(t->q->store, d->event, d->endpoint) -
                   t->newest;
    if (left_out < 0)
        left_out = 0;
    store_attempts(t->q->store, d->event, d->endpoint, left_out, on_attempt, t);
    if (d->status == DELIVERY_DELIVERED)
        on_attempt(t, d->attempts, d->at_ms, d->duration_ms, d->http_status, "",
                   d->deliverer);
    each_end(t->q, t->event_id, d, endpoint, on_end, t);
    json_array_append_new(
        t->deliveries,
        json_pack(
            "{s:s,s:s,s:o,s:o,s:o,s:I,s:o,s:s,s:o}", "endpoint", endpoint,
            "status", delivery_status_name(d->status), "reason",
            json_text_or_null(delivery_has_failed(d->status) ? d->reason : ""),
            "previous", json_number_or_null((int64_t)d->previous), "attempts",
            t->attempts, "attempts_left_out", (json_int_t)left_out,
            "next_attempt_at",
            json_time(d->status < DELIVERY_DELIVERED ? d->next_ms : 0),
            "priority", priority_name(choice_priority(d->retry_choice)),
            "retry",
            choice_json(t->q, endpoint_by_id(t->q, d->endpoint),
                        d->retry_choice)));
}

/* ---- requests of several events ---- */

struct trace_parts {
    json_t *list;
    bool ended; /* all of them */
};

static void on_part(void *arg, const struct event_row *e, enum event_end end)
{
    struct trace_parts *p = arg;

    p->ended &= end != END_OPEN && e->status != EVENT_BUFFERED;
    json_array_append_new(
        p->list, json_pack("{s:s,s:o,s:o,s:o,s:s}", "id", e->id, "provider_id",
                           json_text_or_null(e->provider_id), "type",
                           json_text_of(e->type), "workspace",
                           json_text_of(e->workspace), "status",
                           event_status_name(e, end)));
}

/* The id of its request, if that carried several events. */
static json_t *request_of(struct sequencer *q, int64_t event)
{
    int64_t n = store_part_of(q->store, event);
    struct event_row e = {0};
    json_t *id = n && store_event(q->store, n, &e) ? json_string(e.id)
                                                   : json_null();

    event_fini(&e);
    return id;
}

/* ---- one event ---- */

static json_t *trace_row(struct sequencer *q, const struct event_row *e,
                         const char *tenant, int64_t newest)
{
    struct trace t = {.q = q,
                      .event_id = gr_strdup(e->id),
                      .tenant = tenant,
                      .newest = newest,
                      .timeline = json_array(),
                      .deliveries = json_array(),
                      .tried = json_array()};
    struct trace_parts parts = {.list = json_array(), .ended = true};
    char trace_id[TRACE_ID_CHARS + 1];
    json_t *out;

    if (e->status == EVENT_SPLIT)
        store_parts(q->store, e->n, on_part, &parts);
    out = tenant ? event_json_of_tenant(e, store_event_end(q->store, e->n))
                 : event_json(e, parts.ended ? store_event_end(q->store, e->n)
                                             : END_OPEN);
    if (tenant)
        add_number(&t, e);
    else
        add_event_itself(&t, e);
    deliveries_of_event(q->deliveries, e->n, on_delivery, &t);
    if (tenant)
        ; /* how it was routed names endpoints of others */
    else if (e->status == EVENT_ROUTED && !t.count)
        add_line(&t, routed_ms(e),
                 "no endpoint is subscribed to it: done%s%s%s",
                 *e->reason ? " (" : "", e->reason, *e->reason ? ")" : "");
    else if (e->status == EVENT_ROUTED)
        add_routes(&t, e);
    json_array_extend(t.timeline,
                      t.tried); /* in one millisecond, they come last */
    json_decref(t.tried);
    free(t.event_id);
    json_object_set_new(out, "clock", json_text_or_null(e->clock));
    json_object_set_new(out, "ordering_key",
                        json_text_or_null(e->ordering_key));
    trace_id_of(trace_id, wire_text(e->traceparent), wire_text(e->id));
    json_object_set_new(out, "trace_id", json_string(trace_id));
    json_object_set_new(out, "traceparent", json_text_or_null(e->traceparent));
    json_object_set_new(out, "deliveries", t.deliveries);
    json_object_set_new(out, "timeline", t.timeline);
    json_object_set_new(out, "events", parts.list);
    json_object_set_new(out, "request", request_of(q, e->n));
    return out;
}

/* ---- which event ---- */

struct matches {
    struct sequencer *q;
    json_t *list;
    int64_t n;
};

static void on_match(void *arg, const struct event_row *e)
{
    struct matches *m = arg;

    m->n = e->n;
    json_array_append_new(
        m->list,
        json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:s,s:o}", "id", e->id,
                  "provider_id", json_text_or_null(e->provider_id),
                  "delivery_id", json_text_or_null(e->delivery_id),
                  "received_at", json_time(e->received_ms), "type",
                  json_text_of(e->type), "workspace",
                  json_text_of(e->workspace), "status",
                  event_status_name(e, store_event_end(m->q->store, e->n)),
                  "duplicate_of", json_text_or_null(e->duplicate_of)));
}

struct begun_so {
    struct buf names;
    int count;
};

static void add_begun(void *arg, const char *id)
{
    struct begun_so *b = arg;

    if (++b->count <= BEGUN_SHOWN)
        buf_printf(&b->names, "%s%s", b->count > 1 ? ", " : "", id);
}

/* The id may have been copied only in part. */
static void explain_unknown(struct sequencer *q, const char *id, char why[200])
{
    struct begun_so b = {.count = 0};

    buf_init(&b.names, NAMES_MAX_BYTES);
    if (strncmp(id, "evt_", 4) == 0 && id[4])
        store_by_prefix(q->search, id, BEGUN_SHOWN + 1, add_begun, &b);
    if (b.count == 1)
        control_fail(why, CONTROL_NOT_FOUND,
                     "no event has the id %.60s (did you mean %s?)", id,
                     b.names.data);
    else if (b.count)
        control_fail(why, CONTROL_NOT_FOUND,
                     "no event has the id %.30s (it begins that of %s%s)", id,
                     b.names.data, b.count > BEGUN_SHOWN ? " and more" : "");
    else
        control_fail(why, CONTROL_NOT_FOUND, "no event has the id %.100s", id);
    buf_fini(&b.names);
}

json_t *event_trace(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    const char *tenant = tenant_of(args);
    int64_t newest = json_integer_value(json_object_get(args, "newest"));
    struct matches m = {.q = q, .list = json_array()};
    struct event_row e = {0};
    json_t *out = NULL;

    if (store_event_by_id(q->store, wire_text(id), &e) &&
        tenant_has_event(q, tenant, &e)) {
        out = trace_row(q, &e, tenant, newest);
    } else if (tenant) {
        control_fail(why, CONTROL_NOT_FOUND, "no event has this id");
    } else {
        bool unread = !events_of_provider_id(q, id, on_match, &m, why);

        if (json_array_size(m.list) == 1 && store_event(q->store, m.n, &e))
            out = trace_row(q, &e, NULL, newest);
        else if (json_array_size(m.list) > 1)
            out = json_pack("{s:O}", "matches", m.list);
        else if (!unread || ulid_is_of_event(id))
            explain_unknown(q, id, why);
    }
    event_fini(&e);
    json_decref(m.list);
    return out;
}
