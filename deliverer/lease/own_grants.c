/* own_grants: the states of a grant, from its first task to its end. */
#include "own_grants.h"
#include "clock.h"
#include "deliverer.h"
#include "grant.h"
#include "log.h"
#include "own_grants_inside.h"
#include "rows.h"
#include "states.h"

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

static void move(struct deliverer *d, struct grant *g, enum grant_state to)
{
    own_grants_touch(d, g);
    if (g->state == GRANT_OPEN) {
        g->closing_next = d->own_grants.closing;
        d->own_grants.closing = g;
    }
    states_transition(&grant_states, &g->state, to, NULL, g->name, NULL);
    own_grants_write(d, g);
}

struct grant *own_grants_take(struct deliverer *d, uint64_t id,
                              struct bytes name)
{
    struct grant *g = own_grants_find(d, id);

    if (!g)
        g = own_grants_add(d, id, name);
    if (!g->on_disk && g->state != GRANT_ENDED)
        own_grants_write(d, g);
    /* This process is stopping: it releases at once what it is granted now. */
    if (d->daemon.loop.stopping)
        own_grants_revoke(d, g, "stopping");
    return g;
}

/* ---- giving back ---- */

/* Drop its waiting tasks from memory; their rows are purged later. */
static void forget_queue(struct deliverer *d, struct granted_endpoint *e)
{
    struct task *t;

    while ((t = e->fresh.first ? e->fresh.first : e->due.first)) {
        endpoint_remove(e, t);
        e->rows_here -= t->row != 0;
        rows_task_stored(d, t);
        tasks_drop(&d->tasks, t);
    }
}

void own_grants_revoke(struct deliverer *d, struct grant *g, const char *why)
{
    if (g->state != GRANT_OPEN)
        return;
    log_info(NULL, "releasing an endpoint", LS("endpoint", g->name),
             LS("reason", why), LI("in_flight", g->endpoint.in_flight),
             LI("rows", g->endpoint.rows));
    own_grants_count_retries(d, g, -g->endpoint.scheduled_retries);
    move(d, g, GRANT_REVOKED);
    g->endpoint.throttle.breaker = (struct breaker){0};
    g->endpoint.recovered_ms = 0;
    forget_queue(d, &g->endpoint);
    own_grants_set_config(d, g, NULL);
}

void own_grants_revoke_all(struct deliverer *d, const char *why)
{
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        own_grants_revoke(d, g, why);
}

static void put_released(struct deliverer *d, struct grant *g)
{
    own_grants_touch(d, g);
    g->released_n = result_log_put_released(d, g->id);
}

void own_grants_release_again(struct deliverer *d)
{
    for (struct grant *g = d->own_grants.closing; g; g = g->closing_next)
        if (g->state == GRANT_RELEASED) {
            put_released(d, g);
            own_grants_write(d, g);
        }
}

static void purge(struct deliverer *d, struct grant *g)
{
    int n;

    if (g->state < GRANT_RELEASED || g->endpoint.rows <= 0 ||
        loop_spent(&d->daemon.loop))
        return;
    n = store_tasks_purge(&d->store, g->id, PURGE_ROWS);
    g->endpoint.rows = n < PURGE_ROWS ? 0 : g->endpoint.rows - n;
}

/* One step of a grant that is not OPEN. true: nothing of it is left on disk or in
 * memory. */
static bool step(struct deliverer *d, struct grant *g, int64_t now)
{
    if (g->state == GRANT_REVOKED && g->endpoint.in_flight == 0) {
        put_released(d, g);
        move(d, g, GRANT_RELEASED);
    }
    if (g->state == GRANT_RELEASED &&
        links_cursor(d->daemon.links, SEQUENCER) >= g->released_n) {
        move(d, g, GRANT_ENDED);
        g->ended_ms = now;
    }
    purge(d, g);
    if (g->state != GRANT_ENDED || g->endpoint.rows > 0 || g->turn == d->turn)
        return false;
    if (g->on_disk) {
        own_grants_touch(d, g);
        store_grant_gone(&d->store, g->id);
        g->on_disk = false;
        return false;
    }
    return now - g->ended_ms >= grant_lease_ms();
}

void own_grants_work(struct deliverer *d)
{
    struct grant *g, **link = &d->own_grants.closing;
    int64_t now = mono_ms();

    own_grants_lapse(d, now);
    while ((g = *link)) {
        if (!step(d, g, now)) {
            link = &g->closing_next;
            continue;
        }
        *link = g->closing_next;
        own_grants_drop(d, g);
    }
}

bool own_grants_all_released(const struct deliverer *d)
{
    for (struct grant *g = own_grants_next(d, NULL); g;
         g = own_grants_next(d, g))
        if (g->state < GRANT_RELEASED)
            return false;
    return true;
}
