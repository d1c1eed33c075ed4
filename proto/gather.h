/* gather: what all processes have said of themselves (proto/metrics.h), as it
 * is now. Pure: frames in, numbers out.
 *
 * A counter begins at 0 with each start of its process; `total` goes on over
 * such starts, and counts only what happened since we listen: what a process
 * had counted before we heard of it is not ours to date. */
#ifndef PROTO_GATHER_H
#define PROTO_GATHER_H

#include "alloc.h"
#include "bounds.h"
#include "metrics.h"
#include <sys/queue.h>

enum {
    GATHER_PROCESSES_MAX = 256,
    GATHER_POINTS_MAX = 200000,
};

/* One process. */
struct teller {
    struct teller *next;
    char name[NAME_MAX_BYTES + 1], kind[NAME_MAX_BYTES + 1];
    uint64_t run;
    int64_t time_ms; /* of its last frame, its own wall clock */
    /* Of the one before, or of its start, when its counters were 0; 0: it had
     * counted before it was heard. */
    int64_t before_ms;
    int64_t stale_ms;
    int64_t heard_ms; /* when that came: our monotonic time */
    bool heard;
    /* It ran before we did, and this is its first frame: what it has counted
     * so far does not count here. */
    bool before_us;
};

/* A number, or a histogram, of one process. */
struct point {
    LIST_ENTRY(point) link;
    struct point *next; /* of its item */
    struct item *item;
    struct teller *teller;
    int label_count;
    char *keys[METRIC_LABELS_MAX], *values[METRIC_LABELS_MAX];
    int64_t time_ms;    /* of the frame that had it last */
    double value, base; /* base: to be added for the total */
    int bounds;         /* of a histogram; then `value` is the sum */
    double *le, *counts, *count_bases; /* one count more than bounds */
    void *past; /* the gatherer's own, or NULL; free()d with the point */
};

struct item { /* one name */
    struct item *next;
    char *name, *unit, *help;
    enum metric_kind kind;
    struct point *points;
};

struct gather;

/* `now_ms`: when we began, wall clock. A process that has been silent for
 * `stale_ms` is no longer shown: its numbers are old. */
struct gather *gather_new(int64_t now_ms, int64_t stale_ms);
void gather_free(struct gather *g);
/* GR_REFUSE: no frame of ours; nothing was taken. */
GR_MUST_CHECK gr_rc gather_frame(struct gather *g, struct bytes frame,
                                 int64_t mono_now_ms);
/* A process that ended in order and is not expected back. */
void gather_forget(struct gather *g, const char *process);

struct teller *gather_tellers(struct gather *g);
struct teller *gather_teller(struct gather *g, const char *name);
/* Is any process of this kind there, and not silent? */
bool gather_has(struct gather *g, const char *kind, int64_t mono_now_ms);
bool gather_hears(const struct teller *t, int64_t mono_now_ms);
const struct item *gather_items(const struct gather *g);
/* Its points; NULL when nobody ever named it. */
const struct item *gather_item(const struct gather *g, const char *name);
/* Its number is not old. */
bool point_fresh(const struct point *p, int64_t mono_now_ms);
double point_total(const struct point *p);
/* "" when it has no such label. */
const char *point_label(const struct point *p, const char *key);
/* Of all fresh points. */
double gather_sum(const struct gather *g, const char *name,
                  int64_t mono_now_ms);

#endif
