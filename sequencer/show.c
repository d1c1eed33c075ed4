/* show: what this process answers on its control socket. */
#include "show.h"
#include "json_text.h"
#include "log.h"
#include "replay.h"
#include "route.h"
#include "store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIMIT_MOST = 10000,
    LIMIT_USUAL = 100,
    WHY_MAX_BYTES = 4096,
    UNROUTED_SHOWN = 20,
};

static const char *event_status_name(const struct event_row *e,
                                     enum event_end end)
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

static json_t *text_or_null(const char *s)
{
    return s && *s ? json_text_of(s) : json_null();
}

static json_t *number_or_null(int64_t v)
{
    return v ? json_integer(v) : json_null();
}

/* ---- trace ---- */

struct telling {
    struct sequencer *q;
    json_t *deliveries, *timeline;
    int count;
    /* of the delivery being told */
    json_t *attempts;
    const char *endpoint;
    int64_t delivered_n;
};

static json_t *attempt_json(int64_t n, int64_t at_ms, int64_t duration_ms,
                            int64_t http_status, const char *error,
                            const char *deliverer)
{
    return json_pack("{s:I,s:o,s:o,s:o,s:I,s:o}", "n", (json_int_t)n, "at",
                     json_time(at_ms), "http_status",
                     number_or_null(http_status), "error", text_or_null(error),
                     "duration_ms", (json_int_t)duration_ms, "deliverer",
                     text_or_null(deliverer));
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
        say_at(t->timeline, t->q, at_ms, "attempt %lld at %s by %s: %s",
               (long long)n, t->endpoint, deliverer, error);
    else
        say_at(t->timeline, t->q, at_ms,
               "attempt %lld at %s by %s: answered %lld", (long long)n,
               t->endpoint, deliverer, (long long)http_status);
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
        say_at(t->timeline, t->q, d->at_ms + d->duration_ms,
               "delivered to %s after %lld attempt(s)", endpoint,
               (long long)d->attempts);
    if (d->status == DELIVERY_DEAD)
        say_at(t->timeline, t->q, d->at_ms + d->duration_ms, "dead at %s: %s",
               endpoint, d->reason);
    json_array_append_new(
        t->deliveries,
        json_pack("{s:s,s:s,s:o,s:o,s:o}", "endpoint", endpoint, "status",
                  delivery_status_name(d->status), "reason",
                  text_or_null(d->status == DELIVERY_DEAD ? d->reason : ""),
                  "attempts", t->attempts, "next_attempt_at",
                  json_time(d->status < DELIVERY_DELIVERED ? d->next_ms : 0)));
    t->count++;
}

static void tell_order(struct telling *t, const struct event_row *e)
{
    if (e->late)
        say_at(t->timeline, t->q, e->taken_ms,
               "late: later ones of its stream had gone");
    else if (*e->note)
        say_at(t->timeline, t->q, e->taken_ms, "%s", e->note);
    if (*e->gap)
        say_at(t->timeline, t->q, e->taken_ms,
               "let go past what is missing: %s", e->gap);
    if (e->status != EVENT_DUPLICATE && *e->duplicate_of)
        say_at(t->timeline, t->q, e->taken_ms,
               "a repeat of %s, let through by a person", e->duplicate_of);
}

static void tell_event(struct telling *t, const struct event_row *e)
{
    tell_order(t, e);
    if (e->status == EVENT_DUPLICATE)
        say_at(t->timeline, t->q, e->taken_ms,
               "a repeat of %s: kept, not delivered",
               *e->duplicate_of ? e->duplicate_of : "one no longer kept");
    else if (e->status == EVENT_SPLIT)
        say_at(t->timeline, t->q, e->taken_ms,
               "a request of %s: each is an event of its own", e->reason);
    else if (e->status == EVENT_REFUSED)
        say_at(t->timeline, t->q, e->taken_ms, "refused: %s", e->reason);
    else if (e->status == EVENT_IGNORED)
        say_at(t->timeline, t->q, e->taken_ms, "ignored: %s", e->reason);
    else if (e->status == EVENT_BUFFERED)
        say_at(t->timeline, t->q, e->taken_ms,
               "held back: earlier ones of its stream have not come");
    else if (!e->sequence)
        say_at(t->timeline, t->q, e->taken_ms, "made here: %s", e->type);
    else
        say_at(t->timeline, t->q, e->taken_ms,
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
    json_array_append_new(p->list,
                          json_pack("{s:s,s:o,s:o,s:o,s:s}", "id", e->id,
                                    "provider_id", text_or_null(e->provider_id),
                                    "type", json_text_of(e->type), "workspace",
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

static json_t *event_json(const struct event_row *e, enum event_end end)
{
    return json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:b,s:o}", "id", e->id,
        "source", json_text_of(e->source), "provider_id",
        text_or_null(e->provider_id), "type", json_text_of(e->type),
        "workspace", json_text_of(e->workspace), "sequence",
        number_or_null((int64_t)e->sequence), "source_sequence",
        e->numbered ? json_integer(e->source_sequence) : json_null(),
        "received_at", json_time(e->received_ms), "status",
        event_status_name(e, end), "reason", text_or_null(e->reason),
        "duplicate_of", text_or_null(e->duplicate_of), "late", (int)e->late,
        "gap", text_or_null(e->gap));
}

/* Who does not have it, and why, by today's configuration. What its conditions
 * looked at may be gone with the body; then they are all that is left. */
static void tell_unrouted(struct telling *t, const struct event_row *e,
                          const struct endpoint_settings *s)
{
    struct subject subject = {
        .source = e->source, .type = e->type, .workspace = e->workspace};
    bool body = store_body(t->q->store, e->n, &subject.headers, &subject.body);
    struct buf why;

    buf_init(&why, WHY_MAX_BYTES);
    if (route_wants(t->q->d.settings, s, &subject, &why))
        say_at(t->timeline, t->q, e->taken_ms,
               "not to %s: it wants such events only since", s->name);
    else if (!body && (s->where.count || t->q->d.settings->route_count))
        say_at(t->timeline, t->q, e->taken_ms,
               "not to %s: its subscriptions do not take it", s->name);
    else
        say_at(t->timeline, t->q, e->taken_ms, "not to %s: %.*s", s->name,
               (int)why.len, why.data ? why.data : "");
    buf_fini(&why);
    subject_fini(&subject);
    store_body_done(t->q->store);
}

static void tell_routed(struct telling *t, const struct event_row *e)
{
    const struct settings *s = t->q->d.settings;

    say_at(t->timeline, t->q, e->taken_ms, "routed to %d endpoint(s)",
           t->count);
    for (size_t i = 0; i < s->endpoint_count && i < UNROUTED_SHOWN; i++) {
        struct endpoint *to = endpoint_find(t->q, s->endpoints[i].name);
        struct delivery_row d;
        bool has = to && store_delivery(t->q->store, e->n, to->id, &d);

        store_delivery_done(t->q->store);
        if (!has)
            tell_unrouted(t, e, &s->endpoints[i]);
    }
}

static json_t *trace_event(struct sequencer *q, const struct event_row *e)
{
    struct telling t = {
        .q = q, .deliveries = json_array(), .timeline = json_array()};
    struct parts parts = parts_of(q, e);
    json_t *out = event_json(e, parts.ended ? store_event_end(q->store, e->n)
                                            : END_OPEN);
    int64_t n = e->n;

    tell_event(&t, e);
    store_event_deliveries(q->store, e->n, on_delivery, &t);
    if (e->status == EVENT_ROUTED && !t.count)
        say_at(t.timeline, q, e->taken_ms, "no endpoint wants it: done%s%s%s",
               *e->reason ? " (" : "", e->reason, *e->reason ? ")" : "");
    else if (e->status == EVENT_ROUTED)
        tell_routed(&t, e);
    json_object_set_new(out, "clock", text_or_null(e->clock));
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

static void on_match(void *arg, const struct event_row *e, enum event_end end)
{
    struct matches *m = arg;

    (void)end;
    m->n = e->n;
    json_array_append_new(m->list,
                          json_pack("{s:s,s:o,s:o,s:o}", "id", e->id,
                                    "received_at", json_time(e->received_ms),
                                    "type", json_text_of(e->type), "workspace",
                                    json_text_of(e->workspace)));
}

static json_t *on_trace(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    struct matches m = {.list = json_array()};
    struct event_row e;
    json_t *out = NULL;

    if (!id || !*id) {
        snprintf(why, 200, "args.id: the id of an event is needed");
    } else if (store_event_by_id(q->store, wire_text(id), &e)) {
        out = trace_event(q, &e);
    } else {
        store_by_provider_id(q->store, id, on_match, &m);
        if (json_array_size(m.list) == 1 && store_event(q->store, m.n, &e))
            out = trace_event(q, &e);
        else if (json_array_size(m.list) > 1)
            out = json_pack("{s:O}", "matches", m.list);
        else
            snprintf(why, 200, "no event has the id %.100s", id);
    }
    store_done(q->store);
    json_decref(m.list);
    return out;
}

/* ---- events ---- */

enum { NO_STATUS = -4 };

static int status_of(const char *name)
{
    if (!name)
        return -1;
    if (strcmp(name, "done") == 0)
        return -2;
    if (strcmp(name, "expired") == 0)
        return -3;
    if (strcmp(name, "routed") == 0)
        return EVENT_ROUTED;
    if (strcmp(name, "duplicate") == 0)
        return EVENT_DUPLICATE;
    if (strcmp(name, "refused") == 0)
        return EVENT_REFUSED;
    if (strcmp(name, "buffered") == 0)
        return EVENT_BUFFERED;
    if (strcmp(name, "ignored") == 0)
        return EVENT_IGNORED;
    return NO_STATUS;
}

static void on_event(void *arg, const struct event_row *e, enum event_end end)
{
    json_array_append_new(arg, event_json(e, end));
}

static json_t *on_events(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    const char *status = json_string_value(json_object_get(args, "status"));
    struct event_filter f = {
        .source = json_string_value(json_object_get(args, "source")),
        .type = json_string_value(json_object_get(args, "type")),
        .workspace = json_string_value(json_object_get(args, "workspace")),
        .status = status_of(status),
        .since_ms = json_integer_value(json_object_get(args, "since_ms")),
        .until_ms = json_integer_value(json_object_get(args, "until_ms")),
        .limit = limit < 1            ? LIMIT_USUAL
                 : limit > LIMIT_MOST ? LIMIT_MOST
                                      : (int)limit,
    };
    const char *name = json_string_value(json_object_get(args, "endpoint"));
    struct endpoint *endpoint = name ? endpoint_find(q, name) : NULL;
    json_t *out;

    f.endpoint = endpoint ? endpoint->id : name ? -1 : 0;
    if (f.status == NO_STATUS) {
        snprintf(why, 200,
                 "status: it is buffered, routed, done, duplicate, ignored, "
                 "refused or expired, not \"%.40s\"",
                 status);
        return NULL;
    }
    out = json_array();
    store_search(q->store, &f, on_event, out);
    return out;
}

const struct control_command sequencer_commands[] = {
    {"trace", "id", "one event: what it is and how its deliveries stand",
     on_trace},
    {"events", "source type workspace endpoint status since_ms until_ms limit",
     "search, newest first", on_events},
    {"deliveries",
     "workspace source type endpoint status since_ms until_ms limit before",
     "newest first: {\"deliveries\":[…],\"next\":…}; go on with \"before\": "
     "next until that is null",
     deliveries_search},
    {"endpoints", "name",
     "state, home, what is out, waits and is parked; all without a name",
     endpoints_show},
    {"endpoint_pause", "name", "try nothing until it is resumed",
     endpoints_pause},
    {"endpoint_resume", "name", "of one that is paused or disabled",
     endpoints_resume},
    {"facts", "ids", "status, workspace and parts of each of these events",
     replay_facts},
    {"release", "event", "let a suppressed repeat through", show_release},
    {"gaps", "open source workspace since_ms until_ms limit",
     "numbers that are or were missing, newest first", show_gaps},
    {"close_gap", "id note", "wait no longer for what is missing",
     show_close_gap},
    {"workspaces", "workspace limit", "numbers, open gaps, what is held back",
     show_workspaces},
    {0},
};
