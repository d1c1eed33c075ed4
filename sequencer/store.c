#include "store.h"
#include "clock.h"
#include "log.h"
#include "store_rows.h"
#include <stdlib.h>
#include <string.h>

extern const char sequencer_store_sql[], sequencer_parts_sql[],
    sequencer_order_sql[], sequencer_replay_sql[], sequencer_streams_sql[],
    sequencer_answers_sql[];

static const char *const steps[] = {sequencer_store_sql,  proto_hop_sql,
                                    sequencer_parts_sql,  sequencer_order_sql,
                                    sequencer_replay_sql, sequencer_streams_sql,
                                    sequencer_answers_sql};
const struct db_schema sequencer_schema = {steps, COUNT_OF(steps), 0};

enum { ROUTED_MAX_BYTES = 1024 * 1024, CLOCK_ALL_BYTES = 1024 * 1024 };

struct store {
    struct db *db;
    stmt *meta, *meta_set;
    stmt *last_event, *event_add, *event_set, *event, *event_by_id, *event_n;
    stmt *body_add, *body, *body_drop;
    stmt *part_add, *part_of, *parts, *purge_part;
    stmt *workspace, *workspace_set;
    stmt *endpoints, *endpoint_add, *endpoint_set, *endpoint_state, *deliverers,
        *deliverer_set;
    stmt *delivery_add, *delivery, *delivery_set, *delivery_out, *life_set,
        *event_ended, *event_end;
    stmt *count_waiting, *count_parked;
    stmt *ready, *waiting, *open_grant, *sweep, *in_flight, *event_deliveries;
    stmt *attempt_add, *attempts;
    stmt *again_add, *again_drop, *agains, *again_pending;
    stmt *letter_add, *letter, *letter_drop, *letter_pending;
    stmt *purge_look, *purge_event, *purge_body, *purge_deliveries,
        *purge_attempts;
    stmt *open_counts;
};

#define DUPLICATE "1" /* EVENT_DUPLICATE */
#define BUFFERED  "3" /* EVENT_BUFFERED */
#define DELIVERY_COLUMNS                                                   \
    "event, endpoint, status, grant_id, out_n, life, previous, attempts, " \
    "earlier, first_ms, next_ms, at_ms, duration_ms, http_status, error, " \
    "reason, deliverer, lane, place, behind, paused_ms, act, died"

/* enum event_end. Without deliveries it is done. */
#define END_OF_EVENT                                                        \
    "(SELECT CASE WHEN min(d.status) < 3 THEN 0 WHEN min(d.status = 4 AND " \
    "d.reason = 'expired') THEN 2 ELSE 1 END FROM deliveries d WHERE "      \
    "d.event = events.n)"

static void prepare_events(struct store *s)
{
    struct db *db = s->db;

    s->meta = db_prepare(db, "SELECT value FROM meta WHERE key = ?");
    s->meta_set = db_prepare(
        db, "INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)");
    s->last_event = db_prepare(db, "SELECT max(n) FROM events");
    s->event_add = db_prepare(db,
                              "INSERT INTO events(" EVENT_COLUMNS ") "
                              "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    s->event_set = db_prepare(
        db, "UPDATE events SET status = ?2, sequence = ?3, clock = ?4, "
            "reason = ?5, provider_id = ?6, type = ?7, workspace = ?8, "
            "duplicate_of = ?9, source_sequence = ?10, late = ?11, gap = ?12, "
            "note = ?13, let_go_ms = ?14 WHERE n = ?1");
    s->event = db_prepare(db,
                          "SELECT " EVENT_COLUMNS " FROM events WHERE n = ?");
    s->event_by_id = db_prepare(db, "SELECT " EVENT_COLUMNS
                                    " FROM events WHERE id = ?");
    s->event_n = db_prepare(db, "SELECT n FROM events WHERE id = ?");
    s->body_add = db_prepare(
        db, "INSERT OR IGNORE INTO bodies(event, headers, body) "
            "VALUES(?, ?, ?)");
    s->body = db_prepare(db,
                         "SELECT headers, body FROM bodies WHERE event = ?");
    s->body_drop = db_prepare(db, "DELETE FROM bodies WHERE event = ?");
    s->workspace = db_prepare(
        db, "SELECT sequence, clock, routed FROM workspaces WHERE name = ?");
    s->workspace_set = db_prepare(
        db, "INSERT OR REPLACE INTO workspaces(name, sequence, clock, routed) "
            "VALUES(?, ?, ?, ?)");
    s->event_end = db_prepare(db, "SELECT " END_OF_EVENT
                                  " FROM events WHERE n = ?");
}

static void prepare_parts(struct store *s)
{
    struct db *db = s->db;

    s->part_add = db_prepare(db,
                             "INSERT INTO parts(event, request) VALUES(?, ?)");
    s->part_of = db_prepare(db, "SELECT request FROM parts WHERE event = ?");
    s->parts = db_prepare(db,
                          "SELECT " EVENT_COLUMNS ", " END_OF_EVENT
                          " FROM events WHERE n IN (SELECT event FROM parts "
                          "WHERE request = ?) ORDER BY n");
    s->purge_part = db_prepare(db, "DELETE FROM parts WHERE event = ?");
}

static void prepare_deliveries(struct store *s)
{
    struct db *db = s->db;

    s->endpoints = db_prepare(
        db, "SELECT id, name, home, grant_id, config, ordered, state, "
            "since_ms, why, failing_ms, warned, paused_ms FROM endpoints");
    s->endpoint_add = db_prepare(
        db, "INSERT INTO endpoints(name) VALUES(?) RETURNING id");
    s->endpoint_set = db_prepare(
        db, "UPDATE endpoints SET home = ?2, grant_id = ?3, config = ?4 "
            "WHERE id = ?1");
    s->endpoint_state = db_prepare(
        db, "UPDATE endpoints SET ordered = ?2, state = ?3, since_ms = ?4, "
            "why = ?5, failing_ms = ?6, warned = ?7, paused_ms = ?8 "
            "WHERE id = ?1");
    s->deliverers = db_prepare(db, "SELECT name, store FROM deliverers");
    s->deliverer_set = db_prepare(
        db, "INSERT OR REPLACE INTO deliverers(name, store) VALUES(?, ?)");
    s->delivery_add = db_prepare(
        db, "INSERT INTO deliveries(event, endpoint, status, grant_id, out_n, "
            "previous, lane, place, behind, act) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    s->delivery = db_prepare(db, "SELECT " DELIVERY_COLUMNS
                                 " FROM deliveries WHERE event = ? AND "
                                 "endpoint = ?");
    s->open_counts = db_prepare(
        db, "SELECT status, count(*), min(event) FROM (SELECT * FROM (SELECT "
            "status, event FROM deliveries INDEXED BY deliveries_waiting WHERE "
            "status = 0 LIMIT 100000) UNION ALL SELECT * FROM (SELECT status, "
            "event FROM deliveries INDEXED BY deliveries_out WHERE grant_id "
            "<> 0 AND status < 3 LIMIT 100000)) GROUP BY status");
    s->delivery_set = db_prepare(
        db, "UPDATE deliveries SET status = ?3, grant_id = ?4, out_n = ?5, "
            "life = ?6, attempts = ?7, earlier = ?8, first_ms = ?9, "
            "next_ms = ?10, at_ms = ?11, duration_ms = ?12, "
            "http_status = ?13, error = ?14, reason = ?15, deliverer = ?16, "
            "lane = ?17, behind = ?18, paused_ms = ?19, act = ?20, "
            "died = ?21 "
            "WHERE event = ?1 AND endpoint = ?2");
    s->delivery_out = db_prepare(
        db, "UPDATE deliveries SET status = ?3, grant_id = ?4, out_n = ?5 "
            "WHERE event = ?1 AND endpoint = ?2");
    s->life_set = db_prepare(
        db, "UPDATE deliveries SET life = ?3, died = ?3 - 1 WHERE "
            "event = ?1 AND endpoint = ?2");
    s->event_ended = db_prepare(
        db, "SELECT EXISTS (SELECT 1 FROM deliveries WHERE event = ?1 AND "
            "status < 3) OR EXISTS (SELECT 1 FROM events WHERE n = ?1 AND "
            "status IN (" BUFFERED ", " DUPLICATE "))");
    s->ready = db_prepare(
        db, "SELECT event, next_ms, lane FROM deliveries "
            "INDEXED BY deliveries_waiting WHERE endpoint = ? AND behind = 0 "
            "AND lane > ? AND status = 0 ORDER BY lane, place LIMIT ?");
    s->waiting = db_prepare(
        db, "SELECT event FROM deliveries INDEXED BY deliveries_waiting "
            "WHERE endpoint = ? AND status = 0 LIMIT ?");
    s->count_waiting = db_prepare(
        db, "SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY "
            "deliveries_waiting WHERE endpoint = ? AND status = 0 LIMIT ?)");
    s->count_parked = db_prepare(
        db, "SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY "
            "deliveries_out WHERE endpoint = ? AND grant_id = ? AND "
            "status = 2 AND grant_id <> 0 LIMIT ?)");
    s->open_grant = db_prepare(
        db, "SELECT grant_id FROM deliveries INDEXED BY deliveries_out "
            "WHERE endpoint = ? AND grant_id > ? AND grant_id <> 0 "
            "ORDER BY grant_id LIMIT 1");
    s->sweep = db_prepare(
        db, "UPDATE deliveries SET grant_id = 0, out_n = 0, "
            "status = CASE WHEN status < 3 THEN 0 ELSE status END "
            "WHERE endpoint = ?1 AND event IN (SELECT event FROM deliveries "
            "INDEXED BY deliveries_out WHERE endpoint = ?1 AND grant_id = ?2 "
            "AND grant_id <> 0 LIMIT ?3) RETURNING status, lane");
    s->in_flight = db_prepare(
        db, "SELECT (SELECT count(*) FROM deliveries "
            "INDEXED BY deliveries_out WHERE endpoint = ?1 AND grant_id = ?2 "
            "AND status = 1 AND grant_id <> 0) + (SELECT count(*) FROM "
            "deliveries INDEXED BY deliveries_out WHERE endpoint = ?1 AND "
            "grant_id = ?2 AND status >= 3 AND grant_id <> 0)");
    s->event_deliveries = db_prepare(
        db, "SELECT d.event, d.endpoint, d.status, d.grant_id, d.out_n, "
            "d.life, d.previous, d.attempts, d.earlier, d.first_ms, "
            "d.next_ms, d.at_ms, d.duration_ms, d.http_status, d.error, "
            "d.reason, d.deliverer, d.lane, d.place, d.behind, d.paused_ms, "
            "d.act, d.died, e.name FROM deliveries d JOIN endpoints e "
            "ON e.id = d.endpoint WHERE d.event = ? ORDER BY e.name");
    s->attempt_add = db_prepare(
        db, "INSERT OR IGNORE INTO attempts(event, endpoint, attempt_id, n, "
            "at_ms, duration_ms, http_status, error, deliverer) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
    s->attempts = db_prepare(
        db, "SELECT n, at_ms, duration_ms, http_status, error, deliverer "
            "FROM attempts WHERE event = ? AND endpoint = ? "
            "ORDER BY n, at_ms");
}

static void prepare_rest(struct store *s)
{
    struct db *db = s->db;

    s->again_add = db_prepare(
        db, "INSERT OR REPLACE INTO agains(event, endpoint, act) "
            "VALUES(?, ?, ?)");
    s->again_drop = db_prepare(
        db, "DELETE FROM agains WHERE event = ? AND endpoint = ?");
    s->agains = db_prepare(db, "SELECT event, endpoint, act FROM agains WHERE "
                               "event > ? ORDER BY event LIMIT ?");
    s->again_pending = db_prepare(
        db, "SELECT 1 FROM agains WHERE event = ? LIMIT 1");
    s->letter_add = db_prepare(
        db, "INSERT INTO letters(hop_n, event, endpoint, life, at_ms, "
            "response) VALUES(?, ?, ?, ?, ?, ?) RETURNING n");
    s->letter = db_prepare(
        db, "SELECT n, event, endpoint, life, at_ms, response FROM letters "
            "WHERE n = ?");
    s->letter_drop = db_prepare(
        db, "DELETE FROM letters WHERE n = (SELECT n FROM letters WHERE "
            "hop_n <= ? ORDER BY hop_n LIMIT 1) RETURNING event");
    s->letter_pending = db_prepare(
        db, "SELECT 1 FROM letters WHERE event = ? LIMIT 1");
    s->purge_look = db_prepare(
        db, "SELECT n, taken_ms, status = " BUFFERED " OR EXISTS (SELECT 1 "
            "FROM deliveries d WHERE d.event = events.n AND (d.status < 3 OR "
            "d.grant_id <> 0)) OR EXISTS (SELECT 1 FROM letters l WHERE "
            "l.event = events.n) OR EXISTS (SELECT 1 FROM halts h WHERE "
            "h.event = events.n) OR EXISTS (SELECT 1 FROM agains a WHERE "
            "a.event = events.n) FROM events WHERE n > ? ORDER BY n LIMIT ?");
    s->purge_event = db_prepare(db, "DELETE FROM events WHERE n = ?");
    s->purge_body = db_prepare(db, "DELETE FROM bodies WHERE event = ?");
    s->purge_deliveries = db_prepare(db,
                                     "DELETE FROM deliveries WHERE event = ?");
    s->purge_attempts = db_prepare(db, "DELETE FROM attempts WHERE event = ?");
}

struct store *store_open(struct db *db)
{
    struct store *s = gr_alloc(sizeof *s);

    s->db = db;
    prepare_events(s);
    prepare_parts(s);
    prepare_deliveries(s);
    prepare_rest(s);
    return s;
}

void store_close(struct store *s)
{
    free(s);
}

/* The one number that a statement without rows or with one yields. */
static int64_t one(struct store *s, stmt *q)
{
    int64_t v = db_step(s->db, q) ? col_i64(q, 0) : 0;

    db_done(q);
    return v;
}

/* The same of a statement that changes something: run to its end. */
static int64_t returned(struct store *s, stmt *q)
{
    int64_t v = 0;

    while (db_step(s->db, q))
        v = col_i64(q, 0);
    db_done(q);
    return v;
}

int64_t store_meta(struct store *s, const char *key)
{
    bind_text(s->meta, 1, key);
    return one(s, s->meta);
}

void store_meta_set(struct store *s, const char *key, int64_t value)
{
    bind_text(s->meta_set, 1, key);
    bind_i64(s->meta_set, 2, value);
    db_run(s->db, s->meta_set);
}

/* ---- events ---- */

int64_t store_last_event(struct store *s)
{
    return one(s, s->last_event);
}

static void bind_number_or_null(stmt *q, int i, uint64_t v)
{
    if (v)
        bind_i64(q, i, (int64_t)v);
    else
        bind_text(q, i, NULL);
}

static const char *or_null(const char *t)
{
    return t && *t ? t : NULL;
}

/* Five columns from i on. NULL where there is nothing: a byte each. */
static void bind_order(stmt *q, int i, const struct event_row *e)
{
    if (e->numbered)
        bind_i64(q, i, e->source_sequence);
    else
        bind_text(q, i, NULL);
    bind_number_or_null(q, i + 1, e->late);
    bind_text(q, i + 2, or_null(e->gap));
    bind_text(q, i + 3, or_null(e->note));
    bind_number_or_null(q, i + 4, (uint64_t)e->let_go_ms);
}

void store_event_add(struct store *s, const struct event_row *e)
{
    stmt *q = s->event_add;

    bind_i64(q, 1, e->n);
    bind_text(q, 2, e->id);
    bind_text(q, 3, e->source);
    bind_text(q, 4, or_null(e->provider_id));
    bind_text(q, 5, e->type);
    bind_text(q, 6, e->workspace);
    bind_i64(q, 7, e->received_ms);
    bind_i64(q, 8, e->taken_ms);
    bind_i64(q, 9, e->status);
    bind_number_or_null(q, 10, e->sequence);
    bind_text(q, 11, or_null(e->clock));
    bind_text(q, 12, or_null(e->reason));
    bind_text(q, 13, or_null(e->duplicate_of));
    bind_order(q, 14, e);
    db_run(s->db, q);
}

void store_event_set(struct store *s, const struct event_row *e)
{
    stmt *q = s->event_set;

    bind_i64(q, 1, e->n);
    bind_i64(q, 2, e->status);
    bind_number_or_null(q, 3, e->sequence);
    bind_text(q, 4, or_null(e->clock));
    bind_text(q, 5, or_null(e->reason));
    bind_text(q, 6, or_null(e->provider_id));
    bind_text(q, 7, e->type);
    bind_text(q, 8, e->workspace);
    bind_text(q, 9, or_null(e->duplicate_of));
    bind_order(q, 10, e);
    db_run(s->db, q);
}

void read_event(stmt *q, struct event_row *e)
{
    *e = (struct event_row){
        .n = col_i64(q, 0),
        .id = col_text(q, 1),
        .source = col_text(q, 2),
        .provider_id = col_text(q, 3),
        .type = col_text(q, 4),
        .workspace = col_text(q, 5),
        .received_ms = col_i64(q, 6),
        .taken_ms = col_i64(q, 7),
        .status = (int)col_i64(q, 8),
        .sequence = (uint64_t)col_i64(q, 9),
        .clock = col_text(q, 10),
        .reason = col_text(q, 11),
        .duplicate_of = col_text(q, 12),
        .numbered = !col_null(q, 13),
        .source_sequence = col_i64(q, 13),
        .late = col_i64(q, 14) != 0,
        .gap = col_text(q, 15),
        .note = col_text(q, 16),
        .let_go_ms = col_i64(q, 17),
    };
}

void store_done(struct store *s)
{
    db_done(s->event);
    db_done(s->event_by_id);
}

bool store_event(struct store *s, int64_t n, struct event_row *e)
{
    db_done(s->event);
    bind_i64(s->event, 1, n);
    if (!db_step(s->db, s->event))
        return false;
    read_event(s->event, e);
    return true;
}

bool store_event_by_id(struct store *s, struct bytes id, struct event_row *e)
{
    db_done(s->event_by_id);
    bind_str(s->event_by_id, 1, id);
    if (!db_step(s->db, s->event_by_id))
        return false;
    read_event(s->event_by_id, e);
    return true;
}

int64_t store_event_n(struct store *s, struct bytes id)
{
    bind_str(s->event_n, 1, id);
    return one(s, s->event_n);
}

void store_body_add(struct store *s, int64_t event, struct bytes headers,
                    struct bytes body)
{
    bind_i64(s->body_add, 1, event);
    bind_blob(s->body_add, 2, headers);
    bind_blob(s->body_add, 3, body);
    db_run(s->db, s->body_add);
}

bool store_body(struct store *s, int64_t event, struct bytes *headers,
                struct bytes *body)
{
    bind_i64(s->body, 1, event);
    if (!db_step(s->db, s->body))
        return false;
    *headers = col_blob(s->body, 0);
    *body = col_blob(s->body, 1);
    return true;
}

void store_body_done(struct store *s)
{
    db_done(s->body);
}

void store_body_drop(struct store *s, int64_t event)
{
    bind_i64(s->body_drop, 1, event);
    db_run(s->db, s->body_drop);
}

/* ---- workspaces ---- */

struct workspace *store_workspace(struct store *s, struct workspaces *w,
                                  const char *name)
{
    struct workspace *ws = workspaces_find(w, name);

    if (ws)
        return ws;
    ws = workspaces_add(w, name);
    bind_text(s->workspace, 1, name);
    if (db_step(s->db, s->workspace))
        workspace_read(ws, (uint64_t)col_i64(s->workspace, 0),
                       col_text(s->workspace, 1), col_blob(s->workspace, 2));
    db_done(s->workspace);
    return ws;
}

void store_workspaces(struct store *s, struct workspaces *w)
{
    struct buf clock, routed;

    buf_init(&clock, CLOCK_ALL_BYTES);
    buf_init(&routed, ROUTED_MAX_BYTES);
    for (; w->dirty; w->dirty = w->dirty->next_dirty) {
        struct workspace *ws = w->dirty;

        buf_reset(&clock);
        buf_reset(&routed);
        workspace_clock(ws, "", CLOCK_ALL_BYTES, &clock);
        workspace_routed_blob(ws, &routed);
        bind_text(s->workspace_set, 1, ws->name);
        bind_i64(s->workspace_set, 2, (int64_t)ws->sequence);
        bind_text(s->workspace_set, 3, clock.data);
        bind_blob(s->workspace_set, 4, (struct bytes){routed.data, routed.len});
        db_run(s->db, s->workspace_set);
        ws->dirty = false;
    }
    buf_fini(&clock);
    buf_fini(&routed);
}

/* ---- endpoints and deliverers ---- */

void store_endpoints(struct store *s, endpoint_fn *fn, void *arg)
{
    stmt *q = s->endpoints;

    while (db_step(s->db, q))
        fn(arg, &(struct endpoint_row){.id = col_i64(q, 0),
                                       .name = col_text(q, 1),
                                       .home = col_text(q, 2),
                                       .grant = (uint64_t)col_i64(q, 3),
                                       .config = col_i64(q, 4),
                                       .ordered = (int)col_i64(q, 5),
                                       .state = (int)col_i64(q, 6),
                                       .since_ms = col_i64(q, 7),
                                       .why = col_text(q, 8),
                                       .failing_ms = col_i64(q, 9),
                                       .warned = (int)col_i64(q, 10),
                                       .paused_ms = col_i64(q, 11)});
    db_done(q);
}

int64_t store_endpoint_add(struct store *s, const char *name)
{
    bind_text(s->endpoint_add, 1, name);
    return returned(s, s->endpoint_add);
}

void store_endpoint_set(struct store *s, int64_t id, const char *home,
                        uint64_t grant, int64_t config)
{
    bind_i64(s->endpoint_set, 1, id);
    bind_text(s->endpoint_set, 2, home);
    bind_i64(s->endpoint_set, 3, (int64_t)grant);
    bind_i64(s->endpoint_set, 4, config);
    db_run(s->db, s->endpoint_set);
}

void store_endpoint_state(struct store *s, const struct endpoint_row *e)
{
    stmt *q = s->endpoint_state;

    bind_i64(q, 1, e->id);
    bind_i64(q, 2, e->ordered);
    bind_i64(q, 3, e->state);
    bind_i64(q, 4, e->since_ms);
    bind_text(q, 5, e->why);
    bind_i64(q, 6, e->failing_ms);
    bind_i64(q, 7, e->warned);
    bind_i64(q, 8, e->paused_ms);
    db_run(s->db, q);
}

void store_deliverers(struct store *s, deliverer_fn *fn, void *arg)
{
    while (db_step(s->db, s->deliverers))
        fn(arg, col_text(s->deliverers, 0),
           (uint64_t)col_i64(s->deliverers, 1));
    db_done(s->deliverers);
}

void store_deliverer_set(struct store *s, const char *name, uint64_t id)
{
    bind_text(s->deliverer_set, 1, name);
    bind_i64(s->deliverer_set, 2, (int64_t)id);
    db_run(s->db, s->deliverer_set);
}

/* ---- deliveries ---- */

void store_delivery_add(struct store *s, const struct delivery_row *d)
{
    stmt *q = s->delivery_add;

    bind_i64(q, 1, d->event);
    bind_i64(q, 2, d->endpoint);
    bind_i64(q, 3, d->status);
    bind_i64(q, 4, (int64_t)d->grant);
    bind_i64(q, 5, (int64_t)d->out_n);
    bind_i64(q, 6, (int64_t)d->previous);
    bind_i64(q, 7, d->lane);
    bind_i64(q, 8, d->place);
    bind_i64(q, 9, d->behind);
    bind_i64(q, 10, (int64_t)d->act);
    db_run(s->db, q);
}

static void read_delivery(stmt *q, struct delivery_row *d)
{
    *d = (struct delivery_row){
        .event = col_i64(q, 0),
        .endpoint = col_i64(q, 1),
        .status = (int)col_i64(q, 2),
        .grant = (uint64_t)col_i64(q, 3),
        .out_n = (uint64_t)col_i64(q, 4),
        .life = col_i64(q, 5),
        .previous = (uint64_t)col_i64(q, 6),
        .attempts = col_i64(q, 7),
        .earlier = col_i64(q, 8),
        .first_ms = col_i64(q, 9),
        .next_ms = col_i64(q, 10),
        .at_ms = col_i64(q, 11),
        .duration_ms = col_i64(q, 12),
        .http_status = col_i64(q, 13),
        .error = col_text(q, 14),
        .reason = col_text(q, 15),
        .deliverer = col_text(q, 16),
        .lane = col_i64(q, 17),
        .place = col_i64(q, 18),
        .behind = col_i64(q, 19) != 0,
        .paused_ms = col_i64(q, 20),
        .act = (uint64_t)col_i64(q, 21),
        .died = col_i64(q, 22),
    };
}

bool store_delivery(struct store *s, int64_t event, int64_t endpoint,
                    struct delivery_row *d)
{
    db_done(s->delivery);
    bind_i64(s->delivery, 1, event);
    bind_i64(s->delivery, 2, endpoint);
    if (!db_step(s->db, s->delivery))
        return false;
    read_delivery(s->delivery, d);
    return true;
}

void store_delivery_done(struct store *s)
{
    db_done(s->delivery);
}

void store_delivery_set(struct store *s, const struct delivery_row *d)
{
    stmt *q = s->delivery_set;

    bind_i64(q, 1, d->event);
    bind_i64(q, 2, d->endpoint);
    bind_i64(q, 3, d->status);
    bind_i64(q, 4, (int64_t)d->grant);
    bind_i64(q, 5, (int64_t)d->out_n);
    bind_i64(q, 6, d->life);
    bind_i64(q, 7, d->attempts);
    bind_i64(q, 8, d->earlier);
    bind_i64(q, 9, d->first_ms);
    bind_i64(q, 10, d->next_ms);
    bind_i64(q, 11, d->at_ms);
    bind_i64(q, 12, d->duration_ms);
    bind_i64(q, 13, d->http_status);
    bind_text(q, 14, d->error);
    bind_text(q, 15, d->reason);
    bind_text(q, 16, d->deliverer);
    bind_i64(q, 17, d->lane);
    bind_i64(q, 18, d->behind);
    bind_i64(q, 19, d->paused_ms);
    bind_i64(q, 20, (int64_t)d->act);
    bind_i64(q, 21, d->died);
    db_run(s->db, q);
}

int64_t store_open_counts(struct store *s, int64_t *counts, int n)
{
    int64_t oldest = 0;

    while (db_step(s->db, s->open_counts)) {
        int64_t status = col_i64(s->open_counts, 0),
                event = col_i64(s->open_counts, 2);

        if (status >= 0 && status < n)
            counts[status] = col_i64(s->open_counts, 1);
        if (!oldest || event < oldest)
            oldest = event;
    }
    db_done(s->open_counts);
    return oldest;
}

void store_delivery_out(struct store *s, int64_t event, int64_t endpoint,
                        int status, uint64_t grant, uint64_t out_n)
{
    stmt *q = s->delivery_out;

    bind_i64(q, 1, event);
    bind_i64(q, 2, endpoint);
    bind_i64(q, 3, status);
    bind_i64(q, 4, (int64_t)grant);
    bind_i64(q, 5, (int64_t)out_n);
    db_run(s->db, q);
}

void store_life_set(struct store *s, int64_t event, int64_t endpoint,
                    int64_t life)
{
    bind_i64(s->life_set, 1, event);
    bind_i64(s->life_set, 2, endpoint);
    bind_i64(s->life_set, 3, life);
    db_run(s->db, s->life_set);
}

bool store_event_ended(struct store *s, int64_t event)
{
    bind_i64(s->event_ended, 1, event);
    return one(s, s->event_ended) == 0;
}

enum event_end store_event_end(struct store *s, int64_t event)
{
    bind_i64(s->event_end, 1, event);
    return (enum event_end)one(s, s->event_end);
}

int store_ready(struct store *s, int64_t endpoint, int64_t after_lane, int most,
                struct ready_row *rows)
{
    stmt *q = s->ready;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, after_lane);
    bind_i64(q, 3, most);
    for (; n < most && db_step(s->db, q); n++)
        rows[n] = (struct ready_row){col_i64(q, 0), col_i64(q, 1),
                                     col_i64(q, 2)};
    db_done(q);
    return n;
}

int store_waiting(struct store *s, int64_t endpoint, int most, int64_t *events)
{
    stmt *q = s->waiting;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, most);
    for (; n < most && db_step(s->db, q); n++)
        events[n] = col_i64(q, 0);
    db_done(q);
    return n;
}

uint64_t store_open_grant(struct store *s, int64_t endpoint, uint64_t after)
{
    bind_i64(s->open_grant, 1, endpoint);
    bind_i64(s->open_grant, 2, (int64_t)after);
    return (uint64_t)one(s, s->open_grant);
}

int store_sweep(struct store *s, int64_t endpoint, uint64_t grant, int most,
                int64_t *freed, int *freed_count)
{
    stmt *q = s->sweep;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, (int64_t)grant);
    bind_i64(q, 3, most);
    *freed_count = 0;
    for (; db_step(s->db, q); n++)
        if (col_i64(q, 0) >= DELIVERY_DELIVERED && col_i64(q, 1) >= 0)
            freed[(*freed_count)++] = col_i64(q, 1);
    db_done(q);
    return n;
}

int64_t store_count_waiting(struct store *s, int64_t endpoint, int64_t most)
{
    bind_i64(s->count_waiting, 1, endpoint);
    bind_i64(s->count_waiting, 2, most);
    return one(s, s->count_waiting);
}

int64_t store_count_parked(struct store *s, int64_t endpoint, uint64_t grant,
                           int64_t most)
{
    bind_i64(s->count_parked, 1, endpoint);
    bind_i64(s->count_parked, 2, (int64_t)grant);
    bind_i64(s->count_parked, 3, most);
    return one(s, s->count_parked);
}

int64_t store_count_in_flight(struct store *s, int64_t endpoint, uint64_t grant)
{
    bind_i64(s->in_flight, 1, endpoint);
    bind_i64(s->in_flight, 2, (int64_t)grant);
    return one(s, s->in_flight);
}

void store_event_deliveries(struct store *s, int64_t event, delivery_fn *fn,
                            void *arg)
{
    stmt *q = s->event_deliveries;
    struct delivery_row d;

    bind_i64(q, 1, event);
    while (db_step(s->db, q)) {
        read_delivery(q, &d);
        fn(arg, &d, col_text(q, 23));
    }
    db_done(q);
}

void store_attempt_add(struct store *s, int64_t event, int64_t endpoint,
                       const struct wire_result *r, const char *deliverer)
{
    stmt *q = s->attempt_add;

    bind_i64(q, 1, event);
    bind_i64(q, 2, endpoint);
    bind_i64(q, 3, (int64_t)r->attempt_id);
    bind_i64(q, 4, (int64_t)r->attempts);
    bind_i64(q, 5, r->at_ms);
    bind_i64(q, 6, r->duration_ms);
    bind_i64(q, 7, (int64_t)r->http_status);
    bind_str(q, 8, r->error);
    bind_text(q, 9, deliverer);
    db_run(s->db, q);
}

void store_attempts(struct store *s, int64_t event, int64_t endpoint,
                    attempt_fn *fn, void *arg)
{
    stmt *q = s->attempts;

    bind_i64(q, 1, event);
    bind_i64(q, 2, endpoint);
    while (db_step(s->db, q))
        fn(arg, col_i64(q, 0), col_i64(q, 1), col_i64(q, 2), col_i64(q, 3),
           col_text(q, 4), col_text(q, 5));
    db_done(q);
}

/* ---- letters ---- */

int64_t store_letter_add(struct store *s, uint64_t hop_n, int64_t event,
                         int64_t endpoint, int64_t life, int64_t at_ms,
                         struct bytes response)
{
    stmt *q = s->letter_add;

    bind_i64(q, 1, (int64_t)hop_n);
    bind_i64(q, 2, event);
    bind_i64(q, 3, endpoint);
    bind_i64(q, 4, life);
    bind_i64(q, 5, at_ms);
    bind_blob(q, 6, response);
    return returned(s, q);
}

bool store_letter(struct store *s, int64_t n, struct letter_row *l,
                  struct bytes *response)
{
    bind_i64(s->letter, 1, n);
    if (!db_step(s->db, s->letter)) {
        db_done(s->letter);
        return false;
    }
    *l = (struct letter_row){col_i64(s->letter, 0), col_i64(s->letter, 1),
                             col_i64(s->letter, 2), col_i64(s->letter, 3),
                             col_i64(s->letter, 4)};
    *response = col_blob(s->letter, 5);
    return true;
}

void store_letter_done(struct store *s)
{
    db_done(s->letter);
}

int64_t store_letter_drop(struct store *s, uint64_t hop_n)
{
    bind_i64(s->letter_drop, 1, (int64_t)hop_n);
    return returned(s, s->letter_drop);
}

bool store_letter_pending(struct store *s, int64_t event)
{
    bind_i64(s->letter_pending, 1, event);
    return one(s, s->letter_pending) != 0;
}

/* ---- what waits to be sent again ---- */

void store_again_add(struct store *s, int64_t event, int64_t endpoint,
                     uint64_t act)
{
    bind_i64(s->again_add, 1, event);
    bind_i64(s->again_add, 2, endpoint);
    bind_i64(s->again_add, 3, (int64_t)act);
    db_run(s->db, s->again_add);
}

void store_again_drop(struct store *s, int64_t event, int64_t endpoint)
{
    bind_i64(s->again_drop, 1, event);
    bind_i64(s->again_drop, 2, endpoint);
    db_run(s->db, s->again_drop);
}

int store_agains(struct store *s, int64_t after, int most,
                 struct again_row *rows)
{
    int n = 0;

    bind_i64(s->agains, 1, after);
    bind_i64(s->agains, 2, most);
    for (; n < most && db_step(s->db, s->agains); n++)
        rows[n] = (struct again_row){col_i64(s->agains, 0),
                                     col_i64(s->agains, 1),
                                     (uint64_t)col_i64(s->agains, 2)};
    db_done(s->agains);
    return n;
}

bool store_again_pending(struct store *s, int64_t event)
{
    bind_i64(s->again_pending, 1, event);
    return one(s, s->again_pending) != 0;
}

/* ---- retention ---- */

static void forget_event(struct store *s, int64_t n)
{
    stmt *const all[] = {s->purge_deliveries, s->purge_attempts, s->purge_body,
                         s->purge_part, s->purge_event};

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        bind_i64(all[i], 1, n);
        db_run(s->db, all[i]);
    }
}

/* Rows stand in the order of taking, so behind a young one all are. But not behind
 * one of a time that is still to come: then the clock was wrong. */
static bool is_young(int64_t taken_ms, int64_t now_ms, int64_t keep_ms)
{
    return taken_ms >= now_ms - keep_ms && taken_ms <= now_ms + DAY_MS;
}

bool store_purge(struct store *s, int64_t now_ms, int64_t keep_ms, int most,
                 int64_t *at)
{
    int64_t gone[64];
    int looked = 0, n = 0;
    bool young = false;

    if (most > (int)COUNT_OF(gone))
        most = COUNT_OF(gone);
    bind_i64(s->purge_look, 1, *at);
    bind_i64(s->purge_look, 2, most);
    for (; !young && db_step(s->db, s->purge_look); looked++) {
        int64_t taken_ms = col_i64(s->purge_look, 1);

        young = is_young(taken_ms, now_ms, keep_ms);
        if (!young)
            *at = col_i64(s->purge_look, 0);
        if (taken_ms < now_ms - keep_ms && !col_i64(s->purge_look, 2))
            gone[n++] = *at;
    }
    db_done(s->purge_look);
    for (int i = 0; i < n; i++)
        forget_event(s, gone[i]);
    return !young && looked == most;
}

/* ---- requests of several events ---- */

static void each_event(struct store *s, stmt *q, part_fn *fn, void *arg)
{
    struct event_row e;

    while (db_step(s->db, q)) {
        read_event(q, &e);
        fn(arg, &e, (enum event_end)col_i64(q, EVENT_COLUMN_COUNT));
    }
    db_done(q);
}

void store_part_add(struct store *s, int64_t event, int64_t request)
{
    bind_i64(s->part_add, 1, event);
    bind_i64(s->part_add, 2, request);
    db_run(s->db, s->part_add);
}

int64_t store_part_of(struct store *s, int64_t event)
{
    bind_i64(s->part_of, 1, event);
    return one(s, s->part_of);
}

void store_parts(struct store *s, int64_t request, part_fn *fn, void *arg)
{
    bind_i64(s->parts, 1, request);
    each_event(s, s->parts, fn, arg);
}
