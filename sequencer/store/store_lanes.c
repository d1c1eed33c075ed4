/* store_lanes: the statements for lanes and halts. */
#include "store_lanes.h"
#include "alloc.h"
#include <stdlib.h>

struct store_lanes {
    struct db *db;
    stmt *any, *first, *front, *step_up, *after, *range, *range_behind, *set;
    stmt *halt, *unhalt, *unhalt_all, *halted, *halting, *halt_count,
        *halt_next, *halts, *halt_move;
};

/* The rows of the index deliveries_lane. SQLite uses it only if the query has the condition of the
 * index literally. */
#define IN_LANE                                                       \
    "FROM deliveries INDEXED BY deliveries_lane WHERE endpoint = ?1 " \
    "AND +lane >= 0 AND (status < 3 OR grant_id <> 0) "

struct store_lanes *store_lanes_open(struct db *db)
{
    struct store_lanes *s = gr_alloc(sizeof *s);

    s->db = db;
    s->any = db_prepare(db, "SELECT 1 " IN_LANE
                            "AND lane = ?2 AND lane_key = ?3 LIMIT 1");
    s->first = db_prepare(db,
                          "SELECT event " IN_LANE "AND lane = ?2 AND lane_key "
                          "= ?3 AND behind = 0 LIMIT 1");
    s->front = db_prepare(db,
                          "SELECT event, route_order, next_ms, behind " IN_LANE
                          "AND lane = ?2 AND lane_key = ?3 "
                          "ORDER BY behind, route_order LIMIT 1");
    s->step_up = db_prepare(db, "UPDATE deliveries SET behind = 0 WHERE "
                                "event = ? AND endpoint = ?");
    s->after = db_prepare(db, "SELECT lane, lane_key " IN_LANE
                              "AND (lane, lane_key) > (?2, ?3) "
                              "ORDER BY lane, lane_key LIMIT 1");
    s->range = db_prepare(
        db,
        "SELECT event, workspace, events.ordering_key, retry_choice FROM "
        "deliveries "
        "INDEXED BY deliveries_waiting LEFT JOIN events ON n = event "
        "WHERE endpoint = ?1 AND behind = 0 AND " WAITING_LANE
        " >= ?2 AND " WAITING_LANE " <= ?3 AND deliveries.status = 0 LIMIT ?4");
    s->range_behind = db_prepare(
        db, "SELECT d.event, e.workspace, e.ordering_key, d.retry_choice FROM "
            "deliveries d "
            "INDEXED BY deliveries_lane LEFT JOIN events e ON e.n = d.event "
            "WHERE d.endpoint = ?1 AND +d.lane >= 0 AND (d.status < 3 OR "
            "d.grant_id <> 0) AND d.lane >= ?2 AND d.lane <= ?3 AND "
            "d.behind = 1 AND d.status = 0 LIMIT ?4");
    s->set = db_prepare(
        db, "UPDATE deliveries SET lane = ?3, lane_key = ?4, behind = ?5 WHERE "
            "event = ?1 AND endpoint = ?2");
    s->halt = db_prepare(
        db, "INSERT OR REPLACE INTO halts(event, endpoint, lane, lane_key, "
            "route_order, at_ms) VALUES(?, ?, ?, ?, ?, ?)");
    s->unhalt = db_prepare(
        db, "DELETE FROM halts WHERE event = ? AND endpoint = ?");
    s->unhalt_all = db_prepare(db, "DELETE FROM halts WHERE endpoint = ?");
    s->halted = db_prepare(db, "SELECT max(route_order) FROM halts WHERE "
                               "endpoint = ? AND lane = ? AND lane_key = ?");
    s->halting = db_prepare(
        db, "SELECT event FROM halts WHERE endpoint = ? AND lane = ? AND "
            "lane_key = ? ORDER BY route_order DESC LIMIT 1");
    s->halt_count = db_prepare(db,
                               "SELECT count(*) FROM halts WHERE endpoint = ?");
    s->halt_next = db_prepare(
        db, "SELECT endpoint FROM halts WHERE endpoint > ? ORDER "
            "BY endpoint LIMIT 1");
    s->halts = db_prepare(
        db, "SELECT h.event, h.endpoint, h.lane, h.lane_key, h.route_order, "
            "h.at_ms, e.id, e.workspace, e.ordering_key FROM halts h LEFT JOIN "
            "events e ON e.n = h.event "
            "WHERE h.endpoint = ? ORDER BY h.at_ms, h.event LIMIT ?");
    s->halt_move = db_prepare(
        db, "UPDATE halts SET lane = ?3, lane_key = ?4 WHERE event = ?1 AND "
            "endpoint = ?2");
    return s;
}

void store_lanes_close(struct store_lanes *s)
{
    free(s);
}

static void bind_lane(stmt *q, int i, struct lane lane)
{
    bind_i64(q, i, lane.n);
    bind_i64(q, i + 1, lane.key);
}

static bool found(struct store_lanes *s, stmt *q, int64_t endpoint,
                  struct lane lane)
{
    bool there;

    bind_i64(q, 1, endpoint);
    bind_lane(q, 2, lane);
    there = db_step(s->db, q);
    db_done(q);
    return there;
}

bool store_lane_any(struct store_lanes *s, int64_t endpoint, struct lane lane)
{
    return found(s, s->any, endpoint, lane);
}

static int64_t event_of(struct store_lanes *s, stmt *q, int64_t endpoint,
                        struct lane lane)
{
    int64_t event;

    bind_i64(q, 1, endpoint);
    bind_lane(q, 2, lane);
    event = db_step(s->db, q) ? col_i64(q, 0) : 0;
    db_done(q);
    return event;
}

int64_t store_lane_first(struct store_lanes *s, int64_t endpoint,
                         struct lane lane)
{
    return event_of(s, s->first, endpoint, lane);
}

int64_t store_halting(struct store_lanes *s, int64_t endpoint, struct lane lane)
{
    return event_of(s, s->halting, endpoint, lane);
}

bool store_lane_front(struct store_lanes *s, int64_t endpoint, struct lane lane,
                      struct lane_front *front)
{
    stmt *q = s->front;
    bool there;

    bind_i64(q, 1, endpoint);
    bind_lane(q, 2, lane);
    there = db_step(s->db, q);
    if (there)
        *front = (struct lane_front){.event = col_i64(q, 0),
                                     .route_order = col_i64(q, 1),
                                     .next_ms = col_i64(q, 2),
                                     .behind = col_i64(q, 3) != 0};
    db_done(q);
    return there;
}

void store_lane_step_up(struct store_lanes *s, int64_t event, int64_t endpoint)
{
    bind_i64(s->step_up, 1, event);
    bind_i64(s->step_up, 2, endpoint);
    db_run(s->db, s->step_up);
}

bool store_lane_after(struct store_lanes *s, int64_t endpoint, struct lane lane,
                      struct lane *next)
{
    bool there;

    bind_i64(s->after, 1, endpoint);
    bind_lane(s->after, 2, lane);
    there = db_step(s->db, s->after);
    if (there)
        *next = (struct lane){col_i64(s->after, 0), col_i64(s->after, 1)};
    db_done(s->after);
    return there;
}

int store_lane_range(struct store_lanes *s, int64_t endpoint, bool behind,
                     struct lane_range range, int max, struct lane_row *rows)
{
    stmt *q = behind ? s->range_behind : s->range;
    int n = 0;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, range.from);
    bind_i64(q, 3, range.to);
    bind_i64(q, 4, max);
    for (; n < max && db_step(s->db, q); n++)
        rows[n] = (struct lane_row){col_i64(q, 0), gr_strdup(col_text(q, 1)),
                                    gr_strdup(col_text(q, 2)),
                                    gr_strdup(col_text(q, 3))};
    db_done(q);
    return n;
}

void store_lane_set(struct store_lanes *s, int64_t event, int64_t endpoint,
                    struct lane lane, bool behind)
{
    bind_i64(s->set, 1, event);
    bind_i64(s->set, 2, endpoint);
    bind_lane(s->set, 3, lane);
    bind_i64(s->set, 5, behind);
    db_run(s->db, s->set);
}

/* ---- halts ---- */

void store_halt(struct store_lanes *s, const struct halt_row *h)
{
    bind_i64(s->halt, 1, h->event);
    bind_i64(s->halt, 2, h->endpoint);
    bind_lane(s->halt, 3, h->lane);
    bind_i64(s->halt, 5, h->route_order);
    bind_i64(s->halt, 6, h->at_ms);
    db_run(s->db, s->halt);
}

bool store_unhalt(struct store_lanes *s, int64_t event, int64_t endpoint)
{
    bind_i64(s->unhalt, 1, event);
    bind_i64(s->unhalt, 2, endpoint);
    db_run(s->db, s->unhalt);
    return db_changes(s->db) > 0;
}

void store_unhalt_all(struct store_lanes *s, int64_t endpoint)
{
    bind_i64(s->unhalt_all, 1, endpoint);
    db_run(s->db, s->unhalt_all);
}

bool store_halted(struct store_lanes *s, int64_t endpoint, struct lane lane,
                  int64_t *route_order)
{
    bool there;

    bind_i64(s->halted, 1, endpoint);
    bind_lane(s->halted, 2, lane);
    there = db_step(s->db, s->halted) && !col_null(s->halted, 0);
    if (there)
        *route_order = col_i64(s->halted, 0);
    db_done(s->halted);
    return there;
}

int64_t store_halt_count(struct store_lanes *s, int64_t endpoint)
{
    int64_t n = 0;

    bind_i64(s->halt_count, 1, endpoint);
    if (db_step(s->db, s->halt_count))
        n = col_i64(s->halt_count, 0);
    db_done(s->halt_count);
    return n;
}

int64_t store_halted_endpoint(struct store_lanes *s, int64_t after)
{
    int64_t id = 0;

    bind_i64(s->halt_next, 1, after);
    if (db_step(s->db, s->halt_next))
        id = col_i64(s->halt_next, 0);
    db_done(s->halt_next);
    return id;
}

void store_halts(struct store_lanes *s, int64_t endpoint, int max, halt_fn *fn,
                 void *arg)
{
    stmt *q = s->halts;

    bind_i64(q, 1, endpoint);
    bind_i64(q, 2, max);
    while (db_step(s->db, q))
        fn(arg, &(struct halt_row){.event = col_i64(q, 0),
                                   .endpoint = col_i64(q, 1),
                                   .lane = {col_i64(q, 2), col_i64(q, 3)},
                                   .route_order = col_i64(q, 4),
                                   .at_ms = col_i64(q, 5),
                                   .event_id = col_text(q, 6),
                                   .workspace = col_text(q, 7),
                                   .ordering_key = col_text(q, 8)});
    db_done(q);
}

void store_halt_move(struct store_lanes *s, int64_t event, int64_t endpoint,
                     struct lane lane)
{
    bind_i64(s->halt_move, 1, event);
    bind_i64(s->halt_move, 2, endpoint);
    bind_lane(s->halt_move, 3, lane);
    db_run(s->db, s->halt_move);
}
