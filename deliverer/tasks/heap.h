/* heap: finds which of many things is due first. An item is a member of the thing; the heap
 * owns only its array of pointers. Memory only; a zeroed heap is empty. */
#ifndef DELIVERER_HEAP_H
#define DELIVERER_HEAP_H

#include "rc.h"
#include <stddef.h>

struct heap_item {
    int64_t key;
    size_t at; /* its slot, from 1; 0: not in a heap */
};

struct heap {
    struct heap_item **items; /* from 1 */
    size_t count, capacity;
};

/* The thing of `type` whose `member` this item is. */
#define HEAP_OWNER(item, type, member) \
    ((type *)(void *)((char *)(item)-offsetof(type, member)))

void heap_fini(struct heap *h);
/* Put it in, or give it a new key. */
void heap_put(struct heap *h, struct heap_item *item, int64_t key);
/* Take it out; does nothing if it is not in the heap. */
void heap_drop(struct heap *h, struct heap_item *item);
/* The item with the least key; NULL: the heap is empty. */
struct heap_item *heap_first(const struct heap *h);

#endif
