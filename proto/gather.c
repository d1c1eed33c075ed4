/* What was gathered: who, what, and each number of it. */
#include "gather.h"
#include "gather_inside.h"
#include "log.h"
#include "siphash.h"
#include <stdlib.h>
#include <string.h>

struct gather *gather_new(int64_t now_ms, int64_t stale_ms)
{
    struct gather *g = gr_alloc(sizeof *g);

    g->stale_ms = stale_ms;
    g->began_ms = now_ms;
    g->last = &g->items;
    return g;
}

static void free_point(struct point *p)
{
    for (int i = 0; i < p->label_count; i++) {
        free(p->keys[i]);
        free(p->values[i]);
    }
    free(p->le);
    free(p->counts);
    free(p->count_bases);
    free(p->past);
    free(p);
}

static void free_item(struct item *item)
{
    struct point *p;

    while ((p = item->points)) {
        item->points = p->next;
        free_point(p);
    }
    free(item->name);
    free(item->unit);
    free(item->help);
    free(item);
}

void gather_free(struct gather *g)
{
    struct item *item;
    struct teller *t;

    while (g && (item = g->items)) {
        g->items = item->next;
        free_item(item);
    }
    while (g && (t = g->tellers)) {
        g->tellers = t->next;
        free(t);
    }
    free(g);
}

/* ---- who ---- */

struct teller *gather_tellers(struct gather *g)
{
    return g->tellers;
}

struct teller *gather_teller(struct gather *g, const char *name)
{
    struct teller *t = g->tellers;

    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

struct teller *gather_make_teller(struct gather *g, const char *name)
{
    struct teller *t = gather_teller(g, name);

    if (t || g->teller_count == GATHER_PROCESSES_MAX)
        return t;
    t = gr_alloc(sizeof *t);
    t->stale_ms = g->stale_ms;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->next = g->tellers;
    g->tellers = t;
    g->teller_count++;
    return t;
}

bool gather_hears(const struct teller *t, int64_t mono_now_ms)
{
    return t->heard && mono_now_ms - t->heard_ms <= t->stale_ms;
}

bool gather_has(struct gather *g, const char *kind, int64_t mono_now_ms)
{
    for (struct teller *t = g->tellers; t; t = t->next)
        if (strcmp(t->kind, kind) == 0 && gather_hears(t, mono_now_ms))
            return true;
    return false;
}

/* Its counters stay in the totals; it is only no longer missed. */
void gather_forget(struct gather *g, const char *process)
{
    struct teller *t = gather_teller(g, process);

    if (t)
        t->heard = false;
}

/* ---- what ---- */

static struct item *find_item(const struct gather *g, const char *name)
{
    struct item *item = g->items;

    while (item && strcmp(item->name, name) != 0)
        item = item->next;
    return item;
}

const struct item *gather_items(const struct gather *g)
{
    return g->items;
}

const struct item *gather_item(const struct gather *g, const char *name)
{
    return find_item(g, name);
}

bool gather_valid_name(const char *name)
{
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
                        strlen(name);
}

struct item *gather_make_item(struct gather *g, const char *name)
{
    struct item *item = find_item(g, name);

    if (item || g->item_count == GATHER_ITEMS_MAX || !gather_valid_name(name))
        return item;
    item = gr_alloc(sizeof *item);
    item->name = gr_strdup(name);
    *g->last = item;
    g->last = &item->next;
    g->item_count++;
    return item;
}

/* ---- numbers ---- */

static bool same_labels(const struct point *p, const struct gather_labels *l)
{
    if (p->label_count != l->count)
        return false;
    for (int i = 0; i < l->count; i++)
        if (strcmp(p->keys[i], l->keys[i]) != 0 ||
            strcmp(p->values[i], l->values[i]) != 0)
            return false;
    return true;
}

static struct point *new_point(struct gather *g, struct item *item,
                               struct teller *t, const struct gather_labels *l)
{
    struct point *p;

    if (g->point_count == GATHER_POINTS_MAX) {
        if (!g->full)
            log_warn(NULL, "too many numbers are published; the rest are not "
                           "gathered");
        g->full = true;
        return NULL;
    }
    p = gr_alloc(sizeof *p);
    p->item = item;
    p->teller = t;
    p->label_count = l->count;
    for (int i = 0; i < l->count; i++) {
        p->keys[i] = gr_strdup(l->keys[i]);
        p->values[i] = gr_strdup(l->values[i]);
    }
    p->next = item->points;
    item->points = p;
    g->point_count++;
    return p;
}

struct point *gather_make_point(struct gather *g, struct item *item,
                                struct teller *t, const struct gather_labels *l,
                                bool *fresh)
{
    uint64_t h = hash_keyed_text(hash_keyed_text(0, item->name), t->name);
    struct point_list *bucket;
    struct point *p;

    for (int i = 0; i < l->count; i++)
        h = hash_keyed_text(h, l->values[i]);
    bucket = &g->buckets[h % GATHER_BUCKETS];
    *fresh = false;
    LIST_FOREACH(p, bucket, link)
    if (p->item == item && p->teller == t && same_labels(p, l))
        return p;
    *fresh = true;
    p = new_point(g, item, t, l);
    if (p)
        LIST_INSERT_HEAD(bucket, p, link);
    return p;
}

void gather_carry_over(struct gather *g, const struct teller *t)
{
    for (struct item *item = g->items; item; item = item->next)
        for (struct point *p = item->points; p; p = p->next) {
            if (p->teller != t || item->kind == METRIC_GAUGE)
                continue;
            p->base += p->value;
            p->value = 0;
            for (int i = 0; i <= p->bounds && p->counts; i++) {
                p->count_bases[i] += p->counts[i];
                p->counts[i] = 0;
            }
        }
}

/* ---- asking ---- */

bool point_fresh(const struct point *p, int64_t mono_now_ms)
{
    return gather_hears(p->teller, mono_now_ms) &&
           p->time_ms == p->teller->time_ms;
}

double point_total(const struct point *p)
{
    return p->base + p->value;
}

const char *point_label(const struct point *p, const char *key)
{
    for (int i = 0; i < p->label_count; i++)
        if (strcmp(p->keys[i], key) == 0)
            return p->values[i];
    return "";
}

double gather_sum(const struct gather *g, const char *name, int64_t mono_now_ms)
{
    const struct item *item = find_item(g, name);
    double sum = 0;

    for (const struct point *p = item ? item->points : NULL; p; p = p->next)
        if (point_fresh(p, mono_now_ms))
            sum += p->value;
    return sum;
}
