/* trace: what this process knows of one event: what it is, who has it and who
 * has not and why, each attempt, what held it up. */
#include "trace.h"
#include "event_json.h"
#include "json_text.h"
#include "store_search.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void trace_say(struct trace *t, int64_t at_ms, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(t->timeline, t->q, at_ms, fmt, ap);
    va_end(ap);
}

GR_PRINTF(3, 4)
static void say_tried(struct trace *t, int64_t at_ms, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(t->tried, t->q, at_ms, fmt, ap);
    va_end(ap);
}

/* ---- attempts and deliveries ---- */

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
    struct trace *t = arg;

    json_array_append_new(
        t->attempts,
        attempt_json(n, at_ms, duration_ms, http_status, error, deliverer));
    if (*error)
        say_tried(t, at_ms, "attempt %lld at %s by %s: %s", (long long)n,
                  t->endpoint, deliverer, error);
    else
        say_tried(t, at_ms, "attempt %lld at %s by %s: answered %lld",
                  (long long)n, t->endpoint, deliverer, (long long)http_status);
}

static void on_end(void *arg, int64_t at_ms, const char *what)
{
    say_tried(arg, at_ms, "%s", what);
}

static void on_delivery(void *arg, const struct delivery_row *d,
                        const char *endpoint)
{
    struct trace *t = arg;

    t->endpoint = endpoint;
    t->attempts = json_array();
    store_attempts(t->q->store, d->event, d->endpoint, on_attempt, t);
    if (d->status == DELIVERY_DELIVERED)
        on_attempt(t, d->attempts, d->at_ms, d->duration_ms, d->http_status, "",
                   d->deliverer);
    trace_ends(t->q, t->event_id, d, endpoint, on_end, t);
    json_array_append_new(
        t->deliveries,
        json_pack(
            "{s:s,s:s,s:o,s:o,s:o,s:o}", "endpoint", endpoint, "status",
            delivery_status_name(d->status), "reason",
            json_text_or_null(d->status == DELIVERY_DEAD ? d->reason : ""),
            "previous", json_number_or_null((int64_t)d->previous), "attempts",
            t->attempts, "next_attempt_at",
            json_time(d->status < DELIVERY_DELIVERED ? d->next_ms : 0)));
    t->count++;
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

/* ---- one event ---- */

static json_t *trace_row(struct sequencer *q, const struct event_row *e)
{
    struct trace t = {.q = q,
                      .event_id = gr_strdup(e->id),
                      .timeline = json_array(),
                      .deliveries = json_array(),
                      .tried = json_array()};
    struct parts parts = parts_of(q, e);
    json_t *out = event_json(e, parts.ended ? store_event_end(q->store, e->n)
                                            : END_OPEN);
    int64_t n = e->n;

    trace_event_itself(&t, e);
    store_event_deliveries(q->store, e->n, on_delivery, &t);
    if (e->status == EVENT_ROUTED && !t.count)
        trace_say(&t, trace_gone_ms(e), "no endpoint wants it: done%s%s%s",
                  *e->reason ? " (" : "", e->reason, *e->reason ? ")" : "");
    else if (e->status == EVENT_ROUTED)
        trace_routes(&t, e);
    json_array_extend(t.timeline, t.tried); /* of one millisecond, later */
    json_decref(t.tried);
    free(t.event_id);
    json_object_set_new(out, "clock", json_text_or_null(e->clock));
    json_object_set_new(out, "deliveries", t.deliveries);
    json_object_set_new(out, "timeline", t.timeline);
    json_object_set_new(out, "events", parts.list);
    json_object_set_new(out, "request", request_of(q, n)); /* `e` ends here */
    return out;
}

/* ---- which one ---- */

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

/* An id that was not copied whole. */
static void say_unknown(struct sequencer *q, const char *id, char why[200])
{
    struct begun_so b = {.count = 0};

    buf_init(&b.names, NAMES_MAX_BYTES);
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
    struct matches m = {.q = q, .list = json_array()};
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
