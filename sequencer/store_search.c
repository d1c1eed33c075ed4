#include "store_search.h"
#include "store_rows.h"
#include <stdlib.h>

enum { ACTS_SHOWN = 100 };

struct store_search {
    struct db *db;
    stmt *events, *events_odd, *events_walking, *below, *from;
    stmt *by_provider_id, *by_prefix;
    stmt *walk, *walk_dead, *walking;
    stmt *block, *block_put, *block_last, *blocks_forget, *block_endpoints;
    stmt *act_add, *acts, *act_before, *acts_forget, *acts_drop;
};

#define WALK                                                               \
    "SELECT d.event, d.endpoint, e.id, e.source, e.type, e.workspace, "    \
    "p.name, e.sequence, e.received_ms, d.status, d.attempts, d.next_ms, " \
    "d.http_status, d.error, d.reason FROM deliveries d "
#define WALK_REST                                                            \
    "CROSS JOIN events e ON e.n = d.event CROSS JOIN endpoints p ON p.id = " \
    "d.endpoint WHERE (d.event, d.endpoint) < (?2, ?3) AND d.event >= ?1 "

static void prepare_walks(struct store_search *s)
{
    struct db *db = s->db;

    s->events = db_prepare(db, "SELECT " EVENT_COLUMNS
                               " FROM events WHERE n >= ?2 AND n < ?3 "
                               "ORDER BY n DESC");
    s->events_odd = db_prepare(
        db, "SELECT " EVENT_COLUMNS " FROM events INDEXED BY events_odd WHERE "
            "status = ?1 AND status > 0 AND status < 8 AND n >= ?2 AND "
            "n < ?3 ORDER BY n DESC");
    s->below = db_prepare(db, "SELECT max(n) FROM events WHERE n < ?");
    s->from = db_prepare(db, "SELECT min(n) FROM events WHERE n >= ?");
    s->by_prefix = db_prepare(db, "SELECT id FROM events WHERE id >= ?1 AND "
                                  "id < ?1 || '~' ORDER BY id LIMIT ?2");
    s->by_provider_id = db_prepare(
        db, "SELECT " EVENT_COLUMNS " FROM events WHERE n IN "
            "(SELECT * FROM (SELECT n FROM events WHERE provider_id = ?1 "
            "ORDER BY n DESC LIMIT 100) UNION SELECT * FROM (SELECT n FROM "
            "events WHERE delivery_id = ?1 AND delivery_id <> '' ORDER BY n "
            "DESC LIMIT 100)) ORDER BY n DESC LIMIT 100");
    s->walk = db_prepare(db, WALK WALK_REST
                         "ORDER BY d.event DESC, d.endpoint DESC");
    s->walk_dead = db_prepare(
        db, WALK "INDEXED BY deliveries_dead " WALK_REST
                 "AND d.status = 4 ORDER BY d.event DESC, d.endpoint DESC");
}

struct store_search *store_search_open(struct db *db)
{
    struct store_search *s = gr_alloc(sizeof *s);

    s->db = db;
    prepare_walks(s);
    s->block = db_prepare(
        db, "SELECT b, least_ms, most_ms, names FROM blocks WHERE b = ?");
    s->block_put = db_prepare(
        db, "INSERT OR REPLACE INTO blocks(b, least_ms, most_ms, names) "
            "VALUES(?, ?, ?, ?)");
    s->block_last = db_prepare(db, "SELECT ifnull(max(b), -1) FROM blocks");
    s->blocks_forget = db_prepare(
        db, "DELETE FROM blocks WHERE b IN (SELECT b FROM blocks WHERE "
            "b >= ? AND b < ? ORDER BY b LIMIT ?)");
    s->block_endpoints = db_prepare(
        db, "SELECT endpoint FROM deliveries WHERE event >= ? AND event < ?");
    s->act_add = db_prepare(
        db, "INSERT INTO acts(at_ms, subject, what) VALUES(?, ?, ?)");
    s->acts = db_prepare(db, "SELECT at_ms, what FROM acts WHERE subject = ? "
                             "AND at_ms >= ? AND at_ms <= ? "
                             "ORDER BY at_ms, n LIMIT ?");
    s->act_before = db_prepare(
        db, "SELECT at_ms, what FROM acts WHERE subject = ? AND at_ms < ? "
            "ORDER BY at_ms DESC, n DESC LIMIT 1");
    s->acts_forget = db_prepare(
        db, "DELETE FROM acts WHERE n IN (SELECT n FROM acts o WHERE o.at_ms < "
            "?1 AND (o.subject NOT GLOB 'endpoint *' OR EXISTS (SELECT 1 FROM "
            "acts a WHERE a.subject = o.subject AND a.at_ms > o.at_ms)) "
            "ORDER BY o.at_ms LIMIT ?2)");
    s->acts_drop = db_prepare(db, "DELETE FROM acts WHERE subject = ?");
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

void store_events(struct store_search *s, int status, int64_t least,
                  int64_t below)
{
    stmt *q = s->events_walking = status == -1 ? s->events : s->events_odd;

    if (status != -1)
        bind_i64(q, 1, status);
    bind_i64(q, 2, least);
    bind_i64(q, 3, below);
}

bool store_events_next(struct store_search *s, struct event_row *e)
{
    if (!db_step(s->db, s->events_walking))
        return false;
    read_event(s->events_walking, e);
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

void store_by_provider_id(struct store_search *s, const char *provider_id,
                          event_fn *fn, void *arg)
{
    struct event_row e;

    bind_text(s->by_provider_id, 1, provider_id);
    while (db_step(s->db, s->by_provider_id)) {
        read_event(s->by_provider_id, &e);
        fn(arg, &e);
    }
    db_done(s->by_provider_id);
}

void store_by_prefix(struct store_search *s, const char *prefix, int most,
                     id_fn *fn, void *arg)
{
    bind_text(s->by_prefix, 1, prefix);
    bind_i64(s->by_prefix, 2, most);
    while (db_step(s->db, s->by_prefix))
        fn(arg, col_text(s->by_prefix, 0));
    db_done(s->by_prefix);
}

/* ---- deliveries ---- */

void store_walk(struct store_search *s, bool dead, int64_t least, int64_t event,
                int64_t endpoint)
{
    stmt *q = s->walking = dead ? s->walk_dead : s->walk;

    bind_i64(q, 1, least);
    bind_i64(q, 2, event);
    bind_i64(q, 3, endpoint);
}

bool store_walk_next(struct store_search *s, struct found_row *r)
{
    stmt *q = s->walking;

    if (!db_step(s->db, q))
        return false;
    *r = (struct found_row){.event = col_i64(q, 0),
                            .endpoint_id = col_i64(q, 1),
                            .event_id = col_text(q, 2),
                            .source = col_text(q, 3),
                            .type = col_text(q, 4),
                            .workspace = col_text(q, 5),
                            .endpoint = col_text(q, 6),
                            .sequence = col_i64(q, 7),
                            .received_ms = col_i64(q, 8),
                            .status = (int)col_i64(q, 9),
                            .attempts = col_i64(q, 10),
                            .next_ms = col_i64(q, 11),
                            .http_status = col_i64(q, 12),
                            .error = col_text(q, 13),
                            .reason = col_text(q, 14)};
    return true;
}

void store_walk_done(struct store_search *s)
{
    db_done(s->walking);
}

/* ---- blocks ---- */

bool store_block(struct store_search *s, int64_t b, struct block_row *row)
{
    db_done(s->block);
    bind_i64(s->block, 1, b);
    if (!db_step(s->db, s->block))
        return false;
    *row = (struct block_row){.b = col_i64(s->block, 0),
                              .least_ms = col_i64(s->block, 1),
                              .most_ms = col_i64(s->block, 2),
                              .names = col_blob(s->block, 3)};
    return true;
}

void store_block_done(struct store_search *s)
{
    db_done(s->block);
}

void store_block_put(struct store_search *s, const struct block_row *row)
{
    bind_i64(s->block_put, 1, row->b);
    bind_i64(s->block_put, 2, row->least_ms);
    bind_i64(s->block_put, 3, row->most_ms);
    bind_blob(s->block_put, 4, row->names);
    db_run(s->db, s->block_put);
}

int64_t store_block_last(struct store_search *s)
{
    return one(s, s->block_last);
}

int store_blocks_forget(struct store_search *s, int64_t from, int64_t below,
                        int most)
{
    bind_i64(s->blocks_forget, 1, from);
    bind_i64(s->blocks_forget, 2, below);
    bind_i64(s->blocks_forget, 3, most);
    db_run(s->db, s->blocks_forget);
    return db_changes(s->db);
}

void store_block_endpoints(struct store_search *s, int64_t least, int64_t below,
                           number_fn *fn, void *arg)
{
    bind_i64(s->block_endpoints, 1, least);
    bind_i64(s->block_endpoints, 2, below);
    while (db_step(s->db, s->block_endpoints))
        fn(arg, col_i64(s->block_endpoints, 0));
    db_done(s->block_endpoints);
}

/* ---- acts ---- */

void store_act_add(struct store_search *s, int64_t at_ms, const char *subject,
                   const char *what)
{
    bind_i64(s->act_add, 1, at_ms);
    bind_text(s->act_add, 2, subject);
    bind_text(s->act_add, 3, what);
    db_run(s->db, s->act_add);
}

static void each_act(struct store_search *s, stmt *q, act_fn *fn, void *arg)
{
    while (db_step(s->db, q))
        fn(arg, col_i64(q, 0), col_text(q, 1));
    db_done(q);
}

void store_acts(struct store_search *s, const char *subject, int64_t from_ms,
                int64_t to_ms, act_fn *fn, void *arg)
{
    bind_text(s->acts, 1, subject);
    bind_i64(s->acts, 2, from_ms);
    bind_i64(s->acts, 3, to_ms);
    bind_i64(s->acts, 4, ACTS_SHOWN);
    each_act(s, s->acts, fn, arg);
}

void store_act_before(struct store_search *s, const char *subject,
                      int64_t at_ms, act_fn *fn, void *arg)
{
    bind_text(s->act_before, 1, subject);
    bind_i64(s->act_before, 2, at_ms);
    each_act(s, s->act_before, fn, arg);
}

int store_acts_forget(struct store_search *s, int64_t cutoff_ms, int most)
{
    bind_i64(s->acts_forget, 1, cutoff_ms);
    bind_i64(s->acts_forget, 2, most);
    db_run(s->db, s->acts_forget);
    return db_changes(s->db);
}

void store_acts_drop(struct store_search *s, const char *subject)
{
    bind_text(s->acts_drop, 1, subject);
    db_run(s->db, s->acts_drop);
}
