/* operational_events: makes Grapnel's own events from their causes, and limits how many. */
#include "operational_events.h"
#include "clock.h"
#include "dead_letters.h"
#include "event_intake.h"
#include "hops.h"
#include "json_text.h"
#include "managed_endpoints.h"
#include "published.h"
#include "row.h"
#include "sequencer.h"
#include "store.h"
#include "store_order.h"
#include "workspace_erase.h"
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

enum {
    LOOK_MS = 1000,
    DUE_PER_LOOK = 64,
    SUBJECT_BYTES = 2 * TEXT_MAX_BYTES,
};

/* One event. */
struct operational {
    STAILQ_ENTRY(operational) link;
    enum operational_kind kind;
    char id[EVENT_ID_BYTES + 1];
    char *workspace;
    int hops;
    json_t *data;
};

/* A row of `operational_limits`. */
#define LIMIT_COLUMNS(F, X) \
    F(text, subject)        \
    X(text, type)           \
    X(i64, at_ms)           \
    X(i64, left_out)        \
    X(text, id)             \
    X(text, workspace)      \
    X(i64, hops)            \
    X(text, data)
struct limit_row {
    ROW_FIELDS(LIMIT_COLUMNS)
};
#define LIMIT "SELECT " ROW_NAMES(LIMIT_COLUMNS) " FROM operational_limits "

struct operational_events {
    struct db *db;
    STAILQ_HEAD(, operational) written; /* of this turn */
    int hops;          /* of the request that is being applied */
    bool limits;       /* there may be rows in operational_limits */
    int64_t looked_ms; /* mono */
    stmt *find, *due, *any, *put, *drop;
};

struct operational_events *operational_events_open(struct db *db)
{
    struct operational_events *o = gr_alloc(sizeof *o);

    *o = (struct operational_events){.db = db, .limits = true};
    STAILQ_INIT(&o->written);
    o->find = db_prepare(db, LIMIT "WHERE subject = ? AND type = ?");
    /* A time in the future is one from before the clock was set back. */
    o->due = db_prepare(db, LIMIT "WHERE at_ms <= ?1 OR at_ms > ?2 LIMIT ?3");
    o->any = db_prepare(db, "SELECT 1 FROM operational_limits LIMIT 1");
    o->put = db_prepare(
        db, ROW_REPLACE_WITH("operational_limits", LIMIT_COLUMNS, "", ""));
    o->drop = db_prepare(
        db, "DELETE FROM operational_limits WHERE subject = ? AND type = ?");
    return o;
}

void operational_events_undo(struct operational_events *o)
{
    struct operational *e;

    while ((e = STAILQ_FIRST(&o->written))) {
        STAILQ_REMOVE_HEAD(&o->written, link);
        json_decref(e->data);
        free(e->workspace);
        free(e);
    }
    o->hops = 0;
    o->limits = true;
}

void operational_events_close(struct operational_events *o)
{
    operational_events_undo(o);
    free(o);
}

static bool is_wanted(const struct sequencer *q)
{
    return managed_operational(q) ||
           (q->subscriptions && subscriptions_operational(q->subscriptions));
}

void operational_cause(struct sequencer *q, struct bytes headers)
{
    if (is_wanted(q))
        q->operational->hops = hops_of(headers);
}

/* ---- at most one a minute ---- */

static void put_limit(struct operational_events *o, const struct limit_row *row)
{
    int i = 0;

    ROW_BIND(LIMIT_COLUMNS, o->put, i, row);
    db_run(o->db, o->put);
    o->limits = true;
}

/* Takes `data` over. */
static void queue(struct operational_events *o, enum operational_kind kind,
                  const char *id, const char *workspace, int hops, json_t *data,
                  int64_t left_out)
{
    struct operational *e = gr_alloc(sizeof *e);

    *e = (struct operational){.kind = kind,
                              .workspace = gr_strdup(workspace),
                              .hops = hops,
                              .data = data};
    snprintf(e->id, sizeof e->id, "%s", id);
    json_object_set_new(data, "left_out", json_integer(left_out));
    STAILQ_INSERT_TAIL(&o->written, e, link);
}

/* `subject` and `generation` make the id; `limited`: what gets one event a minute. Takes `data`
 * over. Returns whether an event is or will be written for this cause. */
static bool note(struct sequencer *q, enum operational_kind kind,
                 const char *limited, const char *subject, int64_t generation,
                 const char *workspace, json_t *data)
{
    struct operational_events *o = q->operational;
    const char *type = operational_types.items[kind];
    char id[EVENT_ID_BYTES + 1];
    struct limit_row row = {0};
    int64_t now = q->d.loop.now_ms, left_out = 0;
    struct buf key;
    bool known, limits;
    int i = 0;

    if (workspace_erased(q, wire_text(workspace)) ||
        workspace_is_erased_label(workspace)) {
        json_decref(data);
        return false;
    }
    buf_init(&key, SUBJECT_BYTES);
    buf_printf(&key, "%s %lld %s", type, (long long)generation, subject);
    published_event_id(id, OPERATIONAL_SOURCE,
                       (struct bytes){key.data, key.len});
    buf_fini(&key);
    bind_text(o->find, 1, limited);
    bind_text(o->find, 2, type);
    known = db_step(o->db, o->find);
    if (known)
        ROW_READ(LIMIT_COLUMNS, o->find, i, &row);
    limits = known && now >= row.at_ms && now - row.at_ms < MINUTE_MS;
    left_out = known ? row.left_out : 0;
    if ((known && strcmp(row.id, id) == 0) ||
        store_event_n(q->store, wire_text(id))) {
        db_done(o->find);
        json_decref(data);
        return false;
    }
    db_done(o->find);
    row = (struct limit_row){.subject = limited,
                             .type = type,
                             .at_ms = limits ? row.at_ms : now,
                             .id = "",
                             .workspace = "",
                             .data = ""};
    if (limits) {
        char *text = json_dumps(data, JSON_COMPACT);

        row.left_out = left_out + 1;
        row.id = id;
        row.workspace = workspace;
        row.hops = o->hops;
        row.data = text;
        put_limit(o, &row);
        free(text);
        json_decref(data);
    } else {
        put_limit(o, &row);
        queue(o, kind, id, workspace, o->hops, data, left_out);
    }
    return true;
}

static enum operational_kind kind_of(const char *type)
{
    int kind = 0;

    while (kind < OPERATIONAL_COUNT &&
           strcmp(operational_types.items[kind], type) != 0)
        kind++;
    return (enum operational_kind)kind;
}

/* The minute of this row is over: queue what it left out. */
static void end_minute(struct sequencer *q, const struct limit_row *row)
{
    struct operational_events *o = q->operational;
    enum operational_kind kind = kind_of(row->type);
    json_t *data = row->left_out && is_wanted(q) && kind < OPERATIONAL_COUNT &&
                           !workspace_erased(q, wire_text(row->workspace))
                       ? json_loads(row->data, 0, NULL)
                       : NULL;

    if (!data) {
        bind_text(o->drop, 1, row->subject);
        bind_text(o->drop, 2, row->type);
        db_run(o->db, o->drop);
        return;
    }
    queue(o, kind, row->id, row->workspace, (int)row->hops, data,
          row->left_out - 1);
    put_limit(o, &(struct limit_row){.subject = row->subject,
                                     .type = row->type,
                                     .at_ms = q->d.loop.now_ms,
                                     .id = "",
                                     .workspace = "",
                                     .data = ""});
}

static void look(struct sequencer *q)
{
    struct operational_events *o = q->operational;
    struct limit_row rows[DUE_PER_LOOK];
    int64_t now = q->d.loop.now_ms;
    int n = 0;

    o->looked_ms = q->d.loop.mono_ms;
    bind_i64(o->due, 1, now - MINUTE_MS);
    bind_i64(o->due, 2, now);
    bind_i64(o->due, 3, DUE_PER_LOOK);
    for (; db_step(o->db, o->due); n++) {
        int i = 0;

        ROW_READ(LIMIT_COLUMNS, o->due, i, &rows[n]);
        rows[n].subject = gr_strdup(rows[n].subject);
        rows[n].type = gr_strdup(rows[n].type);
        rows[n].id = gr_strdup(rows[n].id);
        rows[n].workspace = gr_strdup(rows[n].workspace);
        rows[n].data = gr_strdup(rows[n].data);
    }
    db_done(o->due);
    for (int k = 0; k < n; k++) {
        const char *const texts[] = {rows[k].subject, rows[k].type, rows[k].id,
                                     rows[k].workspace, rows[k].data};

        end_minute(q, &rows[k]);
        for (size_t i = 0; i < COUNT_OF(texts); i++)
            free((char *)(uintptr_t)texts[i]);
    }
    o->limits = db_number(o->db, o->any, 0) != 0;
    if (n == DUE_PER_LOOK)
        o->looked_ms = 0;
}

int operational_events_work(struct sequencer *q)
{
    struct operational_events *o = q->operational;
    struct operational *e;

    if (o->limits && q->d.loop.mono_ms - o->looked_ms >= LOOK_MS)
        look(q);
    STAILQ_FOREACH(e, &o->written, link)
    intake_operational(q, e->id, operational_types.items[e->kind], e->workspace,
                       e->hops, e->data);
    operational_events_undo(o);
    return o->limits ? LOOK_MS : -1;
}

/* ---- endpoints ---- */

/* An endpoint that is subscribed to nothing else. */
static bool is_only_operational(const struct endpoint *e)
{
    const struct string_list *sources = &e->settings->sources;

    for (size_t i = 0; i < sources->count; i++)
        if (strcmp(sources->items[i], OPERATIONAL_SOURCE) != 0)
            return false;
    return sources->count > 0;
}

/* That of its subscription, if that is one; else it serves several. */
static const char *workspace_of(const struct endpoint *e)
{
    const struct string_list *all = &e->settings->workspaces;

    return all->count == 1 && !strchr(all->items[0], '*')
               ? all->items[0]
               : OPERATIONAL_WORKSPACE;
}

static void note_endpoint(struct sequencer *q, enum operational_kind kind,
                          const struct endpoint *e, const char *what,
                          int64_t generation, json_t *data)
{
    char subject[64], limited[40];

    snprintf(limited, sizeof limited, "endpoint %lld", (long long)e->id);
    snprintf(subject, sizeof subject, "%s %s", limited, what);
    json_object_set_new(data, "endpoint", json_text_of(e->name));
    note(q, kind, limited, subject, generation, workspace_of(e), data);
}

void operational_endpoint_disabled(struct sequencer *q,
                                   const struct endpoint *e, const char *reason,
                                   const char *why)
{
    if (is_wanted(q) && e->settings && !is_only_operational(e))
        note_endpoint(q, OPERATIONAL_ENDPOINT_DISABLED, e, "",
                      e->failing_ms ? e->failing_ms : q->d.loop.now_ms,
                      json_pack("{s:s, s:o, s:o}", "reason", reason, "message",
                                json_text_of(why), "failing_since",
                                json_time(e->failing_ms)));
}

void operational_endpoint_failing(struct sequencer *q, const struct endpoint *e,
                                  int percent, int64_t disable_after_ms)
{
    char what[16];

    if (!is_wanted(q) || !e->settings || is_only_operational(e))
        return;
    snprintf(what, sizeof what, "%d", percent);
    note_endpoint(
        q, OPERATIONAL_ENDPOINT_FAILING, e, what, e->failing_ms,
        json_pack("{s:s, s:o, s:f, s:f, s:i}", "reason", "failing",
                  "failing_since", json_time(e->failing_ms), "failing_seconds",
                  (double)e->failing_for_ms / SECOND_MS,
                  "disable_after_seconds", (double)disable_after_ms / SECOND_MS,
                  "percent", percent));
}

void operational_endpoint_held(struct sequencer *q, const struct endpoint *e)
{
    if (is_wanted(q) && e->settings && !is_only_operational(e))
        note_endpoint(q, OPERATIONAL_ENDPOINT_FAILING, e, "held", e->since_ms,
                      json_pack("{s:s, s:o, s:o, s:o}", "reason", "held",
                                "failing_since", json_time(e->since_ms),
                                "message", json_text_of(e->why), "http_status",
                                json_number_or_null(e->held_status)));
}

/* ---- deliveries ---- */

void operational_delivery_dead(struct sequencer *q, const struct endpoint *e,
                               const struct delivery *d)
{
    struct operational_events *o = q->operational;
    char limited[40], dead_letter[DEAD_LETTER_ID_BYTES];
    struct bytes headers = {"", 0}, body;
    struct event_row ev = {0};
    json_t *data;
    int hops;

    if (!is_wanted(q) || !store_event(q->store, d->event, &ev) ||
        strcmp(ev.source, OPERATIONAL_SOURCE) == 0) {
        event_fini(&ev);
        return;
    }
    hops = o->hops;
    if (store_body(q->store, d->event, &headers, &body))
        o->hops = hops_of(headers);
    store_body_done(q->store);
    dead_letter_id(dead_letter, ev.id, e->name);
    data = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:s}",
                     "event_id", ev.id, "endpoint", json_text_of(e->name),
                     "source", json_text_of(ev.source), "type",
                     json_text_of(ev.type), "reason", json_text_of(d->reason),
                     "http_status", json_number_or_null(d->http_status),
                     "error", json_text_or_null(d->error), "provider_id",
                     json_text_or_null(ev.provider_id), "attempts",
                     (json_int_t)d->attempts, "generation",
                     (json_int_t)d->generation, "dead_letter_id", dead_letter);
    snprintf(limited, sizeof limited, "endpoint %lld", (long long)e->id);
    note(q, OPERATIONAL_DELIVERY_DEAD, limited, dead_letter, d->generation,
         ev.workspace, data);
    o->hops = hops;
    event_fini(&ev);
}

/* ---- gaps ---- */

void operational_gap(struct sequencer *q, enum operational_kind kind,
                     const struct gap_row *g, const char *reason)
{
    char *gap, *limited;
    json_t *data;

    if (!is_wanted(q))
        return;
    gap = gr_printf("gap_%lld", (long long)g->id);
    limited = gr_printf("stream %s %s %s", g->source, g->workspace, g->type);
    data = json_pack(
        "{s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "gap", gap, "source",
        json_text_of(g->source), "workspace", json_text_of(g->workspace),
        "type", json_text_or_null(g->type), "from", (json_int_t)g->span.first,
        "to", (json_int_t)g->span.last, "opened_at", json_time(g->opened_ms),
        "reason", json_text_of(reason));
    note(q, kind, limited, gap, g->opened_ms, g->workspace, data);
    free(limited);
    free(gap);
}

/* ---- alerts ---- */

static json_t *arg(const json_t *args, const char *name)
{
    json_t *v = json_object_get(args, name);

    return v ? json_incref(v) : json_null();
}

json_t *operational_alert(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *state = json_string_value(json_object_get(args, "state"));
    const char *rule = json_string_value(json_object_get(args, "name"));
    const char *about = json_string_value(json_object_get(args, "subject"));
    int64_t since_ms = json_integer_value(json_object_get(args, "since_ms"));
    json_int_t n = json_integer_value(json_object_get(args, "n"));
    char *subject;
    bool noted;

    (void)why;
    if (!is_wanted(q))
        return json_pack("{s:I,s:b}", "n", n, "written", 0);
    subject = gr_printf("alert %s %s", rule, about);
    noted = note(q,
                 strcmp(state, "firing") == 0 ? OPERATIONAL_ALERT_FIRING
                                              : OPERATIONAL_ALERT_RESOLVED,
                 subject, subject, since_ms, OPERATIONAL_WORKSPACE,
                 json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                           arg(args, "name"), "when", arg(args, "when"),
                           "subject", json_text_or_null(about), "severity",
                           arg(args, "severity"), "since", json_time(since_ms),
                           "value", arg(args, "value"), "summary",
                           arg(args, "summary")));
    free(subject);
    return json_pack("{s:I,s:b}", "n", n, "written", (int)noted);
}
