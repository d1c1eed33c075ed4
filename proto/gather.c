#include "gather.h"
#include "log.h"
#include <math.h>
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 16384, ITEMS_MAX = 2000 };

LIST_HEAD(point_list, point);

struct gather {
    int64_t began_ms, stale_ms;
    struct teller *tellers;
    struct item *items, **last;
    int teller_count, item_count, point_count;
    bool full; /* said once */
    struct point_list buckets[BUCKETS];
};

struct gather *gather_new(int64_t now_ms, int64_t stale_ms)
{
    struct gather *g = gr_alloc(sizeof *g);

    g->stale_ms = stale_ms;
    g->began_ms = now_ms;
    g->last = &g->items;
    return g;
}

static void free_point(struct point *p)
{
    for (int i = 0; i < p->label_count; i++) {
        free(p->keys[i]);
        free(p->values[i]);
    }
    free(p->le);
    free(p->counts);
    free(p->count_bases);
    free(p->past);
    free(p);
}

void gather_free(struct gather *g)
{
    struct item *item;
    struct teller *t;
    struct point *p;

    while (g && (item = g->items)) {
        g->items = item->next;
        while ((p = item->points)) {
            item->points = p->next;
            free_point(p);
        }
        free(item->name);
        free(item->unit);
        free(item->help);
        free(item);
    }
    while (g && (t = g->tellers)) {
        g->tellers = t->next;
        free(t);
    }
    free(g);
}

/* ---- reading msgpack ---- */

static bool is(const msgpack_object *o, const char *text)
{
    return o->type == MSGPACK_OBJECT_STR && o->via.str.size == strlen(text) &&
           memcmp(o->via.str.ptr, text, strlen(text)) == 0;
}

static const msgpack_object *get(const msgpack_object *map, const char *key)
{
    if (map->type == MSGPACK_OBJECT_MAP)
        for (uint32_t i = 0; i < map->via.map.size; i++)
            if (is(&map->via.map.ptr[i].key, key))
                return &map->via.map.ptr[i].val;
    return NULL;
}

static bool get_number(const msgpack_object *o, double *out)
{
    if (!o)
        return false;
    switch (o->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *out = (double)o->via.u64;
        return true;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *out = (double)o->via.i64;
        return true;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *out = o->via.f64;
        return true;
    default:
        return false;
    }
}

static bool get_list(const msgpack_object *o, msgpack_object_type type)
{
    return o && o->type == type;
}

/* Less than `most` bytes, no NUL. */
static bool get_text(const msgpack_object *o, char *out, size_t most)
{
    size_t n = o && o->type == MSGPACK_OBJECT_STR ? o->via.str.size : 0;

    if (!o || o->type != MSGPACK_OBJECT_STR || n >= most)
        return false;
    memcpy(out, o->via.str.ptr, n);
    out[n] = 0;
    return strlen(out) == n;
}

/* ---- who ---- */

struct teller *gather_tellers(struct gather *g)
{
    return g->tellers;
}

struct teller *gather_teller(struct gather *g, const char *name)
{
    struct teller *t = g->tellers;

    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

static struct teller *make_teller(struct gather *g, const char *name)
{
    struct teller *t = gather_teller(g, name);

    if (t || g->teller_count == GATHER_PROCESSES_MAX)
        return t;
    t = gr_alloc(sizeof *t);
    t->stale_ms = g->stale_ms;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->next = g->tellers;
    g->tellers = t;
    g->teller_count++;
    return t;
}

bool gather_hears(const struct teller *t, int64_t mono_now_ms)
{
    return t->heard && mono_now_ms - t->heard_ms <= t->stale_ms;
}

bool gather_has(struct gather *g, const char *kind, int64_t mono_now_ms)
{
    for (struct teller *t = g->tellers; t; t = t->next)
        if (strcmp(t->kind, kind) == 0 && gather_hears(t, mono_now_ms))
            return true;
    return false;
}

/* ---- what ---- */

static struct item *find_item(const struct gather *g, const char *name)
{
    struct item *item = g->items;

    while (item && strcmp(item->name, name) != 0)
        item = item->next;
    return item;
}

const struct item *gather_items(const struct gather *g)
{
    return g->items;
}

const struct item *gather_item(const struct gather *g, const char *name)
{
    return find_item(g, name);
}

static bool valid_name(const char *name)
{
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
                        strlen(name);
}

static struct item *make_item(struct gather *g, const char *name)
{
    struct item *item = find_item(g, name);

    if (item || g->item_count == ITEMS_MAX || !valid_name(name))
        return item;
    item = gr_alloc(sizeof *item);
    item->name = gr_strdup(name);
    *g->last = item;
    g->last = &item->next;
    g->item_count++;
    return item;
}

static size_t hash_text(size_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 1099511628211ULL;
    return (h ^ 0xff) * 1099511628211ULL;
}

struct labels {
    int count;
    char keys[METRIC_LABELS_MAX][METRIC_LABEL_BYTES + 1];
    char values[METRIC_LABELS_MAX][METRIC_LABEL_BYTES + 1];
};

static bool same_labels(const struct point *p, const struct labels *l)
{
    if (p->label_count != l->count)
        return false;
    for (int i = 0; i < l->count; i++)
        if (strcmp(p->keys[i], l->keys[i]) != 0 ||
            strcmp(p->values[i], l->values[i]) != 0)
            return false;
    return true;
}

static struct point *new_point(struct gather *g, struct item *item,
                               struct teller *t, const struct labels *l)
{
    struct point *p;

    if (g->point_count == GATHER_POINTS_MAX) {
        if (!g->full)
            log_warn(NULL, "too many numbers are published; the rest are not "
                           "gathered");
        g->full = true;
        return NULL;
    }
    p = gr_alloc(sizeof *p);
    p->item = item;
    p->teller = t;
    p->label_count = l->count;
    for (int i = 0; i < l->count; i++) {
        p->keys[i] = gr_strdup(l->keys[i]);
        p->values[i] = gr_strdup(l->values[i]);
    }
    p->next = item->points;
    item->points = p;
    g->point_count++;
    return p;
}

/* *fresh: it was not there before. */
static struct point *make_point(struct gather *g, struct item *item,
                                struct teller *t, const struct labels *l,
                                bool *fresh)
{
    size_t h = hash_text(hash_text(14695981039346656037ULL, item->name),
                         t->name);
    struct point_list *bucket;
    struct point *p;

    for (int i = 0; i < l->count; i++)
        h = hash_text(h, l->values[i]);
    bucket = &g->buckets[h % BUCKETS];
    *fresh = false;
    LIST_FOREACH(p, bucket, link)
    if (p->item == item && p->teller == t && same_labels(p, l))
        return p;
    *fresh = true;
    p = new_point(g, item, t, l);
    if (p)
        LIST_INSERT_HEAD(bucket, p, link);
    return p;
}

/* ---- a frame ---- */

/* What the process counted before this start stays counted. */
static void carry_over(struct gather *g, const struct teller *t)
{
    for (struct item *item = g->items; item; item = item->next)
        for (struct point *p = item->points; p; p = p->next) {
            if (p->teller != t || item->kind == METRIC_GAUGE)
                continue;
            p->base += p->value;
            p->value = 0;
            for (int i = 0; i <= p->bounds && p->counts; i++) {
                p->count_bases[i] += p->counts[i];
                p->counts[i] = 0;
            }
        }
}

static void take_numbers(struct gather *g, struct teller *t,
                         const msgpack_object *map)
{
    static const struct labels none;
    char name[128];
    double v;
    bool fresh;

    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];
        struct item *item;
        struct point *p;

        if (!get_text(&kv->key, name, sizeof name) ||
            !get_number(&kv->val, &v) || !(item = make_item(g, name)) ||
            !(p = make_point(g, item, t, &none, &fresh)))
            continue;
        p->value = v;
        p->time_ms = t->time_ms;
        if (fresh && t->before_us && item->kind != METRIC_GAUGE)
            p->base = -v;
    }
}

static bool read_labels(const msgpack_object *map, struct labels *out)
{
    *out = (struct labels){0};
    if (!get_list(map, MSGPACK_OBJECT_MAP) ||
        map->via.map.size > METRIC_LABELS_MAX)
        return false;
    for (; out->count < (int)map->via.map.size; out->count++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[out->count];

        if (!get_text(&kv->key, out->keys[out->count], sizeof out->keys[0]) ||
            !get_text(&kv->val, out->values[out->count],
                      sizeof out->values[0]) ||
            !valid_name(out->keys[out->count]))
            return false;
    }
    return true;
}

static void take_histogram(struct point *p, const msgpack_object *series,
                           bool ours_not)
{
    const msgpack_object *le = get(series, "le"),
                         *counts = get(series, "counts");
    uint32_t n = get_list(le, MSGPACK_OBJECT_ARRAY) ? le->via.array.size : 0;

    if (!n || n > METRIC_BOUNDS_MAX ||
        !get_list(counts, MSGPACK_OBJECT_ARRAY) ||
        counts->via.array.size != n + 1 || (p->bounds && p->bounds != (int)n))
        return;
    if (!p->bounds) {
        p->bounds = (int)n;
        p->le = gr_alloc(n * sizeof *p->le);
        p->counts = gr_alloc((n + 1) * sizeof *p->counts);
        p->count_bases = gr_alloc((n + 1) * sizeof *p->count_bases);
    }
    for (uint32_t i = 0; i <= n; i++) {
        if (i < n)
            get_number(&le->via.array.ptr[i], &p->le[i]);
        get_number(&counts->via.array.ptr[i], &p->counts[i]);
        if (ours_not)
            p->count_bases[i] = -p->counts[i];
    }
}

static void take_series(struct gather *g, struct teller *t,
                        const msgpack_object *series)
{
    const msgpack_object *sum = get(series, "sum");
    struct labels labels;
    struct item *item;
    struct point *p;
    char name[128];
    bool fresh, ours_not;
    double v;

    if (!get_text(get(series, "name"), name, sizeof name) ||
        !read_labels(get(series, "labels"), &labels) ||
        !get_number(sum ? sum : get(series, "value"), &v) ||
        !(item = make_item(g, name)) ||
        !(p = make_point(g, item, t, &labels, &fresh)))
        return;
    ours_not = fresh && t->before_us && item->kind != METRIC_GAUGE;
    if (sum)
        take_histogram(p, series, ours_not);
    p->value = v;
    p->time_ms = t->time_ms;
    if (ours_not)
        p->base = -v;
}

static void take_about(struct gather *g, const msgpack_object *about)
{
    static const char *const kinds[] = {[METRIC_COUNTER] = "counter",
                                        [METRIC_GAUGE] = "gauge",
                                        [METRIC_HISTOGRAM] = "histogram"};
    char name[128], unit[64], help[400];

    for (uint32_t i = 0; i < about->via.map.size; i++) {
        const msgpack_object *a = &about->via.map.ptr[i].val;
        struct item *item;

        if (!get_list(a, MSGPACK_OBJECT_ARRAY) || a->via.array.size < 3 ||
            !get_text(&about->via.map.ptr[i].key, name, sizeof name) ||
            !get_text(&a->via.array.ptr[1], unit, sizeof unit) ||
            !get_text(&a->via.array.ptr[2], help, sizeof help))
            continue;
        item = make_item(g, name);
        if (!item || item->help)
            continue;
        item->unit = gr_strdup(unit);
        item->help = gr_strdup(help);
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            if (is(&a->via.array.ptr[0], kinds[k]))
                item->kind = (enum metric_kind)k;
    }
}

static gr_rc take(struct gather *g, const msgpack_object *frame,
                  int64_t mono_now_ms)
{
    const msgpack_object *numbers = get(frame, "metrics"),
                         *series = get(frame, "series"),
                         *about = get(frame, "about"), *run = get(frame, "run");
    char name[NAME_MAX_BYTES + 1], kind[NAME_MAX_BYTES + 1];
    double v, time_ms, started_ms;
    struct teller *t;

    if (!get_number(get(frame, "v"), &v) || v != 1 ||
        !get_text(get(frame, "process"), name, sizeof name) ||
        !get_text(get(frame, "kind"), kind, sizeof kind) ||
        !get_number(get(frame, "time_ms"), &time_ms) ||
        !get_number(get(frame, "started_ms"), &started_ms) ||
        !get_list(numbers, MSGPACK_OBJECT_MAP) ||
        !get_list(series, MSGPACK_OBJECT_ARRAY) ||
        !get_list(about, MSGPACK_OBJECT_MAP) ||
        !get_list(run, MSGPACK_OBJECT_POSITIVE_INTEGER) ||
        !(t = make_teller(g, name)))
        return GR_REFUSE;
    snprintf(t->kind, sizeof t->kind, "%s", kind);
    if (t->run != run->via.u64)
        t->before_ms = (int64_t)started_ms;
    else if (t->time_ms != (int64_t)time_ms)
        t->before_ms = t->time_ms;
    if (!t->run)
        t->before_us = (int64_t)started_ms < g->began_ms;
    else if (t->run != run->via.u64 || t->time_ms != (int64_t)time_ms)
        t->before_us = false; /* no longer its first words */
    if (t->run && t->run != run->via.u64)
        carry_over(g, t);
    if (t->before_us)
        t->before_ms = 0;
    t->heard = true;
    t->run = run->via.u64;
    t->time_ms = (int64_t)time_ms;
    t->heard_ms = mono_now_ms;
    take_about(g, about);
    take_numbers(g, t, numbers);
    for (uint32_t i = 0; i < series->via.array.size; i++)
        take_series(g, t, &series->via.array.ptr[i]);
    return GR_OK;
}

gr_rc gather_frame(struct gather *g, struct bytes frame, int64_t mono_now_ms)
{
    msgpack_unpacked got;
    gr_rc rc = GR_REFUSE;

    if (!metrics_frame_sound(frame))
        return GR_REFUSE;
    msgpack_unpacked_init(&got);
    if (msgpack_unpack_next(&got, frame.p, frame.n, NULL) ==
        MSGPACK_UNPACK_SUCCESS)
        rc = take(g, &got.data, mono_now_ms);
    msgpack_unpacked_destroy(&got);
    return rc;
}

/* Its counters stay in the totals; it is only no longer missed. */
void gather_forget(struct gather *g, const char *process)
{
    struct teller *t = gather_teller(g, process);

    if (t)
        t->heard = false;
}

/* ---- asking ---- */

bool point_fresh(const struct point *p, int64_t mono_now_ms)
{
    return gather_hears(p->teller, mono_now_ms) &&
           p->time_ms == p->teller->time_ms;
}

double point_total(const struct point *p)
{
    return p->base + p->value;
}

const char *point_label(const struct point *p, const char *key)
{
    for (int i = 0; i < p->label_count; i++)
        if (strcmp(p->keys[i], key) == 0)
            return p->values[i];
    return "";
}

double gather_sum(const struct gather *g, const char *name, int64_t mono_now_ms)
{
    const struct item *item = find_item(g, name);
    double sum = 0;

    for (const struct point *p = item ? item->points : NULL; p; p = p->next)
        if (point_fresh(p, mono_now_ms))
            sum += p->value;
    return sum;
}
