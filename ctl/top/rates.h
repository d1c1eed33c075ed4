/* rates: how fast what is collected has grown lately, and how it was spread. Pure:
 * of each number it keeps a few of its last values, with the times that the
 * frames say, so that a process that speaks seldom or late is judged by its own
 * time. */
#ifndef CTL_RATES_H
#define CTL_RATES_H

#include "collector.h"

/* Look at all counters and histograms; once after frames were collected. */
void rates_take(struct collector *g);

/* Per second, over the last 10 s (or the two last frames, if they are further
 * apart). NAN: not known yet. */
double rate_of(const struct collected *p);

/* A histogram's counts in that time, of as many series as are added. */
struct spread {
    int bounds;
    double le[METRIC_BOUNDS_MAX], counts[METRIC_BOUNDS_MAX + 1], all;
};

void spread_add(struct spread *s, const struct collected *p);
/* Linear within a bucket, as Prometheus does it. NAN: of none. */
double spread_quantile(const struct spread *s, double quantile);

#endif
