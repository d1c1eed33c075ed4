/* Reads one metrics frame into the collector. Missing and unknown fields are ignored. */
#include "collector_inside.h"
#include <msgpack.h>
#include <string.h>

static const int64_t TIME_MAX_MS = (int64_t)1 << 53; /* whole in a double */

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

static bool is_a(const msgpack_object *o, msgpack_object_type type)
{
    return o && o->type == type;
}

/* Less than `max` bytes, no NUL. */
static bool get_text(const msgpack_object *o, char *out, size_t max)
{
    size_t n = o && o->type == MSGPACK_OBJECT_STR ? o->via.str.size : 0;

    if (!o || o->type != MSGPACK_OBJECT_STR || n >= max)
        return false;
    memcpy(out, o->via.str.ptr, n);
    out[n] = 0;
    return strlen(out) == n;
}

/* ---- numbers ---- */

/* What it has counted so far is older than the collector. */
static bool is_before_us(const struct collected *p)
{
    return p->publisher->before_us && p->item->kind != METRIC_GAUGE;
}

static void set(struct collected *p, double value, bool before_us)
{
    p->value = value;
    p->time_ms = p->publisher->time_ms;
    if (before_us)
        p->base = -value;
}

static void take_numbers(struct collector *g, struct publisher *t,
                         const msgpack_object *map)
{
    static const struct collector_labels none;
    char name[128];
    double v;
    bool fresh;

    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];
        struct item *item;
        struct collected *p;

        if (!get_text(&kv->key, name, sizeof name) ||
            !get_number(&kv->val, &v) ||
            !(item = collector_make_item(g, name)) ||
            !(p = collector_make_series(g, item, t, &none, &fresh)))
            continue;
        set(p, v, fresh && is_before_us(p));
    }
}

static bool read_labels(const msgpack_object *map, struct collector_labels *out)
{
    *out = (struct collector_labels){0};
    if (!is_a(map, MSGPACK_OBJECT_MAP) || map->via.map.size > METRIC_LABELS_MAX)
        return false;
    for (; out->count < (int)map->via.map.size; out->count++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[out->count];

        if (!get_text(&kv->key, out->keys[out->count], sizeof out->keys[0]) ||
            !get_text(&kv->val, out->values[out->count],
                      sizeof out->values[0]) ||
            !collector_valid_name(out->keys[out->count]))
            return false;
    }
    return true;
}

static void take_histogram(struct collected *p, const msgpack_object *series,
                           bool before_us)
{
    const msgpack_object *le = get(series, "le"),
                         *counts = get(series, "counts");
    uint32_t n = is_a(le, MSGPACK_OBJECT_ARRAY) ? le->via.array.size : 0;

    if (!n || n > METRIC_BOUNDS_MAX || !is_a(counts, MSGPACK_OBJECT_ARRAY) ||
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
        if (before_us)
            p->count_bases[i] = -p->counts[i];
    }
}

static void take_series(struct collector *g, struct publisher *t,
                        const msgpack_object *series)
{
    const msgpack_object *sum = get(series, "sum");
    struct collector_labels labels;
    struct item *item;
    struct collected *p;
    char name[128];
    bool fresh, before_us;
    double v;

    if (!get_text(get(series, "name"), name, sizeof name) ||
        !read_labels(get(series, "labels"), &labels) ||
        !get_number(sum ? sum : get(series, "value"), &v) ||
        !(item = collector_make_item(g, name)) ||
        !(p = collector_make_series(g, item, t, &labels, &fresh)))
        return;
    before_us = fresh && is_before_us(p);
    if (sum)
        take_histogram(p, series, before_us);
    set(p, v, before_us);
}

static void take_about(struct collector *g, const msgpack_object *about)
{
    static const char *const kinds[] = {[METRIC_COUNTER] = "counter",
                                        [METRIC_GAUGE] = "gauge",
                                        [METRIC_HISTOGRAM] = "histogram"};
    char name[128], unit[64], help[400];

    for (uint32_t i = 0; i < about->via.map.size; i++) {
        const msgpack_object *a = &about->via.map.ptr[i].val;
        struct item *item;

        if (!is_a(a, MSGPACK_OBJECT_ARRAY) || a->via.array.size < 3 ||
            !get_text(&about->via.map.ptr[i].key, name, sizeof name) ||
            !get_text(&a->via.array.ptr[1], unit, sizeof unit) ||
            !get_text(&a->via.array.ptr[2], help, sizeof help))
            continue;
        item = collector_make_item(g, name);
        if (!item || item->help)
            continue;
        item->unit = gr_strdup(unit);
        item->help = gr_strdup(help);
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            if (is(&a->via.array.ptr[0], kinds[k]))
                item->kind = (enum metric_kind)k;
    }
}

/* ---- the frame ---- */

/* The head of a frame; its parts are borrowed from the frame. */
struct said {
    char process[NAME_MAX_BYTES + 1], kind[NAME_MAX_BYTES + 1];
    uint64_t epoch;
    int64_t time_ms, started_ms;
    const msgpack_object *numbers, *series, *about;
};

/* A possible time; outside of int64_t the cast would be undefined. */
static bool get_ms(const msgpack_object *o, int64_t *ms)
{
    double v;

    if (!get_number(o, &v) || !(v >= 0 && v <= (double)TIME_MAX_MS))
        return false;
    *ms = (int64_t)v;
    return true;
}

static bool read_said(const msgpack_object *frame, struct said *s)
{
    const msgpack_object *epoch = get(frame, "epoch");
    double version;

    *s = (struct said){.numbers = get(frame, "metrics"),
                       .series = get(frame, "series"),
                       .about = get(frame, "about")};
    if (!get_number(get(frame, "v"), &version) || version != 1 ||
        !get_text(get(frame, "process"), s->process, sizeof s->process) ||
        !get_text(get(frame, "kind"), s->kind, sizeof s->kind) ||
        !get_ms(get(frame, "time_ms"), &s->time_ms) ||
        !get_ms(get(frame, "started_ms"), &s->started_ms) ||
        !is_a(s->numbers, MSGPACK_OBJECT_MAP) ||
        !is_a(s->series, MSGPACK_OBJECT_ARRAY) ||
        !is_a(s->about, MSGPACK_OBJECT_MAP) ||
        !is_a(epoch, MSGPACK_OBJECT_POSITIVE_INTEGER))
        return false;
    s->epoch = epoch->via.u64;
    return true;
}

/* `again`: the same start of the process. `news`: a frame of another time. */
static void hear(struct collector *g, struct publisher *t, const struct said *s,
                 int64_t mono_now_ms)
{
    bool again = t->epoch == s->epoch, news = t->time_ms != s->time_ms;

    snprintf(t->kind, sizeof t->kind, "%s", s->kind);
    if (!again)
        t->before_ms = s->started_ms;
    else if (news)
        t->before_ms = t->time_ms;
    if (!t->epoch)
        t->before_us = s->started_ms < g->began_ms;
    else if (!again || news)
        t->before_us = false; /* no longer its first words */
    if (t->epoch && !again)
        collector_carry_over(g, t);
    if (t->before_us)
        t->before_ms = 0;
    t->heard = true;
    t->epoch = s->epoch;
    t->time_ms = s->time_ms;
    t->heard_ms = mono_now_ms;
}

static gr_rc take(struct collector *g, const msgpack_object *frame,
                  int64_t mono_now_ms)
{
    struct said s;
    struct publisher *t;

    if (!read_said(frame, &s) || !(t = collector_make_publisher(g, s.process)))
        return GR_REFUSE;
    hear(g, t, &s, mono_now_ms);
    take_about(g, s.about);
    take_numbers(g, t, s.numbers);
    for (uint32_t i = 0; i < s.series->via.array.size; i++)
        take_series(g, t, &s.series->via.array.ptr[i]);
    return GR_OK;
}

gr_rc collector_frame(struct collector *g, struct bytes frame,
                      int64_t mono_now_ms)
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
