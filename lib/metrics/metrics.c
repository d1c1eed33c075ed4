/* metrics: a daemon's own metrics: counting, publishing, and reading for `status` and the
 * documentation. */
#include "metrics.h"
#include "clock.h"
#include "log.h"
#include "lookup.h"
#include "siphash.h"
#include "window.h"
#include <czmq.h>
#include <msgpack.h>
#include <sys/queue.h>

enum {
    FRAME_MAX_BYTES = 1024 * 1024,
    FRAME_BYTES = 256 *
                  1024, /* a larger frame is split; its parts have one time */
};

struct series {
    STAILQ_ENTRY(series) link; /* of its family, in the order of making */
    struct metrics *metrics;
    const struct metric_family *family;
    char *labels[METRIC_LABELS_MAX];
    uint64_t measured; /* the measurement in which a gauge was last set */
    /* One number. Of a histogram a count for each bound, one for what is above all of
     * them, and the sum. */
    int64_t *cells;
    int bounds;
    bool
        other; /* of its family: for all label values that are not kept apart */
};

struct family {
    const struct metric_family *is;
    STAILQ_HEAD(, series) all;
    struct series *other;
    int count;
};

struct metrics {
    zsock_t *pub;
    void (*also)(void *self, struct bytes frame); /* NULL */
    void *also_self;
    char *name, *kind;
    uint64_t epoch;
    int64_t started_ms, interval_ms, due_ms;
    struct metrics_tables tables;
    size_t number_count, own_count, family_count;
    int64_t *saved; /* the numbers at the turn's begin */
    struct family *families;
    struct lookup series;
    uint64_t measuring;
    struct window *past; /* the numbers when they were last published */
    /* What this turn has added to series, for metrics_undo(). */
    struct {
        int64_t *cell, n;
    } * journal;
    size_t journal_count, journal_cap;
    struct buf frame, part;
};

const int64_t metric_latency_bounds_ms[] = {
    1,    2,    5,     10,    25,    50,     100,     250,     500,      1000,
    2500, 5000, 10000, 30000, 60000, 300000, 1800000, 3600000, 21600000, 0};

const int64_t metric_commit_bounds_us[] = {
    50,    100,   250,    500,    1000,   2500,    5000,    10000,
    25000, 50000, 100000, 250000, 500000, 1000000, 5000000, 0};
const int64_t metric_append_bounds_us[] = {
    250,     500,      1000,     2500,      5000,    10000,   25000,
    50000,   100000,   250000,   500000,    1000000, 1250000, 2500000,
    5000000, 10000000, 25000000, 100000000, 0};

/* ---- open and close ---- */

static size_t count_families(const struct metric_family *f)
{
    size_t n = 0;

    while (f && f[n].name)
        n++;
    return n;
}

struct metrics *metrics_open(zsock_t *pub, const char *name, const char *kind,
                             uint64_t epoch, int64_t interval_ms,
                             const struct metrics_tables *tables)
{
    struct metrics *m = gr_alloc(sizeof *m);

    m->pub = pub;
    zsock_set_sndtimeo(m->pub, 0);
    m->name = gr_strdup(name);
    m->kind = gr_strdup(kind);
    m->epoch = epoch;
    m->started_ms = now_ms();
    m->interval_ms = interval_ms;
    m->tables = *tables;
    while (tables->numbers && tables->numbers[m->number_count].name)
        m->number_count++;
    m->saved = gr_alloc((m->number_count + 1) * sizeof *m->saved);
    m->past = window_new(2, (int)m->number_count);
    m->own_count = count_families(tables->families);
    m->family_count = m->own_count + count_families(tables->common);
    m->families = gr_alloc((m->family_count + 1) * sizeof *m->families);
    for (size_t i = 0; i < m->family_count; i++) {
        struct family *f = &m->families[i];

        f->is = i < m->own_count ? &tables->families[i]
                                 : &tables->common[i - m->own_count];
        STAILQ_INIT(&f->all);
    }
    buf_init(&m->frame, FRAME_MAX_BYTES);
    buf_init(&m->part, FRAME_MAX_BYTES);
    metrics_begin(m);
    return m;
}

zsock_t *metrics_socket(struct metrics *m)
{
    return m->pub;
}

void metrics_also(struct metrics *m,
                  void (*publish)(void *self, struct bytes frame), void *self)
{
    m->also = publish;
    m->also_self = self;
}

void metrics_close(struct metrics *m)
{
    struct series *s;

    if (!m)
        return;
    zsock_destroy(&m->pub);
    for (size_t i = 0; i < m->family_count; i++)
        while ((s = STAILQ_FIRST(&m->families[i].all))) {
            STAILQ_REMOVE_HEAD(&m->families[i].all, link);
            for (int k = 0; k < METRIC_LABELS_MAX; k++)
                free(s->labels[k]);
            free(s->cells);
            free(s);
        }
    free(m->families);
    lookup_fini(&m->series);
    free(m->journal);
    free(m->saved);
    free(m->past);
    buf_fini(&m->frame);
    buf_fini(&m->part);
    free(m->name);
    free(m->kind);
    free(m);
}

/* ---- series ---- */

static int label_count(const struct metric_family *f)
{
    int n = 0;

    while (n < METRIC_LABELS_MAX && f->labels[n])
        n++;
    return n;
}

static bool has_labels(const struct series *s, const char *const *labels, int n)
{
    for (int i = 0; i < n; i++)
        if (strncmp(s->labels[i], labels[i], METRIC_LABEL_BYTES) != 0)
            return false;
    return true;
}

static struct series *new_series(struct metrics *m, struct family *f,
                                 const char *const *labels, int n)
{
    struct series *s = gr_alloc(sizeof *s);

    s->metrics = m;
    s->family = f->is;
    for (int i = 0; i < n; i++)
        s->labels[i] = gr_strndup(labels[i], METRIC_LABEL_BYTES);
    if (f->is->kind == METRIC_HISTOGRAM)
        while (f->is->bounds[s->bounds] && s->bounds < METRIC_BOUNDS_MAX)
            s->bounds++;
    s->cells = gr_alloc(((size_t)s->bounds + 2) * sizeof *s->cells);
    STAILQ_INSERT_TAIL(&f->all, s, link);
    f->count++;
    return s;
}

static struct series *the_other(struct metrics *m, struct family *f, int n)
{
    static const char *const other[METRIC_LABELS_MAX] = {"other", "other",
                                                         "other"};

    if (!f->other) {
        f->other = new_series(m, f, other, n);
        f->other->other = true;
        log_warn(
            NULL,
            "a metric has too many label values; the rest count as \"other\"",
            LS("metric", f->is->name), LI("kept", METRIC_SERIES_MAX));
    }
    return f->other;
}

static struct series *find(struct metrics *m, size_t family,
                           const char *const *labels)
{
    struct family *f = &m->families[family];
    int n = label_count(f->is);
    uint64_t key = family; /* and the values, each cut as it will be kept */
    struct series *s;

    for (int i = 0; i < n; i++)
        key = hash_keyed(key, labels[i],
                         strnlen(labels[i], METRIC_LABEL_BYTES));
    for (size_t at = 0; (s = lookup_get(&m->series, key, &at));)
        if (s->family == f->is && has_labels(s, labels, n))
            return s;
    if (f->count >= METRIC_SERIES_MAX)
        return the_other(m, f, n);
    s = new_series(m, f, labels, n);
    lookup_add(&m->series, key, s);
    return s;
}

struct series *metrics_series(struct metrics *m, int family,
                              const char *const *labels)
{
    return m ? find(m, (size_t)family, labels) : NULL;
}

struct series *metrics_common(struct metrics *m, int family,
                              const char *const *labels)
{
    return m ? find(m, m->own_count + (size_t)family, labels) : NULL;
}

static void add(struct metrics *m, int64_t *cell, int64_t n)
{
    if (m->journal_count == m->journal_cap) {
        m->journal_cap = m->journal_cap ? 2 * m->journal_cap : 256;
        m->journal = gr_realloc(m->journal,
                                m->journal_cap * sizeof *m->journal);
    }
    m->journal[m->journal_count].cell = cell;
    m->journal[m->journal_count++].n = n;
    *cell += n;
}

void series_add(struct series *s, int64_t n)
{
    if (s)
        add(s->metrics, s->cells, n);
}

void series_observe(struct series *s, int64_t v)
{
    int i = 0;

    if (!s)
        return;
    while (i < s->bounds && v > s->family->bounds[i])
        i++;
    add(s->metrics, &s->cells[i], 1);
    add(s->metrics, &s->cells[s->bounds + 1], v);
}

void series_set(struct series *s, int64_t v)
{
    bool first;

    if (!s)
        return;
    first = s->measured != s->metrics->measuring;
    if (first || !s->other || s->cells[0] < v)
        s->cells[0] = v;
    s->measured = s->metrics->measuring;
}

/* Whether the series is published: a gauge only if it was set in this measurement. */
static bool series_shown(const struct series *s)
{
    return s->family->kind != METRIC_GAUGE ||
           s->measured == s->metrics->measuring;
}

/* ---- publishing ---- */

static const char *const kind_names[] = {[METRIC_COUNTER] = "counter",
                                         [METRIC_GAUGE] = "gauge",
                                         [METRIC_HISTOGRAM] = "histogram"};

static int append(void *data, const char *p, size_t n)
{
    buf_put(data, p, n);
    return 0;
}

static void put_text(msgpack_packer *pk, const char *s)
{
    msgpack_pack_str(pk, strlen(s));
    msgpack_pack_str_body(pk, s, strlen(s));
}

static void put_about(msgpack_packer *pk, const char *name,
                      enum metric_kind kind, const char *unit, const char *help)
{
    put_text(pk, name);
    msgpack_pack_array(pk, 3);
    put_text(pk, kind_names[kind]);
    put_text(pk, unit);
    put_text(pk, help);
}

/* In the family's unit. */
static double scaled(const struct series *s, int64_t v)
{
    return (double)v / (double)s->family->per;
}

static void put_value(msgpack_packer *pk, const struct series *s, int64_t v)
{
    if (s->family->per > 1)
        msgpack_pack_double(pk, scaled(s, v));
    else
        msgpack_pack_int64(pk, v);
}

static void put_histogram(msgpack_packer *pk, const struct series *s)
{
    put_text(pk, "le");
    msgpack_pack_array(pk, (size_t)s->bounds);
    for (int i = 0; i < s->bounds; i++)
        put_value(pk, s, s->family->bounds[i]);
    put_text(pk, "counts");
    msgpack_pack_array(pk, (size_t)s->bounds + 1);
    for (int i = 0; i <= s->bounds; i++)
        msgpack_pack_int64(pk, s->cells[i]);
    put_text(pk, "sum");
    put_value(pk, s, s->cells[s->bounds + 1]);
}

static void put_series(msgpack_packer *pk, const struct series *s)
{
    bool histogram = s->family->kind == METRIC_HISTOGRAM;
    int n = label_count(s->family);

    msgpack_pack_map(pk, histogram ? 5 : 3);
    put_text(pk, "name");
    put_text(pk, s->family->name);
    put_text(pk, "labels");
    msgpack_pack_map(pk, (size_t)n);
    for (int i = 0; i < n; i++) {
        put_text(pk, s->family->labels[i]);
        put_text(pk, s->labels[i]);
    }
    if (histogram) {
        put_histogram(pk, s);
    } else {
        put_text(pk, "value");
        put_value(pk, s, s->cells[0]);
    }
}

/* `more`: fields that follow. */
static void put_head(msgpack_packer *pk, const struct metrics *m,
                     int64_t time_ms, size_t more)
{
    msgpack_pack_map(pk, 6 + more);
    put_text(pk, "v");
    msgpack_pack_int(pk, 1);
    put_text(pk, "process");
    put_text(pk, m->name);
    put_text(pk, "kind");
    put_text(pk, m->kind);
    put_text(pk, "epoch");
    msgpack_pack_uint64(pk, m->epoch);
    put_text(pk, "started_ms");
    msgpack_pack_int64(pk, m->started_ms);
    put_text(pk, "time_ms");
    msgpack_pack_int64(pk, time_ms);
}

static void put_abouts(msgpack_packer *pk, const struct metrics *m)
{
    put_text(pk, "about");
    msgpack_pack_map(pk, m->number_count + m->family_count);
    for (size_t i = 0; i < m->number_count; i++) {
        const struct metric *t = &m->tables.numbers[i];

        put_about(pk, t->name, t->kind, t->unit, t->help);
    }
    for (size_t i = 0; i < m->family_count; i++) {
        const struct metric_family *f = m->families[i].is;

        put_about(pk, f->name, f->kind, f->unit, f->help);
    }
}

static void send_packed(struct metrics *m)
{
    if (m->frame.failed)
        return;
    zsock_send(m->pub, "b", m->frame.data, m->frame.len);
    if (m->also)
        m->also(m->also_self, (struct bytes){m->frame.data, m->frame.len});
}

/* Sends the `count` packed series in m->part. */
static void send_frame(struct metrics *m, int64_t time_ms, size_t count)
{
    msgpack_packer pk;

    buf_reset(&m->frame);
    msgpack_packer_init(&pk, &m->frame, append);
    put_head(&pk, m, time_ms, 3);
    put_text(&pk, "metrics");
    msgpack_pack_map(&pk, m->number_count);
    for (size_t i = 0; i < m->number_count; i++) {
        put_text(&pk, m->tables.numbers[i].name);
        msgpack_pack_int64(&pk, m->tables.values[i]);
    }
    put_abouts(&pk, m);
    put_text(&pk, "series");
    msgpack_pack_array(&pk, count);
    buf_put(&m->frame, m->part.data, m->part.len);
    send_packed(m);
    buf_reset(&m->part);
}

static void publish(struct metrics *m)
{
    int64_t time_ms = now_ms();
    msgpack_packer pk;
    size_t count = 0;

    buf_reset(&m->part);
    msgpack_packer_init(&pk, &m->part, append);
    for (size_t i = 0; i < m->family_count; i++)
        for (struct series *s = STAILQ_FIRST(&m->families[i].all); s;
             s = STAILQ_NEXT(s, link)) {
            if (!series_shown(s))
                continue;
            put_series(&pk, s);
            count++;
            if (m->part.len < FRAME_BYTES)
                continue;
            send_frame(m, time_ms, count);
            count = 0;
        }
    send_frame(m, time_ms, count);
}

/* ---- the turn ---- */

void metrics_begin(struct metrics *m)
{
    m->journal_count = 0;
    if (m->number_count)
        memcpy(m->saved, m->tables.values, m->number_count * sizeof *m->saved);
}

void metrics_undo(struct metrics *m)
{
    while (m->journal_count > 0) {
        m->journal_count--;
        *m->journal[m->journal_count].cell -= m->journal[m->journal_count].n;
    }
    if (m->number_count)
        memcpy(m->tables.values, m->saved, m->number_count * sizeof *m->saved);
}

bool metrics_due(const struct metrics *m, int64_t mono_now_ms)
{
    return mono_now_ms >= m->due_ms;
}

void metrics_measure(struct metrics *m)
{
    m->measuring++;
}

int metrics_flush(struct metrics *m, int64_t mono_now_ms)
{
    if (metrics_due(m, mono_now_ms)) {
        double *values = window_add(m->past, mono_now_ms);

        for (size_t i = 0; i < m->number_count; i++)
            values[i] = (double)m->tables.values[i];
        publish(m);
        m->due_ms = mono_now_ms + m->interval_ms;
    }
    return (int)(m->due_ms - mono_now_ms);
}

void metrics_say_waiting(struct metrics *m, int64_t waits_ms,
                         int64_t mono_now_ms)
{
    msgpack_packer pk;

    if (!metrics_due(m, mono_now_ms))
        return;
    m->due_ms = mono_now_ms + m->interval_ms;
    buf_reset(&m->frame);
    msgpack_packer_init(&pk, &m->frame, append);
    put_head(&pk, m, now_ms(), 4);
    put_text(&pk, "waits_ms");
    msgpack_pack_int64(&pk, waits_ms);
    put_text(&pk, "metrics");
    msgpack_pack_map(&pk, 0);
    put_text(&pk, "series");
    msgpack_pack_array(&pk, 0);
    put_text(&pk, "about");
    msgpack_pack_map(&pk, 0);
    send_packed(m);
}

/* ---- reading ---- */

json_t *metrics_json(const struct metrics *m)
{
    json_t *out = json_object();

    for (size_t i = 0; i < m->number_count; i++)
        json_object_set_new(out, m->tables.numbers[i].name,
                            json_integer(m->tables.values[i]));
    return out;
}

json_t *metrics_rates_json(const struct metrics *m, int64_t mono_now_ms)
{
    struct window_sample then = window_first(m->past, 0);
    json_t *out = json_object();

    if (!then.values || then.time_ms >= mono_now_ms)
        return out;
    for (size_t i = 0; i < m->number_count; i++)
        if (m->tables.numbers[i].kind == METRIC_COUNTER)
            json_object_set_new(
                out, m->tables.numbers[i].name,
                json_real(((double)m->tables.values[i] - then.values[i]) *
                          1000 / (double)(mono_now_ms - then.time_ms)));
    return out;
}

static json_t *number(const struct series *s, int64_t v)
{
    return s->family->per > 1 ? json_real(scaled(s, v)) : json_integer(v);
}

static json_t *series_json(const struct series *s)
{
    json_t *out = json_pack("{s:s}", "name", s->family->name);
    json_t *labels = json_object(), *counts = json_array();

    for (int i = 0; i < label_count(s->family); i++)
        json_object_set_new(labels, s->family->labels[i],
                            json_string(s->labels[i]));
    json_object_set_new(out, "labels", labels);
    for (int i = 0; i <= s->bounds; i++)
        json_array_append_new(counts, json_integer(s->cells[i]));
    if (s->family->kind == METRIC_HISTOGRAM) {
        json_object_set(out, "counts", counts);
        json_object_set_new(out, "sum", number(s, s->cells[s->bounds + 1]));
    } else {
        json_object_set_new(out, "value", number(s, s->cells[0]));
    }
    json_decref(counts);
    return out;
}

json_t *metrics_series_json(struct metrics *m)
{
    json_t *out = json_array();

    for (size_t i = 0; i < m->family_count; i++)
        for (struct series *s = STAILQ_FIRST(&m->families[i].all); s;
             s = STAILQ_NEXT(s, link))
            if (series_shown(s))
                json_array_append_new(out, series_json(s));
    return out;
}

/* ---- Markdown ---- */

static void document_family(const struct metric_family *f, struct buf *out)
{
    buf_printf(out, "| `%s` | %s | %s | ", f->name, kind_names[f->kind],
               f->unit);
    for (int i = 0; i < METRIC_LABELS_MAX && f->labels[i]; i++)
        buf_printf(out, "%s`%s`", i ? " " : "", f->labels[i]);
    buf_printf(out, " | %s |\n", f->help);
}

void metrics_document(const char *process, const struct metrics_tables *tables,
                      struct buf *out)
{
    buf_printf(out,
               "\n## %s\n\n| name | kind | unit | labels | |\n"
               "|---|---|---|---|---|\n",
               process);
    for (const struct metric *t = tables->numbers; t && t->name; t++)
        buf_printf(out, "| `%s` | %s | %s | | %s |\n", t->name,
                   kind_names[t->kind], t->unit, t->help);
    for (const struct metric_family *f = tables->families; f && f->name; f++)
        document_family(f, out);
    for (const struct metric_family *f = tables->common; f && f->name; f++)
        document_family(f, out);
}
