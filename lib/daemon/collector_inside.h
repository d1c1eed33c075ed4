/* collector_inside: shared by collector.c and collector_frame.c only. */
#ifndef DAEMON_COLLECTOR_INSIDE_H
#define DAEMON_COLLECTOR_INSIDE_H

#include "collector.h"
#include "lookup.h"

enum { COLLECTOR_ITEMS_MAX = 2000 };

struct collector {
    int64_t began_ms, stale_ms;
    struct publisher *publishers;
    struct item *items, **last;
    int publisher_count, item_count, series_count;
    bool full; /* said once */
    struct lookup series;
};

struct collector_labels {
    int count;
    char keys[METRIC_LABELS_MAX][METRIC_LABEL_BYTES + 1];
    char values[METRIC_LABELS_MAX][METRIC_LABEL_BYTES + 1];
};

/* Whether this may be the name of an item or a label. */
bool collector_valid_name(const char *name);

/* Found or made; NULL: there are too many already, or the name is not allowed. */
struct publisher *collector_make_publisher(struct collector *g,
                                           const char *name);
struct item *collector_make_item(struct collector *g, const char *name);
/* *fresh: it was made now. */
struct collected *collector_make_series(struct collector *g, struct item *item,
                                        struct publisher *t,
                                        const struct collector_labels *l,
                                        bool *fresh);
/* A process has started anew: what it counted before stays in the totals. */
void collector_carry_over(struct collector *g, const struct publisher *t);

#endif
