/* heap: a binary heap of pointers, from slot 1: the children of slot n are 2n and 2n + 1. */
#include "heap.h"
#include "alloc.h"
#include <stdlib.h>

void heap_fini(struct heap *h)
{
    free(h->items);
    *h = (struct heap){0};
}

static void put_at(struct heap *h, struct heap_item *item, size_t at)
{
    h->items[at] = item;
    item->at = at;
}

static void up(struct heap *h, struct heap_item *item)
{
    size_t at = item->at;

    for (; at > 1 && h->items[at / 2]->key > item->key; at /= 2)
        put_at(h, h->items[at / 2], at);
    put_at(h, item, at);
}

static void down(struct heap *h, struct heap_item *item)
{
    size_t at = item->at, child;

    for (; (child = 2 * at) <= h->count; at = child) {
        if (child < h->count && h->items[child + 1]->key < h->items[child]->key)
            child++;
        if (h->items[child]->key >= item->key)
            break;
        put_at(h, h->items[child], at);
    }
    put_at(h, item, at);
}

void heap_put(struct heap *h, struct heap_item *item, int64_t key)
{
    item->key = key;
    if (!item->at) {
        if (h->count + 1 >= h->capacity) {
            h->capacity = h->capacity ? 2 * h->capacity : 64;
            h->items = gr_realloc(h->items, h->capacity * sizeof *h->items);
        }
        put_at(h, item, ++h->count);
    }
    up(h, item);
    down(h, item);
}

void heap_drop(struct heap *h, struct heap_item *item)
{
    struct heap_item *last;
    size_t at = item->at;

    if (!at)
        return;
    item->at = 0;
    last = h->items[h->count--];
    if (last == item)
        return;
    put_at(h, last, at);
    up(h, last);
    down(h, last);
}

struct heap_item *heap_first(const struct heap *h)
{
    return h->count ? h->items[1] : NULL;
}
