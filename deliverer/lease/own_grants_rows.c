/* own_grants_rows: writes the rows of grants, and reads memory from them. */
#include "clock.h"
#include "deliverer.h"
#include "own_grants_inside.h"
#include "wire.h"
#include <stdlib.h>

/* ---- changes ---- */

void own_grants_touch(struct deliverer *d, struct grant *g)
{
    if (g->turn == d->turn)
        return;
    g->turn = d->turn;
    g->kept.state = g->state;
    g->kept.on_disk = g->on_disk;
    g->kept.released_n = g->released_n;
}

void own_grants_write(struct deliverer *d, struct grant *g)
{
    own_grants_touch(d, g);
    store_grant_put(&d->store, g->id, g->name, g->state, g->released_n);
    g->on_disk = true;
}

/* ---- from disk ---- */

static void find_closing(struct deliverer *d)
{
    d->own_grants.closing = NULL;
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        if (g->state != GRANT_OPEN) {
            g->closing_next = d->own_grants.closing;
            d->own_grants.closing = g;
        }
}

static void on_row(void *self, uint64_t id, const char *name, int state,
                   uint64_t released_n)
{
    struct deliverer *d = self;
    struct grant *g = own_grants_add(d, id, wire_text(name));

    g->state = state >= GRANT_OPEN && state <= GRANT_ENDED ? state
                                                           : GRANT_ENDED;
    g->released_n = released_n;
    g->on_disk = true;
    g->ended_ms = mono_ms();
}

static void on_count(void *self, uint64_t id, int64_t count, int64_t retrying,
                     int64_t due_ms)
{
    struct deliverer *d = self;
    struct grant *g = own_grants_find(d, id);

    if (!g) { /* rows whose grant is gone: purge them */
        g = own_grants_add(d, id, wire_text("?"));
        g->state = GRANT_ENDED;
    }
    g->endpoint.rows = count;
    g->endpoint.due_ms = due_ms;
    if (retrying)
        throttle_doubt(&g->endpoint.throttle);
    own_grants_count_retries(d, g, retrying);
}

void own_grants_count_retries(struct deliverer *d, struct grant *g,
                              int64_t more)
{
    if (g->state != GRANT_OPEN)
        return;
    g->endpoint.scheduled_retries += more;
    d->scheduled_retries += more;
}

void own_grants_open(struct deliverer *d)
{
    store_grants(&d->store, on_row, d);
    store_task_counts(&d->store, on_count, d);
    find_closing(d);
    d->own_grants.ask = d->own_grants.ids.used > 0;
}

void own_grants_close(struct deliverer *d)
{
    struct grant *g;

    while ((g = LIST_FIRST(&d->own_grants.all))) {
        endpoint_config_drop(g->endpoint.config);
        own_grants_drop(d, g);
    }
    lookup_fini(&d->own_grants.ids);
    d->own_grants = (struct own_grants){0};
}

/* Read memory again from disk. The queues were emptied before. */
void own_grants_undo(struct deliverer *d)
{
    struct grant *g;

    for (g = own_grants_next(d, NULL); g; g = own_grants_next(d, g)) {
        if (g->turn == d->turn) {
            g->state = g->kept.state;
            g->on_disk = g->kept.on_disk;
            g->released_n = g->kept.released_n;
        }
        g->endpoint.rows = g->endpoint.rows_here =
            g->endpoint.scheduled_retries = 0;
        g->endpoint.due_ms = INT64_MAX;
    }
    d->scheduled_retries = 0;
    store_task_counts(&d->store, on_count, d);
    find_closing(d);
    for (g = own_grants_next(d, NULL); g; g = own_grants_next(d, g))
        endpoint_schedule(&g->endpoint, &d->schedule);
}
