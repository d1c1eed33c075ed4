#include "store_order.h"
#include "alloc.h"
#include <stdlib.h>

struct store_order {
    struct db *db;
    stmt *stream, *stream_by_id, *stream_add, *stream_set, *stream_held,
        *held_count, *held_in;
    stmt *epoch, *epoch_set;
    stmt *held_add, *held_first, *held_drop, *held_upto, *held_due,
        *held_hasten, *due_gap, *due_held;
    stmt *gap_add, *gap_before, *gap_of, *gap, *gap_span, *gap_end, *gap_due,
        *gaps_end, *gaps_leave, *gaps_hasten, *gap_figures, *gap_count, *gaps,
        *open_gaps, *gaps_purge;
    stmt *doors, *door_add, *door_drop;
    stmt *object, *object_set, *objects_purge;
    stmt *workspaces, *workspace;
};

#define STREAM_COLUMNS                                      \
    "id, source, workspace, type, kind, next, high, held, " \
    "epoch"
#define GAP_COLUMNS                                                         \
    "id, stream, source, workspace, type, first, last, status, opened_ms, " \
    "closed_ms, note, due"

static void prepare_streams(struct store_order *s, struct db *db)
{
    s->stream = db_prepare(db, "SELECT " STREAM_COLUMNS
                               " FROM streams WHERE source = ? AND "
                               "workspace = ? AND type = ? AND kind = ?");
    s->stream_by_id = db_prepare(db, "SELECT " STREAM_COLUMNS
                                     " FROM streams WHERE id = ?");
    s->stream_add = db_prepare(
        db, "INSERT INTO streams(source, workspace, type, kind, next, high, "
            "epoch) VALUES(?, ?, ?, ?, ?, ?, ?) RETURNING id");
    s->epoch = db_prepare(db,
                          "SELECT form, epoch FROM orders WHERE source = ?");
    s->epoch_set = db_prepare(db, "INSERT OR REPLACE INTO orders(source, form, "
                                  "epoch) VALUES(?, ?, ?)");
    s->stream_set = db_prepare(
        db, "UPDATE streams SET next = ?2, high = ?3, held = ?4, epoch = ?5 "
            "WHERE id = ?1");
    s->stream_held = db_prepare(
        db, "SELECT id FROM streams INDEXED BY streams_held WHERE id > ? AND "
            "held > 0 ORDER BY id LIMIT 1");
    s->held_count = db_prepare(db,
                               "SELECT sum(held) FROM streams WHERE held > 0");
    s->held_in = db_prepare(
        db, "SELECT sum(held) FROM streams WHERE held > 0 AND workspace = ?");
    s->held_add = db_prepare(
        db, "INSERT INTO buffer(stream, place, event, observed, due, life) "
            "VALUES(?, ?, ?, ?, ?, ?)");
    s->held_first = db_prepare(
        db, "SELECT place, event, life, observed FROM buffer WHERE stream = ? "
            "ORDER BY place, event LIMIT 1");
    s->held_drop = db_prepare(
        db, "DELETE FROM buffer WHERE stream = ? AND place = ? AND event = ?");
    s->held_upto = db_prepare(
        db, "SELECT max(place) FROM buffer WHERE stream = ? AND due <= ?");
    s->held_due = db_prepare(
        db, "SELECT stream FROM buffer WHERE due > 0 AND due <= ? ORDER BY due "
            "LIMIT ?");
    s->held_hasten = db_prepare(
        db, "UPDATE buffer INDEXED BY buffer_due SET due = ?2 WHERE due > 0 "
            "AND due > ?2 AND stream IN (SELECT id FROM streams WHERE "
            "source = ?1)");
    s->due_gap = db_prepare(db, "SELECT min(due) FROM gaps WHERE status = 0");
    s->due_held = db_prepare(db, "SELECT min(due) FROM buffer WHERE due > 0");
}

static void prepare_gaps(struct store_order *s, struct db *db)
{
    s->gap_add = db_prepare(
        db, "INSERT INTO gaps(stream, source, workspace, type, first, last, "
            "status, opened_ms, closed_ms, note, due) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
    s->gap_of = db_prepare(db, "SELECT " GAP_COLUMNS " FROM gaps WHERE "
                               "stream = ? AND first <= ? "
                               "ORDER BY first DESC LIMIT 1");
    s->gap = db_prepare(db, "SELECT " GAP_COLUMNS " FROM gaps WHERE id = ?");
    s->gap_before = db_prepare(
        db,
        "SELECT " GAP_COLUMNS " FROM gaps WHERE id = (SELECT max((SELECT id "
        "FROM (SELECT g.id, g.status FROM gaps g WHERE g.stream = s.id AND "
        "g.first < ?4 ORDER BY g.first DESC LIMIT 100) WHERE status <> 1 "
        "LIMIT 1)) FROM streams s WHERE s.source = ?1 AND s.workspace = ?2 "
        "AND s.type IN ('', ?3))");
    s->gap_span = db_prepare(
        db, "UPDATE gaps SET first = ?2, last = ?3 WHERE id = ?1");
    s->gap_end = db_prepare(db, "UPDATE gaps SET status = ?2, closed_ms = ?3, "
                                "note = coalesce(?4, note) WHERE id = ?1");
    s->gap_due = db_prepare(
        db, "SELECT id, stream FROM gaps WHERE status = 0 AND due <= ? "
            "ORDER BY due LIMIT 1");
    s->gaps_end = db_prepare(
        db, "UPDATE gaps SET status = ?2, closed_ms = ?3, note = CASE note "
            "WHEN '' THEN ?4 ELSE note END WHERE stream = ?1 AND status = 0");
    s->gaps_leave = db_prepare(
        db, "UPDATE gaps SET stream = -stream WHERE stream = ?");
    s->gaps_hasten = db_prepare(
        db, "UPDATE gaps INDEXED BY gaps_due SET due = ?2 "
            "WHERE status = 0 AND due > ?2 AND source = ?1");
    s->gap_figures = db_prepare(
        db, "SELECT count(*), (SELECT min(opened_ms) FROM gaps WHERE "
            "status = 0) FROM (SELECT 1 FROM gaps INDEXED BY gaps_opened WHERE "
            "status = 0 LIMIT 10000)");
    s->gap_count = db_prepare(
        db, "SELECT count(*) FROM gaps WHERE status = 0 AND workspace = ?");
    s->gaps = db_prepare(db, "SELECT " GAP_COLUMNS " FROM gaps WHERE id < ? "
                             "ORDER BY id DESC");
    s->open_gaps = db_prepare(db, "SELECT " GAP_COLUMNS
                                  " FROM gaps INDEXED BY gaps_open WHERE "
                                  "id < ? AND status = 0 ORDER BY id DESC");
    s->gaps_purge = db_prepare(
        db, "DELETE FROM gaps WHERE id IN (SELECT id FROM gaps WHERE "
            "status <> 0 AND closed_ms < ? LIMIT ?)");
}

struct store_order *store_order_open(struct db *db)
{
    struct store_order *s = gr_alloc(sizeof *s);

    s->db = db;
    prepare_streams(s, db);
    prepare_gaps(s, db);
    s->doors = db_prepare(db, "SELECT name FROM doors ORDER BY name");
    s->door_add = db_prepare(db, "INSERT OR IGNORE INTO doors(name) VALUES(?)");
    s->door_drop = db_prepare(db, "DELETE FROM doors WHERE name = ?");
    s->object = db_prepare(db, "SELECT state FROM objects WHERE source = ? AND "
                               "workspace = ? AND object = ?");
    s->object_set = db_prepare(
        db, "INSERT OR REPLACE INTO objects(source, workspace, object, state, "
            "moved_ms, last) VALUES(?, ?, ?, ?, ?, ?)");
    s->objects_purge = db_prepare(
        db, "DELETE FROM objects WHERE (source, workspace, object) IN (SELECT "
            "source, workspace, object FROM objects WHERE last = 1 AND "
            "moved_ms < ? LIMIT ?)");
    s->workspaces = db_prepare(
        db, "SELECT name, sequence, clock FROM workspaces ORDER BY name "
            "LIMIT ?");
    s->workspace = db_prepare(
        db, "SELECT name, sequence, clock FROM workspaces WHERE name = ?");
    return s;
}

void store_order_close(struct store_order *s)
{
    free(s);
}

static int64_t one_or(struct store_order *s, stmt *q, int64_t none)
{
    int64_t v = db_step(s->db, q) && !col_null(q, 0) ? col_i64(q, 0) : none;

    db_done(q);
    return v;
}

static int64_t returned(struct store_order *s, stmt *q)
{
    int64_t v = 0;

    while (db_step(s->db, q))
        v = col_i64(q, 0);
    db_done(q);
    return v;
}

/* ---- streams ---- */

static bool read_stream(struct store_order *s, stmt *q, struct stream_row *r)
{
    if (!db_step(s->db, q))
        return false;
    *r = (struct stream_row){.id = col_i64(q, 0),
                             .source = col_text(q, 1),
                             .workspace = col_text(q, 2),
                             .type = col_text(q, 3),
                             .kind = (int)col_i64(q, 4),
                             .next = col_i64(q, 5),
                             .high = col_i64(q, 6),
                             .held = col_i64(q, 7),
                             .epoch = col_i64(q, 8)};
    return true;
}

bool store_stream(struct store_order *s, const char *source,
                  const char *workspace, const char *type, int kind,
                  struct stream_row *r)
{
    store_stream_done(s);
    bind_text(s->stream, 1, source);
    bind_text(s->stream, 2, workspace);
    bind_text(s->stream, 3, type);
    bind_i64(s->stream, 4, kind);
    return read_stream(s, s->stream, r);
}

bool store_stream_by_id(struct store_order *s, int64_t id, struct stream_row *r)
{
    store_stream_done(s);
    bind_i64(s->stream_by_id, 1, id);
    return read_stream(s, s->stream_by_id, r);
}

void store_stream_done(struct store_order *s)
{
    db_done(s->stream);
    db_done(s->stream_by_id);
}

int64_t store_stream_add(struct store_order *s, const struct stream_row *r)
{
    bind_text(s->stream_add, 1, r->source);
    bind_text(s->stream_add, 2, r->workspace);
    bind_text(s->stream_add, 3, r->type);
    bind_i64(s->stream_add, 4, r->kind);
    bind_i64(s->stream_add, 5, r->next);
    bind_i64(s->stream_add, 6, r->high);
    bind_i64(s->stream_add, 7, r->epoch);
    return returned(s, s->stream_add);
}

int64_t store_order_epoch(struct store_order *s, const char *source,
                          int64_t form)
{
    int64_t epoch = 0;
    bool there, same;

    bind_text(s->epoch, 1, source);
    there = db_step(s->db, s->epoch);
    same = there && col_i64(s->epoch, 0) == form;
    if (there)
        epoch = col_i64(s->epoch, 1) + !same;
    db_done(s->epoch);
    if (same)
        return epoch;
    bind_text(s->epoch_set, 1, source);
    bind_i64(s->epoch_set, 2, form);
    bind_i64(s->epoch_set, 3, epoch);
    db_run(s->db, s->epoch_set);
    return epoch;
}

void store_stream_set(struct store_order *s, const struct stream_row *r)
{
    bind_i64(s->stream_set, 1, r->id);
    bind_i64(s->stream_set, 2, r->next);
    bind_i64(s->stream_set, 3, r->high);
    bind_i64(s->stream_set, 4, r->held);
    bind_i64(s->stream_set, 5, r->epoch);
    db_run(s->db, s->stream_set);
}

int64_t store_stream_held(struct store_order *s, int64_t after)
{
    bind_i64(s->stream_held, 1, after);
    return one_or(s, s->stream_held, 0);
}

int64_t store_held_count(struct store_order *s, const char *workspace)
{
    if (!workspace)
        return one_or(s, s->held_count, 0);
    bind_text(s->held_in, 1, workspace);
    return one_or(s, s->held_in, 0);
}

/* ---- buffer ---- */

void store_held_add(struct store_order *s, int64_t stream,
                    const struct held_row *h, int64_t due)
{
    bind_i64(s->held_add, 1, stream);
    bind_i64(s->held_add, 2, h->place);
    bind_i64(s->held_add, 3, h->event);
    bind_i64(s->held_add, 4, h->observed);
    bind_i64(s->held_add, 5, due);
    bind_i64(s->held_add, 6, h->life);
    db_run(s->db, s->held_add);
}

bool store_held_first(struct store_order *s, int64_t stream, struct held_row *h)
{
    stmt *q = s->held_first;
    bool there;

    bind_i64(q, 1, stream);
    there = db_step(s->db, q);
    if (there)
        *h = (struct held_row){col_i64(q, 0), col_i64(q, 1), col_i64(q, 2),
                               col_i64(q, 3) != 0};
    db_done(q);
    return there;
}

void store_held_drop(struct store_order *s, int64_t stream,
                     const struct held_row *h)
{
    bind_i64(s->held_drop, 1, stream);
    bind_i64(s->held_drop, 2, h->place);
    bind_i64(s->held_drop, 3, h->event);
    db_run(s->db, s->held_drop);
}

int64_t store_held_upto(struct store_order *s, int64_t stream, int64_t judged)
{
    bind_i64(s->held_upto, 1, stream);
    bind_i64(s->held_upto, 2, judged);
    return one_or(s, s->held_upto, INT64_MIN);
}

int store_held_due(struct store_order *s, int64_t judged, int most,
                   int64_t *streams)
{
    int n = 0;

    bind_i64(s->held_due, 1, judged);
    bind_i64(s->held_due, 2, most);
    for (; n < most && db_step(s->db, s->held_due); n++)
        streams[n] = col_i64(s->held_due, 0);
    db_done(s->held_due);
    return n;
}

void store_held_hasten(struct store_order *s, const char *source, int64_t due)
{
    bind_text(s->held_hasten, 1, source);
    bind_i64(s->held_hasten, 2, due);
    db_run(s->db, s->held_hasten);
}

int64_t store_next_due(struct store_order *s)
{
    int64_t gap = one_or(s, s->due_gap, INT64_MAX);
    int64_t held = one_or(s, s->due_held, INT64_MAX);

    return gap < held ? gap : held;
}

/* ---- gaps ---- */

int64_t store_gap_add(struct store_order *s, const struct gap_row *g)
{
    stmt *q = s->gap_add;

    bind_i64(q, 1, g->stream);
    bind_text(q, 2, g->source);
    bind_text(q, 3, g->workspace);
    bind_text(q, 4, g->type);
    bind_i64(q, 5, g->span.first);
    bind_i64(q, 6, g->span.last);
    bind_i64(q, 7, g->status);
    bind_i64(q, 8, g->opened_ms);
    bind_i64(q, 9, g->closed_ms);
    bind_text(q, 10, g->note);
    bind_i64(q, 11, g->due);
    return returned(s, q);
}

static void read_gap(stmt *q, struct gap_row *g)
{
    *g = (struct gap_row){.id = col_i64(q, 0),
                          .stream = col_i64(q, 1),
                          .source = col_text(q, 2),
                          .workspace = col_text(q, 3),
                          .type = col_text(q, 4),
                          .span = {col_i64(q, 5), col_i64(q, 6)},
                          .status = (int)col_i64(q, 7),
                          .opened_ms = col_i64(q, 8),
                          .closed_ms = col_i64(q, 9),
                          .note = col_text(q, 10),
                          .due = col_i64(q, 11)};
}

bool store_gap_of(struct store_order *s, int64_t stream, int64_t number,
                  struct gap_row *g)
{
    db_done(s->gap_of);
    bind_i64(s->gap_of, 1, stream);
    bind_i64(s->gap_of, 2, number);
    if (!db_step(s->db, s->gap_of))
        return false;
    read_gap(s->gap_of, g);
    return g->span.last >= number;
}

bool store_gap_before(struct store_order *s, const char *source,
                      const char *workspace, const char *type, int64_t number,
                      struct gap_row *g)
{
    bind_text(s->gap_before, 1, source);
    bind_text(s->gap_before, 2, workspace);
    bind_text(s->gap_before, 3, type);
    bind_i64(s->gap_before, 4, number);
    if (!db_step(s->db, s->gap_before))
        return false;
    read_gap(s->gap_before, g);
    return true;
}

void store_gap_before_done(struct store_order *s)
{
    db_done(s->gap_before);
}

bool store_gap(struct store_order *s, int64_t id, struct gap_row *g)
{
    db_done(s->gap);
    bind_i64(s->gap, 1, id);
    if (!db_step(s->db, s->gap))
        return false;
    read_gap(s->gap, g);
    return true;
}

void store_gap_done(struct store_order *s)
{
    db_done(s->gap_of);
    db_done(s->gap);
}

void store_gap_span(struct store_order *s, int64_t id, struct span span)
{
    bind_i64(s->gap_span, 1, id);
    bind_i64(s->gap_span, 2, span.first);
    bind_i64(s->gap_span, 3, span.last);
    db_run(s->db, s->gap_span);
}

void store_gap_end(struct store_order *s, int64_t id, int status,
                   int64_t closed_ms, const char *note)
{
    bind_i64(s->gap_end, 1, id);
    bind_i64(s->gap_end, 2, status);
    bind_i64(s->gap_end, 3, closed_ms);
    bind_text(s->gap_end, 4, note);
    db_run(s->db, s->gap_end);
}

int64_t store_gap_due(struct store_order *s, int64_t judged, int64_t *stream)
{
    int64_t id = 0;

    bind_i64(s->gap_due, 1, judged);
    if (db_step(s->db, s->gap_due)) {
        id = col_i64(s->gap_due, 0);
        *stream = col_i64(s->gap_due, 1);
    }
    db_done(s->gap_due);
    return id;
}

int store_gaps_leave(struct store_order *s, int64_t stream, int status,
                     int64_t closed_ms, const char *note)
{
    int n;

    bind_i64(s->gaps_end, 1, stream);
    bind_i64(s->gaps_end, 2, status);
    bind_i64(s->gaps_end, 3, closed_ms);
    bind_text(s->gaps_end, 4, note);
    db_run(s->db, s->gaps_end);
    n = db_changes(s->db);
    bind_i64(s->gaps_leave, 1, stream);
    db_run(s->db, s->gaps_leave);
    return n;
}

void store_gaps_hasten(struct store_order *s, const char *source, int64_t due)
{
    bind_text(s->gaps_hasten, 1, source);
    bind_i64(s->gaps_hasten, 2, due);
    db_run(s->db, s->gaps_hasten);
}

void store_gap_figures(struct store_order *s, int64_t *open, int64_t *oldest_ms)
{
    *open = *oldest_ms = 0;
    if (db_step(s->db, s->gap_figures)) {
        *open = col_i64(s->gap_figures, 0);
        *oldest_ms = col_i64(s->gap_figures, 1);
    }
    db_done(s->gap_figures);
}

int64_t store_gap_count(struct store_order *s, const char *workspace)
{
    bind_text(s->gap_count, 1, workspace);
    return one_or(s, s->gap_count, 0);
}

void store_gaps(struct store_order *s, bool open_only, int64_t below,
                gap_fn *fn, void *arg)
{
    stmt *q = open_only ? s->open_gaps : s->gaps;
    struct gap_row g;
    bool more = true;

    bind_i64(q, 1, below);
    while (more && db_step(s->db, q)) {
        read_gap(q, &g);
        more = fn(arg, &g);
    }
    db_done(q);
}

int store_gaps_purge(struct store_order *s, int64_t cutoff_ms, int most)
{
    bind_i64(s->gaps_purge, 1, cutoff_ms);
    bind_i64(s->gaps_purge, 2, most);
    db_run(s->db, s->gaps_purge);
    return db_changes(s->db);
}

/* ---- doors ---- */

void store_doors(struct store_order *s, door_fn *fn, void *arg)
{
    while (db_step(s->db, s->doors))
        fn(arg, col_text(s->doors, 0));
    db_done(s->doors);
}

void store_door_add(struct store_order *s, const char *name)
{
    bind_text(s->door_add, 1, name);
    db_run(s->db, s->door_add);
}

void store_door_drop(struct store_order *s, const char *name)
{
    bind_text(s->door_drop, 1, name);
    db_run(s->db, s->door_drop);
}

/* ---- objects ---- */

char *store_object(struct store_order *s, const char *source,
                   const char *workspace, const char *object)
{
    char *state = NULL;

    bind_text(s->object, 1, source);
    bind_text(s->object, 2, workspace);
    bind_text(s->object, 3, object);
    if (db_step(s->db, s->object))
        state = gr_strdup(col_text(s->object, 0));
    db_done(s->object);
    return state;
}

void store_object_set(struct store_order *s, const char *source,
                      const char *workspace, const char *object,
                      const char *state, int64_t at_ms, bool last)
{
    stmt *q = s->object_set;

    bind_text(q, 1, source);
    bind_text(q, 2, workspace);
    bind_text(q, 3, object);
    bind_text(q, 4, state);
    bind_i64(q, 5, at_ms);
    bind_i64(q, 6, last);
    db_run(s->db, q);
}

int store_objects_purge(struct store_order *s, int64_t cutoff_ms, int most)
{
    bind_i64(s->objects_purge, 1, cutoff_ms);
    bind_i64(s->objects_purge, 2, most);
    db_run(s->db, s->objects_purge);
    return db_changes(s->db);
}

/* ---- workspaces ---- */

void store_workspace_list(struct store_order *s, const char *name, int limit,
                          workspace_fn *fn, void *arg)
{
    stmt *q = name ? s->workspace : s->workspaces;

    if (name)
        bind_text(q, 1, name);
    else
        bind_i64(q, 1, limit);
    while (db_step(s->db, q))
        fn(arg, col_text(q, 0), col_i64(q, 1), col_text(q, 2));
    db_done(q);
}
