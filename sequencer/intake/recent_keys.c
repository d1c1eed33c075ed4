/* recent_keys: keeps new idempotency keys in memory and in the order of arrival on disk, and
 * moves them to their table in batches. */
#include "recent_keys.h"
#include "le64.h"
#include "lookup.h"
#include <stdlib.h>
#include <string.h>

enum {
    ROW_BYTES = 32,
    /* Of one row of the table; a turn with more keys writes several. */
    TURN_MAX_BYTES = 64 * 1024,
};

struct batch {
    struct key_row *rows;
    size_t count, capacity;
};

struct recent_keys {
    struct store_keys *store;
    struct batch added;  /* in the order of arrival */
    struct lookup by_k;  /* its rows */
    struct buf turn;     /* those of this turn, as they are written */
    int64_t next;        /* the number of the next row in the table */
    size_t moves;        /* rows to move in this turn */
    struct batch moving; /* in the order of their numbers */
    size_t moved;        /* of these */
    int64_t moving_to;   /* rows of the table up to this one have them */
};

static size_t place_of(const struct recent_keys *r, int64_t k)
{
    size_t i;

    for (size_t at = 0;
         (i = lookup_next(&r->by_k, (uint64_t)k, &at)) != LOOKUP_END;)
        if (r->added.rows[i].k == k)
            return i;
    return LOOKUP_END;
}

static void keep(struct recent_keys *r, const struct key_row *row)
{
    struct batch *b = &r->added;
    size_t i = place_of(r, row->k);

    if (i != LOOKUP_END) {
        b->rows[i] = *row;
        return;
    }
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 1024;
        b->rows = gr_realloc(b->rows, b->capacity * sizeof *b->rows);
    }
    lookup_put(&r->by_k, (uint64_t)row->k, b->count);
    b->rows[b->count++] = *row;
}

static void on_stored(void *arg, int64_t n, struct bytes rows)
{
    struct recent_keys *r = arg;

    for (size_t at = 0; at + ROW_BYTES <= rows.n; at += ROW_BYTES) {
        const char *p = (const char *)rows.p + at;

        keep(r, &(struct key_row){.k = (int64_t)get_le64(p),
                                  .rest = (int64_t)get_le64(p + 8),
                                  .event = (int64_t)get_le64(p + 16),
                                  .received_ms = (int64_t)get_le64(p + 24)});
    }
    r->next = n + 1;
}

struct recent_keys *recent_keys_open(struct store_keys *store)
{
    struct recent_keys *r = gr_alloc(sizeof *r);

    r->store = store;
    r->next = 1;
    buf_init(&r->turn, 2 * TURN_MAX_BYTES);
    store_keys_recent(store, on_stored, r);
    return r;
}

static void batch_fini(struct batch *b)
{
    free(b->rows);
    *b = (struct batch){0};
}

void recent_keys_close(struct recent_keys *r)
{
    batch_fini(&r->added);
    batch_fini(&r->moving);
    lookup_fini(&r->by_k);
    buf_fini(&r->turn);
    free(r);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = ((const struct key_row *)a)->k,
            y = ((const struct key_row *)b)->k;

    return (x > y) - (x < y);
}

bool recent_keys_find(const struct recent_keys *r, int64_t k,
                      struct key_row *row)
{
    size_t i = place_of(r, k);
    const struct key_row *found = i != LOOKUP_END ? &r->added.rows[i]
                                  : r->moving.count
                                      ? bsearch(&(struct key_row){.k = k},
                                                r->moving.rows, r->moving.count,
                                                sizeof *r->moving.rows,
                                                by_number)
                                      : NULL;

    if (found)
        *row = *found;
    return found;
}

static void write_turn(struct recent_keys *r)
{
    if (!r->turn.len)
        return;
    store_keys_recent_add(r->store, r->next++,
                          (struct bytes){r->turn.data, r->turn.len});
    buf_reset(&r->turn);
}

void recent_keys_add(struct recent_keys *r, const struct key_row *row)
{
    keep(r, row);
    put_le64(&r->turn, (uint64_t)row->k);
    put_le64(&r->turn, (uint64_t)row->rest);
    put_le64(&r->turn, (uint64_t)row->event);
    put_le64(&r->turn, (uint64_t)row->received_ms);
    r->moves += 2;
    if (r->turn.len >= TURN_MAX_BYTES)
        write_turn(r);
}

void recent_keys_each(const struct recent_keys *r, recent_key_fn *fn, void *arg)
{
    for (size_t i = 0; i < r->added.count; i++)
        fn(arg, &r->added.rows[i]);
    for (size_t i = 0; i < r->moving.count; i++)
        fn(arg, &r->moving.rows[i]);
}

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

static size_t digit_of(const struct key_row *row, int shift)
{
    return (size_t)((uint64_t)row->k >> shift) % DIGITS;
}

/* Whether `to` has the rows now: not if all have the same digit. */
static bool sort_by_digit(const struct key_row *rows, size_t n, int shift,
                          struct key_row *to)
{
    size_t at[DIGITS] = {0}, next = 0;

    for (size_t i = 0; i < n; i++)
        at[digit_of(&rows[i], shift)]++;
    if (at[digit_of(&rows[0], shift)] == n)
        return false;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t count = at[d];

        at[d] = next;
        next += count;
    }
    for (size_t i = 0; i < n; i++)
        to[at[digit_of(&rows[i], shift)]++] = rows[i];
    return true;
}

/* A radix sort: by the lowest digit first. qsort() took 6 ms of a turn. Row numbers are not negative, so the order is that of by_number(). */
static void sort(struct batch *b)
{
    struct key_row *from = b->rows, *to = gr_alloc(b->count * sizeof *to);

    for (int shift = 0; shift < 64; shift += DIGIT_BITS)
        if (sort_by_digit(from, b->count, shift, to)) {
            struct key_row *sorted = to;

            to = from;
            from = sorted;
        }
    free(to);
    b->rows = from;
    b->capacity = b->count;
}

static void begin_to_move(struct recent_keys *r)
{
    r->moving = r->added;
    r->moving_to = r->next - 1;
    r->moved = 0;
    r->added = (struct batch){0};
    lookup_fini(&r->by_k);
    sort(&r->moving);
}

void recent_keys_work(struct recent_keys *r, recent_needed_fn *needed,
                      void *arg)
{
    size_t left = r->moves > RECENT_MOVED_MIN ? r->moves : RECENT_MOVED_MIN;

    r->moves = 0;
    write_turn(r);
    if (!r->moving.count) {
        if (r->added.count >= RECENT_KEYS)
            begin_to_move(r);
        return;
    }
    for (; left && r->moved < r->moving.count; left--, r->moved++)
        if (needed(arg, &r->moving.rows[r->moved]))
            store_keys_add(r->store, &r->moving.rows[r->moved]);
    if (r->moved == r->moving.count) {
        store_keys_recent_drop(r->store, r->moving_to);
        batch_fini(&r->moving);
    }
}
