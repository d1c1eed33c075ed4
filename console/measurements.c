#include "measurements.h"
#include "glob.h"
#include "lookup.h"
#include "siphash.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 128 };

struct measure_sample {
    int64_t ms;
    double value;
};

/* One counter over time: a ring of samples, ascending. */
struct track {
    struct track *next; /* of its kind */
    enum measurement_track kind;
    char label[METRIC_LABEL_BYTES + 1];
    double sum, last; /* sum: being added up */
    int64_t grew_ms;
    struct measure_sample ring[SAMPLES];
    int first, count;
};

struct measurements {
    int64_t began_ms;
    struct track *kinds[TRACK_COUNT];
    struct lookup labels;
    int bounds; /* of the end-to-end histogram */
    double le[METRIC_BOUNDS_MAX];
};

static const struct {
    const char *metric, *by, *key, *values;
} tracks[] = {
#define T(NAME, metric, by, key, values) {metric, by, key, values},
    MEASURE_TRACKS(T)
#undef T
};

struct measurements *measurements_new(int64_t mono_now_ms)
{
    struct measurements *f = gr_alloc(sizeof *f);

    f->began_ms = mono_now_ms;
    return f;
}

void measurements_free(struct measurements *f)
{
    for (int i = 0; f && i < TRACK_COUNT; i++)
        for (struct track *t = f->kinds[i], *next; t; t = next) {
            next = t->next;
            free(t);
        }
    if (f)
        lookup_fini(&f->labels);
    free(f);
}

static uint64_t key_of(enum measurement_track kind, const char *label)
{
    return hash_keyed_text((uint64_t)kind, label);
}

static struct track *find(const struct measurements *f,
                          enum measurement_track kind, const char *label)
{
    struct track *t;

    for (size_t at = 0; (t = lookup_get(&f->labels, key_of(kind, label), &at));)
        if (t->kind == kind && strcmp(t->label, label) == 0)
            return t;
    return NULL;
}

static struct track *make(struct measurements *f, enum measurement_track kind,
                          const char *label)
{
    struct track *t = find(f, kind, label);

    if (t)
        return t;
    t = gr_alloc(sizeof *t);
    t->kind = kind;
    t->grew_ms = f->began_ms;
    snprintf(t->label, sizeof t->label, "%s", label);
    t->next = f->kinds[kind];
    f->kinds[kind] = t;
    lookup_add(&f->labels, key_of(kind, t->label), t);
    return t;
}

/* ---- looking ---- */

static bool one_of(const char *values, const char *text)
{
    char pattern[64];

    while (*values) {
        size_t n = strcspn(values, " ");

        snprintf(pattern, sizeof pattern, "%.*s", (int)n, values);
        if (glob_match(pattern, text))
            return true;
        values += n + strspn(values + n, " ");
    }
    return false;
}

static void add_up(struct measurements *f, const struct collector *g,
                   enum measurement_track kind)
{
    const struct item *item = collector_item(g, tracks[kind].metric);

    for (struct collected *p = item ? item->series : NULL; p; p = p->next)
        if (!*tracks[kind].key ||
            one_of(tracks[kind].values, collected_label(p, tracks[kind].key)))
            make(f, kind, collected_label(p, tracks[kind].by))->sum +=
                collected_total(p);
}

static void add_up_latency(struct measurements *f, const struct collector *g)
{
    const struct item *item = collector_item(g, "grapnel_end_to_end_seconds");
    char index[16];

    for (struct collected *p = item ? item->series : NULL; p; p = p->next) {
        if (!p->bounds || (f->bounds && f->bounds != p->bounds))
            continue;
        f->bounds = p->bounds;
        memcpy(f->le, p->le, (size_t)p->bounds * sizeof *p->le);
        for (int i = 0; i <= p->bounds; i++) {
            snprintf(index, sizeof index, "%d", i);
            make(f, TRACK_END_TO_END, index)->sum += p->counts[i] +
                                                     p->count_bases[i];
        }
    }
}

static void keep_sample(struct track *t, int64_t spacing_ms, int64_t now)
{
    int newest = (t->first + t->count - 1) % SAMPLES;

    if (t->count && now - t->ring[newest].ms < spacing_ms)
        return;
    if (t->count == SAMPLES) {
        t->first = (t->first + 1) % SAMPLES;
        t->count--;
    }
    t->ring[(t->first + t->count++) % SAMPLES] = (struct measure_sample){
        now, t->last};
}

void measurements_take(struct measurements *f, struct collector *g,
                       int64_t longest_ms, int64_t mono_now_ms)
{
    for (int k = 0; k < TRACK_COUNT; k++)
        for (struct track *t = f->kinds[k]; t; t = t->next)
            t->sum = 0;
    for (int k = 0; k < TRACK_END_TO_END; k++)
        add_up(f, g, (enum measurement_track)k);
    add_up_latency(f, g);
    for (int k = 0; k < TRACK_COUNT; k++)
        for (struct track *t = f->kinds[k]; t; t = t->next) {
            if (t->sum > t->last)
                t->grew_ms = mono_now_ms;
            t->last = t->sum;
            keep_sample(t, longest_ms / (SAMPLES - 8), mono_now_ms);
        }
}

/* ---- asking ---- */

static double growth(const struct track *t, int64_t since_ms)
{
    double then = 0; /* it was 0 before it was first seen */

    if (!t)
        return 0;
    for (int i = 0; i < t->count; i++) {
        const struct measure_sample *s = &t->ring[(t->first + i) % SAMPLES];

        if (s->ms > since_ms)
            break;
        then = s->value;
    }
    /* The ring has been overwritten: use its oldest sample. */
    if (t->count == SAMPLES && t->ring[t->first].ms > since_ms)
        then = t->ring[t->first].value;
    return t->last - then;
}

double measurements_growth(const struct measurements *f,
                           enum measurement_track track, const char *label,
                           int64_t window_ms, int64_t mono_now_ms)
{
    return growth(find(f, track, label), mono_now_ms - window_ms);
}

const char *measurements_labels(const struct measurements *f,
                                enum measurement_track track, size_t *at)
{
    const struct track *t = f->kinds[track];

    for (size_t i = 0; t && i < *at; i++)
        t = t->next;
    ++*at;
    return t ? t->label : NULL;
}

/* Linear within a bucket, as Prometheus' histogram_quantile(); beyond the last bound, the
 * last bound. */
double measurements_quantile(const struct measurements *f, double quantile,
                             int64_t window_ms, int64_t mono_now_ms,
                             double *count)
{
    double counts[METRIC_BOUNDS_MAX + 1], all = 0, rank, low = 0;
    char index[16];

    for (int i = 0; i <= f->bounds; i++) {
        snprintf(index, sizeof index, "%d", i);
        counts[i] = measurements_growth(f, TRACK_END_TO_END, index, window_ms,
                                        mono_now_ms);
        all += counts[i];
    }
    *count = all;
    if (all <= 0 || !f->bounds)
        return NAN;
    rank = quantile * all;
    for (int i = 0; i < f->bounds; i++) {
        if (rank <= counts[i])
            return low + (f->le[i] - low) * rank / counts[i];
        rank -= counts[i];
        low = f->le[i];
    }
    return low;
}

int64_t measurements_grew_ms(const struct measurements *f,
                             enum measurement_track track, const char *label)
{
    const struct track *t = find(f, track, label);

    return t ? t->grew_ms : f->began_ms;
}

void measurements_remember(struct measurements *f, enum measurement_track track,
                           const char *label, int64_t mono_ms)
{
    make(f, track, label)->grew_ms = mono_ms;
}

/* ---- what rules are about ---- */

struct measure_request {
    const struct measurements *f;
    struct collector *g;
    const struct settings *s;
    const struct alert_rule *rule;
    int64_t now;
    struct measurement_list *out;
};

static void report(struct measure_request *q, const char *subject, double value,
                   bool known)
{
    struct measurement_list *l = q->out;

    l->all = gr_realloc(l->all, (l->count + 1) * sizeof *l->all);
    l->all[l->count] = (struct measurement){.value = value, .known = known};
    snprintf(l->all[l->count].subject, sizeof l->all->subject, "%.*s",
             (int)sizeof l->all->subject - 1,
             subject); /* truncated if it is too long */
    l->count++;
}

static bool is_selected(const struct string_list *globs, const char *name)
{
    for (size_t i = 0; i < globs->count; i++)
        if (glob_match(globs->items[i], name))
            return true;
    return globs->count == 0;
}

/* The sum of a gauge; known while the process that publishes it is heard. */
static void report_gauge(struct measure_request *q, const char *metric,
                         const char *kind)
{
    report(q, "", collector_sum(q->g, metric, q->now),
           collector_item(q->g, metric) && collector_has(q->g, kind, q->now));
}

static void report_backlog(struct measure_request *q)
{
    report(q, "",
           collector_sum(q->g, "grapnel_ingress_backlog", q->now) +
               collector_sum(q->g, "grapnel_deliveries_open", q->now),
           collector_has(q->g, "ingress", q->now) &&
               collector_has(q->g, "sequencer", q->now));
}

static bool watched_long(const struct measure_request *q)
{
    return q->now - q->f->began_ms >= q->rule->window_ms;
}

static void report_growth(struct measure_request *q,
                          enum measurement_track track, const char *label)
{
    report(q, label,
           measurements_growth(q->f, track, label, q->rule->window_ms, q->now),
           watched_long(q));
    q->out->all[q->out->count - 1].grows = true;
}

/* The share of bad ones within the window. */
static void report_part(struct measure_request *q, const char *subject,
                        double bad, double all)
{
    bool enough = all >= (double)q->rule->at_least;

    report(q, subject, enough ? bad / all : 0, enough || watched_long(q));
}

static void report_rates(struct measure_request *q, enum measurement_track good,
                         enum measurement_track bad)
{
    int64_t window = q->rule->window_ms;
    const char *label;
    size_t at = 0;

    while ((label = measurements_labels(q->f, bad, &at)))
        if (is_selected(&q->rule->endpoints, label)) {
            double n = measurements_growth(q->f, bad, label, window, q->now);

            report_part(
                q, label, n,
                n + measurements_growth(q->f, good, label, window, q->now));
        }
}

static void report_latency(struct measure_request *q)
{
    double count, p95 = measurements_quantile(q->f, 0.95, q->rule->window_ms,
                                              q->now, &count);
    bool enough = count >= (double)q->rule->at_least;

    report(q, "", enough ? p95 : 0, enough || watched_long(q));
}

static void report_duplicates(struct measure_request *q)
{
    int64_t window = q->rule->window_ms;

    report_part(q, "",
                measurements_growth(q->f, TRACK_DUPLICATES, "", window, q->now),
                measurements_growth(q->f, TRACK_TAKEN, "", window, q->now));
}

static void report_signatures(struct measure_request *q)
{
    const char *label;
    size_t at = 0;

    while ((label = measurements_labels(q->f, TRACK_UNAUTHORIZED, &at)))
        if (is_selected(&q->rule->sources, label))
            report_growth(q, TRACK_UNAUTHORIZED, label);
}

static void report_each(struct measure_request *q, const char *metric,
                        const char *by)
{
    const struct item *item = collector_item(q->g, metric);

    for (struct collected *p = item ? item->series : NULL; p; p = p->next) {
        const char *subject = *by ? collected_label(p, by) : p->publisher->name;

        if (collected_fresh(p, q->now) &&
            (!*by || is_selected(&q->rule->endpoints, subject)))
            report(q, subject, p->value, true);
    }
}

static void report_silence_of(struct measure_request *q, const char *name,
                              bool ingress_up)
{
    int64_t since = measurements_grew_ms(q->f, TRACK_ACCEPTED, name);

    if (is_selected(&q->rule->sources, name))
        report(q, name, (double)(q->now - since) / 1000, ingress_up);
}

/* A producer counts as a source of its name. */
static void report_source_silence(struct measure_request *q)
{
    bool ingress_up = collector_has(q->g, "ingress", q->now);

    for (size_t i = 0; i < q->s->source_count; i++)
        report_silence_of(q, q->s->sources[i].name, ingress_up);
    for (size_t i = 0; i < q->s->producer_count; i++)
        report_silence_of(q, q->s->producers[i].name, ingress_up);
}

static void report_process_silence(struct measure_request *q)
{
    static const char *const needed[] = {"ingress", "sequencer", "deliverer",
                                         "dlqd"};
    int64_t began = q->f->began_ms;

    for (struct publisher *t = collector_publishers(q->g); t; t = t->next)
        if (t->heard)
            report(q, t->name, (double)(q->now - t->heard_ms) / 1000, true);
    for (size_t i = 0; i < COUNT_OF(needed); i++) {
        bool there = false;

        for (struct publisher *t = collector_publishers(q->g); t; t = t->next)
            there |= t->heard && strcmp(t->kind, needed[i]) == 0;
        if (!there)
            report(q, needed[i], (double)(q->now - began) / 1000, true);
    }
}

void measurements_of(const struct measurements *f, struct collector *g,
                     const struct settings *s, const struct alert_rule *rule,
                     int64_t mono_now_ms, struct measurement_list *out)
{
    struct measure_request q = {f, g, s, rule, mono_now_ms, out};

    *out = (struct measurement_list){0};
    switch ((enum alert_when)rule->when) {
    case ALERT_DEAD_LETTERS:
        report_gauge(&q, "grapnel_dlqd_dead_letters_dead", "dlqd");
        break;
    case ALERT_DEAD_LETTERS_EXPIRING:
        report_gauge(&q, "grapnel_dlqd_dead_letters_expiring", "dlqd");
        break;
    case ALERT_DEAD_LETTER_GROWTH:
        report_growth(&q, TRACK_DEATHS, "");
        break;
    case ALERT_BACKLOG:
        report_backlog(&q);
        break;
    case ALERT_OLDEST_WAITING:
        report_gauge(&q, "grapnel_oldest_open_seconds", "sequencer");
        break;
    case ALERT_DELIVERY_FAILURE_RATE:
        report_rates(&q, TRACK_GOOD, TRACK_BAD);
        break;
    case ALERT_RETRY_FAILURE_RATE:
        report_rates(&q, TRACK_RETRY_GOOD, TRACK_RETRY_BAD);
        break;
    case ALERT_E2E_P95:
        report_latency(&q);
        break;
    case ALERT_OPEN_GAPS:
        report_gauge(&q, "grapnel_gaps_open", "sequencer");
        break;
    case ALERT_HALTED_LANES:
        report_gauge(&q, "grapnel_lanes_halted", "sequencer");
        break;
    case ALERT_ENDPOINT_DISABLED:
        report_each(&q, "grapnel_endpoint_disabled", "endpoint");
        break;
    case ALERT_ENDPOINT_HELD:
        report_each(&q, "grapnel_endpoint_held", "endpoint");
        break;
    case ALERT_ENDPOINT_WAITING:
        report_each(&q, "grapnel_endpoint_waiting_seconds", "endpoint");
        break;
    case ALERT_ENDPOINT_FAILING:
        report_each(&q, "grapnel_endpoint_failing_seconds", "endpoint");
        break;
    case ALERT_DUPLICATE_RATE:
        report_duplicates(&q);
        break;
    case ALERT_SOURCE_SILENT:
        report_source_silence(&q);
        break;
    case ALERT_SIGNATURE_FAILURES:
        report_signatures(&q);
        break;
    case ALERT_PROCESS_SILENT:
        report_process_silence(&q);
        break;
    case ALERT_DISK_LOW:
        report_each(&q, "grapnel_store_free_bytes", "");
        break;
    case ALERT_DAMAGED:
        report_each(&q, "grapnel_damaged_total", "");
        break;
    case ALERT_DEAD_LETTER: /* an event by itself, not a state */
    case ALERT_WHEN_COUNT:
        break;
    }
}

void measurement_list_fini(struct measurement_list *l)
{
    free(l->all);
    *l = (struct measurement_list){0};
}
