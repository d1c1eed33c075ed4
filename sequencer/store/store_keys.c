/* store_keys: the statements for idempotency keys and their generations. */
#include "store_keys.h"
#include <stdlib.h>
#include <string.h>

struct store_keys {
    struct db *db;
    stmt *generations, *filter, *generation_add, *generation_set,
        *generation_close, *generation_drop;
    stmt *find, *add, *each, *forget;
    stmt *recent, *recent_add, *recent_drop;
};

struct store_keys *store_keys_open(struct db *db)
{
    struct store_keys *s = gr_alloc(sizeof *s);

    s->db = db;
    s->generations = db_prepare(
        db, "SELECT id, class, count, made_ms, expires_ms, closed FROM "
            "key_generations ORDER BY made_ms, id");
    s->filter = db_prepare(db,
                           "SELECT filter FROM key_generations WHERE id = ?");
    s->generation_add = db_prepare(
        db,
        "INSERT INTO key_generations(id, class, count, made_ms, expires_ms, "
        "closed) VALUES(?, ?, 0, ?, 0, 0)");
    s->generation_set = db_prepare(
        db,
        "UPDATE key_generations SET count = ?2, expires_ms = ?3 WHERE id = ?1");
    s->generation_close = db_prepare(
        db,
        "UPDATE key_generations SET count = ?2, expires_ms = ?3, closed = 1, "
        "filter = ?4 WHERE id = ?1");
    s->generation_drop = db_prepare(db,
                                    "DELETE FROM key_generations WHERE id = ?");
    s->find = db_prepare(db, "SELECT rest, event, received_ms FROM keys "
                             "WHERE k = ?");
    s->add = db_prepare(db, "INSERT OR REPLACE INTO keys(k, rest, event, "
                            "received_ms) VALUES(?, ?, ?, ?)");
    s->each = db_prepare(db,
                         "SELECT k, rest FROM keys WHERE k >= ? AND k <= ?");
    s->forget = db_prepare(
        db, "DELETE FROM keys WHERE k IN (SELECT k FROM keys WHERE k >= ? AND "
            "k <= ? LIMIT ?)");
    s->recent = db_prepare(db, "SELECT n, keys FROM recent_keys ORDER BY n");
    s->recent_add = db_prepare(db,
                               "INSERT INTO recent_keys(n, keys) VALUES(?, ?)");
    s->recent_drop = db_prepare(db, "DELETE FROM recent_keys WHERE n <= ?");
    return s;
}

void store_keys_close(struct store_keys *s)
{
    free(s);
}

void store_keys_generations(struct store_keys *s, generation_fn *fn, void *arg)
{
    stmt *q = s->generations;

    while (db_step(s->db, q)) {
        struct generation g = {.id = col_i64(q, 0),
                               .class = (int)col_i64(q, 1),
                               .count = col_i64(q, 2),
                               .made_ms = col_i64(q, 3),
                               .expires_ms = col_i64(q, 4),
                               .closed = col_i64(q, 5) != 0};

        fn(arg, &g);
    }
    db_done(q);
}

void store_keys_filter(struct store_keys *s, struct generation *g)
{
    bind_i64(s->filter, 1, g->id);
    if (db_step(s->db, s->filter)) {
        struct bytes b = col_blob(s->filter, 0);

        /* The size of a filter is a power of two: ignore a damaged one. */
        if (b.n && !(b.n & (b.n - 1))) {
            filter_init(&g->filter, 8 * (uint64_t)b.n);
            memcpy(g->filter.bits, b.p, b.n);
        }
    }
    db_done(s->filter);
}

void store_keys_generation_add(struct store_keys *s, const struct generation *g)
{
    bind_i64(s->generation_add, 1, g->id);
    bind_i64(s->generation_add, 2, g->class);
    bind_i64(s->generation_add, 3, g->made_ms);
    db_run(s->db, s->generation_add);
}

static void bind_figures(stmt *q, const struct generation *g)
{
    bind_i64(q, 1, g->id);
    bind_i64(q, 2, g->count);
    bind_i64(q, 3, g->expires_ms);
}

void store_keys_generation_set(struct store_keys *s, const struct generation *g)
{
    bind_figures(s->generation_set, g);
    db_run(s->db, s->generation_set);
}

void store_keys_generation_close(struct store_keys *s,
                                 const struct generation *g)
{
    bind_figures(s->generation_close, g);
    bind_blob(s->generation_close, 4,
              (struct bytes){g->filter.bits, g->filter.bit_count / 8});
    db_run(s->db, s->generation_close);
}

void store_keys_generation_drop(struct store_keys *s, int64_t id)
{
    bind_i64(s->generation_drop, 1, id);
    db_run(s->db, s->generation_drop);
}

bool store_keys_find(struct store_keys *s, int64_t k, struct key_row *row)
{
    stmt *q = s->find;
    bool there;

    bind_i64(q, 1, k);
    there = db_step(s->db, q);
    if (there)
        *row = (struct key_row){k, col_i64(q, 0), col_i64(q, 1), col_i64(q, 2)};
    db_done(q);
    return there;
}

void store_keys_add(struct store_keys *s, const struct key_row *row)
{
    bind_i64(s->add, 1, row->k);
    bind_i64(s->add, 2, row->rest);
    bind_i64(s->add, 3, row->event);
    bind_i64(s->add, 4, row->received_ms);
    db_run(s->db, s->add);
}

void store_keys_each(struct store_keys *s, int64_t first, struct filter *f)
{
    bind_i64(s->each, 1, first);
    bind_i64(s->each, 2, first | KEY_OF_ROW);
    while (db_step(s->db, s->each))
        filter_add(f, (struct key){(uint64_t)(col_i64(s->each, 0) & KEY_OF_ROW),
                                   (uint64_t)col_i64(s->each, 1)});
    db_done(s->each);
}

int store_keys_forget(struct store_keys *s, int64_t first, int max)
{
    bind_i64(s->forget, 1, first);
    bind_i64(s->forget, 2, first | KEY_OF_ROW);
    bind_i64(s->forget, 3, max);
    db_run(s->db, s->forget);
    return db_changes(s->db);
}

void store_keys_recent(struct store_keys *s, recent_row_fn *fn, void *arg)
{
    while (db_step(s->db, s->recent))
        fn(arg, col_i64(s->recent, 0), col_blob(s->recent, 1));
    db_done(s->recent);
}

void store_keys_recent_add(struct store_keys *s, int64_t n, struct bytes keys)
{
    bind_i64(s->recent_add, 1, n);
    bind_blob(s->recent_add, 2, keys);
    db_run(s->db, s->recent_add);
}

void store_keys_recent_drop(struct store_keys *s, int64_t n)
{
    bind_i64(s->recent_drop, 1, n);
    db_run(s->db, s->recent_drop);
}
