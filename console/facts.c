#include "facts.h"
#include "glob.h"
#include "siphash.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 128, BUCKETS = 1024 };

struct sample {
    int64_t ms;
    double value;
};

/* One counter over time: a ring of samples, ascending. */
struct track {
    LIST_ENTRY(track) link;
    struct track *next; /* of its kind */
    enum fact_track kind;
    char label[METRIC_LABEL_BYTES + 1];
    double sum, last; /* sum: being added up */
    int64_t grew_ms;
    struct sample ring[SAMPLES];
    int first, count;
};
LIST_HEAD(track_list, track);

struct facts {
    int64_t began_ms;
    struct track *kinds[TRACK_COUNT];
    struct track_list buckets[BUCKETS];
    int bounds; /* of the end-to-end histogram */
    double le[METRIC_BOUNDS_MAX];
};

static const struct {
    const char *metric, *by, *key, *values;
} tracks[] = {
#define T(NAME, metric, by, key, values) {metric, by, key, values},
    FACT_TRACKS(T)
#undef T
};

struct facts *facts_new(int64_t mono_now_ms)
{
    struct facts *f = gr_alloc(sizeof *f);

    f->began_ms = mono_now_ms;
    return f;
}

void facts_free(struct facts *f)
{
    for (int i = 0; f && i < TRACK_COUNT; i++)
        for (struct track *t = f->kinds[i], *next; t; t = next) {
            next = t->next;
            free(t);
        }
    free(f);
}

static size_t bucket_of(enum fact_track kind, const char *label)
{
    return hash_keyed_text((uint64_t)kind, label) % BUCKETS;
}

static struct track *find(const struct facts *f, enum fact_track kind,
                          const char *label)
{
    struct track *t;

    LIST_FOREACH(t, &f->buckets[bucket_of(kind, label)], link)
    if (t->kind == kind && strcmp(t->label, label) == 0)
        return t;
    return NULL;
}

static struct track *make(struct facts *f, enum fact_track kind,
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
    LIST_INSERT_HEAD(&f->buckets[bucket_of(kind, t->label)], t, link);
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

static void add_up(struct facts *f, const struct gather *g,
                   enum fact_track kind)
{
    const struct item *item = gather_item(g, tracks[kind].metric);

    for (struct point *p = item ? item->points : NULL; p; p = p->next)
        if (!*tracks[kind].key ||
            one_of(tracks[kind].values, point_label(p, tracks[kind].key)))
            make(f, kind, point_label(p, tracks[kind].by))->sum += point_total(
                p);
}

static void add_up_latency(struct facts *f, const struct gather *g)
{
    const struct item *item = gather_item(g, "grapnel_end_to_end_seconds");
    char index[16];

    for (struct point *p = item ? item->points : NULL; p; p = p->next) {
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
    t->ring[(t->first + t->count++) % SAMPLES] = (struct sample){now, t->last};
}

void facts_take(struct facts *f, struct gather *g, int64_t longest_ms,
                int64_t mono_now_ms)
{
    for (int k = 0; k < TRACK_COUNT; k++)
        for (struct track *t = f->kinds[k]; t; t = t->next)
            t->sum = 0;
    for (int k = 0; k < TRACK_END_TO_END; k++)
        add_up(f, g, (enum fact_track)k);
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
    double then = 0; /* before it was first seen it was 0 */

    if (!t)
        return 0;
    for (int i = 0; i < t->count; i++) {
        const struct sample *s = &t->ring[(t->first + i) % SAMPLES];

        if (s->ms > since_ms)
            break;
        then = s->value;
    }
    /* The ring has turned over: the oldest it has must do. */
    if (t->count == SAMPLES && t->ring[t->first].ms > since_ms)
        then = t->ring[t->first].value;
    return t->last - then;
}

double facts_growth(const struct facts *f, enum fact_track track,
                    const char *label, int64_t window_ms, int64_t mono_now_ms)
{
    return growth(find(f, track, label), mono_now_ms - window_ms);
}

const char *facts_labels(const struct facts *f, enum fact_track track,
                         size_t *at)
{
    const struct track *t = f->kinds[track];

    for (size_t i = 0; t && i < *at; i++)
        t = t->next;
    ++*at;
    return t ? t->label : NULL;
}

/* Linear within a bucket, as Prometheus' histogram_quantile(); of what is
 * beyond all bounds, the last bound. */
double facts_quantile(const struct facts *f, double quantile, int64_t window_ms,
                      int64_t mono_now_ms, double *count)
{
    double counts[METRIC_BOUNDS_MAX + 1], all = 0, rank, low = 0;
    char index[16];

    for (int i = 0; i <= f->bounds; i++) {
        snprintf(index, sizeof index, "%d", i);
        counts[i] = facts_growth(f, TRACK_END_TO_END, index, window_ms,
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

int64_t facts_grew_ms(const struct facts *f, enum fact_track track,
                      const char *label)
{
    const struct track *t = find(f, track, label);

    return t ? t->grew_ms : f->began_ms;
}

void facts_remember(struct facts *f, enum fact_track track, const char *label,
                    int64_t mono_ms)
{
    make(f, track, label)->grew_ms = mono_ms;
}

/* ---- what rules are about ---- */

struct question {
    const struct facts *f;
    struct gather *g;
    const struct settings *s;
    const struct alert_rule *rule;
    int64_t now;
    struct fact_list *out;
};

static void say(struct question *q, const char *subject, double value,
                bool known)
{
    struct fact_list *l = q->out;

    l->all = gr_realloc(l->all, (l->count + 1) * sizeof *l->all);
    l->all[l->count] = (struct fact){.value = value, .known = known};
    snprintf(l->all[l->count].subject, sizeof l->all->subject, "%.*s",
             (int)sizeof l->all->subject - 1, subject); /* cut if need be */
    l->count++;
}

static bool wants(const struct text_list *globs, const char *name)
{
    for (size_t i = 0; i < globs->count; i++)
        if (glob_match(globs->items[i], name))
            return true;
    return globs->count == 0;
}

/* A gauge, summed; known when the process that has it is heard. */
static void say_gauge(struct question *q, const char *metric, const char *kind)
{
    say(q, "", gather_sum(q->g, metric, q->now),
        gather_item(q->g, metric) && gather_has(q->g, kind, q->now));
}

static void say_backlog(struct question *q)
{
    say(q, "",
        gather_sum(q->g, "grapnel_ingress_backlog", q->now) +
            gather_sum(q->g, "grapnel_deliveries_open", q->now),
        gather_has(q->g, "ingress", q->now) &&
            gather_has(q->g, "sequencer", q->now));
}

static bool watched_long(const struct question *q)
{
    return q->now - q->f->began_ms >= q->rule->window_ms;
}

static void say_growth(struct question *q, enum fact_track track,
                       const char *label)
{
    say(q, label, facts_growth(q->f, track, label, q->rule->window_ms, q->now),
        watched_long(q));
    q->out->all[q->out->count - 1].grows = true;
}

/* bad of all within the window. */
static void say_part(struct question *q, const char *subject, double bad,
                     double all)
{
    bool enough = all >= (double)q->rule->at_least;

    say(q, subject, enough ? bad / all : 0, enough || watched_long(q));
}

static void say_rates(struct question *q, enum fact_track good,
                      enum fact_track bad)
{
    int64_t window = q->rule->window_ms;
    const char *label;
    size_t at = 0;

    while ((label = facts_labels(q->f, bad, &at)))
        if (wants(&q->rule->endpoints, label)) {
            double n = facts_growth(q->f, bad, label, window, q->now);

            say_part(q, label, n,
                     n + facts_growth(q->f, good, label, window, q->now));
        }
}

static void say_latency(struct question *q)
{
    double count,
        p95 = facts_quantile(q->f, 0.95, q->rule->window_ms, q->now, &count);
    bool enough = count >= (double)q->rule->at_least;

    say(q, "", enough ? p95 : 0, enough || watched_long(q));
}

static void say_duplicates(struct question *q)
{
    int64_t window = q->rule->window_ms;

    say_part(q, "", facts_growth(q->f, TRACK_DUPLICATES, "", window, q->now),
             facts_growth(q->f, TRACK_TAKEN, "", window, q->now));
}

static void say_signatures(struct question *q)
{
    const char *label;
    size_t at = 0;

    while ((label = facts_labels(q->f, TRACK_UNAUTHORIZED, &at)))
        if (wants(&q->rule->sources, label))
            say_growth(q, TRACK_UNAUTHORIZED, label);
}

static void say_each(struct question *q, const char *metric, const char *by)
{
    const struct item *item = gather_item(q->g, metric);

    for (struct point *p = item ? item->points : NULL; p; p = p->next) {
        const char *subject = *by ? point_label(p, by) : p->teller->name;

        if (point_fresh(p, q->now) &&
            (!*by || wants(&q->rule->endpoints, subject)))
            say(q, subject, p->value, true);
    }
}

static void say_silence_of(struct question *q, const char *name, bool door)
{
    int64_t since = facts_grew_ms(q->f, TRACK_ACCEPTED, name);

    if (wants(&q->rule->sources, name))
        say(q, name, (double)(q->now - since) / 1000, door);
}

/* A producer is a source of that name. */
static void say_source_silence(struct question *q)
{
    bool door = gather_has(q->g, "ingress", q->now);

    for (size_t i = 0; i < q->s->source_count; i++)
        say_silence_of(q, q->s->sources[i].name, door);
    for (size_t i = 0; i < q->s->producer_count; i++)
        say_silence_of(q, q->s->producers[i].name, door);
}

static void say_process_silence(struct question *q)
{
    static const char *const wanted[] = {"ingress", "sequencer", "deliverer",
                                         "dlqd"};
    int64_t began = q->f->began_ms;

    for (struct teller *t = gather_tellers(q->g); t; t = t->next)
        if (t->heard)
            say(q, t->name, (double)(q->now - t->heard_ms) / 1000, true);
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        bool there = false;

        for (struct teller *t = gather_tellers(q->g); t; t = t->next)
            there |= t->heard && strcmp(t->kind, wanted[i]) == 0;
        if (!there)
            say(q, wanted[i], (double)(q->now - began) / 1000, true);
    }
}

void facts_of(const struct facts *f, struct gather *g, const struct settings *s,
              const struct alert_rule *rule, int64_t mono_now_ms,
              struct fact_list *out)
{
    struct question q = {f, g, s, rule, mono_now_ms, out};

    *out = (struct fact_list){0};
    switch ((enum alert_when)rule->when) {
    case ALERT_DEAD_LETTERS:
        say_gauge(&q, "grapnel_dlqd_letters_dead", "dlqd");
        break;
    case ALERT_DEAD_LETTERS_EXPIRING:
        say_gauge(&q, "grapnel_dlqd_letters_expiring", "dlqd");
        break;
    case ALERT_DEAD_LETTER_GROWTH:
        say_growth(&q, TRACK_DEATHS, "");
        break;
    case ALERT_BACKLOG:
        say_backlog(&q);
        break;
    case ALERT_OLDEST_WAITING:
        say_gauge(&q, "grapnel_oldest_open_seconds", "sequencer");
        break;
    case ALERT_DELIVERY_FAILURE_RATE:
        say_rates(&q, TRACK_GOOD, TRACK_BAD);
        break;
    case ALERT_RETRY_FAILURE_RATE:
        say_rates(&q, TRACK_RETRY_GOOD, TRACK_RETRY_BAD);
        break;
    case ALERT_E2E_P95:
        say_latency(&q);
        break;
    case ALERT_OPEN_GAPS:
        say_gauge(&q, "grapnel_gaps_open", "sequencer");
        break;
    case ALERT_HALTED_LANES:
        say_gauge(&q, "grapnel_lanes_halted", "sequencer");
        break;
    case ALERT_ENDPOINT_DISABLED:
        say_each(&q, "grapnel_endpoint_disabled", "endpoint");
        break;
    case ALERT_ENDPOINT_HELD:
        say_each(&q, "grapnel_endpoint_held", "endpoint");
        break;
    case ALERT_ENDPOINT_WAITING:
        say_each(&q, "grapnel_endpoint_waiting_seconds", "endpoint");
        break;
    case ALERT_ENDPOINT_FAILING:
        say_each(&q, "grapnel_endpoint_failing_seconds", "endpoint");
        break;
    case ALERT_DUPLICATE_RATE:
        say_duplicates(&q);
        break;
    case ALERT_SOURCE_SILENT:
        say_source_silence(&q);
        break;
    case ALERT_SIGNATURE_FAILURES:
        say_signatures(&q);
        break;
    case ALERT_PROCESS_SILENT:
        say_process_silence(&q);
        break;
    case ALERT_DISK_LOW:
        say_each(&q, "grapnel_store_room_bytes", "");
        break;
    case ALERT_DAMAGED:
        say_each(&q, "grapnel_damaged_total", "");
        break;
    case ALERT_DEAD_LETTER: /* comes one by one, not as a state */
    case ALERT_WHEN_COUNT:
        break;
    }
}

void fact_list_fini(struct fact_list *l)
{
    free(l->all);
    *l = (struct fact_list){0};
}
