/* The rows of gaps. */
#include "store_order_inside.h"
#include <stddef.h>

#define GAP_COLUMNS                                                         \
    "id, stream, source, workspace, type, first, last, status, opened_ms, " \
    "closed_ms, note, due"

#define AT(field) offsetof(struct store_order, field)

static const struct db_statement statements[] = {
    {AT(gap_add), "INSERT INTO gaps(stream, source, workspace, type, first, "
                  "last, status, opened_ms, closed_ms, note, due) VALUES(?, ?, "
                  "?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"},
    {AT(gap_before),
     "SELECT " GAP_COLUMNS
     " FROM gaps WHERE id = (SELECT max((SELECT id FROM (SELECT g.id, g.status "
     "FROM gaps g WHERE g.stream = s.id AND g.first < ?4 ORDER BY g.first DESC "
     "LIMIT 100) WHERE status <> 1 LIMIT 1)) FROM streams s WHERE s.source = "
     "?1 AND s.workspace = ?2 AND s.type IN ('', ?3))"},
    {AT(gap_of),
     "SELECT " GAP_COLUMNS
     " FROM gaps WHERE stream = ? AND first <= ? ORDER BY first DESC LIMIT 1"},
    {AT(gap), "SELECT " GAP_COLUMNS " FROM gaps WHERE id = ?"},
    {AT(gap_span), "UPDATE gaps SET first = ?2, last = ?3 WHERE id = ?1"},
    {AT(gap_end), "UPDATE gaps SET status = ?2, closed_ms = ?3, note = "
                  "coalesce(?4, note) WHERE id = ?1"},
    {AT(gap_due), "SELECT id, stream FROM gaps WHERE status = 0 AND due <= ? "
                  "ORDER BY due LIMIT 1"},
    {AT(gaps_end),
     "UPDATE gaps SET status = ?2, closed_ms = ?3, note = CASE note WHEN '' "
     "THEN ?4 ELSE note END WHERE stream = ?1 AND status = 0"},
    {AT(gaps_leave), "UPDATE gaps SET stream = -stream WHERE stream = ?"},
    {AT(gaps_hasten), "UPDATE gaps INDEXED BY gaps_due SET due = ?2 WHERE "
                      "status = 0 AND due > ?2 AND source = ?1"},
    {AT(gap_figures), "SELECT count(*), (SELECT min(opened_ms) FROM gaps WHERE "
                      "status = 0) FROM (SELECT 1 FROM gaps INDEXED BY "
                      "gaps_opened WHERE status = 0 LIMIT 10000)"},
    {AT(gap_count),
     "SELECT count(*) FROM gaps WHERE status = 0 AND workspace = ?"},
    {AT(gaps),
     "SELECT " GAP_COLUMNS " FROM gaps WHERE id < ? ORDER BY id DESC"},
    {AT(open_gaps), "SELECT " GAP_COLUMNS " FROM gaps INDEXED BY gaps_open "
                    "WHERE id < ? AND status = 0 ORDER BY id DESC"},
    {AT(gaps_purge), "DELETE FROM gaps WHERE id IN (SELECT id FROM gaps WHERE "
                     "status <> 0 AND closed_ms < ? LIMIT ?)"},
};

void store_prepare_gaps(struct store_order *s)
{
    db_prepare_all(s->db, s, statements, COUNT_OF(statements));
}

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
    return db_number(s->db, q, 0);
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
    return db_number(s->db, s->gap_count, 0);
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
