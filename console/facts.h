/* facts: what alert rules and service level gauges are judged by: values now,
 * and how much they have grown over a window. Pure; all times are the caller's
 * monotonic milliseconds.
 *
 * A window that reaches back before our own start begins there. After a restart
 * of ours a rate is therefore not known until it has been watched for its whole
 * window, or until enough has happened. */
#ifndef CONSOLE_FACTS_H
#define CONSOLE_FACTS_H

#include "alert_kinds.h"
#include "gather.h"
#include "settings.h"

/* Counters that are watched over time. T(NAME, metric, by, key, values): of
 * those series whose label `key` is one of `values` (globs), for each value of
 * the label `by`. */
#define FACT_TRACKS(T)                                                         \
    T(DEATHS, "grapnel_dlqd_received_total", "", "", "")                       \
    T(TAKEN, "grapnel_events_taken_total", "", "", "")                         \
    T(DUPLICATES, "grapnel_events_duplicate_total", "", "", "")                \
    T(DELIVERED, "grapnel_deliveries_delivered_total", "", "", "")             \
    T(DEAD, "grapnel_deliveries_dead_total", "", "", "")                       \
    T(GOOD, "grapnel_endpoint_attempts_total", "endpoint", "outcome",          \
      "delivered")                                                             \
    T(BAD, "grapnel_endpoint_attempts_total", "endpoint", "outcome",           \
      "parked dead")                                                           \
    T(PARKED, "grapnel_endpoint_attempts_total", "endpoint", "outcome",        \
      "parked")                                                                \
    T(ENDED, "grapnel_endpoint_attempts_total", "endpoint", "outcome",         \
      "delivered dead")                                                        \
    T(RETRY_GOOD, "grapnel_endpoint_retries_total", "endpoint", "outcome",     \
      "delivered")                                                             \
    T(RETRY_BAD, "grapnel_endpoint_retries_total", "endpoint", "outcome",      \
      "parked dead")                                                           \
    T(RETRY_WAIT, "grapnel_endpoint_retry_wait_seconds_total", "endpoint", "", \
      "")                                                                      \
    T(UNAUTHORIZED, "grapnel_ingress_rejected_total", "source", "reason",      \
      "signature_* timestamp_* token_*")                                       \
    T(ACCEPTED, "grapnel_ingress_source_accepted_total", "source", "", "")

enum fact_track {
#define T(NAME, metric, by, key, values) TRACK_##NAME,
    FACT_TRACKS(T)
#undef T
        TRACK_END_TO_END, /* a bucket each: the label is its index */
    TRACK_COUNT
};

struct facts;

struct fact {
    char subject[NAME_MAX_BYTES + 1]; /* endpoint, source, process; or "" */
    double value;
    bool known; /* false: nothing can be said now; leave all as it is … */
    bool grows; /* … but that it is at least `value` */
};

struct fact_list {
    struct fact *all;
    size_t count;
};

struct facts *facts_new(int64_t mono_now_ms);
void facts_free(struct facts *f);

/* Before a judgement: look at all counters. `longest_ms`: of all windows. */
void facts_take(struct facts *f, struct gather *g, int64_t longest_ms,
                int64_t mono_now_ms);

/* How much this has grown within the window; `label` "" where there is none. */
double facts_growth(const struct facts *f, enum fact_track track,
                    const char *label, int64_t window_ms, int64_t mono_now_ms);
/* The quantile (0.95) of the end-to-end seconds within the window, and of how
 * many deliveries. NAN: of none. */
double facts_quantile(const struct facts *f, double quantile, int64_t window_ms,
                      int64_t mono_now_ms, double *count);
/* Labels of this track that were ever seen: start with *at = 0. */
const char *facts_labels(const struct facts *f, enum fact_track track,
                         size_t *at);

/* When this last grew, on our clock; our start, if never. After a restart of
 * ours what is known from before is given back with facts_remember(). */
int64_t facts_grew_ms(const struct facts *f, enum fact_track track,
                      const char *label);
void facts_remember(struct facts *f, enum fact_track track, const char *label,
                    int64_t mono_ms);

/* What this rule is about, of whom, now. facts_list_fini() after. A subject
 * that is missing in the list is no longer there. */
void facts_of(const struct facts *f, struct gather *g, const struct settings *s,
              const struct alert_rule *rule, int64_t mono_now_ms,
              struct fact_list *out);
void fact_list_fini(struct fact_list *l);

#endif
