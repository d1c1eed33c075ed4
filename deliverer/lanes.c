#include "lanes.h"
#include "alloc.h"
#include "siphash.h"
#include <stdlib.h>

uint64_t lane_key(uint64_t grant, struct bytes text)
{
    uint64_t h = hash_keyed(grant, text.p, text.n);

    return h ? h : 1;
}

void lanes_fini(struct lanes *l)
{
    free(l->keys);
    *l = (struct lanes){0};
}

/* Where it is, or would be. */
static size_t place_of(const struct lanes *l, uint64_t key)
{
    size_t i = key & (l->room - 1);

    while (l->keys[i] && l->keys[i] != key)
        i = (i + 1) & (l->room - 1);
    return i;
}

bool lanes_busy(const struct lanes *l, uint64_t key)
{
    return l->room && l->keys[place_of(l, key)] == key;
}

static void grow(struct lanes *l)
{
    struct lanes larger = {.count = l->count,
                           .room = l->room ? 2 * l->room : 256};

    larger.keys = gr_alloc(larger.room * sizeof *larger.keys);
    for (size_t i = 0; i < l->room; i++)
        if (l->keys[i])
            larger.keys[place_of(&larger, l->keys[i])] = l->keys[i];
    free(l->keys);
    *l = larger;
}

void lanes_take(struct lanes *l, uint64_t key)
{
    if (2 * (l->count + 1) > l->room)
        grow(l);
    l->keys[place_of(l, key)] = key;
    l->count++;
}

/* What stands behind it is put where it now belongs. */
void lanes_give(struct lanes *l, uint64_t key)
{
    size_t i;
    uint64_t moved;

    if (!lanes_busy(l, key))
        return;
    i = place_of(l, key);
    l->keys[i] = 0;
    l->count--;
    for (i = (i + 1) & (l->room - 1); l->keys[i]; i = (i + 1) & (l->room - 1)) {
        moved = l->keys[i];
        l->keys[i] = 0;
        l->keys[place_of(l, moved)] = moved;
    }
}
