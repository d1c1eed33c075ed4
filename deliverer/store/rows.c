/* rows: writes, changes and deletes the rows of tasks, and stores the link's numbers. */
#include "rows.h"
#include "clock.h"
#include "deliverer.h"
#include "due.h"
#include "log.h"

enum {
    /* A task that has not ended after this gets a row, so that the link's cursor
     * can move on; most end before and never cost one. */
    UNSTORED_MS = 500,
    UNSTORED_SPAN = 3072, /* the same if so many numbers are past the cursor */
    /* So many WAITING tasks of an endpoint stay in memory when they get rows: about
     * as many as the sequencer sends ahead. */
    WAITING_MIN = 256,
    WAITING_TIMES = 2, /* the endpoint's max_in_flight */
};

/* ---- numbers ---- */

/* Call it before the first change of a turn, so that rows_undo() can restore the numbers. */
static void note_kept(struct deliverer *d)
{
    if (d->numbers_turn == d->turn)
        return;
    d->numbers_turn = d->turn;
    d->numbers_kept = d->numbers;
}

gr_rc rows_number_received(struct deliverer *d, uint64_t n, uint64_t epoch)
{
    uint64_t before = d->numbers.taken;
    gr_rc rc;

    note_kept(d);
    rc = stored_numbers_receive(&d->numbers, n, epoch);
    if (before > n && d->numbers.taken == n)
        log_warn(NULL,
                 "the sequencer was restored from an older copy and uses these "
                 "numbers again; the new messages are accepted",
                 LI("from_n", n), LI("to_n", before));
    return rc;
}

void rows_number_done(struct deliverer *d, uint64_t n)
{
    note_kept(d);
    stored_numbers_add(&d->numbers, n);
}

void rows_numbers_reset(struct deliverer *d, uint64_t cursor)
{
    note_kept(d);
    stored_numbers_init(&d->numbers, cursor);
    store_numbers_put(&d->store, &d->numbers);
}

void rows_task_stored(struct deliverer *d, struct task *t)
{
    if (t->stored)
        return;
    note_kept(d);
    stored_numbers_add(&d->numbers, t->number);
    t->stored = true;
    t->stored_turn = d->turn;
    tasks_remove_unstored(&d->tasks, t);
}

/* ---- rows ---- */

static struct task_row row_of(const struct task *t)
{
    return (struct task_row){.grant_id = t->grant->id,
                             .event_id = t->event_id,
                             .attempts = t->attempts,
                             .first_ms = t->first_ms,
                             .next_ms = t->next_ms,
                             .held_ms = t->held_ms,
                             .message = {t->bytes, t->bytes_count}};
}

void rows_put(struct deliverer *d, struct task *t, const struct task_row *row)
{
    t->row = store_task_put(&d->store, row);
    t->row_turn = d->turn;
    t->grant->endpoint.rows++;
    t->grant->endpoint.rows_here++;
}

void rows_gone(struct deliverer *d, struct grant *g, int64_t row, bool retrying)
{
    store_task_gone(&d->store, row);
    g->endpoint.rows--;
    own_grants_count_retries(d, g, -(int)retrying);
}

void rows_write(struct deliverer *d, struct task *t)
{
    struct granted_endpoint *e = &t->grant->endpoint;
    struct task_row row = row_of(t);
    int stay = e->config ? WAITING_TIMES * e->config->settings.max_in_flight
                         : 0;

    if (e->config && stay < WAITING_MIN)
        stay = WAITING_MIN;
    if (row.next_ms <= 0)
        row.next_ms = t->next_ms = d->daemon.loop.now_ms;
    rows_put(d, t, &row);
    rows_task_stored(d, t);
    if (t->state != TASK_WAITING || e->fresh.count <= stay)
        return;
    /* Its row is enough, and is due at once. */
    endpoint_remove(e, t);
    e->rows_here--;
    endpoint_row_due(e, t->next_ms);
    tasks_drop(&d->tasks, t);
    endpoint_schedule(e, &d->schedule);
}

void rows_write_all(struct deliverer *d)
{
    while (TAILQ_FIRST(&d->tasks.unstored))
        rows_write(d, TAILQ_FIRST(&d->tasks.unstored));
}

void rows_keep(struct deliverer *d, struct task *t)
{
    struct granted_endpoint *e = &t->grant->endpoint;
    struct task_row row = row_of(t);

    row.retrying = t->attempts > 0;
    row.early_ms = d->daemon.loop.now_ms;
    if (row.next_ms <= 0 || row.next_ms > due_max_ms(d, e))
        row.next_ms = d->daemon.loop.now_ms;
    store_task_put(&d->store, &row);
    own_grants_count_retries(d, t->grant, row.retrying);
    if (row.retrying)
        throttle_doubt(&e->throttle);
    e->rows++;
    endpoint_row_due(e, row.next_ms);
    endpoint_schedule(e, &d->schedule);
    d->lease.ask = d->lease.ask || !e->config;
}

void rows_move_out(struct deliverer *d, struct task *t)
{
    struct granted_endpoint *e = &t->grant->endpoint;

    endpoint_remove(e, t);
    if (t->row) {
        e->rows_here--;
        endpoint_row_due(e, t->next_ms);
    } else {
        rows_keep(d, t);
    }
    rows_task_stored(d, t);
    tasks_drop(&d->tasks, t);
    endpoint_schedule(e, &d->schedule);
}

/* ---- the turn ---- */

void rows_work(struct deliverer *d)
{
    int64_t now = d->daemon.loop.mono_ms;
    struct task *t;

    if (!d->full) {
        while ((t = TAILQ_FIRST(&d->tasks.unstored)) &&
               (d->store_all ||
                stored_numbers_span(&d->numbers) > UNSTORED_SPAN ||
                (now - t->taken_ms >= UNSTORED_MS &&
                 !loop_spent(&d->daemon.loop))))
            rows_write(d, t);
        d->store_all = false;
    }
    if (d->numbers_turn == d->turn && stored_numbers_past_cursor(&d->numbers))
        store_numbers_put(&d->store, &d->numbers);
    /* If all received numbers are stored, the cursor moves to the last one that the link
     * knows, which may belong to a message that was not given to this process. */
    links_settle(d->daemon.links, SEQUENCER,
                 stored_numbers_span(&d->numbers) ? d->numbers.base
                                                  : INT64_MAX);
}

int rows_wait_ms(const struct deliverer *d)
{
    int64_t left;

    if (!TAILQ_FIRST(&d->tasks.unstored))
        return -1;
    left = TAILQ_FIRST(&d->tasks.unstored)->taken_ms + UNSTORED_MS - mono_ms();
    return left < 0 ? 0 : (int)left;
}

/* ---- after a rolled back turn ---- */

void rows_undo(struct deliverer *d)
{
    struct task *t, *next;

    if (d->numbers_turn == d->turn)
        d->numbers = d->numbers_kept;
    for (t = LIST_FIRST(&d->tasks.all); t; t = next) {
        next = LIST_NEXT(t, link);
        if (t->state == TASK_WAITING) { /* it is sent again, or has a row */
            endpoint_remove(&t->grant->endpoint, t);
            tasks_drop(&d->tasks, t);
            continue;
        }
        if (t->row && t->row_turn == d->turn)
            t->row = 0;
        if (t->stored && t->stored_turn == d->turn) {
            t->stored = false;
            tasks_add_unstored(&d->tasks, t);
        }
    }
    own_grants_undo(d);
    LIST_FOREACH(t, &d->tasks.all, link)
    t->grant->endpoint.rows_here += t->row != 0;
}
