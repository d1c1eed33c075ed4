/* measurements: the values that alert rules are evaluated from: present values, and growth
 * within the window of a rule. Pure; all times are monotonic milliseconds of the caller. Used
 * by alerts.c (rules) and slo.c (gauges of service levels).
 *
 * After a restart of the console a rate is unknown until its whole window has been observed,
 * or until enough has happened (tracks.h). */
#ifndef CONSOLE_MEASUREMENTS_H
#define CONSOLE_MEASUREMENTS_H

#include "alert_kinds.h"
#include "collector.h"
#include "settings.h"
#include "tracks.h"

/* What is watched over time; the columns are those of struct track_spec. */
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
    T(ACCEPTED, "grapnel_ingress_source_accepted_total", "source", "", "")     \
    T(END_TO_END, "grapnel_end_to_end_seconds", "", "", "")                    \
    T(APPEND, "grapnel_replication_append_seconds", "", "", "")

enum measurement_track {
#define T(NAME, metric, by, key, values) TRACK_##NAME,
    MEASURE_TRACKS(T)
#undef T
        TRACK_COUNT
};

enum { MEASUREMENT_NOTE_BYTES = 160 };

struct measurement {
    char subject[NAME_MAX_BYTES + 1]; /* endpoint, source, process; or "" */
    double value;
    bool known; /* false: unknown now; change nothing … */
    bool grows; /* … except that it is at least `value` */
    bool again; /* something new: notify, although the alert fires already */
    char note[MEASUREMENT_NOTE_BYTES]; /* for the summary; "": none */
};

struct measurement_list {
    struct measurement *all;
    size_t count;
};

/* Empty tracks of all of the above; tracks_free() after. */
struct tracks *measurements_tracks(int64_t mono_now_ms);

/* The present value of each subject of this rule. measurements_list_fini() after. A subject
 * that is missing in the list no longer exists. */
void measurements_of(const struct tracks *t, struct collector *g,
                     const struct settings *s, const struct alert_rule *rule,
                     int64_t mono_now_ms, struct measurement_list *out);
/* For learned.c, which measures the rest: adds a value that is not known yet, valid until the next one. */
struct measurement *measurement_add(struct measurement_list *l,
                                    const char *subject);
bool measurement_selects(const struct string_list *globs, const char *name);
void measurement_list_fini(struct measurement_list *l);

#endif
