/* histogram: sums of histograms, and quantiles. */
#include "histogram.h"
#include <math.h>
#include <string.h>

void histogram_add(struct histogram *h, int bounds, const double *le,
                   const double *counts, const double *before)
{
    if (h->bounds && h->bounds != bounds)
        return;
    h->bounds = bounds;
    memcpy(h->le, le, (size_t)bounds * sizeof *le);
    for (int i = 0; i <= bounds; i++) {
        double n = counts[i] - (before ? before[i] : 0);

        h->counts[i] += n;
        h->total += n;
    }
}

double histogram_quantile(const struct histogram *h, double quantile)
{
    double rank = quantile * h->total, low = 0;

    if (h->total <= 0 || !h->bounds)
        return NAN;
    for (int i = 0; i < h->bounds; i++) {
        if (rank <= h->counts[i])
            return low + (h->le[i] - low) * rank / h->counts[i];
        rank -= h->counts[i];
        low = h->le[i];
    }
    return low;
}
