#include "rates.h"
#include <math.h>
#include <string.h>

enum { KEPT = 12, APART_MS = 1000, WINDOW_MS = 10 * 1000 + APART_MS / 2 };

struct sample {
    int64_t time_ms;
    double total;
};

/* What the `past` of a series is: one block, so that the collector can free it. */
struct rate_past {
    int count, width; /* width: counts of each sample */
    struct sample all[KEPT];
    double counts[]; /* KEPT times `width` */
};

static struct rate_past *past_of(struct collected *p)
{
    int width = p->bounds ? p->bounds + 1 : 0;
    struct rate_past *k = p->past;

    if (k)
        return k;
    k = gr_alloc(sizeof *k + (size_t)(KEPT * width) * sizeof *k->counts);
    k->width = width;
    p->past = k;
    return k;
}

static void drop_oldest(struct rate_past *k)
{
    memmove(k->all, k->all + 1, (KEPT - 1) * sizeof *k->all);
    if (k->width)
        memmove(k->counts, k->counts + k->width,
                (size_t)((KEPT - 1) * k->width) * sizeof *k->counts);
    k->count--;
}

/* `nothing`: as it was before it had counted anything. */
static void keep(struct rate_past *k, const struct collected *p,
                 int64_t time_ms, bool nothing)
{
    double *counts;

    if (k->count == KEPT)
        drop_oldest(k);
    counts = k->counts + k->count * k->width;
    k->all[k->count++] = (struct sample){time_ms, nothing ? p->base
                                                          : collected_total(p)};
    for (int i = 0; i < k->width; i++)
        counts[i] = p->count_bases[i] + (nothing ? 0 : p->counts[i]);
}

static void take_one(struct collected *p)
{
    struct rate_past *k = past_of(p);
    int64_t last = k->count ? k->all[k->count - 1].time_ms : 0;

    if (k->width != (p->bounds ? p->bounds + 1 : 0))
        return; /* it was no histogram at first: senseless */
    if (p->time_ms < last)
        k->count = 0; /* its clock was set back */
    /* A new one of a process that was heard before: it began at nothing. */
    if (!k->count && p->publisher->before_ms &&
        p->publisher->before_ms < p->time_ms && p->base >= 0)
        keep(k, p, p->publisher->before_ms, true);
    if (!k->count || p->time_ms - last >= APART_MS)
        keep(k, p, p->time_ms, false);
}

void rates_take(struct collector *g)
{
    for (const struct item *item = collector_items(g); item; item = item->next)
        for (struct collected *p = item->series; p; p = p->next)
            if (item->kind != METRIC_GAUGE)
                take_one(p);
}

/* The sample from which to count: the oldest in the window, else the newest
 * before now; -1. */
static int since(const struct rate_past *k, int64_t now_ms)
{
    for (int i = 0; k && i < k->count; i++)
        if (k->all[i].time_ms >= now_ms - WINDOW_MS &&
            k->all[i].time_ms < now_ms)
            return i;
    for (int i = k ? k->count - 1 : -1; i >= 0; i--)
        if (k->all[i].time_ms < now_ms)
            return i;
    return -1;
}

double rate_of(const struct collected *p)
{
    const struct rate_past *k = p->past;
    int i = since(k, p->time_ms);

    if (i < 0)
        return NAN;
    return (collected_total(p) - k->all[i].total) * 1000 /
           (double)(p->time_ms - k->all[i].time_ms);
}

void spread_add(struct spread *s, const struct collected *p)
{
    const struct rate_past *k = p->past;
    int i = since(k, p->time_ms);

    if (i < 0 || !p->bounds || (s->bounds && s->bounds != p->bounds))
        return;
    s->bounds = p->bounds;
    memcpy(s->le, p->le, (size_t)p->bounds * sizeof *s->le);
    for (int b = 0; b <= p->bounds; b++) {
        double n = p->counts[b] + p->count_bases[b] -
                   k->counts[i * k->width + b];

        s->counts[b] += n;
        s->all += n;
    }
}

double spread_quantile(const struct spread *s, double quantile)
{
    double rank = quantile * s->all, low = 0;

    if (s->all <= 0)
        return NAN;
    for (int i = 0; i < s->bounds; i++) {
        if (rank <= s->counts[i])
            return low + (s->le[i] - low) * rank / s->counts[i];
        rank -= s->counts[i];
        low = s->le[i];
    }
    return low;
}
