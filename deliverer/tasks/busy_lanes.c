/* busy_lanes: a table of lane keys. */
#include "busy_lanes.h"
#include "siphash.h"

uint64_t busy_lanes_key(uint64_t grant, struct bytes workspace,
                        struct bytes ordering_key)
{
    uint64_t h = hash_keyed(hash_keyed(grant, workspace.p, workspace.n),
                            ordering_key.p, ordering_key.n);

    return h ? h : 1;
}

void busy_lanes_fini(struct busy_lanes *l)
{
    lookup_fini(&l->keys);
}

bool busy_lanes_has(const struct busy_lanes *l, uint64_t key)
{
    size_t at = 0;

    return lookup_next(&l->keys, key, &at) != LOOKUP_END;
}

void busy_lanes_add(struct busy_lanes *l, uint64_t key)
{
    lookup_put(&l->keys, key, 0);
}

void busy_lanes_remove(struct busy_lanes *l, uint64_t key)
{
    lookup_drop(&l->keys, key, 0);
}
