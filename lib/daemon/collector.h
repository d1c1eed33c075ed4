/* collector: the present metrics of all processes, read from their frames
 * (lib/daemon/metrics.h). Pure: frames in, numbers out.
 *
 * A counter begins at 0 with each start of its process; `total` continues over such
 * starts. It counts only what happened since the collector was made, because what a
 * process had counted before has no known time. */
#ifndef DAEMON_COLLECTOR_H
#define DAEMON_COLLECTOR_H

#include "alloc.h"
#include "bounds.h"
#include "metrics.h"

enum {
    COLLECTOR_PROCESSES_MAX = 256,
    COLLECTOR_SERIES_MAX = 200000,
};

/* One process. */
struct publisher {
    struct publisher *next;
    char name[NAME_MAX_BYTES + 1], kind[NAME_MAX_BYTES + 1];
    uint64_t epoch;
    int64_t time_ms; /* of its last frame, its own wall clock */
    /* Of the one before, or of its start, when its counters were 0; 0: it had
     * counted before it was heard. */
    int64_t before_ms;
    int64_t stale_ms;
    int64_t heard_ms; /* when that came: our monotonic time */
    bool heard;
    /* It ran before the collector was made, and this is its first frame: what it has
     * counted so far is left out. */
    bool before_us;
};

/* A number, or a histogram, of one process. */
struct collected {
    struct collected *next; /* of its item */
    struct item *item;
    struct publisher *publisher;
    int label_count;
    char *keys[METRIC_LABELS_MAX], *values[METRIC_LABELS_MAX];
    int64_t time_ms;    /* of the last frame that contained it */
    double value, base; /* base: to be added for the total */
    int bounds;         /* of a histogram; then `value` is the sum */
    double *le, *counts, *count_bases; /* one count more than bounds */
    void *past; /* the collector's own, or NULL; free()d with the series */
};

struct item { /* one name */
    struct item *next;
    char *name, *unit, *help;
    enum metric_kind kind;
    struct collected *series;
};

struct collector;

/* `now_ms`: the wall clock now. A process that has been silent for `stale_ms` is no
 * longer shown, as its numbers are old. */
struct collector *collector_new(int64_t now_ms, int64_t stale_ms);
void collector_free(struct collector *g);
/* GR_REFUSE: it is not a metrics frame; nothing was changed. */
GR_MUST_CHECK gr_rc collector_frame(struct collector *g, struct bytes frame,
                                    int64_t mono_now_ms);
/* A process that stopped in order and is not expected back. */
void collector_forget(struct collector *g, const char *process);

struct publisher *collector_publishers(struct collector *g);
struct publisher *collector_publisher(struct collector *g, const char *name);
/* Whether any process of this kind publishes, and is not silent. */
bool collector_has(struct collector *g, const char *kind, int64_t mono_now_ms);
bool collector_hears(const struct publisher *t, int64_t mono_now_ms);
const struct item *collector_items(const struct collector *g);
/* An item with its series; NULL: no process has published it. */
const struct item *collector_item(const struct collector *g, const char *name);
/* Whether its number is not old. */
bool collected_fresh(const struct collected *p, int64_t mono_now_ms);
double collected_total(const struct collected *p);
/* The value of a label; "": it has no such label. */
const char *collected_label(const struct collected *p, const char *key);
/* The sum of all fresh series of an item. */
double collector_sum(const struct collector *g, const char *name,
                     int64_t mono_now_ms);

#endif
