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

/* ---- where a key is ---- */

#define BITS(n) ((1LL << (n)) - 1)

enum { SEGMENT_HASH_BITS = KEY_HASH_BITS - KEY_SEGMENT_BITS };

int64_t key_row_first(const struct generation *g)
{
    return g->id << KEY_HASH_BITS;
}

int64_t key_row_last(const struct generation *g)
{
    return key_row_first(g) | BITS(KEY_HASH_BITS);
}

int key_segment(const struct generation *g, int64_t n)
{
    int64_t segment = g->segmented ? n / SEGMENT_KEYS : 0;

    return segment < KEY_SEGMENTS ? (int)segment : KEY_SEGMENTS - 1;
}

int key_segment_last(const struct generation *g)
{
    return g->count ? key_segment(g, g->count - 1) : 0;
}

struct key_row key_row_of(const struct generation *g, int segment,
                          struct key key)
{
    int64_t hash = (int64_t)key.hash, check = (int64_t)key.check;

    if (!g->segmented)
        return (struct key_row){.k = key_row_first(g) | hash, .rest = check};
    return (struct key_row){
        .k = key_row_first(g) | (int64_t)segment << SEGMENT_HASH_BITS |
             (hash & BITS(SEGMENT_HASH_BITS)),
        .rest = hash >> SEGMENT_HASH_BITS << KEY_HASH_BITS | check};
}

struct key key_of_row(const struct generation *g, int64_t k, int64_t rest)
{
    int64_t hash = k & BITS(KEY_HASH_BITS);

    if (g->segmented)
        hash = (k & BITS(SEGMENT_HASH_BITS)) | rest >> KEY_HASH_BITS
                                                           << SEGMENT_HASH_BITS;
    return (struct key){(uint64_t)hash, (uint64_t)(rest & BITS(KEY_HASH_BITS))};
}

/* ---- statements ---- */

struct store_keys *store_keys_open(struct db *db)
{
    struct store_keys *s = gr_alloc(sizeof *s);

    s->db = db;
    s->generations = db_prepare(
        db, "SELECT id, class, count, made_ms, expires_ms, closed, segmented "
            "FROM key_generations ORDER BY made_ms, id");
    s->filter = db_prepare(db,
                           "SELECT filter FROM key_generations WHERE id = ?");
    s->generation_add = db_prepare(
        db,
        "INSERT INTO key_generations(id, class, count, made_ms, expires_ms, "
        "closed, segmented) VALUES(?, ?, 0, ?, 0, 0, ?)");
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
                               .closed = col_i64(q, 5) != 0,
                               .segmented = col_i64(q, 6) != 0};

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
    bind_i64(s->generation_add, 4, g->segmented);
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

void store_keys_each(struct store_keys *s, const struct generation *g,
                     struct filter *f)
{
    bind_i64(s->each, 1, key_row_first(g));
    bind_i64(s->each, 2, key_row_last(g));
    while (db_step(s->db, s->each))
        filter_add(f, key_of_row(g, col_i64(s->each, 0), col_i64(s->each, 1)));
    db_done(s->each);
}

int store_keys_forget(struct store_keys *s, const struct generation *g, int max)
{
    bind_i64(s->forget, 1, key_row_first(g));
    bind_i64(s->forget, 2, key_row_last(g));
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
