/* store_keys: the statements for idempotency keys and their generations. */
#include "store_keys.h"
#include <stdlib.h>
#include <string.h>

#define ROW_MASK ((1LL << KEY_HASH_BITS) - 1)

struct store_keys {
    struct db *db;
    stmt *generations, *filter, *generation_add, *generation_set,
        *generation_close, *generation_drop;
    stmt *find, *add, *each, *forget;
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

int64_t store_keys_find(struct store_keys *s, int64_t first, struct key key,
                        int64_t from_ms, int64_t to_ms)
{
    stmt *q = s->find;
    int64_t event = 0;

    bind_i64(q, 1, first | (int64_t)key.hash);
    if (db_step(s->db, q) && (uint64_t)col_i64(q, 0) == key.check &&
        col_i64(q, 2) >= from_ms && col_i64(q, 2) <= to_ms)
        event = col_i64(q, 1);
    db_done(q);
    return event;
}

/* Another key with the same 48 bits loses its row: three in a billion. A duplicate of its event
 * is then delivered, which is better than suppressing another event. */
void store_keys_add(struct store_keys *s, int64_t first, struct key key,
                    int64_t event, int64_t received_ms)
{
    bind_i64(s->add, 1, first | (int64_t)key.hash);
    bind_i64(s->add, 2, (int64_t)key.check);
    bind_i64(s->add, 3, event);
    bind_i64(s->add, 4, received_ms);
    db_run(s->db, s->add);
}

void store_keys_each(struct store_keys *s, int64_t first, struct filter *f)
{
    bind_i64(s->each, 1, first);
    bind_i64(s->each, 2, first | ROW_MASK);
    while (db_step(s->db, s->each))
        filter_add(f, (struct key){(uint64_t)(col_i64(s->each, 0) & ROW_MASK),
                                   (uint64_t)col_i64(s->each, 1)});
    db_done(s->each);
}

int store_keys_forget(struct store_keys *s, int64_t first, int max)
{
    bind_i64(s->forget, 1, first);
    bind_i64(s->forget, 2, first | ROW_MASK);
    bind_i64(s->forget, 3, max);
    db_run(s->db, s->forget);
    return db_changes(s->db);
}
