/* series_store: makes samples of metrics, and reads series. */
#include "series_store.h"
#include "clock.h"
#include "control.h"
#include "glob.h"
#include "histogram.h"
#include "json_text.h"
#include "log.h"
#include "lookup.h"
#include "series_file.h"
#include "series_kinds.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMES_MAX = 50,
    SERIES_MAX = 200,    /* of one reply … */
    POINTS_MAX = 2000,   /* … of each of them … */
    VALUES_MAX = 100000, /* … and of all */
    POINTS_USUAL = 720,  /* if no step is given */
    BACK_DAYS = 1,       /* of coarse samples that a start makes */
};

enum how { RATE, GAUGE, P50, P95, P99 };

static const struct kind {
    const char *metric;
    enum how how;
    const char *key, *values; /* only series whose label matches; or NULL */
} kinds[] = {
    [SERIES_ACCEPTED] = {"grapnel_ingress_accepted_total", RATE, NULL, NULL},
    [SERIES_REFUSED_4XX] = {"grapnel_ingress_refused_4xx_total", RATE, NULL,
                            NULL},
    [SERIES_REFUSED_5XX] = {"grapnel_ingress_refused_5xx_total", RATE, NULL,
                            NULL},
    [SERIES_TAKEN] = {"grapnel_events_taken_total", RATE, NULL, NULL},
    [SERIES_DUPLICATES] = {"grapnel_events_duplicate_total", RATE, NULL, NULL},
    [SERIES_DELIVERED] = {"grapnel_deliveries_delivered_total", RATE, NULL,
                          NULL},
    [SERIES_DEAD] = {"grapnel_deliveries_dead_total", RATE, NULL, NULL},
    [SERIES_RETRIED] = {"grapnel_deliveries_retried_total", RATE, NULL, NULL},
    [SERIES_ATTEMPTS] = {"grapnel_attempts_total", RATE, NULL, NULL},
    [SERIES_END_TO_END_P50] = {"grapnel_end_to_end_seconds", P50, NULL, NULL},
    [SERIES_END_TO_END_P95] = {"grapnel_end_to_end_seconds", P95, NULL, NULL},
    [SERIES_END_TO_END_P99] = {"grapnel_end_to_end_seconds", P99, NULL, NULL},
    [SERIES_BACKLOG] = {"grapnel_ingress_backlog", GAUGE, NULL, NULL},
    [SERIES_BUFFERED] = {"grapnel_events_buffered", GAUGE, NULL, NULL},
    [SERIES_GAPS] = {"grapnel_gaps_open", GAUGE, NULL, NULL},
    [SERIES_IN_FLIGHT] = {"grapnel_in_flight", GAUGE, NULL, NULL},
    [SERIES_SCHEDULED_RETRIES] = {"grapnel_scheduled_retries", GAUGE, NULL,
                                  NULL},
    [SERIES_OLDEST_OPEN] = {"grapnel_oldest_open_seconds", GAUGE, NULL, NULL},
    [SERIES_DEAD_LETTERS] = {"grapnel_dlqd_dead_letters_dead", GAUGE, NULL,
                             NULL},
    [SERIES_OPEN] = {"grapnel_deliveries_open", GAUGE, NULL, NULL},
    [SERIES_STORE_BYTES] = {"grapnel_store_bytes", GAUGE, NULL, NULL},
    [SERIES_SOURCE_ACCEPTED] = {"grapnel_ingress_source_accepted_total", RATE,
                                NULL, NULL},
    [SERIES_SOURCE_REFUSED] = {"grapnel_ingress_rejected_total", RATE, NULL,
                               NULL},
    [SERIES_ENDPOINT_DELIVERED] = {"grapnel_endpoint_attempts_total", RATE,
                                   "outcome", "delivered"},
    [SERIES_ENDPOINT_FAILED] = {"grapnel_endpoint_attempts_total", RATE,
                                "outcome", "retrying dead"},
    [SERIES_ENDPOINT_P95] = {"grapnel_attempt_seconds", P95, NULL, NULL},
};

static const struct {
    const char *name, *subject, *unit;
} facts[] = {
#define K(NAME, name, subject, unit, meaning) {name, subject, unit},
    SERIES_KINDS(K)
#undef K
};

/* A counter or histogram of one process, as it was at the last sample. */
struct watched {
    int kind;
    char subject[METRIC_LABEL_BYTES + 1], process[NAME_MAX_BYTES + 1];
    int64_t time_ms;    /* of the frame; 0: before its first one */
    double total, rate; /* rate: NAN: unknown */
    double *counts;     /* of a histogram */
    int width;
    /* of the sample that is being taken: */
    bool seen;
    double sum, *sums, le[METRIC_BOUNDS_MAX];
};

/* A process that the last sample has heard. */
struct heard {
    char name[NAME_MAX_BYTES + 1];
    int64_t time_ms;
};

struct series_store {
    struct series_file *file;
    struct lookup watched;
    struct heard *heard;
    size_t heard_count;
    int64_t sample_ms; /* the begin of the sample in progress; 0: none */
    bool warned;
};

/* ---- a sample ---- */

static bool is_quantile(enum how how)
{
    return how == P50 || how == P95 || how == P99;
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = words; n && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

static uint64_t watched_key(int kind, const char *subject, const char *process)
{
    return lookup_text(subject) * 31 + lookup_text(process) + (uint64_t)kind;
}

static void watched_free(struct watched *w)
{
    free(w->counts);
    free(w->sums);
    free(w);
}

static struct watched *watched_of(struct series_store *s, int kind,
                                  const char *subject, const char *process,
                                  int width)
{
    uint64_t key = watched_key(kind, subject, process);
    struct watched *w;

    for (size_t at = 0; (w = lookup_get(&s->watched, key, &at));)
        if (w->kind == kind && strcmp(w->subject, subject) == 0 &&
            strcmp(w->process, process) == 0)
            return w;
    w = gr_alloc(sizeof *w);
    w->kind = kind;
    snprintf(w->subject, sizeof w->subject, "%s", subject);
    snprintf(w->process, sizeof w->process, "%s", process);
    w->width = width;
    w->rate = NAN;
    w->counts = gr_alloc((size_t)width * sizeof *w->counts);
    w->sums = gr_alloc((size_t)width * sizeof *w->sums);
    /* A process that was heard before has counted it from 0 on since then. */
    for (size_t i = 0; i < s->heard_count; i++)
        if (strcmp(s->heard[i].name, process) == 0)
            w->time_ms = s->heard[i].time_ms;
    lookup_add(&s->watched, key, w);
    return w;
}

/* The slot of a series; -1: there are too many. */
static int slot_of(struct series_store *s, int kind, const char *subject)
{
    char name[SERIES_NAME_BYTES + 1];
    int slot;

    snprintf(name, sizeof name, "%s%s%s", facts[kind].name,
             *facts[kind].subject ? ":" : "", subject);
    slot = series_file_slot(s->file, name, s->sample_ms);
    if (slot < 0 && !s->warned) {
        s->warned = true;
        log_warn(NULL,
                 "there are too many series: further ones are not stored for "
                 "charts",
                 LI("limit", SERIES_SLOTS));
    }
    return slot;
}

static void add_histogram(struct series_store *s, int kind, const char *subject,
                          const struct collected *p)
{
    struct watched *w = watched_of(s, kind, subject, p->publisher->name,
                                   p->bounds + 1);

    if (!p->bounds || w->width != p->bounds + 1)
        return;
    if (!w->seen)
        memset(w->sums, 0, (size_t)w->width * sizeof *w->sums);
    w->seen = true;
    memcpy(w->le, p->le, (size_t)p->bounds * sizeof *w->le);
    for (int i = 0; i < w->width; i++)
        w->sums[i] += p->counts[i] + p->count_bases[i];
}

/* What one sample has found of each slot. */
struct sample {
    double sums[SERIES_SLOTS]; /* NAN: nothing */
    struct histogram *histograms[SERIES_SLOTS];
    enum how how[SERIES_SLOTS];
};

static void add(struct sample *t, int slot, double value)
{
    if (slot >= 0 && !isnan(value))
        t->sums[slot] = (isnan(t->sums[slot]) ? 0 : t->sums[slot]) + value;
}

static void take_one(struct series_store *s, struct sample *t, int kind,
                     const struct collected *p)
{
    const struct kind *k = &kinds[kind];
    const char *subject = strcmp(facts[kind].subject, "process") == 0
                              ? p->publisher->name
                              : collected_label(p, facts[kind].subject);
    struct watched *w;

    if ((k->key && !has_word(k->values, collected_label(p, k->key))) ||
        (*facts[kind].subject && !*subject))
        return;
    if (k->how == GAUGE) {
        add(t, slot_of(s, kind, subject), p->value);
        return;
    }
    if (is_quantile(k->how)) {
        add_histogram(s, kind, subject, p);
        return;
    }
    w = watched_of(s, kind, subject, p->publisher->name, 0);
    w->sum = (w->seen ? w->sum : 0) + collected_total(p);
    w->seen = true;
}

static void end_histogram(struct sample *t, int slot, struct watched *w,
                          bool known)
{
    if (slot >= 0 && known) {
        if (!t->histograms[slot])
            t->histograms[slot] = gr_alloc(sizeof *t->histograms[slot]);
        histogram_add(t->histograms[slot], w->width - 1, w->le, w->sums,
                      w->counts);
        t->how[slot] = kinds[w->kind].how;
    }
    memcpy(w->counts, w->sums, (size_t)w->width * sizeof *w->counts);
}

/* What has grown since the last sample. A process that has sent no frame since then keeps its
 * rate. */
static void end_one(struct series_store *s, struct sample *t, struct watched *w,
                    const struct publisher *p)
{
    int slot = slot_of(s, w->kind, w->subject);

    if (is_quantile(kinds[w->kind].how)) {
        end_histogram(t, slot, w, w->time_ms != 0);
    } else {
        if (w->time_ms && p->time_ms > w->time_ms)
            w->rate = fmax(0, (w->sum - w->total) * 1000 /
                                  (double)(p->time_ms - w->time_ms));
        add(t, slot, w->rate);
        w->total = w->sum;
    }
    w->time_ms = p->time_ms;
}

static void end_all(struct series_store *s, struct sample *t,
                    struct collector *g, int64_t mono_ms_now)
{
    struct watched **gone = NULL, *w;
    size_t count = 0;

    for (size_t at = 0; (w = lookup_walk(&s->watched, &at));) {
        const struct publisher *p = collector_publisher(g, w->process);

        if (p && collector_hears(p, mono_ms_now)) {
            if (w->seen)
                end_one(s, t, w, p);
            w->seen = false;
            continue;
        }
        gone = gr_realloc(gone, (count + 1) * sizeof(*gone));
        gone[count++] = w;
    }
    for (size_t i = 0; i < count; i++) {
        lookup_remove(
            &s->watched,
            watched_key(gone[i]->kind, gone[i]->subject, gone[i]->process),
            gone[i]);
        watched_free(gone[i]);
    }
    free(gone);
}

static void note_heard(struct series_store *s, struct collector *g,
                       int64_t mono_ms_now)
{
    s->heard_count = 0;
    for (const struct publisher *p = collector_publishers(g); p; p = p->next) {
        if (!collector_hears(p, mono_ms_now))
            continue;
        s->heard = gr_realloc(s->heard,
                              (s->heard_count + 1) * sizeof *s->heard);
        snprintf(s->heard[s->heard_count].name, sizeof s->heard->name, "%s",
                 p->name);
        s->heard[s->heard_count++].time_ms = p->time_ms;
    }
}

static void take(struct series_store *s, struct collector *g,
                 int64_t mono_ms_now)
{
    static const double quantiles[] = {[P50] = 0.5, [P95] = 0.95, [P99] = 0.99};
    struct sample *t = gr_alloc(sizeof *t);

    for (int i = 0; i < SERIES_SLOTS; i++)
        t->sums[i] = NAN;
    for (int kind = 0; kind < SERIES_KIND_COUNT; kind++)
        for (const struct collected *p = NULL;
             (p = collector_next(g, SERIES(kinds[kind].metric), p,
                                 mono_ms_now));)
            take_one(s, t, kind, p);
    end_all(s, t, g, mono_ms_now);
    note_heard(s, g, mono_ms_now);
    for (int i = 0; i < SERIES_SLOTS; i++) {
        if (t->histograms[i])
            t->sums[i] = histogram_quantile(t->histograms[i],
                                            quantiles[t->how[i]]);
        free(t->histograms[i]);
        if (!isnan(t->sums[i]))
            series_file_set(s->file, SERIES_FINE, i, s->sample_ms,
                            (float)t->sums[i]);
    }
    free(t);
}

/* ---- longer steps ---- */

static int kind_of(const char *name)
{
    size_t n = strcspn(name, ":");

    for (int i = 0; i < SERIES_KIND_COUNT; i++)
        if (strlen(facts[i].name) == n && strncmp(facts[i].name, name, n) == 0)
            return i;
    return -1;
}

/* Several samples as one. */
struct joined {
    double sum;
    int count;
};

static void join(struct joined *j, int kind, double value)
{
    if (isnan(value))
        return;
    if (is_quantile(kinds[kind].how)) {
        j->sum = j->count ? fmax(j->sum, value) : value;
        j->count = 1;
    } else {
        j->sum += value;
        j->count++;
    }
}

static bool coarse_is_there(struct series_store *s, int64_t begin_ms)
{
    int slots;
    const float *values = series_file_chunk(s->file, SERIES_COARSE, begin_ms,
                                            &slots);
    int64_t i = begin_ms % series_chunk_ms(SERIES_COARSE) /
                series_step_ms(SERIES_COARSE);

    for (; values && slots > 0; slots--)
        if (!isnan(values[(slots - 1) * SERIES_CHUNK_SAMPLES + i]))
            return true;
    return false;
}

/* Makes the 5-minute sample that begins at begin_ms of its 10-second samples. */
static void make_coarse(struct series_store *s, int64_t begin_ms)
{
    int64_t end_ms = begin_ms + series_step_ms(SERIES_COARSE), since_ms;
    struct joined *all;
    const char *name;
    int slots;

    if (coarse_is_there(s, begin_ms))
        return;
    all = gr_alloc(SERIES_SLOTS * sizeof *all);
    for (int64_t at = begin_ms; at < end_ms;
         at += series_chunk_ms(SERIES_FINE)) {
        const float *values = series_file_chunk(s->file, SERIES_FINE, at,
                                                &slots);

        for (int i = 0; values && i < slots; i++) {
            int kind = (name = series_file_name(s->file, i, &since_ms))
                           ? kind_of(name)
                           : -1;

            for (int k = 0; kind >= 0 && k < SERIES_CHUNK_SAMPLES; k++)
                if (at + k * series_step_ms(SERIES_FINE) >= since_ms)
                    join(&all[i], kind, values[i * SERIES_CHUNK_SAMPLES + k]);
        }
    }
    for (int i = 0; i < SERIES_SLOTS; i++)
        if (all[i].count)
            series_file_set(s->file, SERIES_COARSE, i, begin_ms,
                            (float)(all[i].sum / all[i].count));
    free(all);
}

/* ---- open and work ---- */

struct series_store *series_store_open(const char *path, int64_t now_wall_ms)
{
    struct series_store *s = gr_alloc(sizeof *s);
    int64_t step_ms = series_step_ms(SERIES_COARSE),
            end_ms = now_wall_ms - now_wall_ms % step_ms;

    s->file = series_file_open(path);
    for (int64_t at = end_ms - BACK_DAYS * DAY_MS; at < end_ms; at += step_ms)
        make_coarse(s, at);
    return s;
}

void series_store_close(struct series_store *s)
{
    struct watched *w;

    if (!s)
        return;
    for (size_t at = 0; (w = lookup_walk(&s->watched, &at));)
        watched_free(w);
    lookup_fini(&s->watched);
    series_file_close(s->file);
    free(s->heard);
    free(s);
}

int series_store_work(struct series_store *s, struct collector *g,
                      int64_t now_wall_ms, int64_t mono_ms_now)
{
    int64_t step_ms = series_step_ms(SERIES_FINE),
            begin_ms = now_wall_ms - now_wall_ms % step_ms, long_ms;

    if (s->sample_ms && s->sample_ms != begin_ms) {
        take(s, g, mono_ms_now);
        if (begin_ms % series_chunk_ms(SERIES_FINE) == 0)
            series_file_flush(s->file);
        long_ms = series_step_ms(SERIES_COARSE);
        if (begin_ms / long_ms != s->sample_ms / long_ms) {
            make_coarse(s, s->sample_ms - s->sample_ms % long_ms);
            series_file_flush(s->file);
        }
    }
    s->sample_ms = begin_ms;
    return (int)(begin_ms + step_ms - now_wall_ms);
}

/* ---- the command ---- */

struct request {
    int64_t from_ms, step_ms, points;
    enum series_ring ring;
    struct found {
        char name[SERIES_NAME_BYTES + 1];
        int kind, slot; /* slot -1: it has no values */
        int64_t since_ms;
        struct joined *points;
    } all[SERIES_MAX];
    int count;
};

static bool add_found(struct request *q, const char *name, int kind, int slot,
                      int64_t since_ms, char why[200])
{
    struct found *f = &q->all[q->count];

    for (int i = 0; i < q->count; i++)
        if (strcmp(q->all[i].name, name) == 0)
            return true;
    if (q->count == SERIES_MAX) {
        control_fail(why, CONTROL_INVALID,
                     "names: more than %d series match: name fewer",
                     SERIES_MAX);
        return false;
    }
    *f = (struct found){.kind = kind, .slot = slot, .since_ms = since_ms};
    snprintf(f->name, sizeof f->name, "%s", name);
    q->count++;
    return true;
}

/* One of `names`: a series, or a pattern of series that have values. */
static bool add_name(const struct series_store *s, struct request *q,
                     const char *name, char why[200])
{
    bool pattern = strchr(name, '*') != NULL, found = false;
    int kind = kind_of(name);
    int64_t since_ms;

    if (!pattern && (kind < 0 || strlen(name) > SERIES_NAME_BYTES ||
                     !*facts[kind].subject != !strchr(name, ':') ||
                     name[strlen(name) - 1] == ':')) {
        control_fail(why, CONTROL_INVALID,
                     "names: \"%.60s\" is not a series: %s", name,
                     kind < 0 ? "docs/API.md lists them"
                     : *facts[kind].subject
                         ? "add its subject, as in endpoint_delivered:crm"
                         : "it has no subject");
        return false;
    }
    for (int i = 0; i < SERIES_SLOTS; i++) {
        const char *is = series_file_name(s->file, i, &since_ms);

        if (!is || kind_of(is) < 0 ||
            !(pattern ? glob_match(name, is) : strcmp(name, is) == 0))
            continue;
        found = true;
        if (!add_found(q, is, kind_of(is), i, since_ms, why))
            return false;
    }
    return found || pattern || add_found(q, name, kind, -1, 0, why);
}

static bool add_names(const struct series_store *s, struct request *q,
                      const char *names, char why[200])
{
    char name[SERIES_NAME_BYTES + 2];
    int count = 0;

    for (;; names++) {
        size_t n = strcspn(names, ",");

        if (++count > NAMES_MAX) {
            control_fail(why, CONTROL_INVALID, "names: at most %d are accepted",
                         NAMES_MAX);
            return false;
        }
        if (n > SERIES_NAME_BYTES)
            n = SERIES_NAME_BYTES + 1;
        memcpy(name, names, n);
        name[n] = 0;
        if (!n || n > SERIES_NAME_BYTES) {
            control_fail(why, CONTROL_INVALID,
                         "names: a name has from 1 to %d bytes",
                         SERIES_NAME_BYTES);
            return false;
        }
        if (!add_name(s, q, name, why))
            return false;
        names += n;
        if (!*names)
            return true;
    }
}

static int64_t up_to(int64_t v, int64_t unit)
{
    return (v + unit - 1) / unit * unit;
}

/* Chooses the ring and the step. Without a wish: at most 720 points. */
static bool choose_times(struct request *q, const json_t *args, int64_t now,
                         char why[200])
{
    const json_t *from = json_object_get(args, "from_ms"),
                 *to = json_object_get(args, "to_ms");
    int64_t fine = series_step_ms(SERIES_FINE),
            coarse = series_step_ms(SERIES_COARSE),
            to_ms = to ? json_integer_value(to) : now,
            step = SECOND_MS *
                   json_integer_value(json_object_get(args, "step"));

    if (to_ms > now)
        to_ms = now;
    q->from_ms = from ? json_integer_value(from) : to_ms - HOUR_MS;
    if (q->from_ms < now - series_span_ms(SERIES_COARSE))
        q->from_ms = now - series_span_ms(SERIES_COARSE);
    if (q->from_ms < 0 || q->from_ms >= to_ms) {
        control_fail(why, CONTROL_INVALID,
                     "from: must be before `to` and in the last 30 days");
        return false;
    }
    q->ring = q->from_ms < now - series_span_ms(SERIES_FINE) + fine
                  ? SERIES_COARSE
                  : SERIES_FINE;
    if (!step)
        step = (to_ms - q->from_ms) / POINTS_USUAL + 1;
    step = up_to(step, fine);
    if (q->ring == SERIES_COARSE || step > coarse)
        step = up_to(step, coarse);
    if (step % coarse == 0 && q->from_ms < now - HOUR_MS)
        q->ring = SERIES_COARSE; /* fewer to read */
    q->step_ms = step;
    q->from_ms -= q->from_ms % step;
    q->points = up_to(to_ms - q->from_ms, step) / step;
    if (q->points > POINTS_MAX) {
        control_fail(why, CONTROL_INVALID,
                     "step: %" PRId64 " values of each series: at most %d are "
                     "accepted; make the step longer",
                     q->points, POINTS_MAX);
        return false;
    }
    return true;
}

static void read_values(struct series_store *s, struct request *q)
{
    int64_t chunk_ms = series_chunk_ms(q->ring),
            end_ms = q->from_ms + q->points * q->step_ms;
    int slots;

    for (int64_t at = q->from_ms - q->from_ms % chunk_ms; at < end_ms;
         at += chunk_ms) {
        const float *values = series_file_chunk(s->file, q->ring, at, &slots);

        for (int i = 0; values && i < q->count; i++) {
            struct found *f = &q->all[i];

            for (int k = 0;
                 f->slot >= 0 && f->slot < slots && k < SERIES_CHUNK_SAMPLES;
                 k++) {
                int64_t time_ms = at + k * series_step_ms(q->ring);

                if (time_ms >= q->from_ms && time_ms < end_ms &&
                    time_ms + series_step_ms(q->ring) > f->since_ms)
                    join(&f->points[(time_ms - q->from_ms) / q->step_ms],
                         f->kind, values[f->slot * SERIES_CHUNK_SAMPLES + k]);
            }
        }
    }
}

/* With the digits that a float has. */
static json_t *value_json(const struct joined *j)
{
    char text[32];

    if (!j->count)
        return json_null();
    snprintf(text, sizeof text, "%.6g", j->sum / j->count);
    return json_real(strtod(text, NULL));
}

json_t *series_store_ask(struct series_store *s, json_t *args,
                         int64_t now_wall_ms, char why[200])
{
    struct request *q = gr_alloc(sizeof *q);
    json_t *out = NULL, *series = json_array();

    if (!add_names(s, q, json_string_value(json_object_get(args, "names")),
                   why) ||
        !choose_times(q, args, now_wall_ms, why))
        goto end;
    if (q->points * q->count > VALUES_MAX) {
        control_fail(why, CONTROL_INVALID,
                     "step: %d series with %" PRId64
                     " values each: at most %d values are accepted; make the "
                     "step longer, or name fewer series",
                     q->count, q->points, VALUES_MAX);
        goto end;
    }
    for (int i = 0; i < q->count; i++)
        q->all[i].points = gr_alloc((size_t)q->points *
                                    sizeof *q->all[i].points);
    read_values(s, q);
    for (int i = 0; i < q->count; i++) {
        json_t *values = json_array();

        for (int64_t k = 0; k < q->points; k++)
            json_array_append_new(values, value_json(&q->all[i].points[k]));
        json_array_append_new(
            series,
            json_pack("{s:o,s:s,s:o}", "name", json_text_of(q->all[i].name),
                      "unit", facts[q->all[i].kind].unit, "values", values));
    }
    out = json_pack("{s:o,s:I,s:O}", "from", json_time(q->from_ms), "step",
                    (json_int_t)(q->step_ms / SECOND_MS), "series", series);
end:
    for (int i = 0; i < q->count; i++)
        free(q->all[i].points);
    free(q);
    json_decref(series);
    return out;
}
