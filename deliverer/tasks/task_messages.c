/* task_messages: one function for each kind of message: task, revoke, dropped, retry_now,
 * check. */
#include "task_messages.h"
#include "clock.h"
#include "deliverer.h"
#include "due.h"
#include "outcome.h"
#include "rows.h"
#include "wire.h"
#include <string.h>

/* Due tasks of one endpoint in memory up to which an operator's retry is read at once. */
enum { READ_AT_ONCE_MAX = 256 };

/* ---- tasks ---- */

/* The event is a task or a row here. After a crash, or when the link was rewound, the
 * sequencer sends tasks again. */
static bool is_known(struct deliverer *d, const struct grant *g,
                     const char *event_id)
{
    struct task_row row;

    return tasks_find(&d->tasks, g, event_id) ||
           (g->endpoint.rows > 0 &&
            store_task_find(&d->store, g->id, event_id, &row));
}

static void keep_here(struct deliverer *d, struct task *t, uint64_t n)
{
    struct granted_endpoint *e = &t->grant->endpoint;
    bool retry = t->attempts > 0 && t->next_ms > 0;

    t->number = n;
    t->turn = d->turn;
    quarantine_mark(d, t);
    t->taken_ms = d->daemon.loop.mono_ms;
    tasks_add(&d->tasks, t);
    tasks_add_unstored(&d->tasks, t);
    /* Its time may have passed while its former owner or the sequencer was down. */
    if (retry)
        throttle_late(&e->throttle, d->daemon.loop.now_ms - t->next_ms,
                      mono_us());
    endpoint_push(e, t, retry);
    endpoint_schedule(e, &d->schedule);
    d->lease.ask = d->lease.ask || !e->config;
}

static gr_rc take_task(struct deliverer *d, uint64_t n, struct bytes msg)
{
    struct task *t = task_new(msg), *here;

    if (!t) {
        rows_number_done(d, n);
        return GR_REFUSE;
    }
    t->grant = own_grants_take(d, t->w.grant, t->w.endpoint);
    if (t->grant->endpoint.throttle.restored)
        t->held_ms = hold_total_ms(&t->grant->endpoint.throttle.hold,
                                   d->daemon.loop.now_ms);
    if (t->grant->state != GRANT_OPEN) {
        rows_number_done(d, n); /* the grant's `released` covers this task */
        task_free(t);
    } else if (is_known(d, t->grant, t->event_id)) {
        here = tasks_find(&d->tasks, t->grant, t->event_id);
        if (!here || here->stored || here->number != n)
            rows_number_done(d, n);
        task_free(t);
    } else if (quarantine_ends(d, t)) {
        rows_number_done(d, n);
        task_free(t);
    } else if (t->next_ms > d->daemon.loop.now_ms || tasks_full(&d->tasks) ||
               endpoint_is_pulled(&t->grant->endpoint)) {
        rows_keep(d, t);
        rows_number_done(d, n);
        task_free(t);
    } else {
        keep_here(d, t, n);
    }
    return GR_OK;
}

static gr_rc take_revoke(struct deliverer *d, uint64_t n, struct bytes msg)
{
    struct wire_revoke r;
    struct grant *g;

    rows_number_done(d, n);
    if (wire_get_revoke(&r, msg) != GR_OK || !r.grant)
        return GR_REFUSE;
    /* The sequencer waits for `released` also from a deliverer that does not know the
     * grant yet. */
    g = own_grants_take(d, r.grant, wire_text("?"));
    own_grants_revoke(d, g, "revoked");
    return GR_OK;
}

/* ---- deliveries that are final elsewhere ---- */

static const char final_elsewhere[] = "ended elsewhere";

static void drop_here(struct deliverer *d, struct task *t)
{
    struct grant *g = t->grant;

    if (t->state !=
        TASK_WAITING) { /* the result of its attempt is the response */
        t->dropped = true;
        /* After a crash this message is not sent again, but the attempt is made again,
         * so that there is a result. */
        if (!t->row && t->state != TASK_ENDED)
            rows_write(d, t);
        return;
    }
    outcome_put_dropped(d, g, t->event_id, t->attempts, t->first_ms,
                        final_elsewhere);
    if (t->row) {
        rows_gone(d, g, t->row, t->retrying);
        g->endpoint.rows_here--;
    }
    endpoint_remove(&g->endpoint, t);
    rows_task_stored(d, t);
    tasks_drop(&d->tasks, t);
    endpoint_schedule(&g->endpoint, &d->schedule);
}

/* A task that is neither in memory nor a row has ended, or was never received. A second
 * response does no harm; without one the delivery would stay in the sequencer's window. */
static void drop_row(struct deliverer *d, struct grant *g, const char *event_id)
{
    struct task_row row;

    if (g->endpoint.rows == 0 ||
        !store_task_find(&d->store, g->id, event_id, &row)) {
        outcome_put_dropped(d, g, event_id, 0, 0, final_elsewhere);
        return;
    }
    if (row.next_ms == TASK_TAKEN_MS) { /* its end is the response */
        takes_note_dropped(d, row.n);
        return;
    }
    rows_gone(d, g, row.n, row.retrying);
    outcome_put_dropped(d, g, event_id, row.attempts, row.first_ms,
                        final_elsewhere);
    endpoint_schedule(&g->endpoint, &d->schedule);
}

static gr_rc take_dropped(struct deliverer *d, uint64_t n, struct bytes msg)
{
    char event_id[EVENT_ID_BYTES + 1];
    struct wire_dropped w;
    struct grant *g;
    struct task *t;

    rows_number_done(d, n);
    if (wire_get_dropped(&w, msg) != GR_OK || w.event_id.n > EVENT_ID_BYTES)
        return GR_REFUSE;
    wire_copy(event_id, sizeof event_id, w.event_id);
    /* The sequencer waits for a response even if this deliverer does not know the grant
     * yet. */
    g = own_grants_take(d, w.grant, w.endpoint);
    if (g->state != GRANT_OPEN)
        return GR_OK; /* the grant's `released` is the response */
    t = tasks_find(&d->tasks, g, event_id);
    if (t)
        drop_here(d, t);
    else
        drop_row(d, g, event_id);
    return GR_OK;
}

/* ---- an operator's retry ---- */

/* The row is due as of now on disk, so a kill before the attempt loses nothing.
 * Only a few rows are brought into memory here; due_work() takes the rest in order. */
static void retry_row(struct deliverer *d, struct grant *g,
                      const char *event_id)
{
    struct granted_endpoint *e = &g->endpoint;
    int64_t now = d->daemon.loop.now_ms;
    struct task_row row;
    struct task *t;

    if (e->rows == 0 || !store_task_find(&d->store, g->id, event_id, &row))
        return; /* it has ended: the sequencer receives the result */
    store_task_due_now(&d->store, row.n, now);
    if (row.next_ms == TASK_TAKEN_MS)
        return;
    if (endpoint_is_pulled(e) || e->due.count >= READ_AT_ONCE_MAX ||
        tasks_full(&d->tasks) || !due_bring(d, g, event_id)) {
        endpoint_row_due(e, now);
        return;
    }
    t = tasks_find(&d->tasks, g, event_id);
    if (t)
        endpoint_put_first(e, t);
}

static gr_rc take_retry_now(struct deliverer *d, uint64_t n, struct bytes msg)
{
    char event_id[EVENT_ID_BYTES + 1];
    struct wire_retry_now w;
    struct granted_endpoint *e;
    struct grant *g;
    struct task *t;

    rows_number_done(d, n);
    if (wire_get_retry_now(&w, msg) != GR_OK || w.event_id.n > EVENT_ID_BYTES)
        return GR_REFUSE;
    wire_copy(event_id, sizeof event_id, w.event_id);
    g = own_grants_find(d, w.grant);
    if (!g || g->state != GRANT_OPEN)
        return GR_OK; /* under its next grant the task is sent as due */
    e = &g->endpoint;
    t = tasks_find(&d->tasks, g, event_id);
    if (!t) {
        retry_row(d, g, event_id);
    } else if (t->state == TASK_WAITING) {
        if (t->row)
            store_task_due_now(&d->store, t->row, d->daemon.loop.now_ms);
        endpoint_put_first(e, t);
    }
    /* If the breaker is open, this delivery is the next probe, now. */
    breaker_due(&e->throttle.breaker, mono_us());
    endpoint_schedule(e, &d->schedule);
    return GR_OK;
}

/* ---- deliveries that the sequencer asks about ---- */

/* A task that waits, is in flight or has ended in this turn is known. The result of a task
 * that ended earlier is in the log before this response, so the sequencer applies it first. */
static gr_rc take_check(struct deliverer *d, uint64_t n, struct bytes msg)
{
    char event_id[EVENT_ID_BYTES + 1];
    struct wire_check w;
    struct grant *g;

    rows_number_done(d, n);
    if (wire_get_check(&w, msg) != GR_OK || w.event_id.n > EVENT_ID_BYTES ||
        !w.grant)
        return GR_REFUSE;
    wire_copy(event_id, sizeof event_id, w.event_id);
    g = own_grants_take(d, w.grant, w.endpoint);
    /* Otherwise the grant's `released` is the response. */
    if (g->state == GRANT_OPEN && !is_known(d, g, event_id))
        result_log_put_missing(d, g, event_id, w.task);
    return GR_OK;
}

/* ---- the link ---- */

gr_rc task_messages_apply(void *self, const char *from, uint64_t n,
                          struct bytes msg)
{
    struct deliverer *d = self;
    int kind = wire_kind(msg);

    if (strcmp(from, SEQUENCER) != 0)
        return GR_REFUSE;
    if ((d->full || d->low) && kind == WIRE_KIND_TASK)
        return GR_AGAIN;
    /* A gap in the numbers moves the link's cursor past tasks that are only in memory:
     * write them first. */
    if (n > d->numbers.taken + 1)
        rows_write_all(d);
    switch (rows_number_received(d, n, links_epoch(d->daemon.links))) {
    case GR_AGAIN:
        d->store_all = true;
        return GR_AGAIN;
    case GR_REFUSE:
        return GR_OK; /* on disk since before a crash */
    case GR_OK:
        break;
    }
    if (kind == WIRE_KIND_TASK)
        return take_task(d, n, msg);
    if (kind == WIRE_KIND_REVOKE)
        return take_revoke(d, n, msg);
    if (kind == WIRE_KIND_DROPPED)
        return take_dropped(d, n, msg);
    if (kind == WIRE_KIND_RETRY_NOW)
        return take_retry_now(d, n, msg);
    if (kind == WIRE_KIND_CHECK)
        return take_check(d, n, msg);
    rows_number_done(d, n);
    return GR_REFUSE;
}

/* One side was restored from an older copy, so the link's numbers changed their meaning, and
 * neither side knows which tasks of a grant the other has. Release all grants; the sequencer
 * sends unfinished tasks again under new ones. */
void task_messages_rewound(void *self, const char *peer, bool we_are_older)
{
    struct deliverer *d = self;
    struct link_state link;
    int at = 0;

    (void)we_are_older;
    if (strcmp(peer, SEQUENCER) != 0)
        return;
    rows_write_all(d);
    while (links_each(d->daemon.links, &at, &link))
        if (!link.out && strcmp(link.peer, SEQUENCER) == 0)
            rows_numbers_reset(d, link.done);
    own_grants_revoke_all(d, "link_rewound");
    own_grants_release_again(d);
}
