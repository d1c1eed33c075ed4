/* collector: the present metrics of all processes, read from their frames (metrics.h). Pure:
 * frames in, numbers out. The console has one, and so has `grapnel top`.
 *
 * A counter starts at 0 whenever its process starts; `total` continues over such starts. It
 * counts only what happened since the collector was made, because what a process had
 * counted before has no known time. */
#ifndef METRICS_COLLECTOR_H
#define METRICS_COLLECTOR_H

#include "alloc.h"
#include "bounds.h"
#include "metrics.h"

enum {
    COLLECTOR_PROCESSES_MAX = 256,
    COLLECTOR_METRICS_MAX = 2000,
    COLLECTOR_SERIES_MAX = 200000,
};

/* One process. */
struct publisher {
    struct publisher *next;
    char name[NAME_MAX_BYTES + 1], kind[NAME_MAX_BYTES + 1];
    uint64_t epoch;
    int64_t time_ms; /* of its last frame, on its own wall clock */
    /* The time of the frame before, or of its start, when its counters were 0. 0: unknown,
     * because it had counted before its first frame was read. */
    int64_t before_ms;
    int64_t stale_ms;
    int64_t heard_ms; /* when its last frame was read, on the caller's clock */
    bool heard;
    /* Since its last frame it has said that it waits for the replication database: for how
     * long, and when this was heard last, on the caller's clock. 0: it does not wait. */
    int64_t waits_ms, waits_heard_ms;
    /* It started before the collector was made, and only its first frame was read: what
     * that contains is left out of the totals. */
    bool counted_before;
};

/* A number, or a histogram, of one process. */
struct collected {
    struct collected *next; /* of its metric */
    struct collected_metric *metric;
    struct publisher *publisher;
    int label_count;
    char *keys[METRIC_LABELS_MAX], *values[METRIC_LABELS_MAX];
    int64_t time_ms;    /* of the last frame that contained it */
    double value, base; /* base: to be added for the total */
    int bounds;         /* of a histogram; then `value` is the sum */
    double *le, *counts, *count_bases; /* one count more than bounds */
    struct window *past;               /* of rates.h, or NULL */
};

/* All that was published under one name. */
struct collected_metric {
    struct collected_metric *next;
    char *name, *unit, *help; /* unit, help: NULL before they were published */
    enum metric_kind kind;
    struct collected *series;
};

/* Which series are meant: all of a metric, or only those of one process, or with one value of
 * a label. Members that are NULL select all. */
struct series_query {
    const char *metric, *process, *label, *value;
};
#define SERIES(name, ...) \
    (&(const struct series_query){.metric = (name), __VA_ARGS__})

struct collector;

/* `now_ms`: the wall clock now. A process that has been silent for `stale_ms` is no
 * longer shown, as its numbers are old. */
struct collector *collector_new(int64_t now_ms, int64_t stale_ms);
void collector_free(struct collector *g);
/* GR_REFUSE: it is not a metrics frame; nothing was changed. */
GR_MUST_CHECK gr_rc collector_frame(struct collector *g, struct bytes frame,
                                    int64_t mono_now_ms);
/* Whether it is a frame of this process. Pure. */
bool collector_is_from(struct bytes frame, const char *process);
/* A process that stopped in order and is not expected back: its counters stay in the
 * totals, and it no longer counts as silent. */
void collector_forget(struct collector *g, const char *process);

struct publisher *collector_publishers(struct collector *g);
struct publisher *collector_publisher(struct collector *g, const char *name);
/* Whether any process of this kind publishes, and is not silent. */
bool collector_has(struct collector *g, const char *kind, int64_t mono_now_ms);
bool collector_hears(const struct publisher *t, int64_t mono_now_ms);
/* How long it has waited for the replication database, and says so still; 0: it does not. */
int64_t collector_waits_ms(const struct publisher *t, int64_t mono_now_ms);

const struct collected_metric *collector_metrics(const struct collector *g);
/* NULL: no process has published it. */
struct collected_metric *collector_metric(const struct collector *g,
                                          const char *name);
/* The next series after `after` (NULL: the first) that matches and is fresh; NULL after the
 * last. */
struct collected *collector_next(const struct collector *g,
                                 const struct series_query *q,
                                 const struct collected *after,
                                 int64_t mono_now_ms);
/* The sum of the present values of all fresh series that match. NAN: there are none. */
double collector_sum(const struct collector *g, const struct series_query *q,
                     int64_t mono_now_ms);

/* Whether its process is not silent, and its last frame contained the series. */
bool collected_fresh(const struct collected *p, int64_t mono_now_ms);
double collected_total(const struct collected *p);
/* The value of a label; "": it has no such label. */
const char *collected_label(const struct collected *p, const char *key);

#endif
