#include "metrics.h"
#include "clock.h"
#include "ipc.h"
#include "log.h"
#include "metrics_parts.h"
#include "siphash.h"
#include <czmq.h>

enum { FRAME_MAX_BYTES = 1024 * 1024 };

const int64_t metric_latency_bounds_ms[] = {
    1,    2,    5,     10,    25,    50,     100,     250,     500,      1000,
    2500, 5000, 10000, 30000, 60000, 300000, 1800000, 3600000, 21600000, 0};

const int64_t metric_commit_bounds_us[] = {
    50,    100,   250,    500,    1000,   2500,    5000,    10000,
    25000, 50000, 100000, 250000, 500000, 1000000, 5000000, 0};

/* ---- open and close ---- */

static size_t count_families(const struct metric_family *f)
{
    size_t n = 0;

    while (f && f[n].name)
        n++;
    return n;
}

static void open_families(struct metrics *m)
{
    const struct metrics_tables *t = &m->tables;
    size_t common = count_families(t->common);

    m->own_count = count_families(t->families);
    m->family_count = m->own_count + common;
    m->families = gr_alloc((m->family_count + 1) * sizeof *m->families);
    for (size_t i = 0; i < m->family_count; i++) {
        struct family *f = &m->families[i];

        f->is = i < m->own_count ? &t->families[i]
                                 : &t->common[i - m->own_count];
        f->last = &f->first;
    }
}

struct metrics *metrics_open(const char *run_dir, const char *name,
                             const char *kind, uint64_t epoch,
                             int64_t interval_ms,
                             const struct metrics_tables *tables)
{
    struct metrics *m = gr_alloc(sizeof *m);

    m->name = gr_strdup(name);
    m->kind = gr_strdup(kind);
    m->epoch = epoch;
    m->started_ms = now_ms();
    m->interval_ms = interval_ms;
    m->tables = *tables;
    while (tables->numbers && tables->numbers[m->number_count].name)
        m->number_count++;
    m->saved = gr_alloc((m->number_count + 1) * sizeof *m->saved);
    for (size_t i = 0; i < COUNT_OF(m->past); i++)
        m->past[i].values = gr_alloc((m->number_count + 1) *
                                     sizeof *m->past[i].values);
    open_families(m);
    buf_init(&m->frame, FRAME_MAX_BYTES);
    buf_init(&m->part, FRAME_MAX_BYTES);
    metrics_begin(m);
    m->pub = zsock_new(ZMQ_PUB);
    zsock_set_sndtimeo(m->pub, 0);
    ipc_bind(m->pub, run_dir, name, "metrics");
    return m;
}

static void free_series(struct series *s)
{
    for (int i = 0; i < METRIC_LABELS_MAX; i++)
        free(s->labels[i]);
    free(s->cells);
    free(s);
}

void metrics_close(struct metrics *m)
{
    if (!m)
        return;
    zsock_destroy(&m->pub);
    for (size_t i = 0; i < m->family_count; i++)
        for (struct series *s = m->families[i].first, *next; s; s = next) {
            next = s->next;
            free_series(s);
        }
    free(m->families);
    lookup_fini(&m->series);
    free(m->journal);
    free(m->saved);
    for (size_t i = 0; i < COUNT_OF(m->past); i++)
        free(m->past[i].values);
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

/* Over the family and the values, each cut as it will be kept. */
static uint64_t key_of(size_t family, const char *const *labels, int n)
{
    uint64_t h = family;

    for (int i = 0; i < n; i++)
        h = hash_keyed(h, labels[i], strnlen(labels[i], METRIC_LABEL_BYTES));
    return h;
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
    *f->last = s;
    f->last = &s->next;
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
    uint64_t key = key_of(family, labels, n);
    struct series *s;

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

bool series_shown(const struct series *s)
{
    return s->family->kind != METRIC_GAUGE ||
           s->measured == s->metrics->measuring;
}

double series_scaled(const struct series *s, int64_t v)
{
    return s->family->per > 1 ? (double)v / (double)s->family->per : (double)v;
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

static void keep_past(struct metrics *m, int64_t mono_now_ms)
{
    int64_t *values = m->past[1].values;

    m->past[1] = m->past[0];
    m->past[0].values = values;
    m->past[0].mono_ms = mono_now_ms;
    for (size_t i = 0; i < m->number_count; i++)
        values[i] = m->tables.values[i];
}

int metrics_flush(struct metrics *m, int64_t mono_now_ms)
{
    if (metrics_due(m, mono_now_ms)) {
        metrics_publish(m);
        keep_past(m, mono_now_ms);
        m->due_ms = mono_now_ms + m->interval_ms;
    }
    return (int)(m->due_ms - mono_now_ms);
}
