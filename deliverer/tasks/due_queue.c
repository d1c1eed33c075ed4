/* due_queue: a binary heap of pointers, from slot 1: the children of slot n are 2n and 2n + 1. */
#include "due_queue.h"
#include "alloc.h"
#include <stdlib.h>

void due_queue_fini(struct due_queue *q)
{
    free(q->items);
    *q = (struct due_queue){0};
}

static void put_at(struct due_queue *q, struct due_item *item, size_t at)
{
    q->items[at] = item;
    item->at = at;
}

static void up(struct due_queue *q, struct due_item *item)
{
    size_t at = item->at;

    for (; at > 1 && q->items[at / 2]->key > item->key; at /= 2)
        put_at(q, q->items[at / 2], at);
    put_at(q, item, at);
}

static void down(struct due_queue *q, struct due_item *item)
{
    size_t at = item->at, child;

    for (; (child = 2 * at) <= q->count; at = child) {
        if (child < q->count && q->items[child + 1]->key < q->items[child]->key)
            child++;
        if (q->items[child]->key >= item->key)
            break;
        put_at(q, q->items[child], at);
    }
    put_at(q, item, at);
}

void due_queue_put(struct due_queue *q, struct due_item *item, int64_t key)
{
    item->key = key;
    if (!item->at) {
        if (q->count + 1 >= q->capacity) {
            q->capacity = q->capacity ? 2 * q->capacity : 64;
            q->items = gr_realloc(q->items, q->capacity * sizeof *q->items);
        }
        put_at(q, item, ++q->count);
    }
    up(q, item);
    down(q, item);
}

void due_queue_drop(struct due_queue *q, struct due_item *item)
{
    struct due_item *last;
    size_t at = item->at;

    if (!at)
        return;
    item->at = 0;
    last = q->items[q->count--];
    if (last == item)
        return;
    put_at(q, last, at);
    up(q, last);
    down(q, last);
}

struct due_item *due_queue_first(const struct due_queue *q)
{
    return q->count ? q->items[1] : NULL;
}
