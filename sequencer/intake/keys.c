/* keys: which idempotency keys were seen, and with which event. */
#include "keys.h"
#include "clock.h"
#include "log.h"
#include "recent_keys.h"
#include "retention.h"
#include "store_keys.h"
#include <stdlib.h>

enum {
    FORGET_PER_TURN = 512,
    GENERATION_ID_MAX = 32767,
    KEPT_MIN_MS = 8 * DAY_MS, /* the longest ttl that limits a class */
};

struct keys {
    struct store_keys *store;
    struct recent_keys *recent;
    struct generation *all; /* oldest first */
    size_t count, capacity;
    size_t filter_bytes;
};

static struct generation *append(struct keys *k)
{
    if (k->count == k->capacity) {
        k->capacity = k->capacity ? 2 * k->capacity : 16;
        k->all = gr_realloc(k->all, k->capacity * sizeof *k->all);
    }
    return &k->all[k->count++];
}

static void take_filter(struct keys *k, struct generation *g)
{
    k->filter_bytes += g->filter.bit_count / 8;
}

static void on_generation(void *arg, const struct generation *g)
{
    *append(arg) = *g;
}

static struct generation *by_id(struct keys *k, int64_t id)
{
    for (size_t i = k->count; i-- > 0;)
        if (k->all[i].id == id)
            return &k->all[i];
    return NULL;
}

/* The filter of a closed generation has its keys already. */
static void on_recent(void *arg, const struct key_row *row)
{
    struct generation *g = by_id(arg, row->k >> KEY_HASH_BITS);

    if (g && !g->closed)
        filter_add(&g->filter, key_of_row(g, row->k, row->rest));
}

static void load(struct keys *k)
{
    store_keys_generations(k->store, on_generation, k);
    for (size_t i = k->count;
         i-- > 0;) /* the newest first: memory may not suffice for all */
    {
        struct generation *g = &k->all[i];

        if (!g->closed) {
            filter_init(&g->filter, FILTER_BITS_MAX);
            store_keys_each(k->store, g, &g->filter);
        } else if (k->filter_bytes < FILTERS_MAX_BYTES) {
            store_keys_filter(k->store, g);
        }
        take_filter(k, g);
    }
    k->recent = recent_keys_open(k->store);
    recent_keys_each(k->recent, on_recent, k);
}

static void unload(struct keys *k)
{
    for (size_t i = 0; i < k->count; i++)
        filter_fini(&k->all[i].filter);
    k->count = k->filter_bytes = 0;
    recent_keys_close(k->recent);
}

struct keys *keys_open(struct db *db)
{
    struct keys *k = gr_alloc(sizeof *k);

    k->store = store_keys_open(db);
    load(k);
    return k;
}

void keys_close(struct keys *k)
{
    unload(k);
    free(k->all);
    store_keys_close(k->store);
    free(k);
}

void keys_undo(struct keys *k)
{
    unload(k);
    load(k);
}

/* The last row of this key in the generation. A key that had expired may be there a second time. */
static bool find_row(struct keys *k, const struct generation *g, struct key key,
                     struct key_row *row)
{
    if (!filter_may_have(&g->filter, key))
        return false;
    for (int segment = key_segment_last(g); segment >= 0; segment--) {
        struct key_row sought = key_row_of(g, segment, key);

        if ((recent_keys_find(k->recent, sought.k, row) ||
             store_keys_find(k->store, sought.k, row)) &&
            row->rest == sought.rest)
            return true;
    }
    return false;
}

/* The event that had this key in this range of receive times; 0: none. */
static int64_t find_in(struct keys *k, const struct generation *g,
                       struct key key, int64_t from_ms, int64_t to_ms)
{
    struct key_row row;

    return find_row(k, g, key, &row) && row.received_ms >= from_ms &&
                   row.received_ms <= to_ms
               ? row.event
               : 0;
}

int64_t keys_find(struct keys *k, struct key key, int64_t received_ms,
                  int64_t ttl_ms, int64_t self)
{
    for (size_t i = k->count; i-- > 0;) {
        const struct generation *g = &k->all[i];
        int64_t event;

        if (g->class == KEY_CLASS_SIGNED || g->expires_ms < received_ms)
            continue;
        event = find_in(k, g, key, received_ms - ttl_ms, received_ms + ttl_ms);
        if (event && event != self)
            return event;
    }
    return 0;
}

static int64_t find_signed(struct keys *k, struct key key, int64_t self,
                           int64_t from_ms)
{
    for (size_t i = k->count; i-- > 0;) {
        const struct generation *g = &k->all[i];
        int64_t event;

        if (g->class != KEY_CLASS_SIGNED)
            continue;
        event = find_in(k, g, key, from_ms, INT64_MAX);
        if (event && event != self)
            return event;
    }
    return 0;
}

int64_t keys_find_signed(struct keys *k, struct key key, int64_t self)
{
    return find_signed(k, key, self, INT64_MIN);
}

bool keys_signed_since(struct keys *k, struct key key, int64_t from_ms)
{
    return find_signed(k, key, 0, from_ms) != 0;
}

struct used_ids {
    bool used[GENERATION_ID_MAX + 1];
    int64_t highest;
};

static void note_id(struct used_ids *u, int64_t id)
{
    u->used[id & GENERATION_ID_MAX] = true;
    if (id > u->highest)
        u->highest = id;
}

static void note_recent(void *arg, const struct key_row *row)
{
    note_id(arg, row->k >> KEY_HASH_BITS);
}

/* An id that is not in use. Recent keys may be of a generation that was deleted. */
static int64_t free_id(const struct keys *k)
{
    struct used_ids u = {0};
    int64_t id = 1;

    for (size_t i = 0; i < k->count; i++)
        note_id(&u, k->all[i].id);
    recent_keys_each(k->recent, note_recent, &u);
    if (u.highest < GENERATION_ID_MAX)
        return u.highest + 1;
    while (id < GENERATION_ID_MAX && u.used[id])
        id++;
    return id;
}

/* The open generation of this class; made if it is missing. */
static struct generation *open_one(struct keys *k, int class, int64_t now_ms)
{
    struct generation *g;
    int64_t id;

    for (size_t i = k->count; i-- > 0;)
        if (!k->all[i].closed && k->all[i].class == class)
            return &k->all[i];
    id = free_id(k);
    g = append(k);
    *g = (struct generation){.id = id,
                             .class = class,
                             .made_ms = now_ms,
                             .segmented = true,
                             .dirty = true};
    filter_init(&g->filter, FILTER_BITS_MAX);
    take_filter(k, g);
    store_keys_generation_add(k->store, g);
    return g;
}

static void close_one(struct keys *k, struct generation *g)
{
    k->filter_bytes -= g->filter.bit_count / 8;
    filter_fold(&g->filter, (uint64_t)g->count);
    take_filter(k, g);
    g->closed = true;
    store_keys_generation_close(k->store, g);
}

/* Another key with the same 45 bits in this segment loses its row: two in a billion. A duplicate of its
 * event is then delivered, which is better than suppressing another event. */
static void add(struct keys *k, int class, struct key key, int64_t event,
                int64_t received_ms, int64_t ttl_ms, int64_t now_ms)
{
    struct generation *g = open_one(k, class, now_ms);
    struct key_row row = key_row_of(g, key_segment(g, g->count), key);

    row.event = event;
    row.received_ms = received_ms;
    recent_keys_add(k->recent, &row);
    filter_add(&g->filter, key);
    g->count++;
    g->dirty = true;
    if (g->expires_ms < received_ms + ttl_ms)
        g->expires_ms = received_ms + ttl_ms;
    if (g->count >= GENERATION_KEYS)
        close_one(k, g);
}

void keys_add(struct keys *k, struct key key, int64_t event,
              int64_t received_ms, int64_t ttl_ms, int64_t now_ms)
{
    add(k, key_class(ttl_ms), key, event, received_ms, ttl_ms, now_ms);
}

void keys_add_signed(struct keys *k, struct key key, int64_t event,
                     int64_t received_ms, int64_t keep_ms, int64_t now_ms)
{
    add(k, KEY_CLASS_SIGNED, key, event, received_ms, keep_ms, now_ms);
}

/* If there are too many digests, let the oldest generation expire early. */
static void bound_signed(struct keys *k)
{
    struct generation *oldest = NULL;
    int count = 0;

    for (size_t i = 0; i < k->count; i++) {
        struct generation *g = &k->all[i];

        if (g->class != KEY_CLASS_SIGNED)
            continue;
        count++;
        if (!oldest && g->closed && g->expires_ms)
            oldest = g;
        count -= g->closed && !g->expires_ms; /* it has expired already */
    }
    if (count <= SIGNED_GENERATIONS_MAX || !oldest)
        return;
    oldest->expires_ms = 0;
    store_keys_generation_set(k->store, oldest);
    log_warn(NULL,
             "digests of signed requests are forgotten before dedupe.replays "
             "has passed: there are more than are kept",
             LI("kept", (int64_t)SIGNED_GENERATIONS_MAX * GENERATION_KEYS));
}

static void drop(struct keys *k, size_t i)
{
    store_keys_generation_drop(k->store, k->all[i].id);
    k->filter_bytes -= k->all[i].filter.bit_count / 8;
    filter_fini(&k->all[i].filter);
    for (; i + 1 < k->count; i++)
        k->all[i] = k->all[i + 1];
    k->count--;
}

/* Its last key has expired both by the receive times of events still to come (`done_ms`) and by
 * the time in which this process ran. */
static bool has_expired(const struct generation *g, const struct retention *r,
                        int64_t now_ms, int64_t done_ms)
{
    /* For how long a key of this generation is kept, at most. Classes for more than 8 days have
     * no useful limit: for them count from when the generation was made, or all downtime since
     * the installation would be added. */
    int64_t ttl_ms = key_class_ttl_ms(g->class);
    int64_t keep_ms = g->expires_ms - g->made_ms;

    if (keep_ms < KEPT_MIN_MS)
        keep_ms = KEPT_MIN_MS;
    if (keep_ms > ttl_ms)
        keep_ms = ttl_ms;
    return g->closed && g->expires_ms < done_ms &&
           g->expires_ms < retention_before(r, now_ms, keep_ms) + keep_ms;
}

/* Delete a bounded number of an expired generation's rows, and after the last the generation
 * itself. */
static bool forget(struct keys *k, const struct retention *r, int64_t now_ms,
                   int64_t done_ms)
{
    for (size_t i = 0; i < k->count; i++) {
        struct generation *g = &k->all[i];

        if (!has_expired(g, r, now_ms, done_ms))
            continue;
        if (store_keys_forget(k->store, g, FORGET_PER_TURN) < FORGET_PER_TURN)
            drop(k, i);
        return true;
    }
    return false;
}

static bool is_needed(void *arg, const struct key_row *row)
{
    return by_id(arg, row->k >> KEY_HASH_BITS) != NULL;
}

void keys_store(struct keys *k)
{
    recent_keys_work(k->recent, is_needed, k);
    for (size_t i = 0; i < k->count; i++) {
        struct generation *g = &k->all[i];

        if (g->dirty && !g->closed)
            store_keys_generation_set(k->store, g);
        g->dirty = false;
    }
}

bool keys_work(struct keys *k, const struct retention *r, int64_t now_ms,
               int64_t done_ms)
{
    for (size_t i = 0; i < k->count; i++) {
        struct generation *g = &k->all[i];

        if (!g->closed && now_ms - g->made_ms > key_class_span_ms(g->class))
            close_one(k, g);
    }
    bound_signed(k);
    return done_ms && forget(k, r, now_ms, done_ms);
}

int64_t keys_count(const struct keys *k)
{
    int64_t n = 0;

    for (size_t i = 0; i < k->count; i++)
        n += k->all[i].count;
    return n;
}

size_t keys_filter_bytes(const struct keys *k)
{
    return k->filter_bytes;
}
