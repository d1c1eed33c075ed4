/* due_queue: finds which of many things is due first. An item is a member of the thing; the queue
 * owns only its array of pointers. Memory only; a zeroed queue is empty. */
#ifndef DELIVERER_DUE_QUEUE_H
#define DELIVERER_DUE_QUEUE_H

#include "rc.h"
#include <stddef.h>

struct due_item {
    int64_t key;
    size_t at; /* its slot, from 1; 0: not in a queue */
};

struct due_queue {
    struct due_item **items; /* from 1 */
    size_t count, capacity;
};

/* The thing of `type` whose `member` this item is. */
#define DUE_ITEM_OWNER(item, type, member) \
    ((type *)(void *)((char *)(item)-offsetof(type, member)))

void due_queue_fini(struct due_queue *q);
/* Put it in, or give it a new key. */
void due_queue_put(struct due_queue *q, struct due_item *item, int64_t key);
/* Take it out; does nothing if it is not in the queue. */
void due_queue_drop(struct due_queue *q, struct due_item *item);
/* The item with the least key; NULL: the queue is empty. */
struct due_item *due_queue_first(const struct due_queue *q);

#endif
