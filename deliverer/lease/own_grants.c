/* own_grants: the table of this deliverer's grants, the rows that keep them over a crash,
 * and each grant's way from its first task to its end. */
#include "own_grants.h"
#include "clock.h"
#include "deliverer.h"
#include "grant.h"
#include "log.h"
#include "rows.h"
#include "states.h"
#include "wire.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PURGE_ROWS = 256 }; /* of a grant that has ended, in one turn */

static const struct state state_table[] = {
    [GRANT_OPEN] = {"open", STATE_TO(GRANT_REVOKED)},
    [GRANT_REVOKED] = {"revoked", STATE_TO(GRANT_RELEASED)},
    [GRANT_RELEASED] = {"released", STATE_TO(GRANT_ENDED)},
    [GRANT_ENDED] = {"ended", 0},
};
static const struct states grant_states = {"grant", state_table,
                                           COUNT_OF(state_table)};

const char *grant_state_name(int state)
{
    return states_name(&grant_states, state);
}

/* ---- the table ---- */

struct grant *own_grants_find(const struct deliverer *d, uint64_t id)
{
    size_t at = 0;

    return lookup_get(&d->own_grants.ids, id, &at); /* ids are unique */
}

struct grant *own_grants_named(const struct deliverer *d, const char *name)
{
    uint64_t key = lookup_text(name);
    struct grant *g;

    for (size_t at = 0; (g = lookup_get(&d->own_grants.names, key, &at));)
        if (g->state == GRANT_OPEN && strcmp(g->name, name) == 0)
            return g;
    return NULL;
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

/* `id` must be new. */
static struct grant *add(struct deliverer *d, uint64_t id, struct bytes name)
{
    struct grant *g = gr_alloc(sizeof *g);

    g->id = id;
    wire_copy(g->name, sizeof g->name, name);
    endpoint_init(&g->endpoint);
    LIST_INSERT_HEAD(&d->own_grants.all, g, link);
    lookup_add(&d->own_grants.ids, id, g);
    lookup_add(&d->own_grants.names, lookup_text(g->name), g);
    return g;
}

static void drop(struct deliverer *d, struct grant *g)
{
    lookup_remove(&d->own_grants.ids, g->id, g);
    lookup_remove(&d->own_grants.names, lookup_text(g->name), g);
    LIST_REMOVE(g, link);
    if (g->state != GRANT_OPEN)
        LIST_REMOVE(g, closing_link);
    free(g);
}

/* ---- rows ---- */

/* Call it before the first change of a turn, so that a rollback can restore the grant. */
static void note_kept(struct deliverer *d, struct grant *g)
{
    if (g->turn == d->turn)
        return;
    g->turn = d->turn;
    g->kept.state = g->state;
    g->kept.on_disk = g->on_disk;
    g->kept.released_n = g->released_n;
}

static void write_row(struct deliverer *d, struct grant *g)
{
    note_kept(d, g);
    store_grant_put(&d->store, g->id, g->name, g->state, g->released_n);
    g->on_disk = true;
}

static void on_row(void *self, uint64_t id, const char *name, int state,
                   uint64_t released_n)
{
    struct grant *g = add(self, id, wire_text(name));

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

    if (!g) { /* rows without a grant: purge them */
        g = add(d, id, wire_text("?"));
        g->state = GRANT_ENDED;
    }
    g->endpoint.rows = count;
    g->endpoint.due_ms = due_ms;
    if (retrying)
        throttle_doubt(&g->endpoint.throttle);
    own_grants_count_retries(d, g, retrying);
}

/* Count the rows of tasks, and list the grants that are not OPEN. */
static void read_counts(struct deliverer *d)
{
    store_task_counts(&d->store, on_count, d);
    LIST_INIT(&d->own_grants.closing);
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        if (g->state != GRANT_OPEN)
            LIST_INSERT_HEAD(&d->own_grants.closing, g, closing_link);
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
    read_counts(d);
    d->lease.ask = d->own_grants.ids.used > 0;
}

void own_grants_close(struct deliverer *d)
{
    struct grant *g;

    while ((g = LIST_FIRST(&d->own_grants.all))) {
        endpoint_config_drop(g->endpoint.config);
        drop(d, g);
    }
    lookup_fini(&d->own_grants.ids);
    lookup_fini(&d->own_grants.names);
    d->own_grants = (struct own_grants){0};
}

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
    read_counts(d);
    for (g = own_grants_next(d, NULL); g; g = own_grants_next(d, g))
        endpoint_schedule(&g->endpoint, &d->schedule);
}

/* ---- states ---- */

static void move(struct deliverer *d, struct grant *g, enum grant_state to)
{
    note_kept(d, g);
    if (g->state == GRANT_OPEN)
        LIST_INSERT_HEAD(&d->own_grants.closing, g, closing_link);
    states_transition(&grant_states, &g->state, to, NULL, g->name, NULL);
    write_row(d, g);
}

struct grant *own_grants_take(struct deliverer *d, uint64_t id,
                              struct bytes name)
{
    struct grant *g = own_grants_find(d, id);

    if (!g)
        g = add(d, id, name);
    if (!g->on_disk && g->state != GRANT_ENDED)
        write_row(d, g);
    /* A process that is stopping releases a new grant at once. */
    if (d->daemon.loop.stopping)
        own_grants_revoke(d, g, "stopping");
    return g;
}

void own_grants_set_config(struct deliverer *d, struct grant *g,
                           struct endpoint_config *config)
{
    d->own_grants.confirmed += (config != NULL) - (g->endpoint.config != NULL);
    endpoint_config_drop(g->endpoint.config);
    g->endpoint.config = config;
    endpoint_schedule(&g->endpoint, &d->schedule);
}

void own_grants_revoke(struct deliverer *d, struct grant *g, const char *why)
{
    struct granted_endpoint *e = &g->endpoint;
    struct task *t;

    if (g->state != GRANT_OPEN)
        return;
    log_info(NULL, "releasing an endpoint", LS("endpoint", g->name),
             LS("reason", why), LI("in_flight", e->in_flight),
             LI("rows", e->rows));
    own_grants_count_retries(d, g, -e->scheduled_retries);
    move(d, g, GRANT_REVOKED);
    e->throttle.breaker = (struct breaker){0};
    e->recovered_ms = 0;
    /* Drop its waiting tasks from memory; own_grants_work() deletes their rows. */
    while ((t = endpoint_first(e))) {
        endpoint_remove(e, t);
        e->rows_here -= t->row != 0;
        rows_task_stored(d, t);
        tasks_drop(&d->tasks, t);
    }
    own_grants_set_config(d, g, NULL);
}

void own_grants_revoke_all(struct deliverer *d, const char *why)
{
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        own_grants_revoke(d, g, why);
}

void own_grants_stop(struct deliverer *d)
{
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        if (g->endpoint.taken == 0)
            own_grants_revoke(d, g, "stopping");
}

static void put_released(struct deliverer *d, struct grant *g)
{
    note_kept(d, g);
    g->released_n = result_log_put_released(d, g->id);
}

void own_grants_release_again(struct deliverer *d)
{
    struct grant *g;

    LIST_FOREACH(g, &d->own_grants.closing, closing_link)
    if (g->state == GRANT_RELEASED) {
        put_released(d, g);
        write_row(d, g);
    }
}

/* One step of a grant that is not OPEN. true: nothing of it is left on disk, and it need
 * not be remembered. */
static bool step(struct deliverer *d, struct grant *g, int64_t now)
{
    struct granted_endpoint *e = &g->endpoint;

    if (g->state == GRANT_REVOKED && e->in_flight == 0 && e->taken == 0) {
        put_released(d, g);
        move(d, g, GRANT_RELEASED);
    }
    if (g->state == GRANT_RELEASED &&
        links_cursor(d->daemon.links, SEQUENCER) >= g->released_n) {
        move(d, g, GRANT_ENDED);
        g->ended_ms = now;
    }
    if (g->state >= GRANT_RELEASED && e->rows > 0 &&
        !loop_spent(&d->daemon.loop)) {
        int n = store_tasks_purge(&d->store, g->id, PURGE_ROWS);

        e->rows = n < PURGE_ROWS ? 0 : e->rows - n;
    }
    if (g->state != GRANT_ENDED || e->rows > 0 || g->turn == d->turn)
        return false;
    if (g->on_disk) {
        note_kept(d, g);
        store_grant_gone(&d->store, g->id);
        g->on_disk = false;
        return false;
    }
    return now - g->ended_ms >= grant_lease_ms();
}

void own_grants_work(struct deliverer *d)
{
    struct grant *g = LIST_FIRST(&d->own_grants.closing), *next;
    int64_t now = mono_ms();

    for (; g; g = next) {
        next = LIST_NEXT(g, closing_link);
        if (step(d, g, now))
            drop(d, g);
    }
}

bool own_grants_all_released(const struct deliverer *d)
{
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        if (g->state < GRANT_RELEASED && g->endpoint.taken == 0)
            return false;
    return true;
}
