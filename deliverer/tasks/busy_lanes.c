#include "busy_lanes.h"
#include "siphash.h"

uint64_t lane_key(uint64_t grant, struct bytes text)
{
    uint64_t h = hash_keyed(grant, text.p, text.n);

    return h ? h : 1;
}

void lanes_fini(struct lanes *l)
{
    lookup_fini(&l->keys);
}

bool lanes_busy(const struct lanes *l, uint64_t key)
{
    size_t at = 0;

    return lookup_next(&l->keys, key, &at) != LOOKUP_END;
}

void lanes_take(struct lanes *l, uint64_t key)
{
    lookup_put(&l->keys, key, 0);
}

void lanes_give(struct lanes *l, uint64_t key)
{
    lookup_drop(&l->keys, key, 0);
}
