/* due: reads due rows of tasks into the queues of their endpoints. */
#include "due.h"
#include "backoff.h"
#include "clock.h"
#include "db_sums.h"
#include "deliverer.h"
#include "log.h"

enum {
    FETCH_MAX = 256,  /* due rows read at once, for one endpoint … */
    FETCH_MIN = 16,   /* … and at least so many */
    DAMAGED_MAX = 16, /* found in one look; more are found by the next */
};

struct fetch {
    struct deliverer *d;
    struct grant *grant;
    int64_t now_ms;
    bool early;                   /* rows that are pulled forward */
    bool found;                   /* for due_bring() */
    int64_t damaged[DAMAGED_MAX]; /* rows */
    int damaged_count;
};

/* Make a task of the row. false: memory is full, or there are too many damaged rows. */
static bool bring_in(void *self, const struct task_row *row)
{
    struct fetch *f = self;
    struct task *t;

    if (tasks_find(&f->d->tasks, f->grant, row->event_id))
        return true;
    if (row->damaged) {
        if (f->damaged_count == DAMAGED_MAX)
            return false;
        db_damage_found(row->event_id, db_path(f->d->store.db), "tasks");
        f->damaged[f->damaged_count++] = row->n;
        return true;
    }
    if (tasks_full(&f->d->tasks)) /* asked for each: tasks may be large */
        return false;
    t = task_new(row->message);
    if (!t)
        die(EXIT_STORAGE, "%s: the task in row %lld can't be read",
            db_path(f->d->store.db), (long long)row->n);
    t->grant = f->grant;
    t->row = row->n;
    t->turn = f->d->turn;
    t->retrying = row->retrying;
    t->pulled = f->early && row->next_ms > f->now_ms;
    t->stored = true;
    t->attempts = row->attempts;
    t->first_ms = row->first_ms;
    t->next_ms = row->next_ms;
    t->held_ms = row->held_ms;
    quarantine_mark(f->d, t);
    tasks_add(&f->d->tasks, t);
    endpoint_push(&f->grant->endpoint, t, true);
    f->grant->endpoint.rows_here++;
    return true;
}

/* Delete damaged rows: the sequencer still has the event. It asks about tasks that have had no
 * result for long, and sends again those that this deliverer does not know
 * (sequencer/dispatch/watch.c). */
static void drop_damaged(struct fetch *f)
{
    for (int i = 0; i < f->damaged_count; i++)
        store_task_gone(&f->d->store, f->damaged[i]);
    f->grant->endpoint.rows -= f->damaged_count;
    f->damaged_count = 0;
}

int64_t due_max_ms(const struct deliverer *d, const struct granted_endpoint *e)
{
    int64_t wait_ms;

    if (!e->config)
        return INT64_MAX;
    wait_ms = backoff_longest_ms(&e->config->policy);
    if (wait_ms < e->config->chosen_wait_ms)
        wait_ms = e->config->chosen_wait_ms;
    return d->daemon.loop.now_ms + HOUR_MS + wait_ms;
}

/* Read due retries; after all of these, the retries that were scheduled before the endpoint
 * recovered. Rows whose tasks are in memory already are skipped. */
static void fetch(struct deliverer *d, struct grant *g)
{
    struct granted_endpoint *e = &g->endpoint;
    struct fetch f = {.d = d, .grant = g, .now_ms = d->daemon.loop.now_ms};
    int count = e->throttle.window.size, limit;
    bool all = true;

    count = count > FETCH_MAX   ? FETCH_MAX
            : count < FETCH_MIN ? FETCH_MIN
                                : count;
    limit = (int)e->rows_here + count;
    if (e->config) /* times that a wrong clock wrote */
        all = store_tasks_hasten(&d->store, g->id, due_max_ms(d, e), f.now_ms,
                                 FETCH_MAX) < FETCH_MAX;
    all &= store_tasks_due(&d->store, g->id, f.now_ms, limit, bring_in, &f);
    if (all && e->recovered_ms) {
        f.early = true;
        all = store_tasks_early(&d->store, g->id, e->recovered_ms, limit,
                                bring_in, &f);
        if (all)
            e->recovered_ms = 0;
    }
    drop_damaged(&f);
    e->due_ms = all ? store_next_due(&d->store, g->id, f.now_ms) : f.now_ms;
    endpoint_schedule(e, &d->schedule);
}

static void bring_one_in(void *self, const struct task_row *row)
{
    struct fetch *f = self;

    if (row->grant_id != f->grant->id)
        return;
    f->found = !row->damaged;
    (void)bring_in(f, row);
}

bool due_bring(struct deliverer *d, struct grant *g, const char *event_id)
{
    struct fetch f = {.d = d, .grant = g, .now_ms = INT64_MAX};

    if (g->endpoint.rows == 0)
        return false;
    store_tasks_of_event(&d->store, event_id, bring_one_in, &f);
    drop_damaged(&f);
    endpoint_schedule(&g->endpoint, &d->schedule);
    return f.found;
}

void due_work(struct deliverer *d)
{
    struct due_item *item;

    while (!d->full && !loop_spent(&d->daemon.loop) && !tasks_full(&d->tasks) &&
           (item = due_queue_first(&d->schedule.alarms)) &&
           item->key <= d->daemon.loop.now_ms)
        fetch(d, own_grants_of(
                     DUE_ITEM_OWNER(item, struct granted_endpoint, alarm)));
}

int due_wait_ms(const struct deliverer *d)
{
    struct due_item *item = due_queue_first(&d->schedule.alarms);
    int64_t left;

    /* When memory is full, the next attempt that ends frees space and wakes the loop. */
    if (!item || d->full || tasks_full(&d->tasks))
        return -1;
    left = item->key - now_ms();
    return left < 0 ? 0 : left > MINUTE_MS ? (int)MINUTE_MS : (int)left;
}
