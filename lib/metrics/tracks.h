/* tracks: sums of collected counters and histograms over time, and their growth within a
 * window of any length. Pure: times are milliseconds of the caller's monotonic clock.
 *
 * A window cannot reach back before tracks_new(). After a restart growth is therefore
 * incomplete until the whole window has been observed. */
#ifndef METRICS_TRACKS_H
#define METRICS_TRACKS_H

#include "collector.h"
#include "histogram.h"

/* What to add up: those series of a metric whose label `key` matches one of `values` (globs,
 * separated by spaces; key "": all series), separately for each value of the label `by`
 * (by "": in one sum, with the label ""). */
struct track_spec {
    const char *metric, *by, *key, *values;
};

struct tracks;

/* The specs are borrowed until the end. Below, `spec` is an index of them. */
struct tracks *tracks_new(const struct track_spec *specs, int count,
                          int64_t mono_now_ms);
void tracks_free(struct tracks *t);
int64_t tracks_began_ms(const struct tracks *t);

/* Reads all sums. Call it before the functions below, at least every few seconds.
 * `longest_ms`: the longest window that will be asked for. */
void tracks_take(struct tracks *t, const struct collector *g,
                 int64_t longest_ms, int64_t mono_now_ms);

/* The growth of a counter within the window. */
double tracks_growth(const struct tracks *t, int spec, const char *label,
                     int64_t window_ms, int64_t mono_now_ms);
/* The values of a histogram within the window. */
void tracks_histogram(const struct tracks *t, int spec, const char *label,
                      int64_t window_ms, int64_t mono_now_ms,
                      struct histogram *out);
/* The label of the i-th sum of a spec, in the order in which they were first seen; NULL after
 * the last. */
const char *tracks_label(const struct tracks *t, int spec, size_t i);

/* When a sum last grew; tracks_began_ms(), if it has not. tracks_remember() sets a time
 * that was stored before a restart. */
int64_t tracks_grew_ms(const struct tracks *t, int spec, const char *label);
void tracks_remember(struct tracks *t, int spec, const char *label,
                     int64_t mono_ms);

#endif
