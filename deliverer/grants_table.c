/* The grants in memory, by their ids. */
#include "deliverer.h"
#include "grants_inside.h"
#include "wire.h"
#include <stddef.h>
#include <stdlib.h>

static struct grant **slot_of(const struct grants *s, uint64_t id)
{
    return &s->table[(id ^ id >> 32) & (s->room - 1)]; /* ids are random */
}

static void grow(struct grants *s)
{
    struct grants larger = {.room = s->room ? 2 * s->room : 256};
    struct grant *g, **slot;

    larger.table = gr_alloc(larger.room * sizeof *larger.table);
    for (size_t i = 0; i < s->room; i++)
        while ((g = s->table[i])) {
            s->table[i] = g->table_next;
            slot = slot_of(&larger, g->id);
            g->table_next = *slot;
            *slot = g;
        }
    free(s->table);
    s->table = larger.table;
    s->room = larger.room;
}

struct grant *grants_find(const struct deliverer *d, uint64_t id)
{
    struct grant *g = d->grants.room ? *slot_of(&d->grants, id) : NULL;

    while (g && g->id != id)
        g = g->table_next;
    return g;
}

struct grant *grants_next(const struct deliverer *d, struct grant *g)
{
    const struct grants *s = &d->grants;
    size_t i = 0;

    if (g && g->table_next)
        return g->table_next;
    if (g)
        i = (size_t)(slot_of(s, g->id) - s->table) + 1;
    while (i < s->room && !s->table[i])
        i++;
    return i < s->room ? s->table[i] : NULL;
}

struct grant *grants_of(struct endpoint *e)
{
    return (struct grant *)(void *)((char *)e -
                                    offsetof(struct grant, endpoint));
}

struct grant *grants_add(struct deliverer *d, uint64_t id, struct bytes name)
{
    struct grant *g = gr_alloc(sizeof *g);
    struct grant **slot;

    if (d->grants.count >= d->grants.room)
        grow(&d->grants);
    g->id = id;
    wire_copy(g->name, sizeof g->name, name);
    g->endpoint.due_ms = INT64_MAX;
    slot = slot_of(&d->grants, id);
    g->table_next = *slot;
    *slot = g;
    d->grants.count++;
    return g;
}

void grants_drop(struct deliverer *d, struct grant *g)
{
    struct grant **slot = slot_of(&d->grants, g->id);

    while (*slot != g)
        slot = &(*slot)->table_next;
    *slot = g->table_next;
    d->grants.count--;
    free(g);
}
