/* own_grants_table: the grants in memory, by their ids. */
#include "deliverer.h"
#include "own_grants_inside.h"
#include "wire.h"
#include <stddef.h>
#include <stdlib.h>

struct grant *own_grants_find(const struct deliverer *d, uint64_t id)
{
    size_t at = 0;

    return lookup_get(&d->own_grants.ids, id, &at); /* no id is given twice */
}

struct grant *own_grants_next(const struct deliverer *d, struct grant *g)
{
    return g ? LIST_NEXT(g, link) : LIST_FIRST(&d->own_grants.all);
}

struct grant *own_grants_of(struct granted_endpoint *e)
{
    return (struct grant *)(void *)((char *)e -
                                    offsetof(struct grant, endpoint));
}

struct grant *own_grants_add(struct deliverer *d, uint64_t id,
                             struct bytes name)
{
    struct grant *g = gr_alloc(sizeof *g);

    g->id = id;
    wire_copy(g->name, sizeof g->name, name);
    g->endpoint.due_ms = INT64_MAX;
    LIST_INSERT_HEAD(&d->own_grants.all, g, link);
    lookup_add(&d->own_grants.ids, id, g);
    return g;
}

void own_grants_drop(struct deliverer *d, struct grant *g)
{
    lookup_remove(&d->own_grants.ids, g->id, g);
    LIST_REMOVE(g, link);
    free(g);
}
