/* store_order: the statements for streams, buffered events, gaps, ingress processes and objects. */
#include "store_order.h"
#include "alloc.h"
#include <stddef.h>
#include <stdlib.h>

struct store_order {
    struct db *db;
    stmt *stream, *stream_by_id, *stream_add, *stream_set, *stream_buffering,
        *buffered_count, *buffered_in;
    stmt *epoch, *epoch_set;
    stmt *buffered_add, *buffered_first, *buffered_drop, *buffered_upto,
        *buffered_due, *buffered_shorten_waits, *due_gap, *due_buffered;
    stmt *gap_add, *gap_before, *gap_of, *gap, *gap_span, *gap_end, *gap_due,
        *gaps_end, *gaps_detach, *gaps_shorten_waits, *gap_figures, *gap_count,
        *gaps, *open_gaps, *open_gaps_of, *gaps_purge;
    stmt *ingresses, *ingress_add, *ingress_drop;
    stmt *object, *object_set, *objects_purge;
    stmt *workspaces, *workspace;
};

#define STREAM "SELECT id, " ROW_NAMES(STREAM_COLUMNS) " FROM streams "
#define GAP    "SELECT id, " ROW_NAMES(GAP_COLUMNS) " FROM gaps "

#define AT(field) offsetof(struct store_order, field)

static const struct db_statement statements[] = {
    {AT(stream),
     STREAM "WHERE source = ? AND workspace = ? AND type = ? AND kind = ?"},
    {AT(stream_by_id), STREAM "WHERE id = ?"},
    {AT(stream_add), ROW_INSERT("streams", STREAM_COLUMNS) " RETURNING id"},
    {AT(epoch), "SELECT form, epoch FROM orders WHERE source = ?"},
    {AT(epoch_set),
     "INSERT OR REPLACE INTO orders(source, form, epoch) VALUES(?, ?, ?)"},
    {AT(stream_set), "UPDATE streams SET next = ?2, high = ?3, held = ?4, "
                     "epoch = ?5 WHERE id = ?1"},
    {AT(stream_buffering),
     "SELECT id FROM streams INDEXED BY streams_held WHERE id "
     "> ? AND held > 0 ORDER BY id LIMIT 1"},
    {AT(buffered_count), "SELECT sum(held) FROM streams WHERE held > 0"},
    {AT(buffered_in),
     "SELECT sum(held) FROM streams WHERE held > 0 AND workspace = ?"},
    {AT(buffered_add),
     "INSERT INTO buffer(stream, position, event, observed, due, "
     "generation) VALUES(?, ?, ?, ?, ?, ?)"},
    {AT(buffered_first),
     "SELECT position, event, generation, observed FROM buffer WHERE "
     "stream = ? ORDER BY position, event LIMIT 1"},
    {AT(buffered_drop),
     "DELETE FROM buffer WHERE stream = ? AND position = ? AND event = ?"},
    {AT(buffered_upto),
     "SELECT max(position) FROM buffer WHERE stream = ? AND due <= ?"},
    {AT(buffered_due),
     "SELECT stream FROM buffer WHERE due > 0 AND due <= ? ORDER "
     "BY due LIMIT ?"},
    {AT(buffered_shorten_waits),
     "UPDATE buffer INDEXED BY buffer_due SET due = ?2 WHERE due > 0 AND due > "
     "?2 AND stream IN (SELECT id FROM streams WHERE source = ?1)"},
    {AT(due_gap), "SELECT min(due) FROM gaps WHERE status = 0"},
    {AT(due_buffered), "SELECT min(due) FROM buffer WHERE due > 0"},
    {AT(ingresses), "SELECT name FROM ingresses ORDER BY name"},
    {AT(ingress_add), "INSERT OR IGNORE INTO ingresses(name) VALUES(?)"},
    {AT(ingress_drop), "DELETE FROM ingresses WHERE name = ?"},
    {AT(object), "SELECT state FROM objects WHERE source = ? AND workspace = ? "
                 "AND object = ?"},
    {AT(object_set), "INSERT OR REPLACE INTO objects(source, workspace, "
                     "object, state, moved_ms, last) VALUES(?, ?, ?, ?, ?, ?)"},
    {AT(objects_purge),
     "DELETE FROM objects WHERE (source, workspace, object) IN (SELECT source, "
     "workspace, object FROM objects WHERE last = 1 AND moved_ms < ? LIMIT ?)"},
    {AT(workspaces),
     "SELECT name, sequence, clock FROM workspaces WHERE name > ? ORDER BY "
     "name"},
    {AT(workspace),
     "SELECT name, sequence, clock FROM workspaces WHERE name = ?"},
    {AT(gap_add), ROW_INSERT("gaps", GAP_COLUMNS) " RETURNING id"},
    {AT(gap_before), GAP
     "WHERE id = (SELECT max((SELECT id FROM (SELECT g.id, g.status "
     "FROM gaps g WHERE g.stream = s.id AND g.first < ?4 ORDER BY g.first DESC "
     "LIMIT 100) WHERE status <> 1 LIMIT 1)) FROM streams s WHERE s.source = "
     "?1 AND s.workspace = ?2 AND s.type IN ('', ?3))"},
    {AT(gap_of),
     GAP "WHERE stream = ? AND first <= ? ORDER BY first DESC LIMIT 1"},
    {AT(gap), GAP "WHERE id = ?"},
    {AT(gap_span), "UPDATE gaps SET first = ?2, last = ?3 WHERE id = ?1"},
    {AT(gap_end), "UPDATE gaps SET status = ?2, closed_ms = ?3, note = "
                  "coalesce(?4, note) WHERE id = ?1"},
    {AT(gap_due), "SELECT id, stream FROM gaps WHERE status = 0 AND due <= ? "
                  "ORDER BY due LIMIT 1"},
    {AT(gaps_end),
     "UPDATE gaps SET status = ?2, closed_ms = ?3, note = CASE note WHEN '' "
     "THEN ?4 ELSE note END WHERE stream = ?1 AND status = 0"},
    {AT(gaps_detach), "UPDATE gaps SET stream = -stream WHERE stream = ?"},
    {AT(gaps_shorten_waits),
     "UPDATE gaps INDEXED BY gaps_due SET due = ?2 WHERE "
     "status = 0 AND due > ?2 AND source = ?1"},
    {AT(gap_figures), "SELECT count(*), (SELECT min(opened_ms) FROM gaps WHERE "
                      "status = 0) FROM (SELECT 1 FROM gaps INDEXED BY "
                      "gaps_opened WHERE status = 0 LIMIT 10000)"},
    {AT(gap_count),
     "SELECT count(*) FROM gaps WHERE status = 0 AND workspace = ?"},
    {AT(gaps), GAP "WHERE id < ? ORDER BY id DESC"},
    {AT(open_gaps_of), GAP "WHERE stream = ? AND status = 0 ORDER BY first"},
    {AT(open_gaps),
     GAP "INDEXED BY gaps_open WHERE id < ? AND status = 0 ORDER BY id DESC"},
    {AT(gaps_purge), "DELETE FROM gaps WHERE id IN (SELECT id FROM gaps WHERE "
                     "status <> 0 AND closed_ms < ? LIMIT ?)"},
};

struct store_order *store_order_open(struct db *db)
{
    struct store_order *s = gr_alloc(sizeof *s);

    s->db = db;
    db_prepare_all(db, s, statements, COUNT_OF(statements));
    return s;
}

void store_order_close(struct store_order *s)
{
    free(s);
}

/* ---- streams ---- */

static bool read_stream(struct store_order *s, stmt *q, struct stream_row *r)
{
    int i = 1;

    if (!db_step(s->db, q))
        return false;
    r->id = col_i64(q, 0);
    ROW_READ(STREAM_COLUMNS, q, i, r);
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
    int i = 0;

    ROW_BIND(STREAM_COLUMNS, s->stream_add, i, r);
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

int64_t store_stream_buffering(struct store_order *s, int64_t after)
{
    bind_i64(s->stream_buffering, 1, after);
    return db_number(s->db, s->stream_buffering, 0);
}

int64_t store_buffered_count(struct store_order *s, const char *workspace)
{
    if (!workspace)
        return db_number(s->db, s->buffered_count, 0);
    bind_text(s->buffered_in, 1, workspace);
    return db_number(s->db, s->buffered_in, 0);
}

/* ---- buffer ---- */

void store_buffered_add(struct store_order *s, int64_t stream,
                        const struct buffered_row *h, int64_t due)
{
    bind_i64(s->buffered_add, 1, stream);
    bind_i64(s->buffered_add, 2, h->position);
    bind_i64(s->buffered_add, 3, h->event);
    bind_i64(s->buffered_add, 4, h->observed);
    bind_i64(s->buffered_add, 5, due);
    bind_i64(s->buffered_add, 6, h->generation);
    db_run(s->db, s->buffered_add);
}

bool store_buffered_first(struct store_order *s, int64_t stream,
                          struct buffered_row *h)
{
    stmt *q = s->buffered_first;
    bool there;

    bind_i64(q, 1, stream);
    there = db_step(s->db, q);
    if (there)
        *h = (struct buffered_row){col_i64(q, 0), col_i64(q, 1), col_i64(q, 2),
                                   col_i64(q, 3) != 0};
    db_done(q);
    return there;
}

void store_buffered_drop(struct store_order *s, int64_t stream,
                         const struct buffered_row *h)
{
    bind_i64(s->buffered_drop, 1, stream);
    bind_i64(s->buffered_drop, 2, h->position);
    bind_i64(s->buffered_drop, 3, h->event);
    db_run(s->db, s->buffered_drop);
}

int64_t store_buffered_upto(struct store_order *s, int64_t stream,
                            int64_t clock)
{
    bind_i64(s->buffered_upto, 1, stream);
    bind_i64(s->buffered_upto, 2, clock);
    return db_number(s->db, s->buffered_upto, INT64_MIN);
}

int store_buffered_due(struct store_order *s, int64_t clock, int max,
                       int64_t *streams)
{
    int n = 0;

    bind_i64(s->buffered_due, 1, clock);
    bind_i64(s->buffered_due, 2, max);
    for (; n < max && db_step(s->db, s->buffered_due); n++)
        streams[n] = col_i64(s->buffered_due, 0);
    db_done(s->buffered_due);
    return n;
}

void store_buffered_shorten_waits(struct store_order *s, const char *source,
                                  int64_t due)
{
    bind_text(s->buffered_shorten_waits, 1, source);
    bind_i64(s->buffered_shorten_waits, 2, due);
    db_run(s->db, s->buffered_shorten_waits);
}

int64_t store_next_due(struct store_order *s)
{
    int64_t gap = db_number(s->db, s->due_gap, INT64_MAX);
    int64_t held = db_number(s->db, s->due_buffered, INT64_MAX);

    return gap < held ? gap : held;
}

/* ---- gaps ---- */

int64_t store_gap_add(struct store_order *s, const struct gap_row *g)
{
    int i = 0;

    ROW_BIND(GAP_FACTS, s->gap_add, i, g);
    ROW_BIND(GAP_SPAN, s->gap_add, i, &g->span);
    return db_number(s->db, s->gap_add, 0);
}

static void read_gap(stmt *q, struct gap_row *g)
{
    int i = 1;

    g->id = col_i64(q, 0);
    ROW_READ(GAP_FACTS, q, i, g);
    ROW_READ(GAP_SPAN, q, i, &g->span);
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

int64_t store_gap_due(struct store_order *s, int64_t clock, int64_t *stream)
{
    int64_t id = 0;

    bind_i64(s->gap_due, 1, clock);
    if (db_step(s->db, s->gap_due)) {
        id = col_i64(s->gap_due, 0);
        *stream = col_i64(s->gap_due, 1);
    }
    db_done(s->gap_due);
    return id;
}

int store_gaps_skip_all(struct store_order *s, int64_t stream, int status,
                        int64_t closed_ms, const char *note)
{
    int n;

    bind_i64(s->gaps_end, 1, stream);
    bind_i64(s->gaps_end, 2, status);
    bind_i64(s->gaps_end, 3, closed_ms);
    bind_text(s->gaps_end, 4, note);
    db_run(s->db, s->gaps_end);
    n = db_changes(s->db);
    bind_i64(s->gaps_detach, 1, stream);
    db_run(s->db, s->gaps_detach);
    return n;
}

void store_gaps_shorten_waits(struct store_order *s, const char *source,
                              int64_t due)
{
    bind_text(s->gaps_shorten_waits, 1, source);
    bind_i64(s->gaps_shorten_waits, 2, due);
    db_run(s->db, s->gaps_shorten_waits);
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
    return db_number(s->db, s->gap_count, 0);
}

static void each_gap(struct store_order *s, stmt *q, gap_fn *fn, void *arg)
{
    struct gap_row g;
    bool more = true;

    while (more && db_step(s->db, q)) {
        read_gap(q, &g);
        more = fn(arg, &g);
    }
    db_done(q);
}

void store_gaps(struct store_order *s, bool open_only, int64_t below,
                gap_fn *fn, void *arg)
{
    stmt *q = open_only ? s->open_gaps : s->gaps;

    bind_i64(q, 1, below);
    each_gap(s, q, fn, arg);
}

void store_gaps_open_of(struct store_order *s, int64_t stream, gap_fn *fn,
                        void *arg)
{
    bind_i64(s->open_gaps_of, 1, stream);
    each_gap(s, s->open_gaps_of, fn, arg);
}

int store_gaps_purge(struct store_order *s, int64_t cutoff_ms, int max)
{
    bind_i64(s->gaps_purge, 1, cutoff_ms);
    bind_i64(s->gaps_purge, 2, max);
    db_run(s->db, s->gaps_purge);
    return db_changes(s->db);
}

/* ---- ingress processes ---- */

void store_ingresses(struct store_order *s, ingress_fn *fn, void *arg)
{
    while (db_step(s->db, s->ingresses))
        fn(arg, col_text(s->ingresses, 0));
    db_done(s->ingresses);
}

void store_ingress_add(struct store_order *s, const char *name)
{
    bind_text(s->ingress_add, 1, name);
    db_run(s->db, s->ingress_add);
}

void store_ingress_drop(struct store_order *s, const char *name)
{
    bind_text(s->ingress_drop, 1, name);
    db_run(s->db, s->ingress_drop);
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

int store_objects_purge(struct store_order *s, int64_t cutoff_ms, int max)
{
    bind_i64(s->objects_purge, 1, cutoff_ms);
    bind_i64(s->objects_purge, 2, max);
    db_run(s->db, s->objects_purge);
    return db_changes(s->db);
}

/* ---- workspaces ---- */

bool store_workspace_row(struct store_order *s, const char *name,
                         workspace_fn *fn, void *arg)
{
    stmt *q = s->workspace;
    bool found;

    bind_text(q, 1, name);
    found = db_step(s->db, q);
    if (found)
        fn(arg, col_text(q, 0), col_i64(q, 1), col_text(q, 2));
    db_done(q);
    return found;
}

void store_workspace_list(struct store_order *s, const char *after,
                          workspace_fn *fn, void *arg)
{
    stmt *q = s->workspaces;

    bind_text(q, 1, after);
    while (db_step(s->db, q) &&
           fn(arg, col_text(q, 0), col_i64(q, 1), col_text(q, 2)))
        ;
    db_done(q);
}
