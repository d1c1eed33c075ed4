/* reject_store: statements of refused requests. */
#include "reject_store.h"
#include "wire.h"

#define REJECT                                                                \
    "SELECT " ROW_NAMES(                                                      \
        REJECT_COLUMNS) ", EXISTS (SELECT 1 FROM reject_bodies b WHERE b.id " \
                        "= rejects.id AND length(b.body) > 0) FROM rejects"

void reject_store_open(struct reject_store *s, struct db *db)
{
    s->db = db;
    s->reject = db_prepare(
        db, ROW_REPLACE_WITH("rejects", REJECT_COLUMNS, ", slot", ", :slot"));
    s->reject_at = db_prepare(
        db, "SELECT id FROM rejects WHERE source = ?1 AND slot = ?2");
    s->reject_find = db_prepare(db, REJECT " WHERE id = ?1 AND id <> ''");
    s->body_put = db_prepare(db, "INSERT INTO reject_bodies (id, source, at_ms,"
                                 " body, head) VALUES (?1, ?2, ?3, ?4, ?5)");
    s->body_get = db_prepare(
        db, "SELECT body, head FROM reject_bodies WHERE id = ?1");
    s->body_drop = db_prepare(db, "DELETE FROM reject_bodies WHERE id = ?1"
                                  " RETURNING source, length(body) +"
                                  " length(head)");
    s->body_first_of = db_prepare(db, "SELECT id FROM reject_bodies WHERE"
                                      " source = ?1 ORDER BY n LIMIT 1");
    s->body_first = db_prepare(
        db, "SELECT id, at_ms FROM reject_bodies ORDER BY n LIMIT 1");
    s->bodies = db_prepare(db, "SELECT source, length(head) + length(body)"
                               " FROM reject_bodies");
    s->reject_last = db_prepare(db,
                                "SELECT max(n) FROM rejects WHERE source = ?1");
    s->reject_erase = db_prepare(
        db, "DELETE FROM rejects WHERE id = ?1 AND id <> ''");
    s->rejects = db_prepare(db, REJECT " ORDER BY at_ms DESC, n DESC");
    s->rejects_of = db_prepare(db, REJECT " WHERE source = ?1 ORDER BY n DESC");
    s->rejects_by = db_prepare(db, REJECT
                               " WHERE delivery_id = ?1 ORDER BY at_ms DESC");
}

void store_reject(struct reject_store *s, const struct reject_row *row)
{
    int i = 0;

    ROW_BIND(REJECT_COLUMNS, s->reject, i, row);
    bind_i64(s->reject, ++i, row->n % REJECTS_KEPT);
    db_run(s->db, s->reject);
}

static struct reject_row read_reject(stmt *q)
{
    struct reject_row row;
    int i = 0;

    ROW_READ(REJECT_COLUMNS, q, i, &row);
    row.has_body = col_flag(q, i);
    return row;
}

int64_t store_reject_last(struct reject_store *s, const char *source)
{
    int64_t n = 0;

    bind_text(s->reject_last, 1, source);
    if (db_step(s->db, s->reject_last))
        n = col_i64(s->reject_last, 0);
    db_done(s->reject_last);
    return n;
}

static void walk_rejects(struct reject_store *s, stmt *q, reject_fn *fn,
                         void *arg)
{
    bool more = true;

    while (more && db_step(s->db, q)) {
        struct reject_row row = read_reject(q);

        more = fn(arg, &row);
    }
    db_done(q);
}

void store_rejects(struct reject_store *s, const char *source, reject_fn *fn,
                   void *arg)
{
    stmt *q = source ? s->rejects_of : s->rejects;

    if (source)
        bind_text(q, 1, source);
    walk_rejects(s, q, fn, arg);
}

void store_rejects_by(struct reject_store *s, const char *delivery_id,
                      reject_fn *fn, void *arg)
{
    bind_text(s->rejects_by, 1, delivery_id);
    walk_rejects(s, s->rejects_by, fn, arg);
}

bool store_reject_find(struct reject_store *s, const char *id,
                       struct reject_row *row)
{
    bind_text(s->reject_find, 1, id);
    if (!db_step(s->db, s->reject_find))
        return false;
    *row = read_reject(s->reject_find);
    return true;
}

void store_reject_done(struct reject_store *s)
{
    db_done(s->reject_find);
}

/* ---- their bodies ---- */

void store_reject_body_add(struct reject_store *s, const char *id,
                           const char *source, int64_t at_ms, struct bytes body,
                           struct bytes head)
{
    bind_text(s->body_put, 1, id);
    bind_text(s->body_put, 2, source);
    bind_i64(s->body_put, 3, at_ms);
    bind_blob(s->body_put, 4, body);
    bind_blob(s->body_put, 5, head);
    db_run(s->db, s->body_put);
}

bool store_reject_body(struct reject_store *s, const char *id,
                       struct bytes *body, struct bytes *head)
{
    bind_text(s->body_get, 1, id);
    if (!db_step(s->db, s->body_get))
        return false;
    *body = col_blob(s->body_get, 0);
    *head = col_blob(s->body_get, 1);
    return true;
}

void store_reject_body_done(struct reject_store *s)
{
    db_done(s->body_get);
}

static void drop_body(struct reject_store *s, const char *id,
                      reject_body_fn *fn, void *arg)
{
    bind_text(s->body_drop, 1, id);
    while (db_step(s->db, s->body_drop))
        fn(arg, col_text(s->body_drop, 0), col_i64(s->body_drop, 1));
    db_done(s->body_drop);
}

void store_reject_erase(struct reject_store *s, const char *id,
                        reject_body_fn *fn, void *arg)
{
    drop_body(s, id, fn, arg);
    bind_text(s->reject_erase, 1, id);
    db_run(s->db, s->reject_erase);
}

/* The id in the row of `q`, if there is one. */
static bool first_id(struct reject_store *s, stmt *q,
                     char id[REJECT_ID_BYTES + 1])
{
    bool found = db_step(s->db, q);

    if (found)
        wire_copy(id, REJECT_ID_BYTES + 1, wire_text(col_text(q, 0)));
    db_done(q);
    return found;
}

void store_reject_body_replaced(struct reject_store *s, const char *source,
                                int64_t n, reject_body_fn *fn, void *arg)
{
    char id[REJECT_ID_BYTES + 1];

    bind_text(s->reject_at, 1, source);
    bind_i64(s->reject_at, 2, n % REJECTS_KEPT);
    if (first_id(s, s->reject_at, id))
        drop_body(s, id, fn, arg);
}

bool store_reject_body_drop_first(struct reject_store *s, const char *source,
                                  reject_body_fn *fn, void *arg)
{
    char id[REJECT_ID_BYTES + 1];
    bool found;

    bind_text(s->body_first_of, 1, source);
    found = first_id(s, s->body_first_of, id);
    if (found)
        drop_body(s, id, fn, arg);
    return found && !db_full(s->db);
}

bool store_reject_body_drop_old(struct reject_store *s, int64_t before_ms,
                                int64_t after_ms, reject_body_fn *fn, void *arg)
{
    stmt *q = s->body_first;
    char id[REJECT_ID_BYTES + 1];
    bool old = db_step(s->db, q) &&
               (col_i64(q, 1) < before_ms || col_i64(q, 1) > after_ms);

    if (old)
        wire_copy(id, sizeof id, wire_text(col_text(q, 0)));
    db_done(q);
    if (old)
        drop_body(s, id, fn, arg);
    return old && !db_full(s->db);
}

void store_reject_bodies(struct reject_store *s, reject_body_fn *fn, void *arg)
{
    while (db_step(s->db, s->bodies))
        fn(arg, col_text(s->bodies, 0), col_i64(s->bodies, 1));
    db_done(s->bodies);
}
