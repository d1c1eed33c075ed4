/* rates: keeps the last samples of each series, and computes growth since the right one. */
#include "rates.h"
#include "window.h"
#include <math.h>

enum { SAMPLES = 12, APART_MS = 1000, WINDOW_MS = 10 * 1000 + APART_MS / 2 };

/* The numbers of a sample: the total, then the counts of a histogram. `zero`: as they were
 * before the series had counted anything. */
static void add_sample(struct collected *p, int64_t time_ms, bool zero)
{
    double *values = window_add(p->past, time_ms);

    values[0] = zero ? p->base : collected_total(p);
    for (int i = 1; i < window_width(p->past); i++)
        values[i] = p->count_bases[i - 1] + (zero ? 0 : p->counts[i - 1]);
}

static void take(struct collected *p)
{
    int width = p->bounds ? p->bounds + 2 : 1;
    int64_t before_ms = p->publisher->before_ms;
    struct window_sample last;

    if (!p->past)
        p->past = window_new(SAMPLES, width);
    if (window_width(p->past) != width)
        return; /* it was not a histogram in its first frame: malformed */
    last = window_last(p->past, INT64_MAX);
    if (last.values && p->time_ms < last.time_ms) {
        window_clear(p->past); /* the clock of its process was set back */
        last.values = NULL;
    }
    /* A new series of a process that is known began at zero. */
    if (!last.values && before_ms && before_ms < p->time_ms && p->base >= 0)
        add_sample(p, before_ms, true);
    if (!last.values || p->time_ms - last.time_ms >= APART_MS)
        add_sample(p, p->time_ms, false);
}

void rates_take(struct collector *g)
{
    for (const struct collected_metric *metric = collector_metrics(g); metric;
         metric = metric->next)
        for (struct collected *p = metric->series; p; p = p->next)
            if (metric->kind != METRIC_GAUGE)
                take(p);
}

/* The sample to count from: the oldest one in the window, else the newest one before now. */
static struct window_sample start_of(const struct collected *p)
{
    struct window_sample s = {0};

    if (p->past)
        s = window_first(p->past, p->time_ms - WINDOW_MS);
    if (p->past && (!s.values || s.time_ms >= p->time_ms))
        s = window_last(p->past, p->time_ms - 1);
    return s;
}

double rate_of(const struct collected *p)
{
    struct window_sample s = start_of(p);

    return s.values ? (collected_total(p) - s.values[0]) * 1000 /
                          (double)(p->time_ms - s.time_ms)
                    : NAN;
}

double rates_sum(const struct collector *g, const struct series_query *q,
                 int64_t mono_now_ms)
{
    double sum = NAN;

    for (struct collected *p = NULL;
         (p = collector_next(g, q, p, mono_now_ms));) {
        double rate = rate_of(p);

        if (!isnan(rate))
            sum = (isnan(sum) ? 0 : sum) + rate;
    }
    return sum;
}

void rate_histogram(const struct collected *p, struct histogram *h)
{
    struct window_sample s = start_of(p);
    double counts[METRIC_BOUNDS_MAX + 1];

    if (!s.values || !p->bounds || window_width(p->past) != p->bounds + 2)
        return;
    for (int i = 0; i <= p->bounds; i++)
        counts[i] = p->counts[i] + p->count_bases[i];
    histogram_add(h, p->bounds, p->le, counts, s.values + 1);
}

void rates_histogram(const struct collector *g, const struct series_query *q,
                     int64_t mono_now_ms, struct histogram *h)
{
    for (struct collected *p = NULL;
         (p = collector_next(g, q, p, mono_now_ms));)
        rate_histogram(p, h);
}
