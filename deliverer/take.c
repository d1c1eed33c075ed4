#include "take.h"
#include "clock.h"
#include "deliverer.h"
#include "log.h"
#include "outcome.h"
#include "wire.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A task that has not ended after this gets a row, so that the hop's place
     * can move on; most end before and never cost one. */
    OPEN_MS = 50,
    OPEN_SPAN = 1024, /* the same when so many numbers wait behind it */
    /* Of all tasks in memory; past it a new one goes to disk at once. */
    MEMORY_COUNT = 32 * 1024,
    MEMORY_BYTES = 64 * 1024 * 1024,
    /* So many of an endpoint's tasks that wait stay in memory when they get
     * rows: about what the sequencer hands out ahead. */
    WAITING_LEAST = 256,
    WAITING_TIMES = 2, /* of what may be in flight */
    FETCH_MAX = 256,   /* due rows brought in at once, for one endpoint … */
    FETCH_LEAST = 16,  /* … and at least so many */
};

/* ---- numbers ---- */

/* Before the first change of this turn. */
static void touch(struct deliverer *d)
{
    if (d->settle_turn == d->turn)
        return;
    d->settle_turn = d->turn;
    d->settle_kept = d->settle;
}

void take_settled(struct deliverer *d, struct task *t)
{
    if (t->settled)
        return;
    touch(d);
    settle_done(&d->settle, t->number);
    t->settled = true;
    t->closed_turn = d->turn;
    tasks_close(&d->tasks, t);
}

/* ---- rows ---- */

void take_row(struct deliverer *d, struct task *t, const struct task_row *row)
{
    t->row = store_task_put(&d->store, row);
    t->row_turn = d->turn;
    t->grant->endpoint.rows++;
    t->grant->endpoint.rows_here++;
}

/* Forget it here: its row is enough, and is due at once. */
static void evict(struct deliverer *d, struct task *t)
{
    struct endpoint *e = &t->grant->endpoint;

    endpoint_remove(e, t);
    e->rows_here--;
    endpoint_row_due(e, t->next_ms);
    tasks_drop(&d->tasks, t);
    endpoint_schedule(e, &d->schedule);
}

static int kept_waiting(const struct endpoint *e)
{
    int n = e->config ? WAITING_TIMES * e->config->max_in_flight : 0;

    return e->config && n < WAITING_LEAST ? WAITING_LEAST : n;
}

static void to_row(struct deliverer *d, struct task *t)
{
    const struct endpoint *e = &t->grant->endpoint;
    struct task_row row = {.grant = t->grant->id,
                           .event_id = t->event_id,
                           .attempts = t->attempts,
                           .first_ms = t->first_ms,
                           .next_ms = t->next_ms,
                           .message = {t->bytes, t->bytes_count}};

    if (row.next_ms <= 0)
        row.next_ms = t->next_ms = d->daemon.loop.now_ms;
    take_row(d, t, &row);
    take_settled(d, t);
    if (t->state == TASK_WAITING && e->fresh.count > kept_waiting(e))
        evict(d, t);
}

static void all_to_rows(struct deliverer *d)
{
    while (d->tasks.open_first)
        to_row(d, d->tasks.open_first);
}

/* ---- messages ---- */

static bool too_much(const struct deliverer *d)
{
    return d->tasks.count >= MEMORY_COUNT || d->tasks.bytes >= MEMORY_BYTES;
}

/* It is here already: from before a crash, or the link was set back. */
static bool known(struct deliverer *d, const struct task *t)
{
    struct task_row row;

    if (tasks_find(&d->tasks, t->grant, t->event_id))
        return true;
    return t->grant->endpoint.rows > 0 &&
           store_task_find(&d->store, t->grant->id, t->event_id, &row);
}

static void keep_as_row(struct deliverer *d, struct task *t)
{
    struct endpoint *e = &t->grant->endpoint;
    struct task_row row = {.grant = t->grant->id,
                           .event_id = t->event_id,
                           .attempts = t->attempts,
                           .first_ms = t->first_ms,
                           .next_ms = t->next_ms,
                           .parked = t->attempts > 0,
                           .message = {t->bytes, t->bytes_count}};

    row.early_ms = d->daemon.loop.now_ms;
    if (row.next_ms <= 0)
        row.next_ms = d->daemon.loop.now_ms;
    store_task_put(&d->store, &row);
    grants_count_parked(d, t->grant, row.parked);
    if (row.parked)
        gate_doubt(&e->gate);
    e->rows++;
    endpoint_row_due(e, row.next_ms);
    endpoint_schedule(e, &d->schedule);
    d->grants.ask = d->grants.ask || !e->config;
}

/* A retry whose time passed elsewhere: its home was away, or the sequencer. */
static bool is_late(struct deliverer *d, struct task *t)
{
    int64_t late_ms = d->daemon.loop.now_ms - t->next_ms;

    if (t->attempts == 0 || t->next_ms <= 0)
        return false;
    gate_late(&t->grant->endpoint.gate, late_ms, mono_us());
    return true;
}

static void keep_here(struct deliverer *d, struct task *t, uint64_t n)
{
    struct endpoint *e = &t->grant->endpoint;

    t->number = n;
    t->turn = d->turn;
    care_meets(d, t);
    t->taken_ms = d->daemon.loop.mono_ms;
    tasks_add(&d->tasks, t);
    tasks_open(&d->tasks, t);
    endpoint_push(e, t, is_late(d, t));
    endpoint_schedule(e, &d->schedule);
    d->grants.ask = d->grants.ask || !e->config;
}

/* Number n is on disk, or there is nothing of it to keep. */
static void nothing_kept(struct deliverer *d, uint64_t n)
{
    settle_done(&d->settle, n);
}

static gr_rc take_task(struct deliverer *d, uint64_t n, struct bytes msg)
{
    struct task *t = task_new(msg), *here;

    if (!t) {
        nothing_kept(d, n);
        return GR_REFUSE;
    }
    t->grant = grants_take(d, t->w.grant, t->w.endpoint);
    if (t->grant->state != GRANT_OPEN) {
        nothing_kept(d, n); /* its end covers this one too */
        task_free(t);
    } else if (known(d, t)) {
        here = tasks_find(&d->tasks, t->grant, t->event_id);
        if (!here || here->settled || here->number != n)
            nothing_kept(d, n);
        task_free(t);
    } else if (care_ends(d, t)) {
        nothing_kept(d, n);
        task_free(t);
    } else if (t->next_ms > d->daemon.loop.now_ms || too_much(d)) {
        keep_as_row(d, t);
        nothing_kept(d, n);
        task_free(t);
    } else {
        keep_here(d, t, n);
    }
    return GR_OK;
}

static gr_rc take_recalled(struct deliverer *d, uint64_t n, struct bytes msg)
{
    struct wire_recalled r;
    struct grant *g;

    nothing_kept(d, n);
    if (wire_get_recalled(&r, msg) != GR_OK || !r.grant)
        return GR_REFUSE;
    /* One we do not know is answered too: the sequencer waits for it. */
    g = grants_take(d, r.grant, wire_text("?"));
    grants_recall(d, g, "recalled");
    return GR_OK;
}

static const char final_elsewhere[] = "final elsewhere";

static void drop_here(struct deliverer *d, struct task *t)
{
    struct grant *g = t->grant;

    if (t->state != TASK_WAITING) { /* what comes of it is the answer … */
        t->dropped = true;
        if (!t->row && t->state != TASK_ENDED)
            to_row(d, t); /* … also after a kill, when the drop is past */
        return;
    }
    outcome_release(d, g, t->event_id, t->attempts, t->first_ms,
                    final_elsewhere);
    if (t->row) {
        store_task_gone(&d->store, t->row);
        g->endpoint.rows--;
        g->endpoint.rows_here--;
        grants_count_parked(d, g, -(int)t->parked);
    }
    endpoint_remove(&g->endpoint, t);
    take_settled(d, t);
    tasks_drop(&d->tasks, t);
    endpoint_schedule(&g->endpoint, &d->schedule);
}

/* What is neither here nor a row has ended, or never came (its task had ended
 * before it left): a second answer does no harm, none would keep its place in
 * the window. */
static void drop_row(struct deliverer *d, struct grant *g, const char *event_id)
{
    struct task_row row;

    if (g->endpoint.rows == 0 ||
        !store_task_find(&d->store, g->id, event_id, &row)) {
        outcome_release(d, g, event_id, 0, 0, final_elsewhere);
        return;
    }
    store_task_gone(&d->store, row.n);
    g->endpoint.rows--;
    grants_count_parked(d, g, -(int)row.parked);
    outcome_release(d, g, event_id, row.attempts, row.first_ms,
                    final_elsewhere);
    endpoint_schedule(&g->endpoint, &d->schedule);
}

static gr_rc take_dropped(struct deliverer *d, uint64_t n, struct bytes msg)
{
    char event_id[EVENT_ID_BYTES + 1];
    struct wire_dropped w;
    struct grant *g;
    struct task *t;

    nothing_kept(d, n);
    if (wire_get_dropped(&w, msg) != GR_OK || w.event_id.n > EVENT_ID_BYTES)
        return GR_REFUSE;
    wire_copy(event_id, sizeof event_id, w.event_id);
    /* One that we do not know yet is answered too: it may be ours. */
    g = grants_take(d, w.grant, w.endpoint);
    if (g->state != GRANT_OPEN)
        return GR_OK; /* its `drained` is the answer */
    t = tasks_find(&d->tasks, g, event_id);
    if (t)
        drop_here(d, t);
    else
        drop_row(d, g, event_id);
    return GR_OK;
}

gr_rc take_message(void *self, const char *from, uint64_t n, struct bytes msg)
{
    struct deliverer *d = self;
    int kind = wire_kind(msg);

    if (strcmp(from, SEQUENCER) != 0)
        return GR_REFUSE;
    if ((d->full || d->low) && kind == WIRE_KIND_TASK)
        return GR_AGAIN;
    /* Numbers that nobody holds move the hop's place past what we still have
     * only here. */
    if (n > d->settle.taken + 1)
        all_to_rows(d);
    touch(d);
    switch (settle_take(&d->settle, n)) {
    case GR_AGAIN:
        d->settle_all = true;
        return GR_AGAIN;
    case GR_REFUSE:
        return GR_OK; /* on disk since before a crash */
    case GR_OK:
        break;
    }
    if (kind == WIRE_KIND_TASK)
        return take_task(d, n, msg);
    if (kind == WIRE_KIND_RECALLED)
        return take_recalled(d, n, msg);
    if (kind == WIRE_KIND_DROPPED)
        return take_dropped(d, n, msg);
    nothing_kept(d, n);
    return GR_REFUSE;
}

/* One end came back from an older copy. Numbers mean nothing any more, and
 * neither side can know what the other has of each grant: all that was taken is
 * given back, and what is unfinished comes again under new grants. */
void take_set_back(void *self, const char *peer, bool we_are_older)
{
    struct deliverer *d = self;
    struct hop_link link;
    int at = 0;

    (void)we_are_older;
    if (strcmp(peer, SEQUENCER) != 0)
        return;
    all_to_rows(d);
    touch(d);
    while (hop_links(d->daemon.hop, &at, &link))
        if (!link.out && strcmp(link.peer, SEQUENCER) == 0)
            settle_init(&d->settle, link.done);
    store_settled_set(&d->store, &d->settle);
    grants_recall_all(d, "the link was set back");
    grants_drain_again(d);
}

/* ---- the turn ---- */

static void settle_old(struct deliverer *d)
{
    int64_t now = d->daemon.loop.mono_ms;
    struct task *t;

    while ((t = d->tasks.open_first) &&
           (d->settle_all || settle_span(&d->settle) > OPEN_SPAN ||
            (now - t->taken_ms >= OPEN_MS && !loop_spent(&d->daemon.loop))))
        to_row(d, t);
    d->settle_all = false;
}

void take_work(struct deliverer *d)
{
    if (!d->full)
        settle_old(d);
    if (d->settle_turn == d->turn && settle_ahead(&d->settle))
        store_settled_set(&d->store, &d->settle);
    /* With nothing open, all that the hop has taken is done with; it knows of
     * numbers that never came here. */
    hop_settle(d->daemon.hop, SEQUENCER,
               settle_span(&d->settle) ? d->settle.base : INT64_MAX);
}

int take_wait_ms(const struct deliverer *d)
{
    int64_t left;

    if (!d->tasks.open_first)
        return -1;
    left = d->tasks.open_first->taken_ms + OPEN_MS - mono_ms();
    return left < 0 ? 0 : (int)left;
}

/* ---- rows that are due ---- */

struct fetch {
    struct deliverer *d;
    struct grant *grant;
    int64_t now_ms;
    bool early; /* they are pulled forward */
    bool found;
};

static bool bring_in(void *self, const struct task_row *row)
{
    struct fetch *f = self;
    struct task *t;

    if (tasks_find(&f->d->tasks, f->grant, row->event_id))
        return true;
    if (too_much(f->d)) /* they may be large: looked at for each */
        return false;
    t = task_new(row->message);
    if (!t)
        die(EXIT_STORAGE, "%s: the task in row %lld can't be read",
            db_path(f->d->store.db), (long long)row->n);
    t->grant = f->grant;
    t->row = row->n;
    t->turn = f->d->turn;
    t->parked = row->parked;
    t->pulled = f->early && row->next_ms > f->now_ms;
    t->settled = true;
    t->attempts = row->attempts;
    t->first_ms = row->first_ms;
    t->next_ms = row->next_ms;
    care_meets(f->d, t);
    tasks_add(&f->d->tasks, t);
    endpoint_push(&f->grant->endpoint, t, true);
    f->grant->endpoint.rows_here++;
    return true;
}

static int fetch_count(const struct endpoint *e)
{
    int n = e->gate.window.size;

    return n > FETCH_MAX ? FETCH_MAX : n < FETCH_LEAST ? FETCH_LEAST : n;
}

/* What is due; and when that is all in, what was parked when its endpoint
 * recovered. Those in memory may be among the rows: read past them. */
static void fetch(struct deliverer *d, struct grant *g)
{
    struct endpoint *e = &g->endpoint;
    struct fetch f = {.d = d, .grant = g, .now_ms = d->daemon.loop.now_ms};
    int limit = (int)e->rows_here + fetch_count(e);
    bool all = store_tasks_due(&d->store, g->id, f.now_ms, limit, bring_in, &f);

    if (all && e->recovered_ms) {
        f.early = true;
        all = store_tasks_early(&d->store, g->id, e->recovered_ms, limit,
                                bring_in, &f);
        if (all)
            e->recovered_ms = 0;
    }
    e->due_ms = all ? store_next_due(&d->store, g->id, f.now_ms) : f.now_ms;
    endpoint_schedule(e, &d->schedule);
}

static void bring_one_in(void *self, const struct task_row *row)
{
    struct fetch *f = self;

    if (row->grant != f->grant->id)
        return;
    f->found = true;
    (void)bring_in(f, row);
}

bool take_row_of(struct deliverer *d, struct grant *g, const char *event_id)
{
    struct fetch f = {.d = d, .grant = g, .now_ms = INT64_MAX};

    if (g->endpoint.rows == 0)
        return false;
    store_tasks_of_event(&d->store, event_id, bring_one_in, &f);
    endpoint_schedule(&g->endpoint, &d->schedule);
    return f.found;
}

static struct endpoint *endpoint_of(struct heap_item *item)
{
    return (struct endpoint *)(void *)((char *)item -
                                       offsetof(struct endpoint, alarm));
}

void take_due_rows(struct deliverer *d)
{
    struct heap_item *item;

    while (!d->full && !loop_spent(&d->daemon.loop) && !too_much(d) &&
           (item = heap_first(&d->schedule.alarms)) &&
           item->key <= d->daemon.loop.now_ms)
        fetch(d, grants_of(endpoint_of(item)));
}

int take_due_wait_ms(const struct deliverer *d)
{
    struct heap_item *item = heap_first(&d->schedule.alarms);
    int64_t left;

    if (!item || d->full ||
        too_much(d)) /* what ends makes room, and wakes us */
        return -1;
    left = item->key - now_ms();
    return left < 0 ? 0 : left > MINUTE_MS ? (int)MINUTE_MS : (int)left;
}

/* ---- after a rolled back turn ---- */

static void undo_one(void *self, struct task *t)
{
    struct deliverer *d = self;

    if (t->state == TASK_WAITING) { /* it comes again, or is a row */
        endpoint_remove(&t->grant->endpoint, t);
        tasks_drop(&d->tasks, t);
        return;
    }
    if (t->row && t->row_turn == d->turn)
        t->row = 0;
    if (t->settled && t->closed_turn == d->turn) {
        t->settled = false;
        tasks_open(&d->tasks, t);
    }
}

static void count_rows_here(void *self, struct task *t)
{
    (void)self;
    t->grant->endpoint.rows_here += t->row != 0;
}

void take_undo(struct deliverer *d)
{
    if (d->settle_turn == d->turn)
        d->settle = d->settle_kept;
    tasks_each(&d->tasks, undo_one, d);
    grants_undo(d);
    tasks_each(&d->tasks, count_rows_here, d);
}
