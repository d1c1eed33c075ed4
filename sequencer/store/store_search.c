/* store_search: the statements for searches, search filters and actions. */
#include "store_search.h"
#include "store.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ACTIONS_SHOWN = 100,
    NEAR = 4, /* stepping over so many events costs less than a seek */
};

struct store_search {
    struct db *db;
    stmt *events, *events_odd, *events_walking, *below, *from;
    stmt *whole, *by_prefix;
    stmt *walk, *walk_dead, *walking, *found;
    int64_t walk_min;            /* the first event of store_walk() */
    struct event_row walk_event; /* the last that store_walk_event() read */
    stmt *filter, *filter_put, *filter_last, *filters_forget, *filter_events,
        *filter_endpoints;
    stmt *action_add, *actions, *action_before, *actions_forget, *actions_drop;
};

/* The columns that tell whether a row matches: most rows do not. */
#define LOOK_AT_EVENT \
    "SELECT n, status, source, type, workspace, received_ms FROM events "
#define LOOK_AT_DELIVERY "SELECT event, endpoint, status FROM deliveries "
#define BELOW            "WHERE (event, endpoint) < (?2, ?3) AND event >= ?1 "

static void prepare_walks(struct store_search *s)
{
    struct db *db = s->db;

    s->events = db_prepare(db, LOOK_AT_EVENT
                           "WHERE n >= ?2 AND n < ?3 ORDER BY n DESC");
    s->events_odd = db_prepare(
        db, LOOK_AT_EVENT
        "INDEXED BY events_odd WHERE status = ?1 AND status > 0 AND "
        "status < 8 AND n >= ?2 AND n < ?3 ORDER BY n DESC");
    s->below = db_prepare(db, "SELECT max(n) FROM events WHERE n < ?");
    s->from = db_prepare(db, "SELECT min(n) FROM events WHERE n >= ?");
    s->by_prefix = db_prepare(db, "SELECT id FROM events WHERE id >= ?1 AND "
                                  "id < ?1 || '~' ORDER BY id LIMIT ?2");
    s->whole = db_prepare(db, SELECT_EVENT " FROM events WHERE n = ?");
    s->walk = db_prepare(db, LOOK_AT_DELIVERY BELOW
                         "ORDER BY event DESC, endpoint DESC");
    s->walk_dead = db_prepare(db, LOOK_AT_DELIVERY
                              "INDEXED BY deliveries_dead " BELOW
                              "AND status = 4 ORDER BY event DESC, "
                              "endpoint DESC");
    s->found = db_prepare(
        db, "SELECT e.id, e.source, e.type, e.workspace, e.sequence, "
            "e.received_ms, d.attempts, d.next_ms, d.http_status, d.error, "
            "d.reason FROM deliveries d CROSS JOIN events e ON e.n = d.event "
            "WHERE d.event = ? AND d.endpoint = ?");
}

struct store_search *store_search_open(struct db *db)
{
    struct store_search *s = gr_alloc(sizeof *s);

    s->db = db;
    prepare_walks(s);
    s->filter = db_prepare(db, "SELECT block, min_ms, max_ms, names FROM "
                               "search_filters WHERE block = ?");
    s->filter_put = db_prepare(db,
                               "INSERT OR REPLACE INTO search_filters(block, "
                               "min_ms, max_ms, names) "
                               "VALUES(?, ?, ?, ?)");
    s->filter_last = db_prepare(
        db, "SELECT ifnull(max(block), -1) FROM search_filters");
    s->filters_forget = db_prepare(
        db, "DELETE FROM search_filters WHERE block IN (SELECT block FROM "
            "search_filters WHERE "
            "block >= ? AND block < ? ORDER BY block LIMIT ?)");
    s->filter_events = db_prepare(
        db, "SELECT source, type, workspace, received_ms FROM events "
            "WHERE n >= ? AND n < ?");
    s->filter_endpoints = db_prepare(
        db, "SELECT endpoint FROM deliveries WHERE event >= ? AND event < ?");
    s->action_add = db_prepare(
        db, "INSERT INTO actions(at_ms, subject, what) VALUES(?, ?, ?)");
    s->actions = db_prepare(db,
                            "SELECT at_ms, what FROM actions WHERE subject = ? "
                            "AND at_ms >= ? AND at_ms <= ? "
                            "ORDER BY at_ms, n LIMIT ?");
    s->action_before = db_prepare(
        db, "SELECT at_ms, what FROM actions WHERE subject = ? AND at_ms < ? "
            "ORDER BY at_ms DESC, n DESC LIMIT 1");
    s->actions_forget = db_prepare(
        db, "DELETE FROM actions WHERE n IN (SELECT n FROM actions o WHERE "
            "o.at_ms < "
            "?1 AND (o.subject NOT GLOB 'endpoint *' OR EXISTS (SELECT 1 FROM "
            "actions a WHERE a.subject = o.subject AND a.at_ms > o.at_ms)) "
            "ORDER BY o.at_ms LIMIT ?2)");
    s->actions_drop = db_prepare(db, "DELETE FROM actions WHERE subject = ?");
    return s;
}

void store_search_close(struct store_search *s)
{
    free(s);
}

static int64_t one(struct store_search *s, stmt *q)
{
    int64_t v = db_step(s->db, q) ? col_i64(q, 0) : 0;

    db_done(q);
    return v;
}

/* ---- events ---- */

void store_events(struct store_search *s, int status, int64_t min,
                  int64_t below)
{
    stmt *q = s->events_walking = status == -1 ? s->events : s->events_odd;

    if (status != -1)
        bind_i64(q, 1, status);
    bind_i64(q, 2, min);
    bind_i64(q, 3, below);
}

bool store_events_next(struct store_search *s, struct event_row *e)
{
    stmt *q = s->events_walking;

    if (!db_step(s->db, q))
        return false;
    *e = (struct event_row){.n = col_i64(q, 0),
                            .status = (int)col_i64(q, 1),
                            .source = col_text(q, 2),
                            .type = col_text(q, 3),
                            .workspace = col_text(q, 4),
                            .received_ms = col_i64(q, 5)};
    return true;
}

void store_events_done(struct store_search *s)
{
    db_done(s->events_walking);
}

int64_t store_event_below(struct store_search *s, int64_t below)
{
    bind_i64(s->below, 1, below);
    return one(s, s->below);
}

int64_t store_event_from(struct store_search *s, int64_t n)
{
    bind_i64(s->from, 1, n);
    return one(s, s->from);
}

void store_each_event(struct store_search *s, const int64_t *events, int count,
                      event_fn *fn, void *arg)
{
    struct event_row e;

    for (int i = 0; i < count; i++) {
        bind_i64(s->whole, 1, events[i]);
        if (db_step(s->db, s->whole)) {
            store_read_event(s->whole, &e);
            fn(arg, &e);
            event_fini(&e);
        }
        db_done(s->whole);
    }
}

void store_by_prefix(struct store_search *s, const char *prefix, int max,
                     id_fn *fn, void *arg)
{
    bind_text(s->by_prefix, 1, prefix);
    bind_i64(s->by_prefix, 2, max);
    while (db_step(s->db, s->by_prefix))
        fn(arg, col_text(s->by_prefix, 0));
    db_done(s->by_prefix);
}

/* ---- deliveries ---- */

void store_walk(struct store_search *s, bool dead, int64_t min, int64_t event,
                int64_t endpoint)
{
    stmt *q = s->walking = dead ? s->walk_dead : s->walk;

    bind_i64(q, 1, min);
    bind_i64(q, 2, event);
    bind_i64(q, 3, endpoint);
    s->walk_min = min;
    s->walk_event = (struct event_row){0};
}

bool store_walk_next(struct store_search *s, struct found_row *r)
{
    stmt *q = s->walking;

    if (!db_step(s->db, q))
        return false;
    r->event = col_i64(q, 0);
    r->endpoint_id = col_i64(q, 1);
    r->status = (int)col_i64(q, 2);
    return true;
}

/* Both walks go down, and most events have deliveries: it is usually the next event. */
const struct event_row *store_walk_event(struct store_search *s,
                                         const struct found_row *r)
{
    struct event_row *e = &s->walk_event;

    if (e->n < r->event || e->n - r->event > NEAR) {
        db_done(s->events);
        store_events(s, -1, s->walk_min, r->event + 1);
        e->n = r->event + 1;
    }
    while (e->n > r->event)
        if (!store_events_next(s, e))
            e->n = 0;
    return e->n == r->event ? e : NULL;
}

bool store_walk_found(struct store_search *s, struct found_row *r)
{
    stmt *q = s->found;

    db_done(q);
    bind_i64(q, 1, r->event);
    bind_i64(q, 2, r->endpoint_id);
    if (!db_step(s->db, q))
        return false;
    r->event_id = col_text(q, 0);
    r->source = col_text(q, 1);
    r->type = col_text(q, 2);
    r->workspace = col_text(q, 3);
    r->sequence = col_i64(q, 4);
    r->received_ms = col_i64(q, 5);
    r->attempts = col_i64(q, 6);
    r->next_ms = col_i64(q, 7);
    r->http_status = col_i64(q, 8);
    r->error = col_text(q, 9);
    r->reason = col_text(q, 10);
    return true;
}

void store_walk_done(struct store_search *s)
{
    db_done(s->walking);
    db_done(s->events);
    db_done(s->found);
}

/* ---- search filters ---- */

bool store_filter(struct store_search *s, int64_t b, struct filter_row *row)
{
    db_done(s->filter);
    bind_i64(s->filter, 1, b);
    if (!db_step(s->db, s->filter))
        return false;
    *row = (struct filter_row){.b = col_i64(s->filter, 0),
                               .min_ms = col_i64(s->filter, 1),
                               .max_ms = col_i64(s->filter, 2),
                               .names = col_blob(s->filter, 3)};
    return true;
}

void store_filter_done(struct store_search *s)
{
    db_done(s->filter);
}

void store_filter_put(struct store_search *s, const struct filter_row *row)
{
    bind_i64(s->filter_put, 1, row->b);
    bind_i64(s->filter_put, 2, row->min_ms);
    bind_i64(s->filter_put, 3, row->max_ms);
    bind_blob(s->filter_put, 4, row->names);
    db_run(s->db, s->filter_put);
}

int64_t store_filter_last(struct store_search *s)
{
    return one(s, s->filter_last);
}

int store_filters_forget(struct store_search *s, int64_t from, int64_t below,
                         int max)
{
    bind_i64(s->filters_forget, 1, from);
    bind_i64(s->filters_forget, 2, below);
    bind_i64(s->filters_forget, 3, max);
    db_run(s->db, s->filters_forget);
    return db_changes(s->db);
}

void store_filter_events(struct store_search *s, int64_t min, int64_t below,
                         event_fn *fn, void *arg)
{
    stmt *q = s->filter_events;

    bind_i64(q, 1, min);
    bind_i64(q, 2, below);
    while (db_step(s->db, q))
        fn(arg, &(struct event_row){.source = col_text(q, 0),
                                    .type = col_text(q, 1),
                                    .workspace = col_text(q, 2),
                                    .received_ms = col_i64(q, 3)});
    db_done(q);
}

void store_filter_endpoints(struct store_search *s, int64_t min, int64_t below,
                            number_fn *fn, void *arg)
{
    bind_i64(s->filter_endpoints, 1, min);
    bind_i64(s->filter_endpoints, 2, below);
    while (db_step(s->db, s->filter_endpoints))
        fn(arg, col_i64(s->filter_endpoints, 0));
    db_done(s->filter_endpoints);
}

/* ---- actions ---- */

void store_action_add(struct store_search *s, int64_t at_ms,
                      const char *subject, const char *what)
{
    bind_i64(s->action_add, 1, at_ms);
    bind_text(s->action_add, 2, subject);
    bind_text(s->action_add, 3, what);
    db_run(s->db, s->action_add);
}

void store_action_note(struct store_search *s, int64_t now_ms, const char *kind,
                       const char *name, const char *fmt, ...)
{
    char *subject = gr_printf("%s %s", kind, name), *what = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&what, fmt, ap) >= 0)
        store_action_add(s, now_ms, subject, what);
    va_end(ap);
    free(what);
    free(subject);
}

static void each_action(struct store_search *s, stmt *q, action_fn *fn,
                        void *arg)
{
    while (db_step(s->db, q))
        fn(arg, col_i64(q, 0), col_text(q, 1));
    db_done(q);
}

void store_actions(struct store_search *s, const char *subject, int64_t from_ms,
                   int64_t to_ms, action_fn *fn, void *arg)
{
    bind_text(s->actions, 1, subject);
    bind_i64(s->actions, 2, from_ms);
    bind_i64(s->actions, 3, to_ms);
    bind_i64(s->actions, 4, ACTIONS_SHOWN);
    each_action(s, s->actions, fn, arg);
}

void store_action_before(struct store_search *s, const char *subject,
                         int64_t at_ms, action_fn *fn, void *arg)
{
    bind_text(s->action_before, 1, subject);
    bind_i64(s->action_before, 2, at_ms);
    each_action(s, s->action_before, fn, arg);
}

int store_actions_forget(struct store_search *s, int64_t cutoff_ms, int max)
{
    bind_i64(s->actions_forget, 1, cutoff_ms);
    bind_i64(s->actions_forget, 2, max);
    db_run(s->db, s->actions_forget);
    return db_changes(s->db);
}

void store_actions_drop(struct store_search *s, const char *subject)
{
    bind_text(s->actions_drop, 1, subject);
    db_run(s->db, s->actions_drop);
}
