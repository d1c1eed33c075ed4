/* gather_inside: what gather.c and gather_frame.c share; nobody else's. */
#ifndef PROTO_GATHER_INSIDE_H
#define PROTO_GATHER_INSIDE_H

#include "gather.h"

enum { GATHER_BUCKETS = 16384, GATHER_ITEMS_MAX = 2000 };

LIST_HEAD(point_list, point);

struct gather {
    int64_t began_ms, stale_ms;
    struct teller *tellers;
    struct item *items, **last;
    int teller_count, item_count, point_count;
    bool full; /* said once */
    struct point_list buckets[GATHER_BUCKETS];
};

struct gather_labels {
    int count;
    char keys[METRIC_LABELS_MAX][METRIC_LABEL_BYTES + 1];
    char values[METRIC_LABELS_MAX][METRIC_LABEL_BYTES + 1];
};

/* Of an item or a label. */
bool gather_valid_name(const char *name);

/* Found, or made; NULL: there are as many as there may be, or its name is none. */
struct teller *gather_make_teller(struct gather *g, const char *name);
struct item *gather_make_item(struct gather *g, const char *name);
/* *fresh: it was not there before. */
struct point *gather_make_point(struct gather *g, struct item *item,
                                struct teller *t, const struct gather_labels *l,
                                bool *fresh);
/* What the process counted before this start stays counted. */
void gather_carry_over(struct gather *g, const struct teller *t);

#endif
