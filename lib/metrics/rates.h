/* rates: how fast each collected counter grows, and the quantiles of each collected
 * histogram, over the last 10 seconds. Pure.
 *
 * The times are those in the frames, so a process that publishes seldom or late is judged by
 * its own clock. `grapnel top` uses this; the console, whose windows are long and span
 * many processes, uses tracks.h. */
#ifndef METRICS_RATES_H
#define METRICS_RATES_H

#include "collector.h"
#include "histogram.h"

/* Takes a sample of every counter and histogram. Call it after frames were collected. */
void rates_take(struct collector *g);

/* Per second, over the last 10 s (or since the frame before, if that is older). NAN: not known
 * yet. */
double rate_of(const struct collected *p);
/* The sum of the rates of all fresh series that match. NAN: none is known. */
double rates_sum(const struct collector *g, const struct series_query *q,
                 int64_t mono_now_ms);
/* Adds the counts of that time to a histogram: of one series, of all that match. */
void rate_histogram(const struct collected *p, struct histogram *h);
void rates_histogram(const struct collector *g, const struct series_query *q,
                     int64_t mono_now_ms, struct histogram *h);

#endif
