#include "alloc.h"
#include "store_order_inside.h"
#include <stddef.h>
#include <stdlib.h>

#define STREAM_COLUMNS \
    "id, source, workspace, type, kind, next, high, held, epoch"

#define AT(field) offsetof(struct store_order, field)

static const struct db_statement statements[] = {
    {AT(stream),
     "SELECT " STREAM_COLUMNS " FROM streams "
     "WHERE source = ? AND workspace = ? AND type = ? AND kind = ?"},
    {AT(stream_by_id), "SELECT " STREAM_COLUMNS " FROM streams WHERE id = ?"},
    {AT(stream_add), "INSERT INTO streams(source, workspace, type, kind, next, "
                     "high, epoch) VALUES(?, ?, ?, ?, ?, ?, ?) RETURNING id"},
    {AT(epoch), "SELECT form, epoch FROM orders WHERE source = ?"},
    {AT(epoch_set),
     "INSERT OR REPLACE INTO orders(source, form, epoch) VALUES(?, ?, ?)"},
    {AT(stream_set), "UPDATE streams SET next = ?2, high = ?3, held = ?4, "
                     "epoch = ?5 WHERE id = ?1"},
    {AT(stream_held), "SELECT id FROM streams INDEXED BY streams_held WHERE id "
                      "> ? AND held > 0 ORDER BY id LIMIT 1"},
    {AT(held_count), "SELECT sum(held) FROM streams WHERE held > 0"},
    {AT(held_in),
     "SELECT sum(held) FROM streams WHERE held > 0 AND workspace = ?"},
    {AT(held_add), "INSERT INTO buffer(stream, place, event, observed, due, "
                   "life) VALUES(?, ?, ?, ?, ?, ?)"},
    {AT(held_first), "SELECT place, event, life, observed FROM buffer WHERE "
                     "stream = ? ORDER BY place, event LIMIT 1"},
    {AT(held_drop),
     "DELETE FROM buffer WHERE stream = ? AND place = ? AND event = ?"},
    {AT(held_upto),
     "SELECT max(place) FROM buffer WHERE stream = ? AND due <= ?"},
    {AT(held_due), "SELECT stream FROM buffer WHERE due > 0 AND due <= ? ORDER "
                   "BY due LIMIT ?"},
    {AT(held_hasten),
     "UPDATE buffer INDEXED BY buffer_due SET due = ?2 WHERE due > 0 AND due > "
     "?2 AND stream IN (SELECT id FROM streams WHERE source = ?1)"},
    {AT(due_gap), "SELECT min(due) FROM gaps WHERE status = 0"},
    {AT(due_held), "SELECT min(due) FROM buffer WHERE due > 0"},
    {AT(doors), "SELECT name FROM doors ORDER BY name"},
    {AT(door_add), "INSERT OR IGNORE INTO doors(name) VALUES(?)"},
    {AT(door_drop), "DELETE FROM doors WHERE name = ?"},
    {AT(object), "SELECT state FROM objects WHERE source = ? AND workspace = ? "
                 "AND object = ?"},
    {AT(object_set), "INSERT OR REPLACE INTO objects(source, workspace, "
                     "object, state, moved_ms, last) VALUES(?, ?, ?, ?, ?, ?)"},
    {AT(objects_purge),
     "DELETE FROM objects WHERE (source, workspace, object) IN (SELECT source, "
     "workspace, object FROM objects WHERE last = 1 AND moved_ms < ? LIMIT ?)"},
    {AT(workspaces),
     "SELECT name, sequence, clock FROM workspaces ORDER BY name LIMIT ?"},
    {AT(workspace),
     "SELECT name, sequence, clock FROM workspaces WHERE name = ?"},
};

struct store_order *store_order_open(struct db *db)
{
    struct store_order *s = gr_alloc(sizeof *s);

    s->db = db;
    db_prepare_all(db, s, statements, COUNT_OF(statements));
    store_prepare_gaps(s);
    return s;
}

void store_order_close(struct store_order *s)
{
    free(s);
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
    return db_number(s->db, s->stream_add, 0);
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
    return db_number(s->db, s->stream_held, 0);
}

int64_t store_held_count(struct store_order *s, const char *workspace)
{
    if (!workspace)
        return db_number(s->db, s->held_count, 0);
    bind_text(s->held_in, 1, workspace);
    return db_number(s->db, s->held_in, 0);
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
    return db_number(s->db, s->held_upto, INT64_MIN);
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
    int64_t gap = db_number(s->db, s->due_gap, INT64_MAX);
    int64_t held = db_number(s->db, s->due_held, INT64_MAX);

    return gap < held ? gap : held;
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
