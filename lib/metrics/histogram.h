/* histogram: counts of values by upper bound, summed over series, and quantiles of them.
 * Pure; zeroed memory is an empty one. */
#ifndef METRICS_HISTOGRAM_H
#define METRICS_HISTOGRAM_H

#include "metrics.h"

struct histogram {
    int bounds; /* 0: nothing was added */
    double le[METRIC_BOUNDS_MAX];
    double counts[METRIC_BOUNDS_MAX + 1]; /* the last: above all bounds */
    double total;                         /* of all counts */
};

/* Adds counts[i] - before[i] for `bounds` bounds and what is above them. `before` NULL: all
 * zero. Counts with another number of bounds than those added first are ignored. */
void histogram_add(struct histogram *h, int bounds, const double *le,
                   const double *counts, const double *before);
/* The value below which this part of all values is (0.95: the p95), linear within a bucket,
 * as Prometheus' histogram_quantile() computes it; above the last bound, that bound. NAN: the
 * histogram is empty. */
double histogram_quantile(const struct histogram *h, double quantile);

#endif
