/* measurements: the values that alert rules and service level gauges are evaluated from:
 * present values, and their growth over a window. Pure; all times are monotonic milliseconds
 * of the caller.
 *
 * A window cannot reach back before the start of the console. After a restart a rate is
 * therefore unknown until its whole window has been observed, or until enough has
 * happened. */
#ifndef CONSOLE_MEASUREMENTS_H
#define CONSOLE_MEASUREMENTS_H

#include "alert_kinds.h"
#include "collector.h"
#include "settings.h"

/* Counters that are watched over time. T(NAME, metric, by, key, values): of
 * those series whose label `key` is one of `values` (globs), for each value of
 * the label `by`. */
#define MEASURE_TRACKS(T)                                                      \
    T(DEATHS, "grapnel_dlqd_received_total", "", "", "")                       \
    T(TAKEN, "grapnel_events_taken_total", "", "", "")                         \
    T(DUPLICATES, "grapnel_events_duplicate_total", "", "", "")                \
    T(DELIVERED, "grapnel_deliveries_delivered_total", "", "", "")             \
    T(DEAD, "grapnel_deliveries_dead_total", "", "", "")                       \
    T(GOOD, "grapnel_endpoint_attempts_total", "endpoint", "outcome",          \
      "delivered")                                                             \
    T(BAD, "grapnel_endpoint_attempts_total", "endpoint", "outcome",           \
      "retrying dead")                                                         \
    T(RETRYING, "grapnel_endpoint_attempts_total", "endpoint", "outcome",      \
      "retrying")                                                              \
    T(ENDED, "grapnel_endpoint_attempts_total", "endpoint", "outcome",         \
      "delivered dead")                                                        \
    T(RETRY_GOOD, "grapnel_endpoint_retries_total", "endpoint", "outcome",     \
      "delivered")                                                             \
    T(RETRY_BAD, "grapnel_endpoint_retries_total", "endpoint", "outcome",      \
      "retrying dead")                                                         \
    T(RETRY_WAIT, "grapnel_endpoint_retry_wait_seconds_total", "endpoint", "", \
      "")                                                                      \
    T(UNAUTHORIZED, "grapnel_ingress_rejected_total", "source", "reason",      \
      "signature_* timestamp_* token_*")                                       \
    T(ACCEPTED, "grapnel_ingress_source_accepted_total", "source", "", "")

enum measurement_track {
#define T(NAME, metric, by, key, values) TRACK_##NAME,
    MEASURE_TRACKS(T)
#undef T
        TRACK_END_TO_END, /* one for each bucket: the label is its index */
    TRACK_COUNT
};

struct measurements;

struct measurement {
    char subject[NAME_MAX_BYTES + 1]; /* endpoint, source, process; or "" */
    double value;
    bool known; /* false: unknown now; change nothing … */
    bool grows; /* … except that it is at least `value` */
};

struct measurement_list {
    struct measurement *all;
    size_t count;
};

struct measurements *measurements_new(int64_t mono_now_ms);
void measurements_free(struct measurements *f);

/* Before an evaluation: read all counters. `longest_ms`: the longest window. */
void measurements_take(struct measurements *f, struct collector *g,
                       int64_t longest_ms, int64_t mono_now_ms);

/* The growth within the window; `label` is "" for series without one. */
double measurements_growth(const struct measurements *f,
                           enum measurement_track track, const char *label,
                           int64_t window_ms, int64_t mono_now_ms);
/* The quantile (such as 0.95) of the end-to-end seconds within the window, and the number of
 * deliveries. NAN: there were no deliveries. */
double measurements_quantile(const struct measurements *f, double quantile,
                             int64_t window_ms, int64_t mono_now_ms,
                             double *count);
/* Labels of this track that were ever seen: start with *at = 0. */
const char *measurements_labels(const struct measurements *f,
                                enum measurement_track track, size_t *at);

/* When this last grew, on the console's clock; its start, if never. After a restart,
 * measurements_remember() sets what was stored before. */
int64_t measurements_grew_ms(const struct measurements *f,
                             enum measurement_track track, const char *label);
void measurements_remember(struct measurements *f, enum measurement_track track,
                           const char *label, int64_t mono_ms);

/* The present value of each subject of this rule. measurements_list_fini() after. A subject
 * that is missing in the list no longer exists. */
void measurements_of(const struct measurements *f, struct collector *g,
                     const struct settings *s, const struct alert_rule *rule,
                     int64_t mono_now_ms, struct measurement_list *out);
void measurement_list_fini(struct measurement_list *l);

#endif
