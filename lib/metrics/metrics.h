/* metrics: the metrics of one process, declared once in two tables, and published at an
 * interval as msgpack on a PUB socket. docs/METRICS.md describes a frame and is generated
 * from the same tables. Daemons count with this; collector.h reads what they publish.
 *
 *   struct metric         one number: values[i] belongs to the process, and `++` is all that
 *                         counting costs
 *   struct metric_family  a number for each value of its labels (an endpoint, a reason), or
 *                         a histogram, or both; a series is made when its labels are first
 *                         named. Keep the `struct series *` with the object that is counted,
 *                         so that counting is an addition here too
 *
 * Names and units are those of Prometheus: grapnel_WHAT_total for counters, seconds and
 * bytes, no unit in a label. When a turn is rolled back, metrics_undo() takes back what it
 * counted; what after_commit() counts stays. All of it is in memory: a new process starts
 * at 0. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

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
    /* Of one family in one process. Further label values are counted as "other", so that
     * text from outside cannot make a monitor grow without end. */
    METRIC_SERIES_MAX = 2000,
    METRIC_LABEL_BYTES = 64, /* a longer value is cut off */
};

struct metric_family {
    const char *name;
    enum metric_kind kind;
    const char *unit;
    const char *help;
    const char *labels[METRIC_LABELS_MAX]; /* their names; NULL: no more */
    int64_t
        per; /* counted parts of one unit; 0: 1. For a metric in seconds that is
                    counted in milliseconds: 1000 */
    /* Upper bounds of a histogram, in counted parts, ascending, ended with 0; static. */
    const int64_t *bounds;
};

/* Bounds for attempts and for events end to end, in milliseconds: fine enough for a p99
 * below 10 ms, wide enough for retries over hours. */
extern const int64_t metric_latency_bounds_ms[];
/* Bounds for commits, in microseconds. */
extern const int64_t metric_commit_bounds_us[];
/* Bounds for what a replication database acknowledges, which may wait for other machines. */
extern const int64_t metric_append_bounds_us[];

struct metrics;
struct series;
typedef struct _zsock_t zsock_t; /* of <czmq.h> */

struct metrics_tables {
    const struct metric *numbers; /* ends with a NULL name; may be NULL */
    int64_t *values;              /* values[i] belongs to numbers[i] */
    const struct metric_family *families; /* the same; may be NULL */
    const struct metric_family *common;   /* every daemon's; may be NULL */
};

/* `pub`: a bound PUB socket, owned from now on. The tables are borrowed until the end. */
struct metrics *metrics_open(zsock_t *pub, const char *name, const char *kind,
                             uint64_t epoch, int64_t interval_ms,
                             const struct metrics_tables *tables);
void metrics_close(struct metrics *m);
zsock_t *metrics_socket(struct metrics *m);
/* Each frame that is published is given to this, too. */
void metrics_also(struct metrics *m,
                  void (*publish)(void *self, struct bytes frame), void *self);

/* ---- counting ---- */

/* The series of families[family] with these label values, in the order of its
 * labels; made on first use, valid until metrics_close(). If `m` is NULL (tests), the
 * series is NULL, and the functions below do nothing with it. */
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
/* Sets a gauge (or a counter that is kept elsewhere), from the plan's measure() only: a
 * gauge that is not set there is not published until it is set again. "other" gets the
 * largest of its values, so that a high one is not hidden by the next. */
void series_set(struct series *s, int64_t v);

/* ---- the daemon's turn ---- */

/* At the start of a turn: metrics_undo() takes back what is counted after it. */
void metrics_begin(struct metrics *m);
void metrics_undo(struct metrics *m);
/* Whether it is time to publish. If so, the daemon calls metrics_measure(), then sets its
 * gauges, inside the transaction. */
bool metrics_due(const struct metrics *m, int64_t mono_now_ms);
void metrics_measure(struct metrics *m);
/* After the commit: publishes when it is time. Returns the ms until the next time. */
int metrics_flush(struct metrics *m, int64_t mono_now_ms);
/* During a wait for the replication database, when a frame is due: a frame without metrics,
 * which only says for how long it has waited (more than 0). */
void metrics_say_waiting(struct metrics *m, int64_t waits_ms,
                         int64_t mono_now_ms);

/* ---- reading ---- */

/* For `status`: {name: value}, of single numbers. */
json_t *metrics_json(const struct metrics *m);
/* Of each counter, per second, over the last one to two intervals. Empty during the first. */
json_t *metrics_rates_json(const struct metrics *m, int64_t mono_now_ms);
/* [{"name","labels":{…},"value"} or {…,"counts":[…],"sum"}] */
json_t *metrics_series_json(struct metrics *m);
/* Writes this process's section of docs/METRICS.md. */
void metrics_document(const char *process, const struct metrics_tables *tables,
                      struct buf *out);

#endif
