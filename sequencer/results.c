/* results: what became of a delivery. Only here does one become final. */
#include "log.h"
#include "states.h"
#include "store.h"
#include <stdlib.h>
#include <string.h>

#define OPEN_MOVES                                                \
    (STATE_TO(DELIVERY_WAITING) | STATE_TO(DELIVERY_IN_FLIGHT) |  \
     STATE_TO(DELIVERY_RETRYING) | STATE_TO(DELIVERY_DELIVERED) | \
     STATE_TO(DELIVERY_DEAD))

static const struct state delivery_table[] = {
    [DELIVERY_WAITING] = {"waiting", OPEN_MOVES},
    [DELIVERY_IN_FLIGHT] = {"in_flight", OPEN_MOVES},
    [DELIVERY_RETRYING] = {"retrying", OPEN_MOVES},
    [DELIVERY_DELIVERED] = {"delivered", 0},
    [DELIVERY_DEAD] = {"dead", STATE_TO(DELIVERY_WAITING) |
                                   STATE_TO(DELIVERY_DELIVERED)},
};
static const struct states delivery_states = {"delivery", delivery_table,
                                              COUNT_OF(delivery_table)};

const char *delivery_status_name(int status)
{
    return states_name(&delivery_states, status);
}

/* One result at work. */
struct coming {
    const struct wire_result *r;
    struct endpoint *e;
    const char *from;
    char id[EVENT_ID_BYTES + 1];
    char *error, *reason; /* copies */
    struct delivery_row d;
    char *old_error, *old_reason, *old_deliverer; /* what `d` borrows */
    bool present; /* it names the present grant, and the delivery is out */
    bool dropped; /* a copy is out elsewhere, and was dropped there */
};

/* When its budget began: the true time, and how long its endpoint had been
 * paused by then. What was sent had later pauses taken out of it. */
static void note_first(struct coming *c)
{
    if (c->d.first_ms || !c->r->first_ms)
        return;
    c->d.first_ms = c->r->first_ms;
    c->d.paused_ms = endpoint_paused_ms(c->e, c->r->at_ms);
}

static void move(struct coming *c, int to)
{
    states_move(&delivery_states, &c->d.status, to, c->id, c->e->name, NULL);
}

/* The home has it no more, or has parked it. */
static void left_window(struct coming *c)
{
    c->e->window.ended++;
    if (c->e->out > 0)
        c->e->out--;
    if (c->e->home && c->e->home->out > 0)
        c->e->home->out--;
}

static void note_attempt(struct coming *c)
{
    if (!c->r->attempt_id)
        return;
    if ((int64_t)c->r->attempts > c->d.attempts)
        c->d.attempts = (int64_t)c->r->attempts;
    c->d.at_ms = c->r->at_ms;
    c->d.duration_ms = c->r->duration_ms;
    c->d.http_status = (int64_t)c->r->http_status;
    c->d.error = c->error;
    c->d.deliverer = c->from;
}

/* A copy is out elsewhere: it is dropped there. Its answer, or the end of that
 * grant, takes it out of the window and lets its lane go on. One that is parked
 * there may be flying by now, so it is waited for like any other. */
static void drop_elsewhere(struct sequencer *q, struct coming *c)
{
    hop_put(q->d.hop, c->e->home->name, WIRE_KIND_DROPPED,
            delivery_ref(c->d.event, c->e->id));
    if (c->d.status == DELIVERY_RETRYING) {
        c->e->out++;
        c->e->home->out++;
    }
}

static void on_delivered(struct sequencer *q, struct coming *c)
{
    bool was_dead = c->d.status == DELIVERY_DEAD;
    bool out = c->d.status < DELIVERY_DELIVERED && c->d.grant &&
               c->d.grant == c->e->grant;

    if (c->d.status == DELIVERY_DELIVERED)
        return;
    if (was_dead || c->d.died) {
        letters_recovered(q, c->d.event, c->e->id,
                          was_dead ? c->d.life : c->d.died);
        q->metrics[METRIC_RECOVERED]++;
    }
    if (c->present && c->d.status == DELIVERY_IN_FLIGHT)
        left_window(c);
    else if (out && !c->present)
        drop_elsewhere(q, c);
    c->dropped = out && !c->present;
    note_attempt(c);
    move(c, DELIVERY_DELIVERED);
    /* The grant of an abandoned one stays until its copy is answered for. */
    if (!c->dropped && !was_dead)
        c->d.grant = 0;
    q->metrics[METRIC_DELIVERED]++;
    if (!c->d.reopened_ms)
        measure_delivered(q, c->e, c->d.event, c->id,
                          c->r->at_ms + c->r->duration_ms);
    log_debug(c->id, "delivered", LS("endpoint", c->e->name),
              LI("attempts", c->d.attempts));
}

static void on_parked(struct sequencer *q, struct coming *c)
{
    if (c->d.status == DELIVERY_IN_FLIGHT)
        left_window(c);
    note_attempt(c);
    note_first(c);
    c->d.next_ms = c->r->next_ms;
    move(c, DELIVERY_RETRYING);
    q->metrics[METRIC_RETRIES]++;
    log_info(c->id, "retrying", LS("endpoint", c->e->name),
             LI("attempts", c->d.attempts), LN("http_status", c->d.http_status),
             LO("error", c->error), LT("next_attempt_at", c->d.next_ms));
}

static void on_dead(struct sequencer *q, struct coming *c)
{
    if (c->d.status == DELIVERY_IN_FLIGHT)
        left_window(c);
    note_attempt(c);
    note_first(c);
    c->d.reason = c->reason;
    c->d.grant = 0;
    move(c, DELIVERY_DEAD);
    q->metrics[METRIC_DEAD]++;
    log_warn(c->id, "dead", LS("endpoint", c->e->name), LS("reason", c->reason),
             LI("attempts", c->d.attempts), LN("http_status", c->d.http_status),
             LO("error", c->error));
    lanes_halt(q, c->e, c->id, &c->d);
    if (strcmp(c->reason, "endpoint_gone") == 0)
        endpoint_disable(q, c->e, "it answered 410 Gone");
}

static void on_released(struct coming *c)
{
    if (c->d.status == DELIVERY_IN_FLIGHT)
        left_window(c);
    note_attempt(c);
    note_first(c);
    c->d.next_ms = c->r->next_ms;
    c->d.grant = 0;
    move(c, DELIVERY_WAITING);
    c->e->waiting = true;
}

/* An attempt from before an operator had it sent again is no answer to that. */
static bool is_from_before(const struct coming *c)
{
    return c->d.act && !c->present && c->d.status < DELIVERY_DELIVERED &&
           (int64_t)c->r->attempts <= c->d.earlier;
}

/* What counts of a result. Of one that names another grant than the present
 * one, only "delivered" does. */
static void settle(struct sequencer *q, struct coming *c)
{
    switch (c->r->outcome) {
    case OUTCOME_DELIVERED:
        if (!is_from_before(c))
            on_delivered(q, c);
        break;
    case OUTCOME_PARKED:
        if (c->present)
            on_parked(q, c);
        break;
    case OUTCOME_DEAD:
        if (c->present)
            on_dead(q, c);
        break;
    default:
        /* Only what is final is dropped. If it is open, the drop was of an earlier
         * life, and the copy that is out now was given out behind it. */
        if (c->present && !wire_is(c->r->reason, "dropped"))
            on_released(c);
    }
}

/* The answer to a drop: the copy that was out is gone. */
static void on_drop_answered(struct coming *c)
{
    left_window(c);
    c->d.grant = 0;
}

/* A copy that was dropped: what it came to is the answer. One that parked had
 * not heard of the drop, or forgot it with a kill: it is told again. */
static void on_dropped(struct sequencer *q, struct coming *c)
{
    if (c->d.status < DELIVERY_DELIVERED || !c->d.grant ||
        c->d.grant != c->r->grant || c->d.grant != c->e->grant)
        return;
    if (c->r->outcome == OUTCOME_PARKED)
        hop_put(q->d.hop, c->e->home->name, WIRE_KIND_DROPPED,
                delivery_ref(c->d.event, c->e->id));
    else
        on_drop_answered(c);
}

static void on_final(struct sequencer *q, struct coming *c)
{
    if (c->d.status == DELIVERY_DEAD)
        letters_dead(q, &c->d, c->r->response);
    event_maybe_ended(q, c->d.event);
}

/* The attempt was made, and an end of it came. */
static bool has_answer(const struct wire_result *r)
{
    return r->attempt_id && r->outcome != OUTCOME_RELEASED;
}

static void record(struct sequencer *q, struct coming *c)
{
    int before = c->d.status;
    uint64_t grant = c->d.grant;

    if (has_answer(c->r))
        endpoint_answered(q, c->e, c->r->outcome == OUTCOME_DELIVERED,
                          c->r->duration_ms, c->r->at_ms);
    c->d.sent = c->d.sent || c->r->sends > 0;
    if (c->present && has_answer(c->r))
        endpoint_note_hold(q, c->e, c->r);
    on_dropped(q, c);
    if (!c->present && c->r->attempt_id)
        q->metrics[METRIC_LATE]++;
    settle(q, c);
    if (c->d.status >= DELIVERY_DELIVERED)
        c->d.behind = false;
    /* The attempt that delivered stands in the delivery's own row. */
    if (c->r->attempt_id &&
        !(c->r->outcome == OUTCOME_DELIVERED && before != c->d.status))
        store_attempt_add(q->store, c->d.event, c->e->id, c->r, c->from);
    store_delivery_set(q->store, &c->d);
    if (before < DELIVERY_DELIVERED && c->d.status >= DELIVERY_DELIVERED)
        on_final(q, c);
    if (c->d.status >= DELIVERY_DELIVERED && !c->d.grant &&
        (c->d.status != before || grant))
        lanes_freed(q, c->e, c->d.lane);
    if (c->d.status == DELIVERY_DELIVERED && before != DELIVERY_DELIVERED)
        lanes_unhalt(q, c->e, c->d.event, c->d.lane);
}

static bool find(struct sequencer *q, struct coming *c, struct bytes event_id,
                 struct bytes endpoint_name)
{
    int64_t event = store_event_n(q->store, event_id);
    char *endpoint = wire_dup(endpoint_name);
    bool there;

    c->e = endpoint_find(q, endpoint);
    free(endpoint);
    there = event && c->e && store_delivery(q->store, event, c->e->id, &c->d);
    if (there) {
        c->old_error = gr_strdup(c->d.error);
        c->old_reason = gr_strdup(c->d.reason);
        c->old_deliverer = gr_strdup(c->d.deliverer);
        c->d.error = c->old_error;
        c->d.reason = c->old_reason;
        c->d.deliverer = c->old_deliverer;
    }
    store_delivery_done(q->store);
    return there;
}

static void coming_fini(struct coming *c)
{
    free(c->error);
    free(c->reason);
    free(c->old_error);
    free(c->old_reason);
    free(c->old_deliverer);
}

gr_rc results_take(struct sequencer *q, const char *from,
                   const struct wire_result *r)
{
    struct coming c = {.r = r, .from = from};

    if (r->event_id.n != EVENT_ID_BYTES || r->outcome < OUTCOME_DELIVERED ||
        r->outcome > OUTCOME_RELEASED)
        return GR_REFUSE;
    wire_copy(c.id, sizeof c.id, r->event_id);
    if (!find(q, &c, r->event_id, r->endpoint)) {
        log_warn(c.id, "a result for a delivery that is not known here",
                 LS("deliverer", from));
        return GR_OK;
    }
    c.error = wire_dup(r->error);
    c.reason = wire_dup(r->reason);
    c.present = c.d.status < DELIVERY_DELIVERED && c.d.grant &&
                c.d.grant == r->grant && c.d.grant == c.e->grant;
    record(q, &c);
    coming_fini(&c);
    return GR_OK;
}

gr_rc results_missing(struct sequencer *q, const char *from,
                      const struct wire_missing *m)
{
    struct coming c = {.from = from};

    if (m->event_id.n != EVENT_ID_BYTES)
        return GR_REFUSE;
    wire_copy(c.id, sizeof c.id, m->event_id);
    /* Given out again since it was asked about, or answered: nothing is amiss. */
    if (find(q, &c, m->event_id, m->endpoint) &&
        c.d.status < DELIVERY_DELIVERED && c.d.grant == m->grant &&
        c.d.grant == c.e->grant && c.d.out_n == m->task) {
        if (c.d.status == DELIVERY_IN_FLIGHT)
            left_window(&c);
        c.d.grant = 0;
        c.d.sent = true; /* who knows what was lost with it */
        move(&c, DELIVERY_WAITING);
        c.e->waiting = true;
        store_delivery_set(q->store, &c.d);
        q->metrics[METRIC_MISSING]++;
        log_warn(c.id,
                 "its deliverer does not know this delivery: it is given out "
                 "again",
                 LS("endpoint", c.e->name), LS("deliverer", from),
                 LI("attempts", c.d.attempts));
    }
    coming_fini(&c);
    return GR_OK;
}
