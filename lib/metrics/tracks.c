/* tracks: adds up series by label, and keeps samples of the sums. */
#include "tracks.h"
#include "glob.h"
#include "lookup.h"
#include "siphash.h"
#include "window.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 128 };

/* One sum. A counter is one number, a histogram one for each bucket. */
struct track {
    int spec;
    char label[METRIC_LABEL_BYTES + 1];
    int width;
    double *sum, *last; /* sum: being added up */
    double *le;         /* of a histogram: width - 1 bounds */
    int64_t grew_ms;
    struct window *past;
};

/* All sums of one spec, in the order in which they were made. */
struct spec_tracks {
    struct track **all;
    size_t count;
};

struct tracks {
    const struct track_spec *specs;
    int spec_count;
    int64_t began_ms;
    struct spec_tracks *of; /* of[spec] */
    struct lookup index;    /* of all sums, by spec and label */
};

struct tracks *tracks_new(const struct track_spec *specs, int count,
                          int64_t mono_now_ms)
{
    struct tracks *t = gr_alloc(sizeof *t);

    *t = (struct tracks){
        .specs = specs, .spec_count = count, .began_ms = mono_now_ms};
    t->of = gr_alloc((size_t)count * sizeof *t->of);
    return t;
}

void tracks_free(struct tracks *t)
{
    if (!t)
        return;
    for (int k = 0; k < t->spec_count; k++) {
        for (size_t i = 0; i < t->of[k].count; i++) {
            struct track *track = t->of[k].all[i];

            free(track->sum);
            free(track->last);
            free(track->le);
            free(track->past);
            free(track);
        }
        free(t->of[k].all);
    }
    free(t->of);
    lookup_fini(&t->index);
    free(t);
}

int64_t tracks_began_ms(const struct tracks *t)
{
    return t->began_ms;
}

static struct track *find(const struct tracks *t, int spec, const char *label)
{
    uint64_t key = hash_keyed_text((uint64_t)spec, label);
    struct track *track;

    for (size_t at = 0; (track = lookup_get(&t->index, key, &at));)
        if (track->spec == spec && strcmp(track->label, label) == 0)
            return track;
    return NULL;
}

static struct track *find_or_make(struct tracks *t, int spec, const char *label,
                                  int width)
{
    struct spec_tracks *of = &t->of[spec];
    struct track *track = find(t, spec, label);

    if (track)
        return track;
    track = gr_alloc(sizeof *track);
    track->spec = spec;
    snprintf(track->label, sizeof track->label, "%s", label);
    track->width = width;
    track->sum = gr_alloc((size_t)width * sizeof *track->sum);
    track->last = gr_alloc((size_t)width * sizeof *track->last);
    track->le = gr_alloc((size_t)width * sizeof *track->le);
    track->grew_ms = t->began_ms;
    track->past = window_new(SAMPLES, width);
    of->all = gr_realloc(of->all, (of->count + 1) * sizeof *of->all);
    of->all[of->count++] = track;
    lookup_add(&t->index, hash_keyed_text((uint64_t)spec, track->label), track);
    return track;
}

/* ---- sampling ---- */

static bool matches_one(const char *values, const char *text)
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

static void add_series(struct tracks *t, int spec, const struct collected *p)
{
    bool histogram = p->metric->kind == METRIC_HISTOGRAM;
    int width = histogram ? p->bounds + 1 : 1;
    struct track *track;

    if (histogram && !p->bounds)
        return;
    track = find_or_make(t, spec, collected_label(p, t->specs[spec].by), width);
    if (track->width != width)
        return; /* another process has other bounds: they cannot be added up */
    if (!histogram) {
        track->sum[0] += collected_total(p);
        return;
    }
    memcpy(track->le, p->le, (size_t)p->bounds * sizeof *p->le);
    for (int i = 0; i < width; i++)
        track->sum[i] += p->counts[i] + p->count_bases[i];
}

static void take_sample(struct track *track, int64_t spacing_ms,
                        int64_t mono_now_ms)
{
    struct window_sample newest = window_last(track->past, INT64_MAX);
    size_t bytes = (size_t)track->width * sizeof *track->sum;

    for (int i = 0; i < track->width; i++)
        if (track->sum[i] > track->last[i])
            track->grew_ms = mono_now_ms;
    memcpy(track->last, track->sum, bytes);
    memset(track->sum, 0, bytes);
    if (!newest.values || mono_now_ms - newest.time_ms >= spacing_ms)
        memcpy(window_add(track->past, mono_now_ms), track->last, bytes);
}

void tracks_take(struct tracks *t, const struct collector *g,
                 int64_t longest_ms, int64_t mono_now_ms)
{
    for (int k = 0; k < t->spec_count; k++) {
        const struct track_spec *s = &t->specs[k];
        const struct collected_metric *metric = collector_metric(g, s->metric);

        for (const struct collected *p = metric ? metric->series : NULL; p;
             p = p->next)
            if (!*s->key || matches_one(s->values, collected_label(p, s->key)))
                add_series(t, k, p);
        for (size_t i = 0; i < t->of[k].count; i++)
            take_sample(t->of[k].all[i], longest_ms / (SAMPLES - 8),
                        mono_now_ms);
    }
}

/* ---- asking ---- */

/* The sums when the window began; NULL: all zero, because nothing was seen before it. */
static const double *sums_then(const struct track *track, int64_t since_ms)
{
    struct window_sample then = window_last(track->past, since_ms);

    /* What was sampled then has been overwritten: use the oldest sample. */
    if (!then.values && window_full(track->past))
        then = window_first(track->past, INT64_MIN);
    return then.values;
}

double tracks_growth(const struct tracks *t, int spec, const char *label,
                     int64_t window_ms, int64_t mono_now_ms)
{
    const struct track *track = find(t, spec, label);
    const double *then = track ? sums_then(track, mono_now_ms - window_ms)
                               : NULL;

    return track ? track->last[0] - (then ? then[0] : 0) : 0;
}

void tracks_histogram(const struct tracks *t, int spec, const char *label,
                      int64_t window_ms, int64_t mono_now_ms,
                      struct histogram *out)
{
    const struct track *track = find(t, spec, label);

    *out = (struct histogram){0};
    if (track)
        histogram_add(out, track->width - 1, track->le, track->last,
                      sums_then(track, mono_now_ms - window_ms));
}

const char *tracks_label(const struct tracks *t, int spec, size_t i)
{
    return i < t->of[spec].count ? t->of[spec].all[i]->label : NULL;
}

int64_t tracks_grew_ms(const struct tracks *t, int spec, const char *label)
{
    const struct track *track = find(t, spec, label);

    return track ? track->grew_ms : t->began_ms;
}

void tracks_remember(struct tracks *t, int spec, const char *label,
                     int64_t mono_ms)
{
    find_or_make(t, spec, label, 1)->grew_ms = mono_ms;
}
