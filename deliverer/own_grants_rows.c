/* Grants as the disk has them: their rows, and memory read again from those. */
#include "clock.h"
#include "deliverer.h"
#include "grants_inside.h"
#include "wire.h"
#include <stdlib.h>

/* ---- changes ---- */

void grants_touch(struct deliverer *d, struct grant *g)
{
    if (g->turn == d->turn)
        return;
    g->turn = d->turn;
    g->kept.state = g->state;
    g->kept.on_disk = g->on_disk;
    g->kept.drained_n = g->drained_n;
}

void grants_write(struct deliverer *d, struct grant *g)
{
    grants_touch(d, g);
    store_grant_put(&d->store, g->id, g->name, g->state, g->drained_n);
    g->on_disk = true;
}

/* ---- from disk ---- */

static void find_closing(struct deliverer *d)
{
    d->grants.closing = NULL;
    for (struct grant *g = grants_next(d, NULL); g; g = grants_next(d, g))
        if (g->state != GRANT_OPEN) {
            g->closing_next = d->grants.closing;
            d->grants.closing = g;
        }
}

static void on_row(void *self, uint64_t id, const char *name, int state,
                   uint64_t drained_n)
{
    struct deliverer *d = self;
    struct grant *g = grants_add(d, id, wire_text(name));

    g->state = state >= GRANT_OPEN && state <= GRANT_OVER ? state : GRANT_OVER;
    g->drained_n = drained_n;
    g->on_disk = true;
    g->over_ms = mono_ms();
}

static void on_count(void *self, uint64_t id, int64_t count, int64_t parked,
                     int64_t due_ms)
{
    struct deliverer *d = self;
    struct grant *g = grants_find(d, id);

    if (!g) { /* rows whose grant is gone: purge them */
        g = grants_add(d, id, wire_text("?"));
        g->state = GRANT_OVER;
    }
    g->endpoint.rows = count;
    g->endpoint.due_ms = due_ms;
    if (parked)
        gate_doubt(&g->endpoint.gate);
    grants_count_parked(d, g, parked);
}

void grants_count_parked(struct deliverer *d, struct grant *g, int64_t more)
{
    if (g->state != GRANT_OPEN)
        return;
    g->endpoint.parked += more;
    d->parked_rows += more;
}

void grants_open(struct deliverer *d)
{
    store_grants(&d->store, on_row, d);
    store_task_counts(&d->store, on_count, d);
    find_closing(d);
    d->grants.ask = d->grants.count > 0;
}

void grants_close(struct deliverer *d)
{
    struct grant *g;

    for (size_t i = 0; i < d->grants.room; i++)
        while ((g = d->grants.table[i])) {
            d->grants.table[i] = g->table_next;
            endpoint_config_drop(g->endpoint.config);
            free(g);
        }
    free(d->grants.table);
    d->grants = (struct grants){0};
}

/* Memory as the disk has it. The queues were emptied before. */
void grants_undo(struct deliverer *d)
{
    struct grant *g;

    for (g = grants_next(d, NULL); g; g = grants_next(d, g)) {
        if (g->turn == d->turn) {
            g->state = g->kept.state;
            g->on_disk = g->kept.on_disk;
            g->drained_n = g->kept.drained_n;
        }
        g->endpoint.rows = g->endpoint.rows_here = g->endpoint.parked = 0;
        g->endpoint.due_ms = INT64_MAX;
    }
    d->parked_rows = 0;
    store_task_counts(&d->store, on_count, d);
    find_closing(d);
    for (g = grants_next(d, NULL); g; g = grants_next(d, g))
        endpoint_schedule(&g->endpoint, &d->schedule);
}
