/* delivery_ids: blocks of hashed delivery ids. */
#include "delivery_ids.h"
#include "alloc.h"
#include "dedupe.h"
#include "le64.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 512,      /* events that are read at once: 0.3 ms */
    PIECES_MAX = 128, /* of a turn that has more than a block to read */
    PARTS = 1 << DELIVERY_PART_BITS,
    ENTRY_BYTES = 8,
    FORGET_MAX = 64 * PARTS, /* parts deleted in a second */
    TIDY_MAX = 64,           /* blocks looked at in a second */
};

/* An entry of a part: the upper bits of the id's hash, and in the lower DELIVERY_BLOCK_BITS which event of the block it is. */
#define WHICH ((1ULL << DELIVERY_BLOCK_BITS) - 1)

struct delivery_ids {
    struct db *db;
    int64_t next; /* the first block that is not written */
    int64_t
        read; /* its events below this number are in `entries`; 0: none are */
    int64_t tidied;    /* where delivery_ids_tidy() continues */
    uint64_t *entries; /* of DELIVERY_BLOCK */
    size_t count;
    stmt *last, *from, *events, *put, *part, *first, *forget, *newest, *is_it;
};

#define AT(field) offsetof(struct delivery_ids, field)

static const struct db_statement statements[] = {
    {AT(last), "SELECT max(part) FROM delivery_ids"},
    {AT(from), "SELECT min(n) FROM events WHERE n >= ?"},
    {AT(events), "SELECT n, delivery_id FROM events WHERE n >= ? AND n < ? AND "
                 "delivery_id <> ''"},
    {AT(put), "INSERT OR REPLACE INTO delivery_ids(part, ids) VALUES(?, ?)"},
    {AT(part), "SELECT ids FROM delivery_ids WHERE part = ?"},
    {AT(first), "SELECT min(part) FROM delivery_ids"},
    {AT(forget),
     "DELETE FROM delivery_ids WHERE part IN (SELECT part FROM "
     "delivery_ids WHERE part >= ? AND part < ? ORDER BY part LIMIT ?)"},
    {AT(newest), "SELECT n FROM events WHERE n >= ?1 AND delivery_id = ?2 "
                 "ORDER BY n DESC LIMIT ?3"},
    {AT(is_it), "SELECT 1 FROM events WHERE n = ? AND delivery_id = ?"},
};

static void load(struct delivery_ids *d)
{
    int64_t last = db_number(d->db, d->last, -1);

    d->next = last < 0 ? 0 : last / PARTS + 1;
    d->read = 0;
}

struct delivery_ids *delivery_ids_open(struct db *db)
{
    struct delivery_ids *d = gr_alloc(sizeof *d);

    d->db = db;
    d->entries = gr_alloc(DELIVERY_BLOCK * sizeof *d->entries);
    db_prepare_all(db, d, statements, COUNT_OF(statements));
    load(d);
    return d;
}

void delivery_ids_close(struct delivery_ids *d)
{
    free(d->entries);
    free(d);
}

void delivery_ids_undo(struct delivery_ids *d)
{
    load(d);
}

static uint64_t hash_of(const char *id)
{
    struct key key = key_make(id, strlen(id));

    return key.hash << 16 | key.check >> (KEY_HASH_BITS - 16);
}

static int64_t part_of(int64_t block, uint64_t hash)
{
    return block * PARTS + (int64_t)(hash >> (64 - DELIVERY_PART_BITS));
}

static uint64_t entry_of(uint64_t hash, int64_t event)
{
    return (hash & ~WHICH) | ((uint64_t)event & WHICH);
}

/* ---- writing ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void put_part(struct delivery_ids *d, int64_t part,
                     const uint64_t *entries, size_t count)
{
    struct buf ids;

    buf_init(&ids, (count + 1) * ENTRY_BYTES);
    for (size_t i = 0; i < count; i++)
        put_le64(&ids, entries[i]);
    bind_i64(d->put, 1, part);
    bind_blob(d->put, 2, (struct bytes){ids.data ? ids.data : "", ids.len});
    db_run(d->db, d->put);
    buf_fini(&ids);
}

/* The first part is written also if it is empty: it shows that the block is whole. */
static void write_block(struct delivery_ids *d)
{
    size_t begin = 0, end;

    if (d->count)
        qsort(d->entries, d->count, sizeof *d->entries, by_value);
    for (int64_t part = d->next * PARTS; part < (d->next + 1) * PARTS; part++) {
        for (end = begin;
             end < d->count && part_of(d->next, d->entries[end]) == part;)
            end++;
        if (end > begin || part == d->next * PARTS)
            put_part(d, part, d->entries + begin, end - begin);
        begin = end;
    }
    d->next++;
    d->read = 0;
}

/* Skips numbers without events. */
static void begin_block(struct delivery_ids *d, int64_t next_event)
{
    int64_t first;

    bind_i64(d->from, 1, d->next * DELIVERY_BLOCK);
    first = db_number(d->db, d->from, next_event);
    if (first / DELIVERY_BLOCK > d->next)
        d->next = first / DELIVERY_BLOCK;
    d->read = d->next * DELIVERY_BLOCK;
    d->count = 0;
}

static void read_piece(struct delivery_ids *d)
{
    bind_i64(d->events, 1, d->read);
    bind_i64(d->events, 2, d->read + PIECE);
    while (db_step(d->db, d->events))
        d->entries[d->count++] = entry_of(hash_of(col_text(d->events, 1)),
                                          col_i64(d->events, 0));
    db_done(d->events);
    d->read += PIECE;
}

bool delivery_ids_work(struct delivery_ids *d, int64_t next_event)
{
    for (int i = 0; i < PIECES_MAX; i++) {
        if (!d->read)
            begin_block(d, next_event);
        if (next_event - d->read < (i ? DELIVERY_BLOCK : PIECE))
            return false;
        read_piece(d);
        if (d->read == (d->next + 1) * DELIVERY_BLOCK)
            write_block(d);
    }
    return true;
}

/* Goes through all blocks again and again: an old event that is not purged keeps its own block, but not the later ones. */
void delivery_ids_tidy(struct delivery_ids *d)
{
    for (int i = 0; i < TIDY_MAX; i++) {
        int64_t used;

        bind_i64(d->from, 1, d->tidied * DELIVERY_BLOCK);
        used = db_number(d->db, d->from, d->next * DELIVERY_BLOCK) /
               DELIVERY_BLOCK;
        if (used > d->next)
            used = d->next;
        bind_i64(d->forget, 1, d->tidied * PARTS);
        bind_i64(d->forget, 2, used * PARTS);
        bind_i64(d->forget, 3, FORGET_MAX);
        db_run(d->db, d->forget);
        if (db_changes(d->db) == FORGET_MAX)
            return;
        d->tidied = used + 1;
        if (d->tidied >= d->next) {
            d->tidied = 0;
            return;
        }
    }
}

/* Returns how many entries the part has; the caller owns *entries. */
static size_t read_part(struct delivery_ids *d, int64_t part,
                        uint64_t **entries)
{
    size_t count = 0;

    *entries = NULL;
    bind_i64(d->part, 1, part);
    if (db_step(d->db, d->part)) {
        struct bytes ids = col_blob(d->part, 0);

        count = ids.n / ENTRY_BYTES;
        *entries = gr_alloc((count + 1) * sizeof **entries);
        for (size_t i = 0; i < count; i++)
            (*entries)[i] = get_le64((const char *)ids.p + i * ENTRY_BYTES);
    }
    db_done(d->part);
    return count;
}

static bool has_entry(const uint64_t *entries, size_t count, uint64_t entry)
{
    for (size_t i = 0; i < count; i++)
        if (entries[i] == entry)
            return true;
    return false;
}

void delivery_ids_note(struct delivery_ids *d, int64_t event, const char *id)
{
    int64_t block = event / DELIVERY_BLOCK, part;
    uint64_t entry, *entries;
    size_t count;

    if (!id || !*id || block > d->next ||
        (block == d->next && event >= d->read))
        return;
    entry = entry_of(hash_of(id), event);
    if (block == d->next) {
        if (!has_entry(d->entries, d->count, entry))
            d->read = 0; /* begin the block again */
        return;
    }
    part = part_of(block, entry);
    count = read_part(d, part, &entries);
    if (!has_entry(entries, count, entry)) {
        entries = gr_realloc(entries, (count + 1) * sizeof *entries);
        entries[count++] = entry;
        qsort(entries, count, sizeof *entries, by_value);
        put_part(d, part, entries, count);
    }
    free(entries);
}

/* ---- searching ---- */

static bool has_id(struct delivery_ids *d, int64_t event, const char *id)
{
    bind_i64(d->is_it, 1, event);
    bind_text(d->is_it, 2, id);
    return db_number(d->db, d->is_it, 0) != 0;
}

static int find_newest(struct delivery_ids *d, const char *id, int max,
                       int64_t *events)
{
    int n = 0;

    bind_i64(d->newest, 1, d->next * DELIVERY_BLOCK);
    bind_text(d->newest, 2, id);
    bind_i64(d->newest, 3, max);
    while (n < max && db_step(d->db, d->newest))
        events[n++] = col_i64(d->newest, 0);
    db_done(d->newest);
    return n;
}

static int find_in_block(struct delivery_ids *d, int64_t block, uint64_t hash,
                         const char *id, int max, int64_t *events)
{
    uint64_t *entries;
    size_t count = read_part(d, part_of(block, hash), &entries);
    int64_t last = 0;
    int n = 0;

    for (size_t i = count; i-- > 0 && n < max;) {
        int64_t event = block * DELIVERY_BLOCK + (int64_t)(entries[i] & WHICH);

        if (((entries[i] ^ hash) & ~WHICH) || event == last ||
            !has_id(d, event, id))
            continue;
        events[n++] = last = event;
    }
    free(entries);
    return n;
}

int delivery_ids_find(struct delivery_ids *d, const char *id, int max,
                      int64_t *events)
{
    int64_t first = db_number(d->db, d->first, -1);
    uint64_t hash = hash_of(id);
    int n;

    if (!*id) /* in a row it stands for the provider's id of the event */
        return 0;
    n = find_newest(d, id, max, events);
    if (first < 0)
        return n;
    for (int64_t block = d->next - 1; block >= first / PARTS && n < max;
         block--)
        n += find_in_block(d, block, hash, id, max - n, events + n);
    return n;
}
