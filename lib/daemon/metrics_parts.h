/* metrics_parts: what metrics.c and metrics_frame.c share. */
#ifndef DAEMON_METRICS_PARTS_H
#define DAEMON_METRICS_PARTS_H

#include "ipc.h"
#include "lookup.h"
#include "metrics.h"

struct series {
    struct series *next; /* of its family, in the order of making */
    struct metrics *metrics;
    const struct metric_family *family;
    char *labels[METRIC_LABELS_MAX];
    uint64_t measured; /* the measuring in which a gauge was last set */
    /* One number; or of a histogram a count for each bound, one for what is
     * beyond all of them, and the sum. */
    int64_t *cells;
    int bounds;
    bool other; /* of its family: for all that are not kept apart */
};

struct family {
    const struct metric_family *is;
    struct series *first, **last;
    struct series *other;
    int count;
};

struct metrics {
    zsock_t *pub;
    char *name, *kind;
    uint64_t epoch;
    int64_t started_ms, interval_ms, due_ms;
    struct metrics_tables tables;
    size_t number_count, own_count, family_count;
    int64_t *saved; /* the numbers at the turn's begin */
    struct family *families;
    struct lookup series;
    uint64_t measuring;
    /* The numbers as they were published last, and the time before; for rates. */
    struct {
        int64_t *values, mono_ms; /* mono_ms 0: not yet */
    } past[2];
    /* What this turn has added to series, for metrics_undo(). */
    struct {
        int64_t *cell, n;
    } * journal;
    size_t journal_count, journal_cap;
    struct buf frame, part;
};

/* Whether the series is published: a gauge only if it was set in this measurement. */
bool series_shown(const struct series *s);
double series_scaled(const struct series *s, int64_t v);

/* metrics_frame.c */
void metrics_publish(struct metrics *m);

#endif
