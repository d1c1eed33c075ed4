/* store: the statements for events, their bodies, workspaces, endpoints, attempts and dead
 * letters. */
#include "store.h"
#include "clock.h"
#include "event_cache.h"
#include "headers.h"
#include "log.h"
#include "publication.h"
#include "published.h"
#include "store_lanes.h"
#include "stores.h"
#include "sums.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

extern const char sequencer_store_sql[];
extern const char *const sequencer_upgrades[];
const struct db_schema sequencer_schema = {.create = sequencer_store_sql,
                                           .steps = sequencer_upgrades,
                                           .count = SEQUENCER_SCHEMA,
                                           .program = "grapnel-sequencer",
                                           .table = "workspaces"};

struct store {
    struct db *db;
    struct event_cache *cache;
    stmt *meta, *meta_set, *workspace, *workspace_set;
    stmt *endpoints, *endpoint_add, *endpoint_set, *endpoint_state,
        *endpoints_forget, *endpoint_waiting, *endpoint_out, *deliverers,
        *deliverer_set;
    stmt *purge_look, *purge_event, *purge_part, *purge_digest,
        *purge_operational, *purge_transition, *purge_deliveries,
        *purge_attempts, *purge_decisions, *purge_replay;
    /* The highest id made from time that `events` ever had since this process started. */
    char newest_id[EVENT_ID_BYTES + 1];
    stmt *newest, *last_event, *event_add, *event_set, *event, *event_by_id,
        *event_n, *event_ended, *event_end, *event_totals;
    stmt *body_add, *body, *body_head, *body_drop, *head_add, *head_drop;
    struct buf last_head; /* the last headers that were added, … */
    int64_t last_head_id; /* … and their row in `heads`; 0: they have no row */
    stmt *digest_add, *digest;
    stmt *transition_add, *transition;
    stmt *part_add, *part_of, *parts;
    stmt *open_figures, *endpoint_figures, *count_waiting, *has_open,
        *count_retrying, *in_flight;
    stmt *ready, *waiting, *open_grant, *out_after;
    stmt *attempt_add, *attempts, *attempts_count;
    stmt *dead_letter_add, *dead_letter, *dead_letter_drop,
        *dead_letter_pending, *dead_letter_dead;
    stmt *reopening_add, *reopening_drop, *reopenings, *reopening_pending;
};

enum { FIGURES_MAX = 100000 };
enum { ROUTED_MAX_BYTES = 16 * ENDPOINTS_MAX, CLOCK_ALL_BYTES = 1024 * 1024 };

/* Shorter headers take less space than a row of `heads`. */
enum { SHARED_MIN_BYTES = 512 };

#define DUPLICATE "1" /* EVENT_DUPLICATE */
#define BUFFERED  "3" /* EVENT_BUFFERED */
/* Those of temporary endpoints do not count; NULL: there are no others. */
#define ALL_EXPIRED \
    "min(CASE WHEN status <> 5 THEN status = 4 AND reason = 'expired' END)"
/* enum event_end; an event without deliveries is done. */
#define END_OF_EVENT                                               \
    "(SELECT CASE WHEN min(d.status) < 3 THEN 0 WHEN " ALL_EXPIRED \
    " THEN 2 ELSE 1 END FROM deliveries d WHERE "                  \
    "d.event = events.n)"
#define EVENT_INTACT DB_INTACT(SUM_EVENTS)
/* The checksums of the body, of the head that it shares, and of its event are right. */
#define BODY_INTACT                                                  \
    DB_INTACT(SUM_BODIES)                                            \
    " AND (head = 0 OR (SELECT " DB_INTACT(                          \
        SUM_HEADS) " FROM heads WHERE id = bodies.head)) AND "       \
                   "(SELECT " EVENT_INTACT " FROM events WHERE n = " \
                   "?1)"

#define PURGED_META "purged_ms"
#define AT(field)   offsetof(struct store, field)

static const struct db_statement statements[] = {
    {AT(meta), "SELECT value FROM meta WHERE key = ?"},
    {AT(meta_set), "INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)"},
    {AT(workspace),
     "SELECT sequence, clock, routed, positions, lane FROM workspaces WHERE "
     "name = ?"},
    {AT(workspace_set), "INSERT OR REPLACE INTO workspaces(name, sequence, "
                        "clock, routed, positions, lane) "
                        "VALUES(?, ?, ?, ?, ?, ?)"},
    {AT(endpoints),
     "SELECT " ROW_NAMES(ENDPOINT_COLUMNS) " FROM endpoints ORDER BY id"},
    {AT(endpoint_add), "INSERT INTO endpoints(name, temporary) VALUES(?, ?) "
                       "RETURNING id"},
    {AT(endpoint_set), "UPDATE endpoints SET owner = ?2, grant_id = ?3, config "
                       "= ?4 WHERE id = ?1"},
    {AT(endpoint_state),
     "UPDATE endpoints SET " ROW_SETS(ENDPOINT_STATE) " WHERE id = :id"},
    /* The row with the highest id stays, so that no id is used twice. */
    {AT(endpoints_forget),
     "DELETE FROM endpoints WHERE gone_after > 0 AND grant_id = 0 AND "
     "gone_after < (SELECT ifnull(min(n), ?1) FROM events) AND "
     "id < (SELECT max(id) FROM endpoints) RETURNING name"},
    {AT(deliverers), "SELECT name, store FROM deliverers"},
    {AT(deliverer_set),
     "INSERT OR REPLACE INTO deliverers(name, store) VALUES(?, ?)"},
    {AT(purge_look),
     "SELECT n, taken_ms, status = " BUFFERED
     " OR EXISTS (SELECT 1 FROM deliveries d WHERE d.event = events.n AND "
     "(d.status < 3 OR d.grant_id <> 0)) OR EXISTS (SELECT 1 FROM dead_letters "
     "l "
     "WHERE l.event = events.n) OR EXISTS (SELECT 1 FROM halts h WHERE h.event "
     "= events.n) OR EXISTS (SELECT 1 FROM reopenings a WHERE a.event = "
     "events.n), subscriber "
     "FROM events WHERE n > ? ORDER BY n LIMIT ?"},
    {AT(purge_event), "DELETE FROM events WHERE n = ?"},
    {AT(purge_part), "DELETE FROM parts WHERE event = ?"},
    {AT(purge_digest), "DELETE FROM event_digests WHERE event = ?"},
    {AT(purge_operational), "DELETE FROM operational_bodies WHERE event = ?"},
    {AT(purge_transition), "DELETE FROM transitions WHERE event = ?"},
    {AT(purge_decisions), "DELETE FROM outcome_decisions WHERE event = ?"},
    {AT(purge_replay), "DELETE FROM outcome_replays WHERE event = ?"},
    {AT(purge_deliveries), "DELETE FROM deliveries WHERE event = ?"},
    {AT(purge_attempts), "DELETE FROM attempts WHERE event = ?"},
    {AT(newest), "SELECT max(id) FROM events WHERE id < '" KEYED_IDS_FROM "'"},
    {AT(last_event), "SELECT max(n) FROM events"},
    {AT(event_add),
     ROW_INSERT_WITH(
         "events", EVENT_COLUMNS, ", source_sequence, delivery_id, sum",
         ", :source_sequence, :delivery_id, content_sum(:n, :id, :source, "
         ":provider_id, :type, :workspace, :received_ms, :sequence, :clock, "
         ":source_sequence, :late, :gap, :delivery_id)")},
    /* A wrong checksum stays wrong, as it covers columns that are not set here. */
    {AT(event_set),
     "UPDATE events SET " ROW_SETS(
         EVENT_STATE) ", source_sequence = :source_sequence, delivery_id = "
                      ":delivery_id, sum = CASE WHEN " EVENT_INTACT
                      " THEN content_sum(n, id, source, :provider_id, :type, "
                      ":workspace, received_ms, :sequence, :clock, "
                      ":source_sequence, :late, :gap, :delivery_id) ELSE sum "
                      "END WHERE n = :n"},
    {AT(event), SELECT_EVENT " FROM events WHERE n = ?"},
    {AT(event_by_id), SELECT_EVENT " FROM events WHERE id = ?"},
    {AT(event_n), "SELECT n FROM events WHERE id = ?"},
    {AT(event_ended),
     "SELECT EXISTS (SELECT 1 FROM deliveries WHERE event = ?1 AND status < 3) "
     "OR EXISTS (SELECT 1 FROM events WHERE n = ?1 AND status IN (" BUFFERED
     ", " DUPLICATE "))"},
    {AT(event_totals),
     "SELECT count(*), ifnull(sum(status = 4), 0), ifnull(sum(attempts), 0), "
     "ifnull(" ALL_EXPIRED ", 0), "
     "ifnull(max(reopened_ms), 0) FROM deliveries WHERE event = ?"},
    {AT(event_end), "SELECT " END_OF_EVENT " FROM events WHERE n = ?"},
    {AT(digest_add),
     "INSERT OR REPLACE INTO event_digests(event, digest) VALUES(?, ?)"},
    {AT(digest), "SELECT digest FROM event_digests WHERE event = ?"},
    {AT(transition_add), "INSERT OR REPLACE INTO transitions(event, object, "
                         "from_state, to_state) VALUES(?, ?, ?, ?)"},
    {AT(transition), "SELECT object, from_state, to_state FROM transitions "
                     "WHERE event = ?"},
    {AT(part_add), "INSERT INTO parts(event, request) VALUES(?, ?)"},
    {AT(part_of), "SELECT request FROM parts WHERE event = ?"},
    {AT(parts), SELECT_EVENT
     ", " END_OF_EVENT " FROM events WHERE n IN (SELECT event FROM parts WHERE "
     "request = ?) ORDER BY n"},
    {AT(body_add),
     "INSERT OR IGNORE INTO bodies(event, headers, body, head, sum) "
     "VALUES(?1, ?2, ?3, ?4, content_sum(?1, ?2, ?3, ?4))"},
    {AT(body), "SELECT CASE WHEN head = 0 THEN headers ELSE CAST(headers || "
               "(SELECT h.headers FROM heads h WHERE h.id = bodies.head) AS "
               "BLOB) END, body, " BODY_INTACT " FROM bodies WHERE event = ?1"},
    /* Two statements: RETURNING makes a table in memory for what it returns, which costs
     * as much as the rest. */
    {AT(body_head), "SELECT head FROM bodies WHERE event = ?"},
    {AT(body_drop), "DELETE FROM bodies WHERE event = ?"},
    {AT(head_add), "INSERT INTO heads(headers, sum) VALUES(?1, "
                   "content_sum(?1)) RETURNING id"},
    {AT(head_drop), "DELETE FROM heads WHERE id = ?1 AND NOT EXISTS (SELECT 1 "
                    "FROM bodies WHERE head = ?1 AND head <> 0)"},
    {AT(open_figures),
     "SELECT status, count(*), min(event), min(iif(reopened_ms = 0, event, "
     "NULL)), min(nullif(reopened_ms, 0)) FROM (SELECT * FROM (SELECT status, "
     "event, reopened_ms FROM deliveries INDEXED BY deliveries_waiting WHERE "
     "status = 0 AND endpoint > ?1 AND endpoint < ?2 LIMIT ?3) UNION ALL "
     "SELECT * FROM (SELECT status, event, reopened_ms FROM deliveries INDEXED "
     "BY deliveries_out WHERE grant_id <> 0 AND status < 3 AND endpoint > ?1 "
     "AND endpoint < ?2 LIMIT ?4)) GROUP BY status"},
    {AT(endpoint_figures),
     "SELECT status, count(*), min(event), min(iif(reopened_ms = 0, event, "
     "NULL)), min(nullif(reopened_ms, 0)) FROM (SELECT * FROM (SELECT status, "
     "event, reopened_ms FROM deliveries INDEXED BY deliveries_waiting WHERE "
     "endpoint = ?1 AND status = 0 LIMIT ?3) UNION ALL SELECT * FROM (SELECT "
     "status, event, reopened_ms FROM deliveries INDEXED BY deliveries_out "
     "WHERE endpoint = ?1 AND grant_id = ?2 AND grant_id <> 0 AND status IN "
     "(1, 2) LIMIT ?3)) GROUP BY status"},
    {AT(count_waiting),
     "SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY "
     "deliveries_waiting WHERE endpoint = ? AND status = 0 LIMIT ?)"},
    {AT(has_open),
     "SELECT EXISTS (SELECT 1 FROM deliveries INDEXED BY deliveries_waiting "
     "WHERE endpoint = ?1 AND status = 0) OR EXISTS (SELECT 1 FROM deliveries "
     "INDEXED BY deliveries_out WHERE endpoint = ?1 AND grant_id <> 0 AND "
     "(grant_id = ?2 OR status < 3))"},
    {AT(count_retrying),
     "SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED "
     "BY deliveries_out WHERE endpoint = ? AND grant_id = ? "
     "AND status = 2 AND grant_id <> 0 LIMIT ?)"},
    {AT(in_flight),
     "SELECT (SELECT count(*) FROM deliveries INDEXED BY deliveries_out WHERE "
     "endpoint = ?1 AND grant_id = ?2 AND status = 1 AND grant_id <> 0) + "
     "(SELECT count(*) FROM deliveries INDEXED BY deliveries_out WHERE "
     "endpoint = ?1 AND grant_id = ?2 AND status >= 3 AND grant_id <> 0)"},
    {AT(ready),
     "SELECT event, next_ms, lane FROM deliveries INDEXED BY "
     "deliveries_waiting WHERE endpoint = ? AND behind = 0 AND " WAITING_LANE
     " > ? AND " WAITING_LANE " <= ? AND status = 0 ORDER BY " WAITING_LANE
     ", route_order LIMIT ?"},
    {AT(endpoint_waiting),
     "SELECT endpoint FROM deliveries INDEXED BY deliveries_waiting WHERE "
     "endpoint > ? AND status = 0 ORDER BY endpoint LIMIT 1"},
    {AT(endpoint_out),
     "SELECT endpoint FROM deliveries INDEXED BY deliveries_out WHERE endpoint "
     "> ? AND grant_id <> 0 ORDER BY endpoint LIMIT 1"},
    {AT(waiting), "SELECT event FROM deliveries INDEXED BY deliveries_waiting "
                  "WHERE endpoint = ? AND status = 0 LIMIT ?"},
    {AT(open_grant),
     "SELECT grant_id FROM deliveries INDEXED BY deliveries_out WHERE endpoint "
     "= ? AND grant_id > ? AND grant_id <> 0 ORDER BY grant_id LIMIT 1"},
    {AT(out_after),
     "SELECT status, event, out_n, next_ms FROM deliveries INDEXED BY "
     "deliveries_out WHERE endpoint = ?1 AND grant_id = ?2 AND grant_id <> 0 "
     "AND (status, event) > (?3, ?4) ORDER BY status, event LIMIT ?5"},
    {AT(attempt_add), "INSERT OR IGNORE INTO attempts(event, endpoint, "
                      "attempt_id, n, at_ms, duration_ms, http_status, error, "
                      "deliverer) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"},
    {AT(attempts),
     "SELECT n, at_ms, duration_ms, http_status, error, deliverer FROM "
     "(SELECT * FROM attempts WHERE event = ?1 AND endpoint = ?2 ORDER BY "
     "at_ms, n LIMIT -1 OFFSET ?3) ORDER BY n, at_ms"},
    {AT(attempts_count),
     "SELECT count(*) FROM attempts WHERE event = ? AND endpoint = ?"},
    {AT(dead_letter_add),
     ROW_INSERT_WITH("dead_letters", DEAD_LETTER_COLUMNS, ", link_n",
                     ", :link_n") " RETURNING n"},
    {AT(dead_letter),
     "SELECT " ROW_NAMES(DEAD_LETTER_COLUMNS) " FROM dead_letters WHERE n = ?"},
    {AT(dead_letter_dead),
     "SELECT n FROM dead_letters WHERE event = ? AND endpoint = ? "
     "AND generation = ? AND reason <> '' LIMIT 1"},
    {AT(dead_letter_drop),
     "DELETE FROM dead_letters WHERE n = (SELECT n FROM dead_letters WHERE "
     "link_n <= ?1 "
     "ORDER BY link_n LIMIT 1) AND at_ms NOT BETWEEN ?2 AND ?3 "
     "RETURNING event, link_n"},
    {AT(dead_letter_pending),
     "SELECT 1 FROM dead_letters WHERE event = ? LIMIT 1"},
    {AT(reopening_add),
     "INSERT OR REPLACE INTO reopenings(event, endpoint, action_id) "
     "VALUES(?, ?, ?)"},
    {AT(reopening_drop),
     "DELETE FROM reopenings WHERE event = ? AND endpoint = ?"},
    {AT(reopenings),
     "SELECT event, endpoint, action_id FROM reopenings WHERE event > ? "
     "ORDER BY event LIMIT ?"},
    {AT(reopening_pending), "SELECT 1 FROM reopenings WHERE event = ? LIMIT 1"},
};

static void note_id(struct store *s, const char *id)
{
    if (strcmp(id, s->newest_id) > 0 && strcmp(id, KEYED_IDS_FROM) < 0)
        wire_copy(s->newest_id, sizeof s->newest_id, wire_text(id));
}

struct store *store_open(struct db *db)
{
    struct store *s = gr_alloc(sizeof *s);

    s->db = db;
    s->cache = event_cache_open();
    db_prepare_all(db, s, statements, COUNT_OF(statements));
    buf_init(&s->last_head, 2 * HEADERS_MAX_BYTES);
    if (db_step(db, s->newest))
        note_id(s, col_text(s->newest, 0));
    db_done(s->newest);
    return s;
}

void store_close(struct store *s)
{
    event_cache_close(s->cache);
    buf_fini(&s->last_head);
    free(s);
}

int64_t store_meta(struct store *s, const char *key)
{
    bind_text(s->meta, 1, key);
    return db_number(s->db, s->meta, 0);
}

void store_meta_set(struct store *s, const char *key, int64_t value)
{
    bind_text(s->meta_set, 1, key);
    bind_i64(s->meta_set, 2, value);
    db_run(s->db, s->meta_set);
}

/* ---- workspaces ---- */

struct workspace *store_workspace(struct store *s, struct workspaces *w,
                                  const char *name, int64_t route_order)
{
    struct workspace *ws = workspaces_find(w, name);

    if (ws)
        return ws;
    ws = workspaces_add(w, name);
    bind_text(s->workspace, 1, name);
    if (db_step(s->db, s->workspace)) {
        workspace_read(ws, (uint64_t)col_i64(s->workspace, 0),
                       col_text(s->workspace, 1), col_blob(s->workspace, 2),
                       col_blob(s->workspace, 3));
        ws->lane = col_i64(s->workspace, 4);
    } else {
        ws->lane = route_order;
        workspace_changed(w, ws);
    }
    db_done(s->workspace);
    return ws;
}

void store_workspaces(struct store *s, struct workspaces *w)
{
    struct workspace *ws;
    struct buf clock, routed, positions;

    buf_init(&clock, CLOCK_ALL_BYTES);
    buf_init(&routed, ROUTED_MAX_BYTES);
    buf_init(&positions, ROUTED_MAX_BYTES);
    SLIST_FOREACH(ws, &w->dirty, dirty_next)
    {
        buf_reset(&clock);
        buf_reset(&routed);
        buf_reset(&positions);
        workspace_clock(ws, "", CLOCK_ALL_BYTES, &clock);
        workspace_routed_blob(ws, &routed);
        workspace_positions_blob(ws, &positions);
        bind_text(s->workspace_set, 1, ws->name);
        bind_i64(s->workspace_set, 2, (int64_t)ws->sequence);
        bind_text(s->workspace_set, 3, clock.data ? clock.data : "");
        bind_blob(s->workspace_set, 4, (struct bytes){routed.data, routed.len});
        bind_blob(s->workspace_set, 5,
                  (struct bytes){positions.data, positions.len});
        bind_i64(s->workspace_set, 6, ws->lane);
        db_run(s->db, s->workspace_set);
        ws->dirty = false;
    }
    SLIST_INIT(&w->dirty);
    buf_fini(&clock);
    buf_fini(&routed);
    buf_fini(&positions);
}

/* ---- endpoints and deliverers ---- */

void store_endpoints(struct store *s, endpoint_fn *fn, void *arg)
{
    while (db_step(s->db, s->endpoints)) {
        struct endpoint_row e;
        int i = 0;

        ROW_READ(ENDPOINT_COLUMNS, s->endpoints, i, &e);
        fn(arg, &e);
    }
    db_done(s->endpoints);
}

static void each_endpoint(struct store *s, stmt *next, store_endpoint_fn *fn,
                          void *arg)
{
    int64_t id = 0;

    for (bind_i64(next, 1, id); db_step(s->db, next); bind_i64(next, 1, id)) {
        id = col_i64(next, 0);
        db_done(next);
        fn(arg, id);
    }
    db_done(next);
}

void store_endpoints_open(struct store *s, store_endpoint_fn *fn, void *arg)
{
    each_endpoint(s, s->endpoint_waiting, fn, arg);
    each_endpoint(s, s->endpoint_out, fn, arg);
}

int64_t store_endpoint_add(struct store *s, const char *name, bool temporary)
{
    bind_text(s->endpoint_add, 1, name);
    bind_i64(s->endpoint_add, 2, temporary);
    return db_number(s->db, s->endpoint_add, 0);
}

void store_endpoint_set(struct store *s, int64_t id, const char *owner,
                        uint64_t grant, int64_t config)
{
    bind_i64(s->endpoint_set, 1, id);
    bind_text(s->endpoint_set, 2, owner);
    bind_i64(s->endpoint_set, 3, (int64_t)grant);
    bind_i64(s->endpoint_set, 4, config);
    db_run(s->db, s->endpoint_set);
}

void store_endpoint_state(struct store *s, const struct endpoint_row *e)
{
    int i = 0;

    ROW_BIND(ENDPOINT_STATE, s->endpoint_state, i, e);
    bind_i64(s->endpoint_state, ++i, e->id);
    db_run(s->db, s->endpoint_state);
}

int store_endpoints_forget(struct store *s, int64_t next_event,
                           endpoint_name_fn *fn, void *arg)
{
    int count = 0;

    bind_i64(s->endpoints_forget, 1, next_event);
    for (; db_step(s->db, s->endpoints_forget); count++)
        fn(arg, col_text(s->endpoints_forget, 0));
    db_done(s->endpoints_forget);
    return count;
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

/* ---- events ---- */

int64_t store_last_event(struct store *s)
{
    return db_number(s->db, s->last_event, 0);
}

/* See events.delivery_id in store.sql. */
static void bind_rest(stmt *q, int *i, const struct event_row *e)
{
    const char *id = e->delivery_id, *other = e->provider_id;

    if (e->numbered)
        bind_i64(q, ++*i, e->source_sequence);
    else
        bind_null(q, ++*i);
    if (id && *id && other && strcmp(id, other) == 0)
        bind_text(q, ++*i, "");
    else
        bind_text_or_null(q, ++*i, id);
}

void store_event_add(struct store *s, const struct event_row *e)
{
    int i = 0;

    ROW_BIND(EVENT_COLUMNS, s->event_add, i, e);
    bind_rest(s->event_add, &i, e);
    db_run(s->db, s->event_add);
    note_id(s, e->id);
}

void store_event_set(struct store *s, const struct event_row *e)
{
    int i = 0;

    event_cache_drop(s->cache, e->n);
    ROW_BIND(EVENT_STATE, s->event_set, i, e);
    bind_rest(s->event_set, &i, e);
    bind_i64(s->event_set, ++i, e->n);
    db_run(s->db, s->event_set);
}

/* Copy the texts of a row that was read into one allocation that it owns. */
static void own_strings(struct event_row *e)
{
    const char **strings[] = {&e->id,          &e->source, &e->provider_id,
                              &e->delivery_id, &e->type,   &e->workspace,
                              &e->clock,       &e->reason, &e->duplicate_of,
                              &e->gap,         &e->note,   &e->ordering_key,
                              &e->traceparent};
    size_t bytes[COUNT_OF(strings)], all = 0;
    char *to;

    for (size_t i = 0; i < COUNT_OF(strings); i++)
        all += bytes[i] = strlen(*strings[i]) + 1;
    e->strings = to = gr_alloc(all);
    for (size_t i = 0; i < COUNT_OF(strings); to += bytes[i++])
        *strings[i] = memcpy(to, *strings[i], bytes[i]);
}

int store_read_event(stmt *q, struct event_row *e)
{
    int i = 0;

    ROW_READ(EVENT_COLUMNS, q, i, e);
    e->numbered = !col_null(q, i);
    e->source_sequence = col_i64(q, i++);
    e->delivery_id = col_text(q, i);
    if (!*e->delivery_id && !col_null(q, i))
        e->delivery_id = e->provider_id;
    own_strings(e);
    return i + 1;
}

static bool read_one(struct store *s, stmt *q, struct event_row *e)
{
    bool there = db_step(s->db, q);

    *e = (struct event_row){0};
    if (there)
        store_read_event(q, e);
    db_done(q);
    return there;
}

bool store_event(struct store *s, int64_t n, struct event_row *e)
{
    bind_i64(s->event, 1, n);
    return read_one(s, s->event, e);
}

bool store_event_by_id(struct store *s, struct bytes id, struct event_row *e)
{
    bind_str(s->event_by_id, 1, id);
    return read_one(s, s->event_by_id, e);
}

/* Ids made from time ascend, so most new events have a higher one than all that are stored. */
static bool is_newest(const struct store *s, struct bytes id)
{
    return id.n == EVENT_ID_BYTES && memcmp(id.p, s->newest_id, id.n) > 0 &&
           memcmp(id.p, KEYED_IDS_FROM, strlen(KEYED_IDS_FROM)) < 0;
}

int64_t store_event_n(struct store *s, struct bytes id)
{
    if (is_newest(s, id))
        return 0;
    bind_str(s->event_n, 1, id);
    return db_number(s->db, s->event_n, 0);
}

bool store_event_ended(struct store *s, int64_t event)
{
    bind_i64(s->event_ended, 1, event);
    return db_number(s->db, s->event_ended, 0) == 0;
}

struct delivery_totals store_delivery_totals(struct store *s, int64_t event)
{
    struct delivery_totals t = {0};
    stmt *q = s->event_totals;

    bind_i64(q, 1, event);
    if (db_step(s->db, q))
        t = (struct delivery_totals){.endpoints = col_i64(q, 0),
                                     .dead = col_i64(q, 1),
                                     .attempts = col_i64(q, 2),
                                     .expired = col_i64(q, 3) != 0,
                                     .reopened_ms = col_i64(q, 4)};
    db_done(q);
    return t;
}

enum event_end store_event_end(struct store *s, int64_t event)
{
    bind_i64(s->event_end, 1, event);
    return (enum event_end)db_number(s->db, s->event_end, 0);
}

/* ---- requests of several events ---- */

void store_part_add(struct store *s, int64_t event, int64_t request)
{
    bind_i64(s->part_add, 1, event);
    bind_i64(s->part_add, 2, request);
    db_run(s->db, s->part_add);
}

int64_t store_part_of(struct store *s, int64_t event)
{
    bind_i64(s->part_of, 1, event);
    return db_number(s->db, s->part_of, 0);
}

void store_parts(struct store *s, int64_t request, part_fn *fn, void *arg)
{
    struct event_row e;

    bind_i64(s->parts, 1, request);
    while (db_step(s->db, s->parts)) {
        int i = store_read_event(s->parts, &e);

        fn(arg, &e, (enum event_end)col_i64(s->parts, i));
        event_fini(&e);
    }
    db_done(s->parts);
}

/* ---- digests ---- */

void store_digest_add(struct store *s, int64_t event, struct bytes digest)
{
    bind_i64(s->digest_add, 1, event);
    bind_blob(s->digest_add, 2, digest);
    db_run(s->db, s->digest_add);
}

bool store_digest_differs(struct store *s, int64_t event, struct bytes digest)
{
    bool differs = false;
    struct bytes known;

    bind_i64(s->digest, 1, event);
    if (db_step(s->db, s->digest)) {
        known = col_blob(s->digest, 0);
        differs = known.n != digest.n ||
                  memcmp(known.p, digest.p, digest.n) != 0;
    }
    db_done(s->digest);
    return differs;
}

/* ---- transitions ---- */

void store_transition_add(struct store *s, int64_t event, const char *object,
                          const char *from, const char *to)
{
    bind_i64(s->transition_add, 1, event);
    bind_text(s->transition_add, 2, object);
    bind_text(s->transition_add, 3, from ? from : "");
    bind_text(s->transition_add, 4, to);
    db_run(s->db, s->transition_add);
}

bool store_transition(struct store *s, int64_t event, const char **object,
                      const char **from, const char **to)
{
    bind_i64(s->transition, 1, event);
    if (!db_step(s->db, s->transition))
        return false;
    *object = col_text(s->transition, 0);
    *from = col_text(s->transition, 1);
    *to = col_text(s->transition, 2);
    return true;
}

void store_transition_done(struct store *s)
{
    db_done(s->transition);
}

/* ---- bodies ---- */

void store_bodies_undo(struct store *s)
{
    event_cache_clear(s->cache);
    s->last_head_id = 0;
}

/* The row in `heads` of these headers, if the event before had the same ones; else 0. */
static int64_t head_of(struct store *s, struct bytes headers)
{
    if (headers.n < SHARED_MIN_BYTES)
        return 0;
    if (headers.n != s->last_head.len ||
        memcmp(headers.p, s->last_head.data, headers.n) != 0) {
        buf_reset(&s->last_head);
        buf_put(&s->last_head, headers.p, headers.n);
        s->last_head_id = 0;
        return 0;
    }
    if (!s->last_head_id) {
        bind_blob(s->head_add, 1, headers);
        s->last_head_id = db_number(s->db, s->head_add, 0);
    }
    return s->last_head_id;
}

/* Delete the head if no body refers to it. */
static void drop_head(struct store *s, int64_t head)
{
    bind_i64(s->head_drop, 1, head);
    db_run(s->db, s->head_drop);
    if (head == s->last_head_id && db_changes(s->db) > 0)
        s->last_head_id = 0;
}

void store_body_add(struct store *s, int64_t event, struct bytes headers,
                    struct bytes body)
{
    struct bytes name, value;
    size_t own = 0;
    int64_t head;

    /* Only the expiry of a published event, its first header, belongs to this event alone. */
    if (publication_expires_ms(headers))
        headers_next(headers, &own, &name, &value);
    head = head_of(
        s, (struct bytes){(const char *)headers.p + own, headers.n - own});
    if (head)
        headers.n = own;
    bind_i64(s->body_add, 1, event);
    bind_blob(s->body_add, 2, headers);
    bind_blob(s->body_add, 3, body);
    bind_i64(s->body_add, 4, head);
    db_run(s->db, s->body_add);
    if (head && db_changes(s->db) == 0) /* the event has its body already */
        drop_head(s, head);
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

bool store_body_damaged(struct store *s)
{
    return col_i64(s->body, 2) == 0;
}

void store_body_done(struct store *s)
{
    db_done(s->body);
}

static void check_cached(struct store *s, const struct whole_event *e)
{
#ifdef GRAPNEL_DEBUG
    struct event_row row;
    struct event_content c;

    if (db_full(s->db)) /* it reads nothing until the turn is rolled back */
        return;
    assert(store_event(s, e->row.n, &row));
    row.subscriber = e->row.subscriber; /* it is in no task */
    assert(ROW_SAME(EVENT_COLUMNS, &e->row, &row));
    assert(e->row.source_sequence == row.source_sequence);
    event_fini(&row);
    assert(store_body(s, e->row.n, &c.headers, &c.body));
    assert(c.headers.n == e->content.headers.n &&
           memcmp(c.headers.p, e->content.headers.p, c.headers.n) == 0);
    assert(c.body.n == e->content.body.n &&
           memcmp(c.body.p, e->content.body.p, c.body.n) == 0);
    store_body_done(s);
#else
    (void)s;
    (void)e;
#endif
}

/* Reads it from disk into the cache. */
static enum stored_state read_whole(struct store *s, int64_t n,
                                    const struct whole_event **event)
{
    struct event_row row;
    struct event_content content;
    bool there = store_event(s, n, &row);
    enum stored_state state;

    if (!there)
        return STORED_NOWHERE;
    if (!store_body(s, n, &content.headers, &content.body))
        state = STORED_WITHOUT_BODY;
    else if (store_body_damaged(s))
        state = STORED_DAMAGED;
    else
        state = STORED_WHOLE;
    if (state == STORED_WHOLE)
        *event = event_cache_put(s->cache, &row, &content);
    store_body_done(s);
    event_fini(&row);
    return state;
}

enum stored_state store_whole_event(struct store *s, int64_t n,
                                    const struct whole_event **event)
{
    *event = event_cache_get(s->cache, n);
    if (!*event)
        return read_whole(s, n, event);
    check_cached(s, *event);
    return STORED_WHOLE;
}

void store_body_drop(struct store *s, int64_t event)
{
    int64_t head;

    event_cache_drop(s->cache, event);
    bind_i64(s->body_head, 1, event);
    head = db_number(s->db, s->body_head, 0);
    bind_i64(s->body_drop, 1, event);
    db_run(s->db, s->body_drop);
    if (head)
        drop_head(s, head);
}

/* ---- deliveries ---- */

/* The lesser of two numbers, of which 0 does not count. */
static int64_t lesser(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* Adds what it finds. */
static void read_figures(struct store *s, stmt *q, struct open_figures *f)
{
    while (db_step(s->db, q)) {
        int64_t status = col_i64(q, 0);

        if (status >= 0 && status < DELIVERY_DELIVERED)
            f->counts[status] += col_i64(q, 1);
        f->oldest = lesser(f->oldest, col_i64(q, 2));
        f->oldest_unopened = lesser(f->oldest_unopened, col_i64(q, 3));
        f->reopened_ms = lesser(f->reopened_ms, col_i64(q, 4));
    }
    db_done(q);
}

/* Adds those of the endpoints between these two. */
static void add_figures(struct store *s, int64_t after, int64_t before,
                        struct open_figures *f)
{
    bind_i64(s->open_figures, 1, after);
    bind_i64(s->open_figures, 2, before);
    bind_i64(s->open_figures, 3, FIGURES_MAX - f->counts[DELIVERY_WAITING]);
    bind_i64(s->open_figures, 4,
             FIGURES_MAX - f->counts[DELIVERY_IN_FLIGHT] -
                 f->counts[DELIVERY_RETRYING]);
    read_figures(s, s->open_figures, f);
}

struct open_figures store_open_figures(struct store *s, const int64_t *left_out,
                                       size_t count)
{
    struct open_figures f = {0};
    int64_t after = 0;

    for (size_t i = 0; i < count; after = left_out[i++])
        add_figures(s, after, left_out[i], &f);
    add_figures(s, after, INT64_MAX, &f);
    return f;
}

struct open_figures store_endpoint_figures(struct store *s, int64_t endpoint,
                                           uint64_t grant, int64_t max)
{
    struct open_figures f = {0};

    bind_i64(s->endpoint_figures, 1, endpoint);
    bind_i64(s->endpoint_figures, 2, (int64_t)grant);
    bind_i64(s->endpoint_figures, 3, max);
    read_figures(s, s->endpoint_figures, &f);
    return f;
}

int64_t store_oldest_open_ms(struct store *s, const struct open_figures *f)
{
    int64_t since_ms = f->reopened_ms;
    struct event_row ev = {0};

    if (f->oldest_unopened && store_event(s, f->oldest_unopened, &ev) &&
        (!since_ms || ev.received_ms < since_ms))
        since_ms = ev.received_ms;
    event_fini(&ev);
    return since_ms;
}

int store_ready(struct store *s, int64_t endpoint, int64_t after, int64_t to,
                int max, struct ready_row *rows)
{
    stmt *q = s->ready;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, after);
    bind_i64(q, 3, to);
    bind_i64(q, 4, max);
    for (; n < max && db_step(s->db, q); n++)
        rows[n] = (struct ready_row){col_i64(q, 0), col_i64(q, 1),
                                     col_i64(q, 2)};
    db_done(q);
    return n;
}

int store_waiting(struct store *s, int64_t endpoint, int max, int64_t *events)
{
    stmt *q = s->waiting;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, max);
    for (; n < max && db_step(s->db, q); n++)
        events[n] = col_i64(q, 0);
    db_done(q);
    return n;
}

uint64_t store_open_grant(struct store *s, int64_t endpoint, uint64_t after)
{
    bind_i64(s->open_grant, 1, endpoint);
    bind_i64(s->open_grant, 2, (int64_t)after);
    return (uint64_t)db_number(s->db, s->open_grant, 0);
}

int store_out_after(struct store *s, int64_t endpoint, uint64_t grant,
                    const struct out_row *after, int max, struct out_row *rows)
{
    stmt *q = s->out_after;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, (int64_t)grant);
    bind_i64(q, 3, after->status);
    bind_i64(q, 4, after->event);
    bind_i64(q, 5, max);
    for (; n < max && db_step(s->db, q); n++)
        rows[n] = (struct out_row){.status = col_i64(q, 0),
                                   .event = col_i64(q, 1),
                                   .out_n = (uint64_t)col_i64(q, 2),
                                   .next_ms = col_i64(q, 3)};
    db_done(q);
    return n;
}

int64_t store_count_waiting(struct store *s, int64_t endpoint, int64_t max)
{
    bind_i64(s->count_waiting, 1, endpoint);
    bind_i64(s->count_waiting, 2, max);
    return db_number(s->db, s->count_waiting, 0);
}

bool store_has_open(struct store *s, int64_t endpoint, uint64_t grant)
{
    bind_i64(s->has_open, 1, endpoint);
    bind_i64(s->has_open, 2, (int64_t)grant);
    return db_number(s->db, s->has_open, 0) != 0;
}

int64_t store_count_retrying(struct store *s, int64_t endpoint, uint64_t grant,
                             int64_t max)
{
    bind_i64(s->count_retrying, 1, endpoint);
    bind_i64(s->count_retrying, 2, (int64_t)grant);
    bind_i64(s->count_retrying, 3, max);
    return db_number(s->db, s->count_retrying, 0);
}

int64_t store_count_in_flight(struct store *s, int64_t endpoint, uint64_t grant)
{
    bind_i64(s->in_flight, 1, endpoint);
    bind_i64(s->in_flight, 2, (int64_t)grant);
    return db_number(s->db, s->in_flight, 0);
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

int64_t store_attempts_count(struct store *s, int64_t event, int64_t endpoint)
{
    bind_i64(s->attempts_count, 1, event);
    bind_i64(s->attempts_count, 2, endpoint);
    return db_number(s->db, s->attempts_count, 0);
}

void store_attempts(struct store *s, int64_t event, int64_t endpoint,
                    int64_t left_out, attempt_fn *fn, void *arg)
{
    stmt *q = s->attempts;

    bind_i64(q, 1, event);
    bind_i64(q, 2, endpoint);
    bind_i64(q, 3, left_out);
    while (db_step(s->db, q))
        fn(arg, col_i64(q, 0), col_i64(q, 1), col_i64(q, 2), col_i64(q, 3),
           col_text(q, 4), col_text(q, 5));
    db_done(q);
}

/* ---- dead letters ---- */

int64_t store_dead_letter_add(struct store *s, uint64_t link_n,
                              const struct dead_letter_row *l)
{
    int i = 0;

    ROW_BIND(DEAD_LETTER_COLUMNS, s->dead_letter_add, i, l);
    bind_i64(s->dead_letter_add, ++i, (int64_t)link_n);
    return db_number(s->db, s->dead_letter_add, 0);
}

bool store_dead_letter(struct store *s, int64_t n, struct dead_letter_row *l)
{
    stmt *q = s->dead_letter;
    int i = 0;

    bind_i64(q, 1, n);
    if (!db_step(s->db, q)) {
        db_done(q);
        return false;
    }
    ROW_READ(DEAD_LETTER_COLUMNS, q, i, l);
    l->n = n;
    return true;
}

void store_dead_letter_done(struct store *s)
{
    db_done(s->dead_letter);
}

int64_t store_dead_letter_dead(struct store *s, int64_t event, int64_t endpoint,
                               int64_t generation)
{
    bind_i64(s->dead_letter_dead, 1, event);
    bind_i64(s->dead_letter_dead, 2, endpoint);
    bind_i64(s->dead_letter_dead, 3, generation);
    return db_number(s->db, s->dead_letter_dead, 0);
}

int64_t store_dead_letter_drop(struct store *s, uint64_t *link_n,
                               int64_t from_ms, int64_t to_ms)
{
    stmt *q = s->dead_letter_drop;
    int64_t event = 0;

    bind_i64(q, 1, (int64_t)*link_n);
    bind_i64(q, 2, from_ms);
    bind_i64(q, 3, to_ms);
    while (db_step(s->db, q)) {
        event = col_i64(q, 0);
        *link_n = (uint64_t)col_i64(q, 1);
    }
    db_done(q);
    return event;
}

bool store_dead_letter_pending(struct store *s, int64_t event)
{
    bind_i64(s->dead_letter_pending, 1, event);
    return db_number(s->db, s->dead_letter_pending, 0) != 0;
}

/* ---- reopenings ---- */

void store_reopening_add(struct store *s, int64_t event, int64_t endpoint,
                         uint64_t action_id)
{
    bind_i64(s->reopening_add, 1, event);
    bind_i64(s->reopening_add, 2, endpoint);
    bind_i64(s->reopening_add, 3, (int64_t)action_id);
    db_run(s->db, s->reopening_add);
}

void store_reopening_drop(struct store *s, int64_t event, int64_t endpoint)
{
    bind_i64(s->reopening_drop, 1, event);
    bind_i64(s->reopening_drop, 2, endpoint);
    db_run(s->db, s->reopening_drop);
}

int store_reopenings(struct store *s, int64_t after, int max,
                     struct reopening_row *rows)
{
    int n = 0;

    bind_i64(s->reopenings, 1, after);
    bind_i64(s->reopenings, 2, max);
    for (; n < max && db_step(s->db, s->reopenings); n++)
        rows[n] = (struct reopening_row){col_i64(s->reopenings, 0),
                                         col_i64(s->reopenings, 1),
                                         (uint64_t)col_i64(s->reopenings, 2)};
    db_done(s->reopenings);
    return n;
}

bool store_reopening_pending(struct store *s, int64_t event)
{
    bind_i64(s->reopening_pending, 1, event);
    return db_number(s->db, s->reopening_pending, 0) != 0;
}

/* ---- retention ---- */

bool store_purge(struct store *s, int64_t now_ms, int64_t before_ms, int max,
                 int64_t *at, store_needed_fn *needed, void *arg)
{
    /* Only events with a subscriber have rows in the tables of the first two. */
    stmt *const purges[] = {
        s->purge_decisions,  s->purge_replay,      s->purge_deliveries,
        s->purge_attempts,   s->purge_part,        s->purge_digest,
        s->purge_transition, s->purge_operational, s->purge_event};
    int64_t gone[PURGE_PACE_MAX];
    bool subscribed[PURGE_PACE_MAX];
    int looked = 0, n = 0;
    int64_t purged_ms = store_meta(s, PURGED_META), before = purged_ms;
    bool young = false;

    if (max > PURGE_PACE_MAX)
        max = PURGE_PACE_MAX;
    bind_i64(s->purge_look, 1, *at);
    bind_i64(s->purge_look, 2, max);
    for (; !young && db_step(s->db, s->purge_look); looked++) {
        int64_t taken_ms = col_i64(s->purge_look, 1),
                subscriber = col_i64(s->purge_look, 3);

        /* Rows are in arrival order: stop at the first one that is too young. But go on
         * after one whose time is in the future: then the clock was wrong. */
        young = taken_ms >= before_ms && taken_ms <= now_ms + DAY_MS;
        if (!young)
            *at = col_i64(s->purge_look, 0);
        if (taken_ms >= before_ms || col_i64(s->purge_look, 2) ||
            (subscriber && needed(arg, *at, subscriber, taken_ms)))
            continue;
        subscribed[n] = subscriber;
        gone[n++] = *at;
        if (taken_ms > now_ms) /* the clock was wrong */
            taken_ms = now_ms;
        if (purged_ms < taken_ms)
            purged_ms = taken_ms;
    }
    db_done(s->purge_look);
    for (int i = 0; i < n; i++) {
        for (size_t k = subscribed[i] ? 0 : 2; k < COUNT_OF(purges); k++) {
            bind_i64(purges[k], 1, gone[i]);
            db_run(s->db, purges[k]);
        }
        store_body_drop(s, gone[i]);
    }
    if (purged_ms != before)
        store_meta_set(s, PURGED_META, purged_ms);
    return !young && looked == max;
}

int64_t store_purged_ms(struct store *s)
{
    return store_meta(s, PURGED_META);
}
