/* results: applies what deliverers report about deliveries. */
#include "results.h"
#include "log.h"
#include "store.h"
#include "tally.h"
#include <stdlib.h>
#include <string.h>

/* One report, and the delivery that it is about. */
struct report {
    const struct wire_result *r;
    const char *from;
    struct endpoint *e;
    struct delivery d;
    bool present; /* the delivery is out under the grant that it names */
};

static void note_attempt(struct report *p)
{
    struct delivery *d = &p->d;

    if (!p->r->attempt_id)
        return;
    if ((int64_t)p->r->attempts > d->attempts)
        d->attempts = (int64_t)p->r->attempts;
    d->at_ms = p->r->at_ms;
    d->duration_ms = p->r->duration_ms;
    d->http_status = (int64_t)p->r->http_status;
    free(d->error);
    d->error = wire_dup(p->r->error);
    free(d->deliverer);
    d->deliverer = gr_strdup(p->from);
}

static void move(struct sequencer *q, struct report *p, enum delivery_status to,
                 const char *reason)
{
    delivery_move(q, p->e, &p->d, to,
                  &(struct delivery_cause){.reported = p->present,
                                           .reason = reason,
                                           .response = p->r->response});
}

/* Whether its outcome counts. Under an ended grant only a success counts. A report that a copy
 * was dropped is about a final delivery; if the delivery is open again, the present copy
 * was dispatched later, and the report is ignored. */
static bool counts(const struct report *p)
{
    /* Its attempt was made before an operator sent the event again, so it is not a response to
     * that. */
    bool from_before = p->d.action_id && !p->present &&
                       p->d.status < DELIVERY_DELIVERED &&
                       (int64_t)p->r->attempts <= p->d.earlier;

    if (p->r->outcome == OUTCOME_DELIVERED)
        return p->d.status != DELIVERY_DELIVERED && !from_before;
    if (p->r->outcome == OUTCOME_RETURNED && wire_is(p->r->reason, "dropped"))
        return false;
    return p->present;
}

static void settle(struct sequencer *q, struct report *p)
{
    char *reason;

    note_attempt(p);
    /* The budget begins with the first attempt. Note how long the endpoint had been paused by
     * then: the deliverer is sent a start that is later by the pauses since. */
    if (p->r->outcome != OUTCOME_DELIVERED && !p->d.first_ms &&
        p->r->first_ms) {
        p->d.first_ms = p->r->first_ms;
        p->d.paused_ms = endpoint_paused_ms(p->e, p->r->at_ms);
    }
    switch (p->r->outcome) {
    case OUTCOME_DELIVERED:
        move(q, p, DELIVERY_DELIVERED, NULL);
        break;
    case OUTCOME_DEAD:
        reason = wire_dup(p->r->reason);
        move(q, p, DELIVERY_DEAD, reason);
        if (strcmp(reason, "endpoint_gone") == 0)
            endpoint_disable(q, p->e, reason, "it responded 410 Gone");
        free(reason);
        break;
    case OUTCOME_RETRYING:
        p->d.next_ms = p->r->next_ms;
        move(q, p, DELIVERY_RETRYING, NULL);
        break;
    default:
        p->d.next_ms = p->r->next_ms;
        move(q, p, DELIVERY_WAITING, NULL);
    }
}

/* Note that the deliverer has dropped its copy of a final delivery. If it reports a scheduled
 * retry, it did not drop the copy: it has not received the message yet, or lost it in a
 * crash. */
static void take_drop(struct sequencer *q, struct report *p)
{
    if (p->d.status < DELIVERY_DELIVERED || !delivery_is_out(p->e, &p->d) ||
        p->d.grant_id != p->r->grant)
        return;
    if (p->r->outcome == OUTCOME_RETRYING)
        links_put(q->d.links, p->e->owner->name, WIRE_KIND_DROPPED,
                  delivery_ref(p->d.event, p->e->id));
    else
        delivery_copy_gone(q, p->e, &p->d);
}

/* An attempt was made, and has ended. */
static bool has_response(const struct wire_result *r)
{
    return r->attempt_id && r->outcome != OUTCOME_RETURNED;
}

static void record(struct sequencer *q, struct report *p)
{
    const struct wire_result *r = p->r;
    bool settles = counts(p);

    if (has_response(r)) {
        tallies_add(q->tallies, p->e->id, r, q->d.loop.now_ms);
        endpoint_responded(q, p->e, r->outcome == OUTCOME_DELIVERED, r->at_ms);
    }
    if (p->present && has_response(r))
        endpoint_note_hold(q, p->e, r);
    if (!p->present && r->attempt_id)
        q->metrics[METRIC_LATE]++;
    p->d.sent = p->d.sent || r->sends > 0;
    take_drop(q, p);
    if (settles)
        settle(q, p);
    else
        delivery_save(q->deliveries, &p->d);
    /* The attempt that delivered is stored in the delivery's own row. */
    if (r->attempt_id && !(settles && r->outcome == OUTCOME_DELIVERED))
        store_attempt_add(q->store, p->d.event, p->e->id, r, p->from);
}

static bool find(struct sequencer *q, struct report *p, struct bytes event_id,
                 struct bytes endpoint_name, uint64_t grant)
{
    char *endpoint = wire_dup(endpoint_name);

    p->e = endpoint_find(q, endpoint);
    free(endpoint);
    if (!p->e || !delivery_find(q, event_id, p->e->id, &p->d))
        return false;
    wire_copy(p->d.event_id, sizeof p->d.event_id, event_id);
    p->present = p->d.status < DELIVERY_DELIVERED && p->d.grant_id == grant &&
                 delivery_is_out(p->e, &p->d);
    return true;
}

gr_rc results_take(struct sequencer *q, const char *from,
                   const struct wire_result *r)
{
    struct report p = {.r = r, .from = from};
    char id[EVENT_ID_BYTES + 1];

    if (r->event_id.n != EVENT_ID_BYTES || r->outcome < OUTCOME_DELIVERED ||
        r->outcome > OUTCOME_RETURNED)
        return GR_REFUSE;
    wire_copy(id, sizeof id, r->event_id);
    if (find(q, &p, r->event_id, r->endpoint, r->grant))
        record(q, &p);
    else
        log_warn(id, "a result for an unknown delivery", LS("deliverer", from));
    delivery_fini(&p.d);
    return GR_OK;
}

gr_rc results_missing(struct sequencer *q, const char *from,
                      const struct wire_missing *m)
{
    struct report p = {.from = from};

    if (m->event_id.n != EVENT_ID_BYTES)
        return GR_REFUSE;
    /* If the delivery was dispatched again since it was asked about, or has its result, nothing
     * is wrong. */
    if (find(q, &p, m->event_id, m->endpoint, m->grant) && p.present &&
        p.d.out_n == m->task) {
        p.d.sent = true; /* the lost task may have been attempted */
        delivery_move(q, p.e, &p.d, DELIVERY_WAITING,
                      &(struct delivery_cause){.reported = true});
        q->metrics[METRIC_MISSING]++;
        log_warn(
            p.d.event_id,
            "its deliverer does not know this delivery; it is assigned again",
            LS("endpoint", p.e->name), LS("deliverer", from),
            LI("attempts", p.d.attempts));
    }
    delivery_fini(&p.d);
    return GR_OK;
}
