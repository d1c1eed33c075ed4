/* metrics: what a daemon counts, declared once in two tables, published as
 * msgpack on a PUB socket (run_dir/NAME.metrics) at an interval. docs/METRICS.md
 * says what a frame looks like and is made from the same tables.
 *
 *   struct metric         one number: values[i] is the process's own, and `++`
 *                         is all that counting costs
 *   struct metric_family  a number for each value of its labels (an endpoint, a
 *                         reason), or a histogram, or both; its series are made
 *                         when they are first named. Keep the `struct series *`
 *                         where the thing itself is kept; then counting is an
 *                         addition here too
 *
 * Names and units are Prometheus': grapnel_WHAT_total for counters, seconds and
 * bytes, no unit in a label. What a turn counted is taken back with the turn,
 * when its commit fails; what tell() counts stays. */
#ifndef PROTO_METRICS_H
#define PROTO_METRICS_H

#include "alloc.h"
#include "rc.h"
#include <jansson.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric {
    const char *name; /* grapnel_…_total for counters */
    enum metric_kind kind;
    const char *unit; /* "events", "seconds", "bytes" … */
    const char *help;
};

enum {
    METRIC_LABELS_MAX = 3,
    METRIC_BOUNDS_MAX = 24,
    /* Of one family in one process. What is beyond counts as "other", so that
     * no stranger's text makes a monitor grow without end. */
    METRIC_SERIES_MAX = 2000,
    METRIC_LABEL_BYTES = 64, /* what is beyond is cut off */
};

struct metric_family {
    const char *name;
    enum metric_kind kind;
    const char *unit;
    const char *help;
    const char *labels[METRIC_LABELS_MAX]; /* their names; NULL: no more */
    int64_t per; /* what is counted here for one unit; 0: 1. Milliseconds of
                    a metric in seconds: 1000 */
    /* A histogram's: upper bounds as they are counted, ascending, ended with 0.
     * Static. */
    const int64_t *bounds;
};

/* Of attempts and of events from end to end, in milliseconds: p99 under 10 ms,
 * p95 under 5 s, and the retries of hours can be read from them. */
extern const int64_t metric_latency_bounds_ms[];
/* Of commits, in microseconds. */
extern const int64_t metric_commit_bounds_us[];

struct metrics;
struct series;

struct metrics_tables {
    const struct metric *numbers; /* ends with a NULL name; may be NULL */
    int64_t *values;              /* values[i] belongs to numbers[i] */
    const struct metric_family *families; /* the same; may be NULL */
    const struct metric_family *common;   /* every daemon's; may be NULL */
};

/* The tables are borrowed until the end. */
struct metrics *metrics_open(void *zmq, const char *run_dir, const char *name,
                             const char *kind, uint64_t run,
                             int64_t interval_ms,
                             const struct metrics_tables *tables);
void metrics_close(struct metrics *m);

/* ---- counting ---- */

/* The series of families[family] with these label values, in the order of its
 * labels; made when it is new, the same ever after, there until
 * metrics_close(). `m` may be NULL (tests), and then so is the series, with
 * which the functions below do nothing. */
struct series *metrics_series(struct metrics *m, int family,
                              const char *const *labels);
#define METRIC_SERIES(m, family, ...) \
    metrics_series(m, family, (const char *const[]){__VA_ARGS__})
/* The family common[family], which has a series without labels if it has no
 * labels: then `labels` may be NULL. */
struct series *metrics_common(struct metrics *m, int family,
                              const char *const *labels);

void series_add(struct series *s, int64_t n);
void series_observe(struct series *s, int64_t v); /* of a histogram */
/* Of a gauge (or of a counter that is kept elsewhere), from the plan's
 * measure() only: a gauge that is not set there is
 * not published any more, until it is set again. "other" is the largest of those
 * it stands for: one that is in trouble must not be hidden by the next. */
void series_set(struct series *s, int64_t v);

/* ---- the daemon's turn ---- */

/* First thing in a turn: what follows is taken back by metrics_undo(). */
void metrics_begin(struct metrics *m);
void metrics_undo(struct metrics *m);
/* It is time to publish: measure now, then metrics_measured(), inside the
 * transaction. */
bool metrics_due(const struct metrics *m, int64_t mono_now_ms);
/* Before gauges are set. */
void metrics_measure(struct metrics *m);
/* Outside the transaction: publish when it is time. Returns ms until next. */
int metrics_tell(struct metrics *m, int64_t mono_now_ms);

/* ---- for others ---- */

/* For `status`: {name: value}, of single numbers. */
json_t *metrics_json(const struct metrics *m);
/* Of each counter, per second, over the last one to two metrics.interval. Empty in
 * the first of them. */
json_t *metrics_rates_json(const struct metrics *m, int64_t mono_now_ms);
/* [{"name","labels":{…},"value"} or {…,"counts":[…],"sum"}] */
json_t *metrics_series_json(struct metrics *m);
/* The frame claims no more objects than it has bytes, and ends where it says: a
 * library may be let at it. */
bool metrics_frame_sound(struct bytes frame);
/* The same frame as JSON, the caller's; NULL: it is none. */
json_t *metrics_frame_json(struct bytes frame);
/* Its part of docs/METRICS.md. */
void metrics_document(const char *process, const struct metrics_tables *tables,
                      struct buf *out);

#endif
