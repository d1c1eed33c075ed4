#include "store.h"
#include "clock.h"
#include "log.h"
#include "store_inside.h"
#include "stores.h"
#include <stddef.h>
#include <stdlib.h>

extern const char sequencer_store_sql[], sequencer_parts_sql[],
    sequencer_order_sql[], sequencer_replay_sql[], sequencer_streams_sql[],
    sequencer_answers_sql[], sequencer_gone_sql[], sequencer_digests_sql[],
    sequencer_transitions_sql[], sequencer_letters_sql[],
    sequencer_health_sql[], sequencer_guard_sql[], sequencer_delivery_ids_sql[],
    sequencer_reopened_sql[], sequencer_workspace_lanes_sql[],
    sequencer_signed_sql[], sequencer_heads_sql[], sequencer_sums_sql[];

static const char *const steps[] = {
    sequencer_store_sql,    proto_hop_sql,
    sequencer_parts_sql,    sequencer_order_sql,
    sequencer_replay_sql,   sequencer_streams_sql,
    sequencer_answers_sql,  sequencer_gone_sql,
    sequencer_digests_sql,  sequencer_transitions_sql,
    sequencer_letters_sql,  sequencer_health_sql,
    sequencer_guard_sql,    sequencer_delivery_ids_sql,
    sequencer_reopened_sql, sequencer_workspace_lanes_sql,
    sequencer_signed_sql,   sequencer_heads_sql,
    sequencer_sums_sql};
STORE_HAS_STEPS(steps, SEQUENCER_SCHEMA);
const struct db_schema sequencer_schema = {.steps = steps,
                                           .count = COUNT_OF(steps),
                                           .program = "grapnel-sequencer",
                                           .table = "workspaces"};

enum { ROUTED_MAX_BYTES = 16 * ENDPOINTS_MAX, CLOCK_ALL_BYTES = 1024 * 1024 };

#define BUFFERED  "3" /* EVENT_BUFFERED */
#define AT(field) offsetof(struct store, field)

static const struct db_statement statements[] = {
    {AT(meta), "SELECT value FROM meta WHERE key = ?"},
    {AT(meta_set), "INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)"},
    {AT(workspace),
     "SELECT sequence, clock, routed, lane FROM workspaces WHERE name = ?"},
    {AT(workspace_set), "INSERT OR REPLACE INTO workspaces(name, sequence, "
                        "clock, routed, lane) VALUES(?, ?, ?, ?, ?)"},
    {AT(endpoints),
     "SELECT id, name, home, grant_id, config, ordered, state, since_ms, why, "
     "failing_ms, warned, paused_ms, gone_after, failing_for_ms, "
     "healthy, held_ms, held_status, resumed_ms FROM endpoints "
     "ORDER BY id"},
    {AT(endpoint_add), "INSERT INTO endpoints(name) VALUES(?) RETURNING id"},
    {AT(endpoint_set), "UPDATE endpoints SET home = ?2, grant_id = ?3, config "
                       "= ?4 WHERE id = ?1"},
    {AT(endpoint_state),
     "UPDATE endpoints SET ordered = ?2, state = ?3, since_ms = ?4, why = ?5, "
     "failing_ms = ?6, warned = ?7, paused_ms = ?8, gone_after = ?9, "
     "failing_for_ms = ?10, healthy = ?11, held_ms = ?12, held_status = ?13, "
     "resumed_ms = ?14 WHERE id = ?1"},
    /* The highest id stays, so that none is given twice. */
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
     "(d.status < 3 OR d.grant_id <> 0)) OR EXISTS (SELECT 1 FROM letters l "
     "WHERE l.event = events.n) OR EXISTS (SELECT 1 FROM halts h WHERE h.event "
     "= events.n) OR EXISTS (SELECT 1 FROM agains a WHERE a.event = events.n) "
     "FROM events WHERE n > ? ORDER BY n LIMIT ?"},
    {AT(purge_event), "DELETE FROM events WHERE n = ?"},
    {AT(purge_part), "DELETE FROM parts WHERE event = ?"},
    {AT(purge_digest), "DELETE FROM event_digests WHERE event = ?"},
    {AT(purge_transition), "DELETE FROM transitions WHERE event = ?"},
    {AT(purge_deliveries), "DELETE FROM deliveries WHERE event = ?"},
    {AT(purge_attempts), "DELETE FROM attempts WHERE event = ?"},
};

struct store *store_open(struct db *db)
{
    struct store *s = gr_alloc(sizeof *s);

    s->db = db;
    db_prepare_all(db, s, statements, COUNT_OF(statements));
    store_prepare_events(s);
    store_prepare_bodies(s);
    store_prepare_deliveries(s);
    store_prepare_letters(s);
    return s;
}

void store_close(struct store *s)
{
    store_close_bodies(s);
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
                                  const char *name, int64_t place)
{
    struct workspace *ws = workspaces_find(w, name);

    if (ws)
        return ws;
    ws = workspaces_add(w, name);
    bind_text(s->workspace, 1, name);
    if (db_step(s->db, s->workspace)) {
        workspace_read(ws, (uint64_t)col_i64(s->workspace, 0),
                       col_text(s->workspace, 1), col_blob(s->workspace, 2));
        ws->lane = col_i64(s->workspace, 3);
    } else {
        ws->lane = place;
        workspace_changed(w, ws);
    }
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
        bind_text(s->workspace_set, 3, clock.data ? clock.data : "");
        bind_blob(s->workspace_set, 4, (struct bytes){routed.data, routed.len});
        bind_i64(s->workspace_set, 5, ws->lane);
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
                                       .paused_ms = col_i64(q, 11),
                                       .gone_after = col_i64(q, 12),
                                       .failing_for_ms = col_i64(q, 13),
                                       .healthy = col_i64(q, 14) != 0,
                                       .held_ms = col_i64(q, 15),
                                       .held_status = col_i64(q, 16),
                                       .resumed_ms = col_i64(q, 17)});
    db_done(q);
}

int64_t store_endpoint_add(struct store *s, const char *name)
{
    bind_text(s->endpoint_add, 1, name);
    return db_number(s->db, s->endpoint_add, 0);
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
    bind_i64(q, 9, e->gone_after);
    bind_i64(q, 10, e->failing_for_ms);
    bind_i64(q, 11, e->healthy);
    bind_i64(q, 12, e->held_ms);
    bind_i64(q, 13, e->held_status);
    bind_i64(q, 14, e->resumed_ms);
    db_run(s->db, q);
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

/* ---- retention ---- */

static void forget_event(struct store *s, int64_t n)
{
    stmt *const all[] = {s->purge_deliveries, s->purge_attempts,
                         s->purge_part,       s->purge_digest,
                         s->purge_transition, s->purge_event};

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        bind_i64(all[i], 1, n);
        db_run(s->db, all[i]);
    }
    store_body_drop(s, n);
}

/* Rows stand in the order of taking, so behind a young one all are. But not behind
 * one of a time that is still to come: then the clock was wrong. */
static bool is_young(int64_t taken_ms, int64_t now_ms, int64_t before_ms)
{
    return taken_ms >= before_ms && taken_ms <= now_ms + DAY_MS;
}

bool store_purge(struct store *s, int64_t now_ms, int64_t before_ms, int most,
                 int64_t *at)
{
    int64_t gone[TURN_MAX_COUNT];
    int looked = 0, n = 0;
    bool young = false;

    if (most > (int)COUNT_OF(gone))
        most = COUNT_OF(gone);
    bind_i64(s->purge_look, 1, *at);
    bind_i64(s->purge_look, 2, most);
    for (; !young && db_step(s->db, s->purge_look); looked++) {
        int64_t taken_ms = col_i64(s->purge_look, 1);

        young = is_young(taken_ms, now_ms, before_ms);
        if (!young)
            *at = col_i64(s->purge_look, 0);
        if (taken_ms < before_ms && !col_i64(s->purge_look, 2))
            gone[n++] = *at;
    }
    db_done(s->purge_look);
    for (int i = 0; i < n; i++)
        forget_event(s, gone[i]);
    return !young && looked == most;
}
