/* lookup: a hash table with open addressing; an entry whose slot is taken gets the
 * next free one. */
#include "lookup.h"
#include "alloc.h"
#include "siphash.h"
#include <stdlib.h>

enum { FIRST_CAPACITY = 16 };

uint64_t lookup_text(const char *text)
{
    return hash_keyed_text(0, text);
}

/* The number of slots from the entry's own slot to this one. */
static size_t slot_at(const struct lookup *l, uint64_t key, size_t n)
{
    return ((key * 0x9e3779b97f4a7c15ULL >> 32) + n) & (l->capacity - 1);
}

static void put(struct lookup *l, struct lookup_slot s)
{
    size_t n = 0;

    while (l->slots[slot_at(l, s.key, n)].after)
        n++;
    l->slots[slot_at(l, s.key, n)] = s;
}

/* At most half of the slots are used, so a search soon reaches a free one. */
static void grow(struct lookup *l)
{
    struct lookup_slot *old = l->slots;
    size_t old_capacity = l->capacity;

    l->capacity = old_capacity ? 2 * old_capacity : FIRST_CAPACITY;
    l->slots = gr_alloc(l->capacity * sizeof *l->slots);
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].after)
            put(l, old[i]);
    free(old);
}

void lookup_put(struct lookup *l, uint64_t key, size_t slot)
{
    if (2 * (l->used + 1) > l->capacity)
        grow(l);
    put(l, (struct lookup_slot){key, slot + 1});
    l->used++;
}

size_t lookup_next(const struct lookup *l, uint64_t key, size_t *at)
{
    while (*at < l->capacity) {
        const struct lookup_slot *s = &l->slots[slot_at(l, key, (*at)++)];

        if (!s->after)
            break;
        if (s->key == key)
            return s->after - 1;
    }
    return LOOKUP_END;
}

/* Entries after the gap that are not in their own slot move up; a search for them would
 * otherwise end at the gap. */
static void close_gap(struct lookup *l, size_t gap)
{
    size_t mask = l->capacity - 1;

    for (size_t i = (gap + 1) & mask; l->slots[i].after; i = (i + 1) & mask) {
        size_t home = slot_at(l, l->slots[i].key, 0);

        if (((i - home) & mask) < ((i - gap) & mask))
            continue;
        l->slots[gap] = l->slots[i];
        gap = i;
    }
    l->slots[gap].after = 0;
}

void lookup_drop(struct lookup *l, uint64_t key, size_t slot)
{
    size_t at = 0, found;

    while ((found = lookup_next(l, key, &at)) != LOOKUP_END) {
        if (found != slot)
            continue;
        close_gap(l, slot_at(l, key, at - 1));
        l->used--;
        return;
    }
}

void lookup_add(struct lookup *l, uint64_t key, const void *thing)
{
    lookup_put(l, key, (uintptr_t)thing);
}

void *lookup_get(const struct lookup *l, uint64_t key, size_t *at)
{
    size_t found = lookup_next(l, key, at);

    return found == LOOKUP_END ? NULL : (void *)found;
}

void lookup_remove(struct lookup *l, uint64_t key, const void *thing)
{
    lookup_drop(l, key, (uintptr_t)thing);
}

void *lookup_walk(const struct lookup *l, size_t *at)
{
    while (*at < l->capacity)
        if (l->slots[(*at)++].after)
            return (void *)(l->slots[*at - 1].after - 1);
    return NULL;
}

void lookup_fini(struct lookup *l)
{
    free(l->slots);
    *l = (struct lookup){0};
}
