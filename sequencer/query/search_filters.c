/* search_filters: filters by which a search skips blocks of events that cannot match. */
#include "search_filters.h"
#include "hash.h"
#include "store_search.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* enough for 50,000 events a second; a filter takes 1 ms */
    BUILD_EVERY_MS = 20,
    BITS_MAX = 4 * FILTER_EVENTS * 16, /* four names for each event */
    FORGET_MAX = 64,
    TIDY_MAX = 64, /* blocks looked at in one call */
};

struct search_filters {
    struct sequencer *q;
    int64_t next; /* all blocks before this are written, or have no events */
    int64_t built_ms; /* mono: when the last filter was built */
    int64_t tidied;   /* where search_filters_tidy() continues */
};

static void load(struct search_filters *k)
{
    k->next = store_filter_last(k->q->search) + 1;
}

struct search_filters *search_filters_open(struct sequencer *q)
{
    struct search_filters *k = gr_alloc(sizeof *k);

    k->q = q;
    load(k);
    return k;
}

void search_filters_close(struct search_filters *k)
{
    free(k);
}

void search_filters_undo(struct search_filters *k)
{
    load(k);
}

/* A hash with well mixed bits (splitmix64). */
static uint64_t mixed(uint64_t h, const char *text)
{
    h = hash_name(h, text);
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ h >> 27) * 0x94d049bb133111ebULL;
    return h ^ h >> 31;
}

static struct key key_of(enum filter_kind what, const char *name)
{
    const uint64_t mask = (1ULL << KEY_HASH_BITS) - 1;
    uint64_t h = mixed(HASH_BEGIN ^ (uint64_t)what, name);

    return (struct key){h & mask, mixed(h, "") & mask};
}

/* ---- writing ---- */

struct building {
    struct filter names;
    uint64_t count; /* different names */
    int64_t last_endpoint;
    struct filter_row row;
};

static void add(struct building *b, enum filter_kind what, const char *name)
{
    struct key key = key_of(what, name);

    b->count += !filter_may_have(&b->names, key);
    filter_add(&b->names, key);
}

static void add_event(void *arg, const struct event_row *e)
{
    struct building *b = arg;

    add(b, FILTER_SOURCE, e->source);
    add(b, FILTER_TYPE, e->type);
    add(b, FILTER_WORKSPACE, e->workspace);
    if (e->received_ms < b->row.min_ms)
        b->row.min_ms = e->received_ms;
    if (e->received_ms > b->row.max_ms)
        b->row.max_ms = e->received_ms;
}

static void add_endpoint(void *arg, int64_t endpoint)
{
    struct building *b = arg;
    char text[32];

    if (endpoint == b->last_endpoint)
        return;
    b->last_endpoint = endpoint;
    snprintf(text, sizeof text, "%" PRId64, endpoint);
    add(b, FILTER_ENDPOINT, text);
}

static void build(struct search_filters *k, int64_t b)
{
    struct store_search *s = k->q->search;
    struct building building = {
        .row = {.b = b, .min_ms = INT64_MAX, .max_ms = INT64_MIN}};
    int64_t first = b * FILTER_EVENTS, behind = first + FILTER_EVENTS;

    filter_init(&building.names, BITS_MAX);
    store_filter_events(s, first, behind, add_event, &building);
    store_filter_endpoints(s, first, behind, add_endpoint, &building);
    filter_fold(&building.names, building.count);
    building.row.names = (struct bytes){building.names.bits,
                                        building.names.bit_count / 8};
    store_filter_put(s, &building.row);
    filter_fini(&building.names);
}

int search_filters_work(struct search_filters *k)
{
    int64_t whole = k->q->next_event / FILTER_EVENTS, first,
            now = k->q->d.loop.mono_ms;

    if (k->next >= whole)
        return -1;
    if (now - k->built_ms < BUILD_EVERY_MS)
        return BUILD_EVERY_MS;
    first = store_event_from(k->q->search, k->next * FILTER_EVENTS);
    k->next = first ? first / FILTER_EVENTS
                    : whole; /* a restart skips numbers */
    if (k->next >= whole) {
        k->next = whole;
        return -1;
    }
    k->built_ms = now;
    build(k, k->next++);
    return k->next < whole ? BUILD_EVERY_MS : -1;
}

/* Goes through all blocks again and again: an old event that is not purged keeps its own block,
 * but not the later ones. */
void search_filters_tidy(struct search_filters *k)
{
    for (int i = 0; i < TIDY_MAX; i++) {
        int64_t n = store_event_from(k->q->search, k->tidied * FILTER_EVENTS);
        int64_t used = n ? n / FILTER_EVENTS : k->next;

        if (used > k->next)
            used = k->next;
        if (store_filters_forget(k->q->search, k->tidied, used, FORGET_MAX) ==
            FORGET_MAX)
            return;
        k->tidied = used + 1;
        if (k->tidied >= k->next) {
            k->tidied = 0;
            return;
        }
    }
}

void search_filters_note(struct search_filters *k, int64_t event,
                         enum filter_kind what, const char *name)
{
    int64_t b = event / FILTER_EVENTS;
    struct filter_row row;
    struct filter f;
    struct key key;

    if (b >= k->next) /* not built yet: the usual case */
        return;
    if (!store_filter(k->q->search, b, &row)) {
        store_filter_done(k->q->search);
        return;
    }
    key = key_of(what, name);
    f = (struct filter){gr_alloc(row.names.n), row.names.n * 8};
    memcpy(f.bits, row.names.p, row.names.n);
    store_filter_done(k->q->search);
    if (!filter_may_have(&f, key)) {
        filter_add(&f, key);
        row.names.p = f.bits;
        store_filter_put(k->q->search, &row);
    }
    filter_fini(&f);
}

void search_filters_note_endpoint(struct search_filters *k, int64_t event,
                                  int64_t endpoint)
{
    char text[32];

    if (event / FILTER_EVENTS >= k->next)
        return;
    snprintf(text, sizeof text, "%" PRId64, endpoint);
    search_filters_note(k, event, FILTER_ENDPOINT, text);
}

/* ---- searching ---- */

void filter_query_add_endpoint(struct filter_query *b, int64_t endpoint)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, endpoint);
    filter_query_add(b, FILTER_ENDPOINT, text);
}

void filter_query_add(struct filter_query *b, enum filter_kind what,
                      const char *name)
{
    if (b->count < (int)COUNT_OF(b->names))
        b->names[b->count++] = key_of(what, name);
}

static bool has_all(const struct filter_row *row,
                    const struct filter_query *question)
{
    /* The filter is only read. */
    struct filter f = {(uint8_t *)(uintptr_t)row->names.p, row->names.n * 8};

    if (row->max_ms < question->since_ms || row->min_ms >= question->until_ms)
        return false;
    for (int i = 0; i < question->count; i++)
        if (!filter_may_have(&f, question->names[i]))
            return false;
    return true;
}

bool search_filters_may_match(struct search_filters *k, int64_t event,
                              const struct filter_query *question)
{
    struct filter_row row;
    bool may = !store_filter(k->q->search, event / FILTER_EVENTS, &row) ||
               has_all(&row, question);

    store_filter_done(k->q->search);
    return may;
}
