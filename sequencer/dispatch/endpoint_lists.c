/* endpoint_lists: the lists of endpoints that are awake, that have an owner, and that are
 * stopped, so that a turn need not look at all endpoints. */
#include "alloc.h"
#include "endpoint.h"
#include "managed_endpoints.h"
#include "sequencer.h"

enum { FIRST_CAPACITY = 16 };

void endpoint_list_put(struct sequencer *q, struct endpoint *e,
                       enum endpoint_lists list)
{
    struct endpoint_list *l = &q->lists[list];

    if (e->at[list])
        return;
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : FIRST_CAPACITY;
        l->slots = gr_realloc(l->slots, l->capacity * sizeof *l->slots);
    }
    l->slots[l->count++] = (uint32_t)(e - q->endpoints);
    e->at[list] = (uint32_t)l->count;
}

/* The last endpoint of the list takes its place. */
void endpoint_list_drop(struct sequencer *q, struct endpoint *e,
                        enum endpoint_lists list)
{
    struct endpoint_list *l = &q->lists[list];
    uint32_t last;

    if (!e->at[list])
        return;
    last = l->slots[--l->count];
    l->slots[e->at[list] - 1] = last;
    q->endpoints[last].at[list] = e->at[list];
    e->at[list] = 0;
}

struct endpoint *endpoint_listed(const struct sequencer *q,
                                 enum endpoint_lists list, size_t i)
{
    return &q->endpoints[q->lists[list].slots[i]];
}

void endpoint_wake(struct sequencer *q, struct endpoint *e)
{
    endpoint_list_put(q, e, ENDPOINTS_AWAKE);
    /* Before sequencer_begin() the settings are about to change. */
    if (e->managed && !e->settings && !endpoint_is_stopped(e) && !q->configure)
        managed_wake(q, e);
}
