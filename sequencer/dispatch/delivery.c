/* delivery: the rows of `deliveries`, and the only code that changes a delivery's status. */
#include "delivery.h"
#include "dead_letters.h"
#include "dispatch.h"
#include "event_trace.h"
#include "lane.h"
#include "lanes.h"
#include "log.h"
#include "measure.h"
#include "operational_events.h"
#include "out_rows.h"
#include "outcomes.h"
#include "search_filters.h"
#include "sequencer.h"
#include "states.h"
#include "store.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table of transitions ---- */

#define FINAL                                                 \
    (STATE_TO(DELIVERY_DELIVERED) | STATE_TO(DELIVERY_DEAD) | \
     STATE_TO(DELIVERY_ABANDONED))

static const struct state delivery_table[] = {
    [DELIVERY_WAITING] = {"waiting", STATE_TO(DELIVERY_IN_FLIGHT) |
                                         STATE_TO(DELIVERY_RETRYING) | FINAL},
    [DELIVERY_IN_FLIGHT] = {"in_flight", STATE_TO(DELIVERY_WAITING) |
                                             STATE_TO(DELIVERY_RETRYING) |
                                             FINAL},
    [DELIVERY_RETRYING] = {"retrying", STATE_TO(DELIVERY_WAITING) |
                                           STATE_TO(DELIVERY_RETRYING) | FINAL},
    [DELIVERY_DELIVERED] = {"delivered", STATE_TO(DELIVERY_WAITING)},
    [DELIVERY_DEAD] = {"dead", STATE_TO(DELIVERY_WAITING) |
                                   STATE_TO(DELIVERY_DELIVERED)},
    [DELIVERY_ABANDONED] = {"abandoned", STATE_TO(DELIVERY_WAITING) |
                                             STATE_TO(DELIVERY_DELIVERED)},
};
static const struct states delivery_states = {"delivery", delivery_table,
                                              COUNT_OF(delivery_table)};

const char *delivery_status_name(int status)
{
    return states_name(&delivery_states, status);
}

bool delivery_has_failed(int status)
{
    return status == DELIVERY_DEAD || status == DELIVERY_ABANDONED;
}

static bool is_open(int status)
{
    return status < DELIVERY_DELIVERED;
}

/* The invariants of a row, after each change. In debug builds only: a row that a damaged disk
 * has changed must not stop the pipeline. */
static void check(const struct endpoint *e, const struct delivery *d)
{
#ifdef GRAPNEL_DEBUG
    assert(d->endpoint == e->id);
    assert(d->status != DELIVERY_WAITING || !d->grant_id);
    assert(d->status == DELIVERY_WAITING || !is_open(d->status) || d->grant_id);
    assert(!d->behind || d->status == DELIVERY_WAITING);
    assert(!delivery_has_failed(d->status) || *d->reason);
    assert(d->died < d->generation && d->earlier <= d->attempts);
    assert(e->in_window >= 0 && (!e->owner || e->owner->in_window >= 0));
#else
    (void)e;
    (void)d;
#endif
}

/* ---- statements ---- */

enum { OPEN_COUNTED = 16 }; /* open deliveries of an event */

struct deliveries {
    struct db *db;
    struct out_rows *out;
    struct buf task; /* a message, being made */
    stmt *add, *load, *exists, *open, *save, *dispatch, *sweep, *of_event,
        *open_ones;
};

#define AT(field) offsetof(struct deliveries, field)

static const struct db_statement statements[] = {
    {AT(add), ROW_INSERT("deliveries", DELIVERY_NEW)},
    {AT(load),
     "SELECT " ROW_NAMES(
         DELIVERY_COLUMNS) " FROM deliveries WHERE event = ? AND endpoint = ?"},
    {AT(exists), "SELECT 1 FROM deliveries WHERE event = ? AND endpoint = ?"},
    /* As store_event_ended(), with a count. 1: EVENT_DUPLICATE, 3: EVENT_BUFFERED. */
    {AT(open), "SELECT open_count, open_count = 0 AND EXISTS (SELECT 1 FROM "
               "events WHERE n = ?1 AND status IN (1, 3)) FROM (SELECT "
               "count(*) AS open_count FROM (SELECT 1 FROM deliveries WHERE "
               "event = ?1 AND status < 3 LIMIT ?2))"},
    {AT(save),
     "UPDATE deliveries SET " ROW_SETS(
         DELIVERY_CHANGES) " WHERE event = :event AND endpoint = :endpoint"},
    {AT(of_event),
     "SELECT " ROW_NAMES(DELIVERY_COLUMNS) ", (SELECT name FROM endpoints "
                                           "WHERE id = endpoint) AS "
                                           "name FROM deliveries WHERE event = "
                                           "? ORDER BY name"},
    {AT(open_ones), "SELECT endpoint FROM deliveries WHERE event = ? AND "
                    "status < 3 ORDER BY endpoint LIMIT ?"},
    /* This and the next statement change the status without reading the row. Every delivery
     * is dispatched at least once, and the index of waiting deliveries has all columns that
     * the change needs. */
    {AT(dispatch), "UPDATE deliveries SET status = ?3, grant_id = ?4, out_n = "
                   "?5, behind = 0 WHERE event = ?1 AND endpoint = ?2"},
    /* When a deliverer is lost, all its deliveries come back, a bounded number in each turn:
     * every open delivery may change to WAITING, and a final one only loses its grant. */
    {AT(sweep),
     "UPDATE deliveries SET grant_id = 0, out_n = 0, sent = sent OR ?4, status "
     "= CASE WHEN status < 3 THEN 0 ELSE status END WHERE endpoint = ?1 AND "
     "event IN (SELECT event FROM deliveries INDEXED BY deliveries_out WHERE "
     "endpoint = ?1 AND grant_id = ?2 AND grant_id <> 0 LIMIT ?3) RETURNING "
     "status, lane, lane_key"},
};

struct deliveries *deliveries_open(struct db *db)
{
    struct deliveries *s = gr_alloc(sizeof *s);

    s->db = db;
    s->out = out_rows_open();
    buf_init(&s->task, LINK_KEPT_MAX_BYTES);
    db_prepare_all(db, s, statements, COUNT_OF(statements));
    return s;
}

void deliveries_close(struct deliveries *s)
{
    out_rows_close(s->out);
    buf_fini(&s->task);
    free(s);
}

void deliveries_forget(struct deliveries *s)
{
    out_rows_clear(s->out);
}

/* ---- rows ---- */

/* Returns the number of the column after those of the row. */
static int read_row(stmt *q, struct delivery *d)
{
    int i = 0;

    *d = (struct delivery){0};
    ROW_READ(DELIVERY_COLUMNS, q, i, d);
    return i;
}

void delivery_fini(struct delivery *d)
{
    ROW_FREE(DELIVERY_COLUMNS, d);
    *d = (struct delivery){0};
}

static bool read_stored(struct deliveries *s, int64_t event, int64_t endpoint,
                        struct delivery *d)
{
    bool there;

    *d = (struct delivery){0};
    bind_i64(s->load, 1, event);
    bind_i64(s->load, 2, endpoint);
    there = db_step(s->db, s->load);
    if (there)
        read_row(s->load, d);
    db_done(s->load);
    return there;
}

static void check_out_row(struct deliveries *s, const struct delivery *d)
{
#ifdef GRAPNEL_DEBUG
    struct delivery stored;

    if (db_full(s->db)) /* it reads nothing until the turn is rolled back */
        return;
    assert(read_stored(s, d->event, d->endpoint, &stored));
    assert(ROW_SAME(DELIVERY_COLUMNS, d, &stored));
    delivery_fini(&stored);
#else
    (void)s;
    (void)d;
#endif
}

bool delivery_load(struct deliveries *s, int64_t event, int64_t endpoint,
                   struct delivery *d)
{
    if (!out_rows_take(s->out, event, endpoint, d))
        return read_stored(s, event, endpoint, d);
    check_out_row(s, d);
    return true;
}

void delivery_keep(struct deliveries *s, struct delivery *d,
                   const char *event_id)
{
    bool is_out = is_open(d->status) && d->status != DELIVERY_WAITING;

    if (is_out && strlen(event_id) == EVENT_ID_BYTES) {
        wire_copy(d->event_id, sizeof d->event_id, wire_text(event_id));
        out_rows_give(s->out, d);
    }
    delivery_fini(d);
}

bool delivery_find(struct sequencer *q, struct bytes event_id, int64_t endpoint,
                   struct delivery *d)
{
    int64_t known = out_rows_event(q->deliveries->out, event_id), event;

    *d = (struct delivery){0};
    if (known && delivery_load(q->deliveries, known, endpoint, d))
        return true;
    /* It may have been purged, and sent again with another number. */
    event = store_event_n(q->store, event_id);
    return event && event != known &&
           delivery_load(q->deliveries, event, endpoint, d);
}

bool delivery_exists(struct deliveries *s, int64_t event, int64_t endpoint)
{
    bind_i64(s->exists, 1, event);
    bind_i64(s->exists, 2, endpoint);
    return db_number(s->db, s->exists, 0) != 0;
}

void deliveries_of_event(struct deliveries *s, int64_t event, delivery_fn *fn,
                         void *arg)
{
    struct delivery d;

    bind_i64(s->of_event, 1, event);
    while (db_step(s->db, s->of_event)) {
        int i = read_row(s->of_event, &d);

        fn(arg, &d, col_text(s->of_event, i));
        delivery_fini(&d);
    }
    db_done(s->of_event);
}

int deliveries_open_of_event(struct deliveries *s, int64_t event, int max,
                             int64_t *endpoints)
{
    int count = 0;

    bind_i64(s->open_ones, 1, event);
    bind_i64(s->open_ones, 2, max);
    while (db_step(s->db, s->open_ones))
        endpoints[count++] = col_i64(s->open_ones, 0);
    db_done(s->open_ones);
    return count;
}

static void insert(struct sequencer *q, struct delivery *d)
{
    struct deliveries *s = q->deliveries;
    int i = 0;

    if (!d->generation)
        d->generation = 1;
    ROW_BIND(DELIVERY_NEW, s->add, i, d);
    db_run(s->db, s->add);
    search_filters_note_endpoint(q->search_filters, d->event, d->endpoint);
}

void delivery_save(struct deliveries *s, const struct delivery *d)
{
    int i = 0;

    out_rows_drop(s->out, d->event, d->endpoint);
    ROW_BIND(DELIVERY_CHANGES, s->save, i, d);
    bind_i64(s->save, ++i, d->event);
    bind_i64(s->save, ++i, d->endpoint);
    db_run(s->db, s->save);
}

static void set_text(char **text, const char *to)
{
    char *old = *text;

    *text = gr_strdup(to); /* `to` may be the old one */
    free(old);
}

/* For a log line, read when it is first needed. */
static const char *event_id(struct sequencer *q, struct delivery *d)
{
    struct event_row ev = {0};

    if (!*d->event_id && store_event(q->store, d->event, &ev))
        wire_copy(d->event_id, sizeof d->event_id, wire_text(ev.id));
    event_fini(&ev);
    return d->event_id;
}

/* ---- copies at the deliverer ---- */

int64_t delivery_ref(int64_t event, int64_t endpoint)
{
    return event << EVENT_BITS_ENDPOINT | endpoint;
}

bool delivery_is_out(const struct endpoint *e, const struct delivery *d)
{
    return d->grant_id && d->grant_id == e->grant && e->owner;
}

/* The delivery has a slot of its endpoint's window. A scheduled retry has no slot: it waits on
 * the deliverer's disk. A final delivery whose copy is to be dropped has a slot, as an
 * attempt may be in flight. */
static bool in_window(const struct endpoint *e, const struct delivery *d)
{
    return delivery_is_out(e, d) && d->status != DELIVERY_RETRYING;
}

static void enter_window(struct endpoint *e)
{
    e->in_window++;
    e->owner->in_window++;
}

static void leave_window(struct endpoint *e)
{
    e->window.ended++;
    if (e->in_window > 0)
        e->in_window--;
    if (e->owner && e->owner->in_window > 0)
        e->owner->in_window--;
}

/* `task`: the message; empty: it is made of the rows when it is sent. */
static void queue_task(struct sequencer *q, struct endpoint *e, int64_t event,
                       int status, struct bytes task)
{
    links_put_message(q->d.links, e->owner->name, WIRE_KIND_TASK,
                      delivery_ref(event, e->id), task);
    if (status == DELIVERY_IN_FLIGHT) {
        enter_window(e);
        e->owner->out_bytes += e->window.bytes;
    }
}

/* ---- new ones ---- */

/* The new row has the defaults of store.sql in its other columns. */
static void keep_new(struct sequencer *q, const struct delivery *d,
                     const char *event_id)
{
    struct delivery copy = *d;

    copy.retry_choice = d->retry_choice ? gr_strdup(d->retry_choice) : NULL;
    copy.error = gr_strdup("");
    copy.reason = gr_strdup("");
    copy.deliverer = gr_strdup("");
    delivery_keep(q->deliveries, &copy, event_id);
}

void delivery_add(struct sequencer *q, struct endpoint *e, struct lane lane,
                  struct delivery *d, const struct event_row *ev,
                  const struct event_content *content)
{
    struct buf *task = &q->deliveries->task;
    struct bytes message = {NULL, 0};

    d->endpoint = e->id;
    d->status = DELIVERY_WAITING;
    d->lane = lane.n;
    d->lane_key = lane.key;
    d->behind = lanes_busy(q, e, lane);
    if (!d->behind && dispatch_at_once(q, e)) {
        d->status = DELIVERY_IN_FLIGHT;
        d->grant_id = e->grant;
        d->out_n = links_next(q->d.links, e->owner->name);
        if (content) {
            buf_reset(task);
            dispatch_encode_task(q, e, ev, d, content, task);
            message = (struct bytes){task->data, task->failed ? 0 : task->len};
        }
        queue_task(q, e, d->event, d->status, message);
    } else if (!d->behind) {
        e->waiting = true;
    }
    endpoint_wake(q, e);
    insert(q, d);
    if (ev && d->status == DELIVERY_IN_FLIGHT)
        keep_new(q, d, ev->id);
}

void delivery_add_dead(struct sequencer *q, struct delivery *d)
{
    assert(d->status == DELIVERY_DEAD);
    insert(q, d);
}

/* ---- changes of status ---- */

static void log_change(struct sequencer *q, const struct endpoint *e,
                       struct delivery *d)
{
    switch (d->status) {
    case DELIVERY_RETRYING:
        if (log_has_capacity(LEVEL_INFO))
            log_info(event_id(q, d), "retrying", LS("endpoint", e->name),
                     LI("attempts", d->attempts),
                     LN("http_status", d->http_status), LO("error", d->error),
                     LT("next_attempt_at", d->next_ms));
        break;
    case DELIVERY_DELIVERED:
        if (log_has_capacity(LEVEL_DEBUG))
            log_debug(event_id(q, d), "delivered", LS("endpoint", e->name),
                      LI("attempts", d->attempts));
        break;
    case DELIVERY_DEAD:
        if (log_has_capacity(LEVEL_WARN))
            log_warn(event_id(q, d), "dead", LS("endpoint", e->name),
                     LS("reason", d->reason), LI("attempts", d->attempts),
                     LN("http_status", d->http_status), LO("error", d->error));
        break;
    case DELIVERY_ABANDONED: /* there may be many at once */
        if (log_has_capacity(LEVEL_DEBUG))
            log_debug(event_id(q, d), "abandoned", LS("endpoint", e->name),
                      LS("reason", d->reason), LI("attempts", d->attempts));
        break;
    default:
        break;
    }
}

static void count_change(struct sequencer *q, const struct endpoint *e,
                         struct delivery *d, bool had_died)
{
    switch (d->status) {
    case DELIVERY_RETRYING:
        q->metrics[METRIC_RETRIES] += !e->temporary;
        break;
    case DELIVERY_DELIVERED:
        if (e->temporary) {
            q->metrics[METRIC_LISTENED]++;
            break;
        }
        q->metrics[METRIC_DELIVERED]++;
        q->metrics[METRIC_RECOVERED] += had_died;
        if (!d->reopened_ms)
            measure_delivered(q, e, d->event, event_id(q, d),
                              d->at_ms + d->duration_ms);
        break;
    case DELIVERY_DEAD:
        q->metrics[METRIC_DEAD]++;
        break;
    case DELIVERY_ABANDONED:
        q->metrics[METRIC_ABANDONED]++;
        break;
    default:
        break;
    }
}

/* One delivery of this event has become final: was it the last one? Deliveries that were opened again
 * meanwhile are not in the count, which then ends early, and is read again. An event that is buffered needs its
 * body when it is released: if this database is an older copy, it may have the delivery of a dead
 * letter already. After a full disk nothing has ended: the turn is rolled back. */
static bool has_ended(struct deliveries *s, int64_t event)
{
    bool ended = false;

    if (out_rows_others_open(s->out, event))
        return false;
    bind_i64(s->open, 1, event);
    bind_i64(s->open, 2, OPEN_COUNTED);
    if (db_step(s->db, s->open)) {
        int count = (int)col_i64(s->open, 0);

        out_rows_note_open(s->out, event, count);
        ended = count == 0 && col_i64(s->open, 1) == 0;
    }
    db_done(s->open);
    return ended;
}

/* A delivery of this lane was delivered. Dispatch the next one at once if that is permitted: its row is
 * changed once instead of twice. After a failure it waits for dispatch_work(), as the failure may stop
 * the endpoint in this turn. */
static void lane_delivered(struct sequencer *q, struct endpoint *e,
                           struct lane lane)
{
    int64_t next_ms, event;

    if (!dispatch_at_once(q, e))
        lanes_freed(q, e, lane);
    else if ((event = lanes_next(q, e, lane, &next_ms)) != 0)
        delivery_dispatch(q, e, event, next_ms);
}

/* The row is written: let its lane and its event continue. */
static void after_final(struct sequencer *q, struct endpoint *e,
                        const struct delivery *d, bool was_open)
{
    if (was_open && has_ended(q->deliveries, d->event))
        event_ended(q, d->event);
    if (!d->grant_id && d->status == DELIVERY_DELIVERED)
        lane_delivered(q, e, delivery_lane(d));
    else if (!d->grant_id)
        lanes_freed(q, e, delivery_lane(d));
    if (d->status == DELIVERY_DELIVERED)
        lanes_unhalt(q, e, d->event, delivery_lane(d));
}

void delivery_move(struct sequencer *q, struct endpoint *e, struct delivery *d,
                   enum delivery_status to, const struct delivery_cause *why)
{
    bool was_open = is_open(d->status), had_slot = in_window(e, d);
    int64_t dead_generation = d->status == DELIVERY_DEAD ? d->generation
                                                         : d->died;

    if (to == DELIVERY_DEAD && e->temporary)
        to = DELIVERY_ABANDONED;
    if (to == DELIVERY_WAITING) {
        d->grant_id = d->out_n = 0;
    } else if (!is_open(to)) {
        d->behind = false;
        d->next_ms = 0;
        /* If it was final before, its deliverer already drops its copy. */
        if (was_open && (why->reported || !delivery_is_out(e, d)))
            d->grant_id = 0;
        else if (was_open) /* it keeps its grant until the copy is dropped */
            links_put(q->d.links, e->owner->name, WIRE_KIND_DROPPED,
                      delivery_ref(d->event, e->id));
    }
    if (delivery_has_failed(to)) {
        set_text(&d->reason, why->reason);
        set_text(&d->error, why->error ? why->error : d->error);
    }
    states_transition(&delivery_states, &d->status, (int)to,
                      *d->event_id ? d->event_id : NULL, e->name, NULL);
    if (had_slot && !in_window(e, d))
        leave_window(e);
    else if (!had_slot && in_window(e, d))
        enter_window(e);
    check(e, d);
    delivery_save(q->deliveries, d);
    if (to != DELIVERY_WAITING || !was_open)
        outcomes_changed(q, d->event);
    log_change(q, e, d);
    count_change(q, e, d, dead_generation != 0);
    if (to == DELIVERY_DEAD) {
        dead_letters_dead(
            q, d, why->response.p ? why->response : (struct bytes){"", 0});
        operational_delivery_dead(q, e, d);
        if (why->reported) /* an operator's decision halts no lane */
            lanes_halt(q, e, event_id(q, d), d);
    } else if (to == DELIVERY_DELIVERED && dead_generation) {
        dead_letters_recovered(q, d->event, e->id, dead_generation);
    }
    if (!is_open(to))
        after_final(q, e, d, was_open);
    else if (to == DELIVERY_WAITING && d->behind)
        lanes_freed(q, e, delivery_lane(d));
    else if (to == DELIVERY_WAITING)
        e->waiting = true;
    endpoint_wake(q, e);
}

void delivery_reopen(struct sequencer *q, struct endpoint *e,
                     struct delivery *d, struct lane lane, uint64_t action_id)
{
    event_trace_keep_end(q, d, e->name);
    /* The row has the attempt that delivered the present generation, and will have that of the
     * next one. The attempt's own id is not stored; as a generation has one such attempt, its
     * number serves as id. */
    if (d->status == DELIVERY_DELIVERED)
        store_attempt_add(
            q->store, d->event, d->endpoint,
            &(struct wire_result){.attempt_id = (uint64_t)-d->generation,
                                  .attempts = (uint64_t)d->attempts,
                                  .at_ms = d->at_ms,
                                  .duration_ms = d->duration_ms,
                                  .http_status = (uint64_t)d->http_status,
                                  .error = {"", 0}},
            d->deliverer);
    else if (d->status == DELIVERY_DEAD)
        d->died = d->generation;
    d->lane = lane.n;
    d->lane_key = lane.key;
    /* Also in a halted lane: lanes_freed() passes deliveries up to the dead letter that
     * halts it. */
    d->behind = lane_is_ordered(d->lane);
    d->generation++;
    d->action_id = action_id;
    d->earlier = d->attempts;
    d->first_ms = d->next_ms = d->paused_ms = 0;
    d->reopened_ms = q->d.loop.now_ms;
    /* After a requeue dlqd has the dead letter. Otherwise the message about it may not have
     * left yet, and needs these. */
    if (!action_id) {
        set_text(&d->error, "");
        set_text(&d->reason, "");
    }
    set_text(&d->deliverer, "");
    if (e->temporary)
        endpoint_list_put(q, e, ENDPOINTS_TEMPORARY);
    delivery_move(q, e, d, DELIVERY_WAITING, &(struct delivery_cause){0});
}

void delivery_copy_gone(struct sequencer *q, struct endpoint *e,
                        struct delivery *d)
{
    if (in_window(e, d))
        leave_window(e);
    d->grant_id = 0;
    check(e, d);
    delivery_save(q->deliveries, d);
    lanes_freed(q, e, delivery_lane(d));
}

/* ---- many at once ---- */

void delivery_dispatch(struct sequencer *q, struct endpoint *e, int64_t event,
                       int64_t next_ms)
{
    struct deliveries *s = q->deliveries;
    int status = DELIVERY_WAITING;

    states_transition(&delivery_states, &status,
                      next_ms > q->d.loop.now_ms ? DELIVERY_RETRYING
                                                 : DELIVERY_IN_FLIGHT,
                      NULL, e->name, NULL);
    out_rows_drop(s->out, event, e->id);
    bind_i64(s->dispatch, 1, event);
    bind_i64(s->dispatch, 2, e->id);
    bind_i64(s->dispatch, 3, status);
    bind_i64(s->dispatch, 4, (int64_t)e->grant);
    bind_i64(s->dispatch, 5, (int64_t)links_next(q->d.links, e->owner->name));
    queue_task(q, e, event, status, (struct bytes){NULL, 0});
    db_run(s->db, s->dispatch);
}

int deliveries_sweep(struct sequencer *q, struct endpoint *e, uint64_t grant,
                     bool lossy, int max)
{
    struct deliveries *s = q->deliveries;
    struct lane freed[SWEEP_MAX];
    int n = 0, freed_count = 0;

    assert(grant != e->grant && max <= SWEEP_MAX);
    out_rows_clear(s->out);
    bind_i64(s->sweep, 1, e->id);
    bind_i64(s->sweep, 2, (int64_t)grant);
    bind_i64(s->sweep, 3, max);
    bind_i64(s->sweep, 4, lossy);
    for (; db_step(s->db, s->sweep); n++)
        if (!is_open((int)col_i64(s->sweep, 0)))
            freed[freed_count++] = (struct lane){col_i64(s->sweep, 1),
                                                 col_i64(s->sweep, 2)};
    db_done(s->sweep);
    for (int i = 0; i < freed_count; i++)
        lanes_freed(q, e, freed[i]);
    e->waiting = true;
    endpoint_wake(q, e);
    return n;
}
