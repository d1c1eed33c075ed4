/* heap: which of many things is due first. The items live in their owners. */
#ifndef DELIVERER_HEAP_H
#define DELIVERER_HEAP_H

#include "rc.h"

struct heap_item {
    int64_t key;
    size_t at; /* its slot, from 1; 0: not in a heap */
};

struct heap {
    struct heap_item **items; /* from 1 */
    size_t count, capacity;
};

void heap_fini(struct heap *h);
/* Put it in, or move it to where its new key belongs. */
void heap_put(struct heap *h, struct heap_item *item, int64_t key);
void heap_drop(struct heap *h, struct heap_item *item); /* also if not in */
struct heap_item *heap_first(const struct heap *h);     /* NULL: empty */

#endif
