#include "blocks.h"
#include "hash.h"
#include "store_search.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUILD_EVERY_MS = 20, /* 50,000 events a second; each costs a ms */
    BITS_MOST = 4 * BLOCK_EVENTS * 16, /* four names an event */
    FORGET_MOST = 64,
    TIDY_MOST = 64, /* blocks that have events, looked at in one go */
};

struct blocks {
    struct sequencer *q;
    int64_t next;     /* all below are written, or have no events */
    int64_t built_ms; /* mono: the last one */
    int64_t tidied;   /* where blocks_tidy() goes on */
};

static void load(struct blocks *k)
{
    k->next = store_block_last(k->q->search) + 1;
}

struct blocks *blocks_open(struct sequencer *q)
{
    struct blocks *k = gr_alloc(sizeof *k);

    k->q = q;
    load(k);
    return k;
}

void blocks_close(struct blocks *k)
{
    free(k);
}

void blocks_undo(struct blocks *k)
{
    load(k);
}

/* With its bits well mixed (splitmix64). */
static uint64_t mixed(uint64_t h, const char *text)
{
    h = hash_name(h, text);
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ h >> 27) * 0x94d049bb133111ebULL;
    return h ^ h >> 31;
}

static struct key key_of(enum block_name what, const char *name)
{
    const uint64_t mask = (1ULL << KEY_HASH_BITS) - 1;
    uint64_t h = mixed(HASH_BEGIN ^ (uint64_t)what, name);

    return (struct key){h & mask, mixed(h, "") & mask};
}

/* ---- writing ---- */

struct building {
    struct filter names;
    uint64_t count; /* different ones */
    int64_t last_endpoint;
    struct block_row row;
};

static void add(struct building *b, enum block_name what, const char *name)
{
    struct key key = key_of(what, name);

    b->count += !filter_may_have(&b->names, key);
    filter_add(&b->names, key);
}

static void add_endpoint(void *arg, int64_t endpoint)
{
    struct building *b = arg;
    char text[32];

    if (endpoint == b->last_endpoint)
        return;
    b->last_endpoint = endpoint;
    snprintf(text, sizeof text, "%" PRId64, endpoint);
    add(b, BLOCK_ENDPOINT, text);
}

static void add_event(struct building *b, const struct event_row *e)
{
    add(b, BLOCK_SOURCE, e->source);
    add(b, BLOCK_TYPE, e->type);
    add(b, BLOCK_WORKSPACE, e->workspace);
    if (e->received_ms < b->row.least_ms)
        b->row.least_ms = e->received_ms;
    if (e->received_ms > b->row.most_ms)
        b->row.most_ms = e->received_ms;
}

static void build(struct blocks *k, int64_t b)
{
    struct store_search *s = k->q->search;
    struct building building = {
        .row = {.b = b, .least_ms = INT64_MAX, .most_ms = INT64_MIN}};
    struct event_row e;
    int64_t first = b * BLOCK_EVENTS, behind = first + BLOCK_EVENTS;

    filter_init(&building.names, BITS_MOST);
    store_events(s, -1, first, behind);
    while (store_events_next(s, &e))
        add_event(&building, &e);
    store_events_done(s);
    store_block_endpoints(s, first, behind, add_endpoint, &building);
    filter_fold(&building.names, building.count);
    building.row.names = (struct bytes){building.names.bits,
                                        building.names.bit_count / 8};
    store_block_put(s, &building.row);
    filter_fini(&building.names);
}

int blocks_work(struct blocks *k)
{
    int64_t whole = k->q->next_event / BLOCK_EVENTS, first,
            now = k->q->d.loop.mono_ms;

    if (k->next >= whole)
        return -1;
    if (now - k->built_ms < BUILD_EVERY_MS)
        return BUILD_EVERY_MS;
    first = store_event_from(k->q->search, k->next * BLOCK_EVENTS);
    k->next = first ? first / BLOCK_EVENTS : whole; /* numbers are left out */
    if (k->next >= whole) {
        k->next = whole;
        return -1;
    }
    k->built_ms = now;
    build(k, k->next++);
    return k->next < whole ? BUILD_EVERY_MS : -1;
}

/* Round and round: one old event that is not over keeps its own block, not all
 * behind it. */
void blocks_tidy(struct blocks *k)
{
    for (int i = 0; i < TIDY_MOST; i++) {
        int64_t n = store_event_from(k->q->search, k->tidied * BLOCK_EVENTS);
        int64_t used = n ? n / BLOCK_EVENTS : k->next;

        if (used > k->next)
            used = k->next;
        if (store_blocks_forget(k->q->search, k->tidied, used, FORGET_MOST) ==
            FORGET_MOST)
            return;
        k->tidied = used + 1;
        if (k->tidied >= k->next) {
            k->tidied = 0;
            return;
        }
    }
}

void blocks_note(struct blocks *k, int64_t event, enum block_name what,
                 const char *name)
{
    int64_t b = event / BLOCK_EVENTS;
    struct block_row row;
    struct filter f;
    struct key key;

    if (b >= k->next) /* so it is, of nearly all */
        return;
    if (!store_block(k->q->search, b, &row)) {
        store_block_done(k->q->search);
        return;
    }
    key = key_of(what, name);
    f = (struct filter){gr_alloc(row.names.n), row.names.n * 8};
    memcpy(f.bits, row.names.p, row.names.n);
    store_block_done(k->q->search);
    if (!filter_may_have(&f, key)) {
        filter_add(&f, key);
        row.names.p = f.bits;
        store_block_put(k->q->search, &row);
    }
    filter_fini(&f);
}

void blocks_note_endpoint(struct blocks *k, int64_t event, int64_t endpoint)
{
    char text[32];

    if (event / BLOCK_EVENTS >= k->next)
        return;
    snprintf(text, sizeof text, "%" PRId64, endpoint);
    blocks_note(k, event, BLOCK_ENDPOINT, text);
}

/* ---- asking ---- */

void block_ask_endpoint(struct block_question *b, int64_t endpoint)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, endpoint);
    block_ask(b, BLOCK_ENDPOINT, text);
}

void block_ask(struct block_question *b, enum block_name what, const char *name)
{
    if (b->count < (int)COUNT_OF(b->names))
        b->names[b->count++] = key_of(what, name);
}

static bool has_all(const struct block_row *row,
                    const struct block_question *question)
{
    /* Read only. */
    struct filter f = {(uint8_t *)(uintptr_t)row->names.p, row->names.n * 8};

    if (row->most_ms < question->since_ms ||
        row->least_ms >= question->until_ms)
        return false;
    for (int i = 0; i < question->count; i++)
        if (!filter_may_have(&f, question->names[i]))
            return false;
    return true;
}

bool blocks_may_have(struct blocks *k, int64_t event,
                     const struct block_question *question)
{
    struct block_row row;
    bool may = !store_block(k->q->search, event / BLOCK_EVENTS, &row) ||
               has_all(&row, question);

    store_block_done(k->q->search);
    return may;
}
