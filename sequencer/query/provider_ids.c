/* provider_ids: blocks of hashed ids. */
#include "provider_ids.h"
#include "alloc.h"
#include "dedupe.h"
#include "event.h"
#include "le64.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 512,      /* events that are read at once: 0.3 ms */
    PIECES_MAX = 128, /* of a turn that has more than a block to read */
    PARTS = 1 << PROVIDER_PART_BITS,
    ENTRY_BYTES = 8,
    OFFSET_BITS = 24,
    UNREAD_MAX = 4 * PROVIDER_BLOCK, /* events that a search reads: 40 ms */
    FORGET_MAX = 64 * PARTS,         /* parts deleted in a second */
    TIDY_MAX = 64,                   /* blocks looked at in a second */
};

/* An entry: the upper bits of the id's hash, and how many numbers the event is behind the first one of the block. */
#define OFFSET ((1ULL << OFFSET_BITS) - 1)

/* In the order of their events. */
struct entries {
    uint64_t *list;
    size_t count, space;
};

struct provider_ids {
    struct db *db;
    int64_t next; /* the first block that is not written */
    int64_t read; /* below it, all later events are in `recent`; 0: none are */
    struct entries recent; /* counted from the first event of block `next` */
    int64_t tidied;        /* where provider_ids_tidy() continues */
    stmt *last, *from, *newest, *events, *put, *part, *first, *forget, *is_it;
};

#define AT(field) offsetof(struct provider_ids, field)

static const struct db_statement statements[] = {
    {AT(last), "SELECT max(part) FROM provider_ids"},
    {AT(from), "SELECT min(n) FROM events WHERE n >= ?"},
    {AT(newest), "SELECT max(n) FROM events"},
    {AT(events), "SELECT n, provider_id, delivery_id FROM events WHERE n >= ? "
                 "AND n < ? ORDER BY n"},
    {AT(put), "INSERT OR REPLACE INTO provider_ids(part, ids) VALUES(?, ?)"},
    {AT(part), "SELECT ids FROM provider_ids WHERE part = ?"},
    {AT(first), "SELECT min(part) FROM provider_ids"},
    {AT(forget),
     "DELETE FROM provider_ids WHERE part IN (SELECT part FROM "
     "provider_ids WHERE part >= ? AND part < ? ORDER BY part LIMIT ?)"},
    {AT(is_it),
     "SELECT 1 FROM events WHERE n = ?1 AND iif(?3 IS NULL, ?2 IN "
     "(provider_id, delivery_id), provider_id = ?2 AND source = ?3)"},
};

static void load(struct provider_ids *p)
{
    int64_t last = db_number(p->db, p->last, -1);

    p->next = last < 0 ? 0 : last / PARTS + 1;
    p->read = 0;
}

struct provider_ids *provider_ids_open(struct db *db)
{
    struct provider_ids *p = gr_alloc(sizeof *p);

    p->db = db;
    db_prepare_all(db, p, statements, COUNT_OF(statements));
    load(p);
    return p;
}

void provider_ids_close(struct provider_ids *p)
{
    free(p->recent.list);
    free(p);
}

void provider_ids_undo(struct provider_ids *p)
{
    load(p);
}

static int64_t first_of(int64_t block)
{
    return block * PROVIDER_BLOCK;
}

static uint64_t hash_of(const char *id)
{
    struct key key = key_make(id, strlen(id));

    return key.hash << 16 | key.check >> (KEY_HASH_BITS - 16);
}

static int64_t part_of(int64_t block, uint64_t hash)
{
    return block * PARTS + (int64_t)(hash >> (64 - PROVIDER_PART_BITS));
}

static uint64_t entry_of(const char *id, int64_t block, int64_t event)
{
    return (hash_of(id) & ~OFFSET) | (uint64_t)(event - first_of(block));
}

/* ---- entries ---- */

/* How many entries are of events before this one. */
static size_t count_before(const struct entries *e, uint64_t offset)
{
    size_t low = 0, high = e->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((e->list[middle] & OFFSET) < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_entry(const struct entries *e, uint64_t entry)
{
    size_t i = count_before(e, entry & OFFSET);

    for (; i < e->count && !((e->list[i] ^ entry) & OFFSET); i++)
        if (e->list[i] == entry)
            return true;
    return false;
}

static void add_entry(struct entries *e, uint64_t entry)
{
    size_t at = count_before(e, (entry & OFFSET) + 1);

    if (e->count == e->space) {
        e->space = e->space ? 2 * e->space : PIECE;
        e->list = gr_realloc(e->list, e->space * sizeof *e->list);
    }
    memmove(e->list + at + 1, e->list + at, (e->count - at) * sizeof *e->list);
    e->list[at] = entry;
    e->count++;
}

/* Its caller frees `list`. */
static struct entries read_part(struct provider_ids *p, int64_t part)
{
    struct entries e = {0};

    bind_i64(p->part, 1, part);
    if (db_step(p->db, p->part)) {
        struct bytes ids = col_blob(p->part, 0);

        e.count = e.space = ids.n / ENTRY_BYTES;
        e.list = gr_alloc((e.count + 1) * sizeof *e.list);
        for (size_t i = 0; i < e.count; i++)
            e.list[i] = get_le64((const char *)ids.p + i * ENTRY_BYTES);
    }
    db_done(p->part);
    return e;
}

static void write_part(struct provider_ids *p, int64_t part,
                       const uint64_t *entries, size_t count)
{
    struct buf ids;

    buf_init(&ids, (count + 1) * ENTRY_BYTES);
    for (size_t i = 0; i < count; i++)
        put_le64(&ids, entries[i]);
    bind_i64(p->put, 1, part);
    bind_blob(p->put, 2, (struct bytes){ids.data ? ids.data : "", ids.len});
    db_run(p->db, p->put);
    buf_fini(&ids);
}

/* ---- writing ---- */

/* Skips numbers without events. */
static void begin_block(struct provider_ids *p, int64_t next_event)
{
    int64_t first;

    bind_i64(p->from, 1, first_of(p->next));
    first = db_number(p->db, p->from, next_event);
    if (first / PROVIDER_BLOCK > p->next)
        p->next = first / PROVIDER_BLOCK;
    p->read = first_of(p->next);
    p->recent.count = 0;
}

static void read_events(struct provider_ids *p, int64_t below)
{
    bind_i64(p->events, 1, p->read);
    bind_i64(p->events, 2, below);
    while (db_step(p->db, p->events)) {
        int64_t event = col_i64(p->events, 0);

        for (int column = 1; column <= 2; column++) {
            const char *id = col_text(p->events, column);

            if (*id)
                add_entry(&p->recent, entry_of(id, p->next, event));
        }
    }
    db_done(p->events);
    p->read = below;
}

/* Their caller frees them. `ends`: where each part ends. */
static uint64_t *by_part(const uint64_t *entries, size_t count,
                         size_t ends[PARTS])
{
    uint64_t *sorted = gr_alloc((count + 1) * sizeof *sorted);
    size_t begin = 0;

    memset(ends, 0, PARTS * sizeof *ends);
    for (size_t i = 0; i < count; i++)
        ends[part_of(0, entries[i])]++;
    for (size_t part = 0; part < PARTS; part++) {
        size_t of_part = ends[part];

        ends[part] = begin;
        begin += of_part;
    }
    for (size_t i = 0; i < count; i++)
        sorted[ends[part_of(0, entries[i])]++] = entries[i];
    return sorted;
}

/* The first part is written also if it is empty: it shows that the block is whole. */
static void write_block(struct provider_ids *p)
{
    struct entries *e = &p->recent;
    size_t count = count_before(e, PROVIDER_BLOCK), ends[PARTS], begin = 0;
    uint64_t *sorted = by_part(e->list, count, ends);

    for (int part = 0; part < PARTS; begin = ends[part++])
        if (ends[part] > begin || part == 0)
            write_part(p, p->next * PARTS + part, sorted + begin,
                       ends[part] - begin);
    free(sorted);
    e->count -= count;
    for (size_t i = 0; i < e->count; i++)
        e->list[i] = e->list[i + count] - PROVIDER_BLOCK;
    p->next++;
    if (!e->count)
        p->read = 0;
}

bool provider_ids_work(struct provider_ids *p, int64_t next_event)
{
    for (int i = 0; i < PIECES_MAX; i++) {
        int64_t end;

        if (!p->read)
            begin_block(p, next_event);
        end = first_of(p->next + 1);
        if (p->read >= end) {
            write_block(p);
            continue;
        }
        if (next_event - p->read < (i ? PROVIDER_BLOCK : PIECE))
            return false;
        read_events(p, p->read + PIECE < end ? p->read + PIECE : end);
    }
    return true;
}

/* Goes through all blocks again and again: an old event that is not purged keeps its own block, but not the later ones. */
void provider_ids_tidy(struct provider_ids *p)
{
    for (int i = 0; i < TIDY_MAX; i++) {
        int64_t used;

        bind_i64(p->from, 1, first_of(p->tidied));
        used = db_number(p->db, p->from, first_of(p->next)) / PROVIDER_BLOCK;
        if (used > p->next)
            used = p->next;
        bind_i64(p->forget, 1, p->tidied * PARTS);
        bind_i64(p->forget, 2, used * PARTS);
        bind_i64(p->forget, 3, FORGET_MAX);
        db_run(p->db, p->forget);
        if (db_changes(p->db) == FORGET_MAX)
            return;
        p->tidied = used + 1;
        if (p->tidied >= p->next) {
            p->tidied = 0;
            return;
        }
    }
}

static void note(struct provider_ids *p, int64_t event, const char *id)
{
    int64_t block = event / PROVIDER_BLOCK, part;
    struct entries e;
    uint64_t entry;

    if (!id || !*id)
        return;
    if (block >= p->next) {
        if (event < p->read) {
            entry = entry_of(id, p->next, event);
            if (!has_entry(&p->recent, entry))
                add_entry(&p->recent, entry);
        }
        return;
    }
    entry = entry_of(id, block, event);
    part = part_of(block, entry);
    e = read_part(p, part);
    if (!has_entry(&e, entry)) {
        add_entry(&e, entry);
        write_part(p, part, e.list, e.count);
    }
    free(e.list);
}

void provider_ids_note(struct provider_ids *p, const struct event_row *e)
{
    note(p, e->n, e->provider_id);
    note(p, e->n, e->delivery_id);
}

/* ---- searching ---- */

struct wanted {
    const char *source, *id;
    uint64_t hash;
    int64_t below;
    int max, count;
    int64_t *events;
};

static bool is_it(struct provider_ids *p, const struct wanted *w, int64_t event)
{
    bind_i64(p->is_it, 1, event);
    bind_text(p->is_it, 2, w->id);
    if (w->source)
        bind_text(p->is_it, 3, w->source);
    else
        bind_null(p->is_it, 3);
    return db_number(p->db, p->is_it, 0) != 0;
}

static void look_at(struct provider_ids *p, struct wanted *w, int64_t block,
                    const struct entries *e)
{
    int64_t last = -1, first = first_of(block);
    size_t i = e->count;

    if (w->below <= first)
        return;
    if (w->below - first <= (int64_t)OFFSET)
        i = count_before(e, (uint64_t)(w->below - first));
    while (i-- > 0 && w->count < w->max) {
        int64_t event = first + (int64_t)(e->list[i] & OFFSET);

        if (((e->list[i] ^ w->hash) & ~OFFSET) || event == last ||
            !is_it(p, w, event))
            continue;
        w->events[w->count++] = last = event;
    }
}

/* false: there are too many, or too many numbers without events between them. */
static bool read_newest(struct provider_ids *p)
{
    int64_t below = db_number(p->db, p->newest, 0) + 1;

    if (!p->read)
        begin_block(p, below);
    if (below <= p->read)
        return true;
    if (below - p->read > UNREAD_MAX ||
        below - first_of(p->next) > (int64_t)OFFSET)
        return false;
    read_events(p, below);
    return true;
}

int provider_ids_find(struct provider_ids *p, const char *source,
                      const char *id, int64_t below, int max, int64_t *events)
{
    struct wanted w = {.source = source,
                       .id = id,
                       .hash = hash_of(id),
                       .below = below,
                       .max = max,
                       .events = events};
    int64_t first, block = p->next;

    if (!*id || below < 1)
        return 0;
    if (!read_newest(p))
        return -1;
    look_at(p, &w, p->next, &p->recent);
    first = db_number(p->db, p->first, p->next * PARTS) / PARTS;
    if (below < first_of(block))
        block = (below - 1) / PROVIDER_BLOCK + 1;
    while (block-- > first && w.count < max) {
        struct entries e = read_part(p, part_of(block, w.hash));

        look_at(p, &w, block, &e);
        free(e.list);
    }
    return w.count;
}
