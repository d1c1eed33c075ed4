/* The collector's tables: publishers, items, and the series of each. */
#include "collector.h"
#include "collector_inside.h"
#include "log.h"
#include "siphash.h"
#include <stdlib.h>
#include <string.h>

struct collector *collector_new(int64_t now_ms, int64_t stale_ms)
{
    struct collector *g = gr_alloc(sizeof *g);

    g->stale_ms = stale_ms;
    g->began_ms = now_ms;
    g->last = &g->items;
    return g;
}

static void free_series(struct collected *p)
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
    struct collected *p;

    while ((p = item->series)) {
        item->series = p->next;
        free_series(p);
    }
    free(item->name);
    free(item->unit);
    free(item->help);
    free(item);
}

void collector_free(struct collector *g)
{
    struct item *item;
    struct publisher *t;

    while (g && (item = g->items)) {
        g->items = item->next;
        free_item(item);
    }
    while (g && (t = g->publishers)) {
        g->publishers = t->next;
        free(t);
    }
    if (g)
        lookup_fini(&g->series);
    free(g);
}

/* ---- publishers ---- */

struct publisher *collector_publishers(struct collector *g)
{
    return g->publishers;
}

struct publisher *collector_publisher(struct collector *g, const char *name)
{
    struct publisher *t = g->publishers;

    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

struct publisher *collector_make_publisher(struct collector *g,
                                           const char *name)
{
    struct publisher *t = collector_publisher(g, name);

    if (t || g->publisher_count == COLLECTOR_PROCESSES_MAX)
        return t;
    t = gr_alloc(sizeof *t);
    t->stale_ms = g->stale_ms;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->next = g->publishers;
    g->publishers = t;
    g->publisher_count++;
    return t;
}

bool collector_hears(const struct publisher *t, int64_t mono_now_ms)
{
    return t->heard && mono_now_ms - t->heard_ms <= t->stale_ms;
}

bool collector_has(struct collector *g, const char *kind, int64_t mono_now_ms)
{
    for (struct publisher *t = g->publishers; t; t = t->next)
        if (strcmp(t->kind, kind) == 0 && collector_hears(t, mono_now_ms))
            return true;
    return false;
}

/* Its counters stay in the totals; it no longer counts as silent. */
void collector_forget(struct collector *g, const char *process)
{
    struct publisher *t = collector_publisher(g, process);

    if (t)
        t->heard = false;
}

/* ---- items ---- */

static struct item *find_item(const struct collector *g, const char *name)
{
    struct item *item = g->items;

    while (item && strcmp(item->name, name) != 0)
        item = item->next;
    return item;
}

const struct item *collector_items(const struct collector *g)
{
    return g->items;
}

const struct item *collector_item(const struct collector *g, const char *name)
{
    return find_item(g, name);
}

bool collector_valid_name(const char *name)
{
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
                        strlen(name);
}

struct item *collector_make_item(struct collector *g, const char *name)
{
    struct item *item = find_item(g, name);

    if (item || g->item_count == COLLECTOR_ITEMS_MAX ||
        !collector_valid_name(name))
        return item;
    item = gr_alloc(sizeof *item);
    item->name = gr_strdup(name);
    *g->last = item;
    g->last = &item->next;
    g->item_count++;
    return item;
}

/* ---- series ---- */

static bool same_labels(const struct collected *p,
                        const struct collector_labels *l)
{
    if (p->label_count != l->count)
        return false;
    for (int i = 0; i < l->count; i++)
        if (strcmp(p->keys[i], l->keys[i]) != 0 ||
            strcmp(p->values[i], l->values[i]) != 0)
            return false;
    return true;
}

static struct collected *new_series(struct collector *g, struct item *item,
                                    struct publisher *t,
                                    const struct collector_labels *l)
{
    struct collected *p;

    if (g->series_count == COLLECTOR_SERIES_MAX) {
        if (!g->full)
            log_warn(
                NULL,
                "too many metrics are published; the rest are not collected");
        g->full = true;
        return NULL;
    }
    p = gr_alloc(sizeof *p);
    p->item = item;
    p->publisher = t;
    p->label_count = l->count;
    for (int i = 0; i < l->count; i++) {
        p->keys[i] = gr_strdup(l->keys[i]);
        p->values[i] = gr_strdup(l->values[i]);
    }
    p->next = item->series;
    item->series = p;
    g->series_count++;
    return p;
}

struct collected *collector_make_series(struct collector *g, struct item *item,
                                        struct publisher *t,
                                        const struct collector_labels *l,
                                        bool *fresh)
{
    uint64_t h = hash_keyed_text(hash_keyed_text(0, item->name), t->name);
    struct collected *p;

    for (int i = 0; i < l->count; i++)
        h = hash_keyed_text(h, l->values[i]);
    *fresh = false;
    for (size_t at = 0; (p = lookup_get(&g->series, h, &at));)
        if (p->item == item && p->publisher == t && same_labels(p, l))
            return p;
    *fresh = true;
    p = new_series(g, item, t, l);
    if (p)
        lookup_add(&g->series, h, p);
    return p;
}

void collector_carry_over(struct collector *g, const struct publisher *t)
{
    for (struct item *item = g->items; item; item = item->next)
        for (struct collected *p = item->series; p; p = p->next) {
            if (p->publisher != t || item->kind == METRIC_GAUGE)
                continue;
            p->base += p->value;
            p->value = 0;
            for (int i = 0; i <= p->bounds && p->counts; i++) {
                p->count_bases[i] += p->counts[i];
                p->counts[i] = 0;
            }
        }
}

/* ---- queries ---- */

bool collected_fresh(const struct collected *p, int64_t mono_now_ms)
{
    return collector_hears(p->publisher, mono_now_ms) &&
           p->time_ms == p->publisher->time_ms;
}

double collected_total(const struct collected *p)
{
    return p->base + p->value;
}

const char *collected_label(const struct collected *p, const char *key)
{
    for (int i = 0; i < p->label_count; i++)
        if (strcmp(p->keys[i], key) == 0)
            return p->values[i];
    return "";
}

double collector_sum(const struct collector *g, const char *name,
                     int64_t mono_now_ms)
{
    const struct item *item = find_item(g, name);
    double sum = 0;

    for (const struct collected *p = item ? item->series : NULL; p; p = p->next)
        if (collected_fresh(p, mono_now_ms))
            sum += p->value;
    return sum;
}
