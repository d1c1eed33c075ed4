/* trace: what this process knows of one event: what it is, who has it and who
 * has not and why, each attempt, what held it up. Whatever the rows don't say is
 * judged by the configuration of today, and said to be. */
#include "trace.h"
#include "json_text.h"
#include "route.h"
#include "store_order.h"
#include "store_search.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHY_MAX_BYTES = 4096,
    UNROUTED_SHOWN = 20,
    BEGUN_SHOWN = 3,
};

const char *event_status_name(const struct event_row *e, enum event_end end)
{
    switch (e->status) {
    case EVENT_DUPLICATE:
        return "duplicate";
    case EVENT_REFUSED:
        return "refused";
    case EVENT_BUFFERED:
        return "buffered";
    case EVENT_IGNORED:
        return "ignored";
    default:
        return end == END_OPEN      ? "routed"
               : end == END_EXPIRED ? "expired"
                                    : "done";
    }
}

static void say_at(json_t *timeline, const struct sequencer *q, int64_t at_ms,
                   const char *fmt, ...) GR_PRINTF(4, 5);

static void say_at(json_t *timeline, const struct sequencer *q, int64_t at_ms,
                   const char *fmt, ...)
{
    va_list ap;
    char *what = NULL;

    va_start(ap, fmt);
    if (vasprintf(&what, fmt, ap) < 0)
        what = NULL;
    va_end(ap);
    if (what)
        json_array_append_new(timeline,
                              json_pack("{s:o,s:s,s:o}", "at", json_time(at_ms),
                                        "process", q->d.name, "what",
                                        json_text_of(what)));
    free(what);
}

/* ---- trace ---- */

struct telling {
    struct sequencer *q;
    json_t *deliveries, *timeline;
    json_t *tried; /* the timeline of what was tried */
    int count;
    /* of the delivery being told */
    json_t *attempts;
    const char *endpoint;
};

static json_t *attempt_json(int64_t n, int64_t at_ms, int64_t duration_ms,
                            int64_t http_status, const char *error,
                            const char *deliverer)
{
    return json_pack(
        "{s:I,s:o,s:o,s:o,s:I,s:o}", "n", (json_int_t)n, "at", json_time(at_ms),
        "http_status", json_number_or_null(http_status), "error",
        json_text_or_null(error), "duration_ms", (json_int_t)duration_ms,
        "deliverer", json_text_or_null(deliverer));
}

static void on_attempt(void *arg, int64_t n, int64_t at_ms, int64_t duration_ms,
                       int64_t http_status, const char *error,
                       const char *deliverer)
{
    struct telling *t = arg;

    json_array_append_new(
        t->attempts,
        attempt_json(n, at_ms, duration_ms, http_status, error, deliverer));
    if (*error)
        say_at(t->tried, t->q, at_ms, "attempt %lld at %s by %s: %s",
               (long long)n, t->endpoint, deliverer, error);
    else
        say_at(t->tried, t->q, at_ms, "attempt %lld at %s by %s: answered %lld",
               (long long)n, t->endpoint, deliverer, (long long)http_status);
}

static void on_delivery(void *arg, const struct delivery_row *d,
                        const char *endpoint)
{
    struct telling *t = arg;

    t->endpoint = endpoint;
    t->attempts = json_array();
    store_attempts(t->q->store, d->event, d->endpoint, on_attempt, t);
    if (d->status == DELIVERY_DELIVERED)
        on_attempt(t, d->attempts, d->at_ms, d->duration_ms, d->http_status, "",
                   d->deliverer);
    if (d->status == DELIVERY_DELIVERED)
        say_at(t->tried, t->q, d->at_ms + d->duration_ms,
               "delivered to %s after %lld attempt(s)", endpoint,
               (long long)d->attempts);
    if (d->status == DELIVERY_DEAD && d->at_ms) /* else its letter tells */
        say_at(t->tried, t->q, d->at_ms + d->duration_ms, "dead at %s: %s",
               endpoint, d->reason);
    json_array_append_new(
        t->deliveries,
        json_pack(
            "{s:s,s:s,s:o,s:o,s:o}", "endpoint", endpoint, "status",
            delivery_status_name(d->status), "reason",
            json_text_or_null(d->status == DELIVERY_DEAD ? d->reason : ""),
            "attempts", t->attempts, "next_attempt_at",
            json_time(d->status < DELIVERY_DELIVERED ? d->next_ms : 0)));
    t->count++;
}

/* ---- what it is ---- */

/* "let through by alice", of one subject within a time. */
struct acts {
    struct telling *t;
    const char *subject; /* as it is told; "" when that is plain */
};

static void on_act(void *arg, int64_t at_ms, const char *what)
{
    struct acts *a = arg;

    say_at(a->t->timeline, a->t->q, at_ms, "%s%s%s", a->subject,
           *a->subject ? ": " : "", what);
}

/* Its first word, as far as it fits. */
static void act_kind(void *arg, int64_t at_ms, const char *what)
{
    (void)at_ms;
    snprintf(arg, 8, "%.*s", (int)strcspn(what, " :"), what);
}

static void tell_acts(struct telling *t, const char *kind, const char *name,
                      const char *told, int64_t from_ms, int64_t to_ms)
{
    struct acts acts = {t, told};
    char *subject = gr_printf("%s %s", kind, name);

    store_acts(t->q->search, subject, from_ms, to_ms, on_act, &acts);
    free(subject);
}

static void tell_gap(struct telling *t, const struct gap_row *g)
{
    static const char *const ends[] = {[GAP_OPEN] = "is waited for",
                                       [GAP_FILLED] = "came after all",
                                       [GAP_SKIPPED] = "given up",
                                       [GAP_CLOSED] = "closed by a person"};
    char name[32],
        *told = gr_printf("gap_%" PRId64 " (%" PRId64 "-%" PRId64 " missing)",
                          g->id, g->span.first, g->span.last);

    snprintf(name, sizeof name, "%" PRId64, g->id);
    say_at(t->timeline, t->q, g->opened_ms, "%s: noticed", told);
    if (g->status == GAP_CLOSED)
        tell_acts(t, "gap", name, told, 0, INT64_MAX);
    else if (g->status != GAP_OPEN)
        say_at(t->timeline, t->q, g->closed_ms, "%s: %s%s%s", told,
               ends[g->status], *g->note ? ": " : "", g->note);
    free(told);
}

/* The gap in front of it, when that held it back or was passed by it. */
static void tell_gap_before(struct telling *t, const struct event_row *e)
{
    struct gap_row g;

    if (e->numbered && (*e->gap || e->status == EVENT_BUFFERED) &&
        store_gap_before(t->q->order, e->source, e->workspace, e->type,
                         e->source_sequence, &g))
        tell_gap(t, &g);
    store_gap_before_done(t->q->order);
}

/* When it went: then it got its number and was routed. */
static int64_t gone_ms(const struct event_row *e)
{
    return e->let_go_ms ? e->let_go_ms : e->taken_ms;
}

static void tell_order(struct telling *t, const struct event_row *e)
{
    if (e->late)
        say_at(t->timeline, t->q, gone_ms(e),
               "late: later ones of its stream had gone");
    else if (*e->note)
        say_at(t->timeline, t->q, gone_ms(e), "%s", e->note);
    if (*e->gap)
        say_at(t->timeline, t->q, gone_ms(e), "let go past what is missing: %s",
               e->gap);
    tell_gap_before(t, e);
}

/* What was found when it came: a repeat, perhaps let through later. */
static void tell_repeat(struct telling *t, const struct event_row *e)
{
    if (e->status == EVENT_DUPLICATE || *e->duplicate_of)
        say_at(t->timeline, t->q, e->taken_ms,
               "a repeat of %s: kept, not delivered",
               *e->duplicate_of ? e->duplicate_of : "one no longer kept");
    tell_acts(t, "event", e->id, "", 0, INT64_MAX);
}

static void tell_event(struct telling *t, const struct event_row *e)
{
    int64_t at_ms = gone_ms(e);

    tell_repeat(t, e);
    if (e->status == EVENT_BUFFERED ||
        (e->let_go_ms && !*e->duplicate_of && strstr(e->note, "held back")))
        say_at(t->timeline, t->q, e->taken_ms,
               "held back: earlier ones of its stream have not come");
    tell_order(t, e);
    if (e->status == EVENT_SPLIT)
        say_at(t->timeline, t->q, e->taken_ms,
               "a request of %s: each is an event of its own", e->reason);
    else if (e->status == EVENT_REFUSED)
        say_at(t->timeline, t->q, at_ms, "refused: %s", e->reason);
    else if (e->status == EVENT_IGNORED)
        say_at(t->timeline, t->q, at_ms, "ignored: %s", e->reason);
    else if (e->status == EVENT_ROUTED && !e->sequence)
        say_at(t->timeline, t->q, at_ms, "made here: %s", e->type);
    else if (e->status == EVENT_ROUTED)
        say_at(t->timeline, t->q, at_ms,
               "sequenced: number %llu of workspace %s, type %s",
               (unsigned long long)e->sequence, e->workspace, e->type);
}

/* ---- requests of several events ---- */

struct parts {
    json_t *list;
    bool ended; /* all of them */
};

static void on_part(void *arg, const struct event_row *e, enum event_end end)
{
    struct parts *p = arg;

    p->ended &= end != END_OPEN && e->status != EVENT_BUFFERED;
    json_array_append_new(
        p->list, json_pack("{s:s,s:o,s:o,s:o,s:s}", "id", e->id, "provider_id",
                           json_text_or_null(e->provider_id), "type",
                           json_text_of(e->type), "workspace",
                           json_text_of(e->workspace), "status",
                           event_status_name(e, end)));
}

static struct parts parts_of(struct sequencer *q, const struct event_row *e)
{
    struct parts p = {.list = json_array(), .ended = true};

    if (e->status == EVENT_SPLIT)
        store_parts(q->store, e->n, on_part, &p);
    return p;
}

/* The id of the request that it came in, if there were several in that. */
static json_t *request_of(struct sequencer *q, int64_t event)
{
    int64_t n = store_part_of(q->store, event);
    struct event_row e;

    return n && store_event(q->store, n, &e) ? json_string(e.id) : json_null();
}

json_t *event_json(const struct event_row *e, enum event_end end)
{
    return json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:b,s:o}", "id", e->id,
        "source", json_text_of(e->source), "provider_id",
        json_text_or_null(e->provider_id), "type", json_text_of(e->type),
        "workspace", json_text_of(e->workspace), "sequence",
        json_number_or_null((int64_t)e->sequence), "source_sequence",
        e->numbered ? json_integer(e->source_sequence) : json_null(),
        "received_at", json_time(e->received_ms), "status",
        event_status_name(e, end), "reason", json_text_or_null(e->reason),
        "duplicate_of", json_text_or_null(e->duplicate_of), "late",
        (int)e->late, "gap", json_text_or_null(e->gap));
}

/* ---- to whom, and to whom not ---- */

/* The event for route_wants(). Its body may be gone: then what looks into it can't
 * be judged any more. */
static void subject_of(struct telling *t, const struct event_row *e,
                       struct subject *s)
{
    *s = (struct subject){
        .source = e->source, .type = e->type, .workspace = e->workspace};
    s->gone = !store_body(t->q->store, e->n, &s->headers, &s->body);
}

static void subject_done(struct telling *t, struct subject *s)
{
    subject_fini(s);
    store_body_done(t->q->store);
}

/* Rows don't say why; if the configuration is not that of then, it is said. */
static const char *as_of(const struct telling *t, const struct event_row *e)
{
    return gone_ms(e) < t->q->config_since_ms
               ? " (by today's configuration, which is not that of then)"
               : "";
}

static void tell_given(struct telling *t, const struct event_row *e,
                       struct subject *s, const struct endpoint *to,
                       const struct delivery_row *d)
{
    const char *now = as_of(t, e);
    struct buf why;

    buf_init(&why, WHY_MAX_BYTES);
    if (to->settings && route_wants(t->q->d.settings, to->settings, s, &why))
        say_at(t->timeline, t->q, gone_ms(e), "routed to %s: %.*s%s", to->name,
               (int)why.len, why.data, now);
    else if (d->act)
        say_at(t->timeline, t->q, gone_ms(e), "%s has it by an operator's word",
               to->name);
    else if (to->settings && s->gone)
        say_at(t->timeline, t->q, gone_ms(e),
               "routed to %s: by what its subscription found in the body",
               to->name);
    else
        say_at(t->timeline, t->q, gone_ms(e),
               "routed to %s: by the configuration of then", to->name);
    buf_fini(&why);
}

static void tell_unrouted(struct telling *t, const struct event_row *e,
                          struct subject *s, const struct endpoint_settings *to)
{
    const char *now = as_of(t, e);
    struct buf why;

    buf_init(&why, WHY_MAX_BYTES);
    if (!route_wants(t->q->d.settings, to, s, &why))
        say_at(t->timeline, t->q, gone_ms(e), "not to %s: %.*s%s", to->name,
               (int)why.len, why.data ? why.data : "", now);
    else if (settings_producer(t->q->d.settings, e->source))
        say_at(t->timeline, t->q, gone_ms(e),
               "not to %s: its producer did not name it%s", to->name,
               *now ? ", or it wants such events only since" : "");
    else
        say_at(t->timeline, t->q, gone_ms(e),
               "not to %s: it wants such events only since", to->name);
    buf_fini(&why);
}

/* What paused or disabled its endpoint while it was on its way, and since when. */
static void tell_held_up(struct telling *t, const struct event_row *e,
                         const struct endpoint *to,
                         const struct delivery_row *d)
{
    int64_t from_ms = gone_ms(e), to_ms = d->status < DELIVERY_DELIVERED
                                              ? INT64_MAX
                                              : d->at_ms + d->duration_ms;
    char *told = gr_printf("endpoint %s", to->name);
    struct acts acts = {t, told};
    char before[8] = "";

    store_act_before(t->q->search, told, from_ms, act_kind, before);
    if (strcmp(before, "paused") == 0 || strcmp(before, "disable") == 0)
        store_act_before(t->q->search, told, from_ms, on_act, &acts);
    if (to_ms >= from_ms)
        store_acts(t->q->search, told, from_ms, to_ms, on_act, &acts);
    free(told);
}

static void tell_routed(struct telling *t, const struct event_row *e)
{
    const struct settings *s = t->q->d.settings;
    struct subject subject;
    size_t unrouted = 0;

    subject_of(t, e, &subject);
    for (size_t i = 0; i < t->q->endpoint_count; i++) {
        const struct endpoint *to = &t->q->endpoints[i];
        struct delivery_row d;

        if (store_delivery(t->q->store, e->n, to->id, &d)) {
            tell_given(t, e, &subject, to, &d);
            tell_held_up(t, e, to, &d);
        }
        store_delivery_done(t->q->store);
    }
    for (size_t i = 0; i < s->endpoint_count; i++) {
        struct endpoint *to = endpoint_find(t->q, s->endpoints[i].name);
        struct delivery_row d;
        bool has = to && store_delivery(t->q->store, e->n, to->id, &d);

        store_delivery_done(t->q->store);
        if (!has && !s->endpoints[i].internal && unrouted++ < UNROUTED_SHOWN)
            tell_unrouted(t, e, &subject, &s->endpoints[i]);
    }
    if (unrouted > UNROUTED_SHOWN)
        say_at(t->timeline, t->q, gone_ms(e), "nor to %zu other endpoints",
               unrouted - UNROUTED_SHOWN);
    subject_done(t, &subject);
}

static json_t *trace_row(struct sequencer *q, const struct event_row *e)
{
    struct telling t = {
        .q = q, .deliveries = json_array(), .timeline = json_array()};
    json_t *tried = json_array();
    struct parts parts = parts_of(q, e);
    json_t *out = event_json(e, parts.ended ? store_event_end(q->store, e->n)
                                            : END_OPEN);
    int64_t n = e->n;

    tell_event(&t, e);
    t.tried = tried;
    store_event_deliveries(q->store, e->n, on_delivery, &t);
    if (e->status == EVENT_ROUTED && !t.count)
        say_at(t.timeline, q, gone_ms(e), "no endpoint wants it: done%s%s%s",
               *e->reason ? " (" : "", e->reason, *e->reason ? ")" : "");
    else if (e->status == EVENT_ROUTED)
        tell_routed(&t, e);
    json_array_extend(t.timeline, tried); /* of one millisecond, later */
    json_decref(tried);
    json_object_set_new(out, "clock", json_text_or_null(e->clock));
    json_object_set_new(out, "deliveries", t.deliveries);
    json_object_set_new(out, "timeline", t.timeline);
    json_object_set_new(out, "events", parts.list);
    json_object_set_new(out, "request", request_of(q, n)); /* `e` ends here */
    return out;
}

struct matches {
    json_t *list;
    int64_t n;
};

static void on_match(void *arg, const struct event_row *e)
{
    struct matches *m = arg;

    m->n = e->n;
    json_array_append_new(m->list,
                          json_pack("{s:s,s:o,s:o,s:o}", "id", e->id,
                                    "received_at", json_time(e->received_ms),
                                    "type", json_text_of(e->type), "workspace",
                                    json_text_of(e->workspace)));
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

/* An id that was not copied whole. */
static void say_unknown(struct sequencer *q, const char *id, char why[200])
{
    struct begun_so b = {.count = 0};

    buf_init(&b.names, WHY_MAX_BYTES);
    if (strncmp(id, "evt_", 4) == 0 && id[4])
        store_by_prefix(q->search, id, BEGUN_SHOWN + 1, add_begun, &b);
    if (b.count == 1)
        snprintf(why, 200, "no event has the id %.60s (did you mean %s?)", id,
                 b.names.data);
    else if (b.count)
        snprintf(why, 200, "no event has the id %.30s (it begins that of %s%s)",
                 id, b.names.data, b.count > BEGUN_SHOWN ? " and more" : "");
    else
        snprintf(why, 200, "no event has the id %.100s", id);
    buf_fini(&b.names);
}

json_t *trace_event(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    struct matches m = {.list = json_array()};
    struct event_row e;
    json_t *out = NULL;

    if (!id || !*id) {
        snprintf(why, 200, "args.id: the id of an event is needed");
    } else if (store_event_by_id(q->store, wire_text(id), &e)) {
        out = trace_row(q, &e);
    } else {
        store_by_provider_id(q->search, id, on_match, &m);
        if (json_array_size(m.list) == 1 && store_event(q->store, m.n, &e))
            out = trace_row(q, &e);
        else if (json_array_size(m.list) > 1)
            out = json_pack("{s:O}", "matches", m.list);
        else
            say_unknown(q, id, why);
    }
    store_done(q->store);
    json_decref(m.list);
    return out;
}
