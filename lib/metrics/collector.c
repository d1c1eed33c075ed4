/* collector: its tables of publishers, metrics and series, and the reading of frames into
 * them. */
#include "collector.h"
#include "log.h"
#include "lookup.h"
#include "metrics_frame.h"
#include "siphash.h"
#include <math.h>
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

struct collector {
    int64_t began_ms, stale_ms;
    struct publisher *publishers;
    struct collected_metric *metrics, **last;
    int publisher_count, metric_count, series_count;
    bool full; /* and it was logged */
    struct lookup series;
};

struct labels {
    int count;
    char keys[METRIC_LABELS_MAX][METRIC_LABEL_BYTES + 1];
    char values[METRIC_LABELS_MAX][METRIC_LABEL_BYTES + 1];
};

struct collector *collector_new(int64_t now_ms, int64_t stale_ms)
{
    struct collector *g = gr_alloc(sizeof *g);

    g->stale_ms = stale_ms;
    g->began_ms = now_ms;
    g->last = &g->metrics;
    return g;
}

static void free_metric(struct collected_metric *metric)
{
    struct collected *p;

    while ((p = metric->series)) {
        metric->series = p->next;
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
    free(metric->name);
    free(metric->unit);
    free(metric->help);
    free(metric);
}

void collector_free(struct collector *g)
{
    struct collected_metric *metric;
    struct publisher *t;

    while (g && (metric = g->metrics)) {
        g->metrics = metric->next;
        free_metric(metric);
    }
    while (g && (t = g->publishers)) {
        g->publishers = t->next;
        free(t);
    }
    if (g)
        lookup_fini(&g->series);
    free(g);
}

/* ---- publishers ---- */

struct publisher *collector_publishers(struct collector *g)
{
    return g->publishers;
}

struct publisher *collector_publisher(struct collector *g, const char *name)
{
    struct publisher *t = g->publishers;

    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

/* Found or made. NULL: there are too many. */
static struct publisher *make_publisher(struct collector *g, const char *name)
{
    struct publisher *t = collector_publisher(g, name);

    if (t || g->publisher_count == COLLECTOR_PROCESSES_MAX)
        return t;
    t = gr_alloc(sizeof *t);
    t->stale_ms = g->stale_ms;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->next = g->publishers;
    g->publishers = t;
    g->publisher_count++;
    return t;
}

bool collector_hears(const struct publisher *t, int64_t mono_now_ms)
{
    return t->heard && mono_now_ms - t->heard_ms <= t->stale_ms;
}

int64_t collector_waits_ms(const struct publisher *t, int64_t mono_now_ms)
{
    return mono_now_ms - t->waits_heard_ms <= t->stale_ms ? t->waits_ms : 0;
}

bool collector_has(struct collector *g, const char *kind, int64_t mono_now_ms)
{
    for (struct publisher *t = g->publishers; t; t = t->next)
        if (strcmp(t->kind, kind) == 0 && collector_hears(t, mono_now_ms))
            return true;
    return false;
}

void collector_forget(struct collector *g, const char *process)
{
    struct publisher *t = collector_publisher(g, process);

    if (t)
        t->heard = false;
}

/* ---- metrics ---- */

const struct collected_metric *collector_metrics(const struct collector *g)
{
    return g->metrics;
}

struct collected_metric *collector_metric(const struct collector *g,
                                          const char *name)
{
    struct collected_metric *metric = g->metrics;

    while (metric && strcmp(metric->name, name) != 0)
        metric = metric->next;
    return metric;
}

/* Whether this may be the name of a metric or a label. */
static bool is_valid_name(const char *name)
{
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
                        strlen(name);
}

/* Found or made. NULL: there are too many, or the name is not valid. */
static struct collected_metric *make_metric(struct collector *g,
                                            const char *name)
{
    struct collected_metric *metric = collector_metric(g, name);

    if (metric || g->metric_count == COLLECTOR_METRICS_MAX ||
        !is_valid_name(name))
        return metric;
    metric = gr_alloc(sizeof *metric);
    metric->name = gr_strdup(name);
    *g->last = metric;
    g->last = &metric->next;
    g->metric_count++;
    return metric;
}

/* ---- series ---- */

static bool same_labels(const struct collected *p, const struct labels *l)
{
    if (p->label_count != l->count)
        return false;
    for (int i = 0; i < l->count; i++)
        if (strcmp(p->keys[i], l->keys[i]) != 0 ||
            strcmp(p->values[i], l->values[i]) != 0)
            return false;
    return true;
}

/* Found or made; *fresh: it was made now. NULL: there are too many. */
static struct collected *make_series(struct collector *g,
                                     struct collected_metric *metric,
                                     struct publisher *t,
                                     const struct labels *l, bool *fresh)
{
    uint64_t h = hash_keyed_text(hash_keyed_text(0, metric->name), t->name);
    struct collected *p;

    for (int i = 0; i < l->count; i++)
        h = hash_keyed_text(h, l->values[i]);
    *fresh = false;
    for (size_t at = 0; (p = lookup_get(&g->series, h, &at));)
        if (p->metric == metric && p->publisher == t && same_labels(p, l))
            return p;
    if (g->series_count == COLLECTOR_SERIES_MAX) {
        if (!g->full)
            log_warn(
                NULL,
                "too many metrics are published; the rest are not collected");
        g->full = true;
        return NULL;
    }
    *fresh = true;
    p = gr_alloc(sizeof *p);
    p->metric = metric;
    p->publisher = t;
    p->label_count = l->count;
    for (int i = 0; i < l->count; i++) {
        p->keys[i] = gr_strdup(l->keys[i]);
        p->values[i] = gr_strdup(l->values[i]);
    }
    p->next = metric->series;
    metric->series = p;
    g->series_count++;
    lookup_add(&g->series, h, p);
    return p;
}

/* A process has started anew: what it counted before stays in the totals. */
static void carry_over(struct collector *g, const struct publisher *t)
{
    for (struct collected_metric *metric = g->metrics; metric;
         metric = metric->next)
        for (struct collected *p = metric->series; p; p = p->next) {
            if (p->publisher != t || metric->kind == METRIC_GAUGE)
                continue;
            p->base += p->value;
            p->value = 0;
            for (int i = 0; i <= p->bounds && p->counts; i++) {
                p->count_bases[i] += p->counts[i];
                p->counts[i] = 0;
            }
        }
}

/* ---- values of a frame; missing and unknown ones are ignored ---- */

static const int64_t TIME_MAX_MS = (int64_t)1 << 53; /* whole in a double */

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

/* Whether to leave the present value out of the total: it was counted before the collector
 * was made. */
static bool leaves_out(const struct collected *p, bool fresh)
{
    return fresh && p->publisher->counted_before &&
           p->metric->kind != METRIC_GAUGE;
}

static void set(struct collected *p, double value, bool leave_out)
{
    p->value = value;
    p->time_ms = p->publisher->time_ms;
    if (leave_out)
        p->base = -value;
}

static void take_numbers(struct collector *g, struct publisher *t,
                         const msgpack_object *map)
{
    static const struct labels none;
    char name[128];
    double v;
    bool fresh;

    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];
        struct collected_metric *metric;
        struct collected *p;

        if (!get_text(&kv->key, name, sizeof name) ||
            !get_number(&kv->val, &v) || !(metric = make_metric(g, name)) ||
            !(p = make_series(g, metric, t, &none, &fresh)))
            continue;
        set(p, v, leaves_out(p, fresh));
    }
}

static bool read_labels(const msgpack_object *map, struct labels *out)
{
    *out = (struct labels){0};
    if (!is_a(map, MSGPACK_OBJECT_MAP) || map->via.map.size > METRIC_LABELS_MAX)
        return false;
    for (; out->count < (int)map->via.map.size; out->count++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[out->count];

        if (!get_text(&kv->key, out->keys[out->count], sizeof out->keys[0]) ||
            !get_text(&kv->val, out->values[out->count],
                      sizeof out->values[0]) ||
            !is_valid_name(out->keys[out->count]))
            return false;
    }
    return true;
}

static void take_histogram(struct collected *p, const msgpack_object *series,
                           bool leave_out)
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
        if (leave_out)
            p->count_bases[i] = -p->counts[i];
    }
}

static void take_series(struct collector *g, struct publisher *t,
                        const msgpack_object *series)
{
    const msgpack_object *sum = get(series, "sum");
    struct labels labels;
    struct collected_metric *metric;
    struct collected *p;
    char name[128];
    bool fresh, leave_out;
    double v;

    if (!get_text(get(series, "name"), name, sizeof name) ||
        !read_labels(get(series, "labels"), &labels) ||
        !get_number(sum ? sum : get(series, "value"), &v) ||
        !(metric = make_metric(g, name)) ||
        !(p = make_series(g, metric, t, &labels, &fresh)))
        return;
    leave_out = leaves_out(p, fresh);
    if (sum)
        take_histogram(p, series, leave_out);
    set(p, v, leave_out);
}

static void take_about(struct collector *g, const msgpack_object *about)
{
    static const char *const kinds[] = {[METRIC_COUNTER] = "counter",
                                        [METRIC_GAUGE] = "gauge",
                                        [METRIC_HISTOGRAM] = "histogram"};
    char name[128], unit[64], help[400];

    for (uint32_t i = 0; i < about->via.map.size; i++) {
        const msgpack_object *a = &about->via.map.ptr[i].val;
        struct collected_metric *metric;

        if (!is_a(a, MSGPACK_OBJECT_ARRAY) || a->via.array.size < 3 ||
            !get_text(&about->via.map.ptr[i].key, name, sizeof name) ||
            !get_text(&a->via.array.ptr[1], unit, sizeof unit) ||
            !get_text(&a->via.array.ptr[2], help, sizeof help))
            continue;
        metric = make_metric(g, name);
        if (!metric || metric->help)
            continue;
        metric->unit = gr_strdup(unit);
        metric->help = gr_strdup(help);
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            if (is(&a->via.array.ptr[0], kinds[k]))
                metric->kind = (enum metric_kind)k;
    }
}

/* ---- the frame ---- */

/* The head of a frame; its parts are borrowed from the frame. */
struct frame_head {
    char process[NAME_MAX_BYTES + 1], kind[NAME_MAX_BYTES + 1];
    uint64_t epoch;
    int64_t time_ms, started_ms;
    int64_t waits_ms; /* 0: it does not wait */
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

static bool read_head(const msgpack_object *frame, struct frame_head *h)
{
    const msgpack_object *epoch = get(frame, "epoch"),
                         *waits = get(frame, "waits_ms");
    double version;

    *h = (struct frame_head){.numbers = get(frame, "metrics"),
                             .series = get(frame, "series"),
                             .about = get(frame, "about")};
    if (!get_number(get(frame, "v"), &version) || version != 1 ||
        !get_text(get(frame, "process"), h->process, sizeof h->process) ||
        !get_text(get(frame, "kind"), h->kind, sizeof h->kind) ||
        !get_ms(get(frame, "time_ms"), &h->time_ms) ||
        !get_ms(get(frame, "started_ms"), &h->started_ms) ||
        !is_a(h->numbers, MSGPACK_OBJECT_MAP) ||
        !is_a(h->series, MSGPACK_OBJECT_ARRAY) ||
        !is_a(h->about, MSGPACK_OBJECT_MAP) ||
        !is_a(epoch, MSGPACK_OBJECT_POSITIVE_INTEGER))
        return false;
    if (waits && !get_ms(waits, &h->waits_ms))
        return false;
    h->epoch = epoch->via.u64;
    return true;
}

/* Publishing may take several frames with the same time (metrics.h). */
static void take_head(struct collector *g, struct publisher *t,
                      const struct frame_head *h, int64_t mono_now_ms)
{
    bool same_start = t->epoch == h->epoch, new_time = t->time_ms != h->time_ms;

    snprintf(t->kind, sizeof t->kind, "%s", h->kind);
    if (!same_start)
        t->before_ms = h->started_ms;
    else if (new_time)
        t->before_ms = t->time_ms;
    if (!t->epoch)
        t->counted_before = h->started_ms < g->began_ms;
    else if (!same_start || new_time)
        t->counted_before = false;
    if (t->epoch && !same_start)
        carry_over(g, t);
    if (t->counted_before)
        t->before_ms = 0;
    t->heard = true;
    t->epoch = h->epoch;
    t->time_ms = h->time_ms;
    t->heard_ms = mono_now_ms;
    t->waits_ms = 0;
}

/* Another instance on another host may own the store meanwhile, so this changes nothing that
 * frames of that one have said; while they come, the one that waits does not count. */
static void take_wait(struct publisher *t, const struct frame_head *h,
                      int64_t mono_now_ms)
{
    if (h->epoch != t->epoch && collector_hears(t, mono_now_ms))
        return;
    if (!t->heard)
        snprintf(t->kind, sizeof t->kind, "%s", h->kind);
    t->waits_ms = h->waits_ms;
    t->waits_heard_ms = mono_now_ms;
}

static gr_rc take(struct collector *g, const msgpack_object *frame,
                  int64_t mono_now_ms)
{
    struct frame_head h;
    struct publisher *t;

    if (!read_head(frame, &h) || !(t = make_publisher(g, h.process)))
        return GR_REFUSE;
    if (h.waits_ms) {
        take_wait(t, &h, mono_now_ms);
        return GR_OK;
    }
    take_head(g, t, &h, mono_now_ms);
    take_about(g, h.about);
    take_numbers(g, t, h.numbers);
    for (uint32_t i = 0; i < h.series->via.array.size; i++)
        take_series(g, t, &h.series->via.array.ptr[i]);
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

bool collector_is_from(struct bytes frame, const char *process)
{
    struct frame_head h;
    msgpack_unpacked got;
    bool is = false;

    if (!metrics_frame_sound(frame))
        return false;
    msgpack_unpacked_init(&got);
    if (msgpack_unpack_next(&got, frame.p, frame.n, NULL) ==
        MSGPACK_UNPACK_SUCCESS)
        is = read_head(&got.data, &h) && strcmp(h.process, process) == 0;
    msgpack_unpacked_destroy(&got);
    return is;
}

/* ---- queries ---- */

bool collected_fresh(const struct collected *p, int64_t mono_now_ms)
{
    return collector_hears(p->publisher, mono_now_ms) &&
           p->time_ms == p->publisher->time_ms;
}

double collected_total(const struct collected *p)
{
    return p->base + p->value;
}

const char *collected_label(const struct collected *p, const char *key)
{
    for (int i = 0; i < p->label_count; i++)
        if (strcmp(p->keys[i], key) == 0)
            return p->values[i];
    return "";
}

struct collected *collector_next(const struct collector *g,
                                 const struct series_query *q,
                                 const struct collected *after,
                                 int64_t mono_now_ms)
{
    const struct collected_metric *metric = NULL;
    struct collected *p;

    if (!after)
        metric = collector_metric(g, q->metric);
    p = after ? after->next : metric ? metric->series : NULL;
    for (; p; p = p->next)
        if (collected_fresh(p, mono_now_ms) &&
            (!q->process || strcmp(p->publisher->name, q->process) == 0) &&
            (!q->label || strcmp(collected_label(p, q->label), q->value) == 0))
            return p;
    return NULL;
}

double collector_sum(const struct collector *g, const struct series_query *q,
                     int64_t mono_now_ms)
{
    double sum = NAN;

    for (const struct collected *p = NULL;
         (p = collector_next(g, q, p, mono_now_ms));)
        sum = (isnan(sum) ? 0 : sum) + p->value;
    return sum;
}
