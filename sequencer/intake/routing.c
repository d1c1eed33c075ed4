/* routing: gives a released event its number, and a delivery for each endpoint that is
 * subscribed to it. */
#include "delivery.h"
#include "intake_context.h"
#include "route.h"
#include "store.h"
#include <stdio.h>
#include <string.h>

enum { UNMATCHED_BYTES = 300 };

void routing_give(struct sequencer *q, struct endpoint *e,
                  const struct event_row *ev, struct workspace *ws,
                  int64_t route_order, int64_t generation, uint64_t action_id)
{
    /* Of a replayed event that is not known here, nothing is known of what was
     * sent before. */
    struct delivery d = {.event = ev->n,
                         .route_order = route_order,
                         .generation = generation,
                         .action_id = action_id,
                         .sent = action_id != 0,
                         .reopened_ms = ev->reopened_ms};

    if (ev->sequence)
        d.previous = workspace_routed(ws, e->id, ev->sequence);
    delivery_add(q, e, ws, &d);
}

/* Why no endpoint is subscribed to it, as far as fits: it is asked once, when its body
 * is still there to be looked at. */
static void explain_unmatched(struct sequencer *q, struct subject *subject,
                              char out[UNMATCHED_BYTES])
{
    size_t at = 0;

    *out = 0;
    for (size_t i = 0; i < q->d.settings->endpoint_count; i++) {
        const struct endpoint_settings *e = &q->d.settings->endpoints[i];
        struct buf why;

        if (at + strlen(e->name) + 8 > UNMATCHED_BYTES)
            break;
        buf_init(&why, UNMATCHED_BYTES);
        if (route_is_subscribed(q->d.settings, e, subject, &why)) {
            buf_reset(&why);
            buf_puts(&why, "the producer did not list it in `endpoints`");
        }
        buf_put(&why, "", 1);
        snprintf(out + at, UNMATCHED_BYTES - at, "%s%s: %s", at ? "; " : "",
                 e->name,
                 why.failed ? "it is not subscribed to this event" : why.data);
        at += strlen(out + at);
        buf_fini(&why);
    }
}

/* An operator may have named one, and the producer may have named some. */
static bool is_meant(const struct intake_context *t, const struct endpoint *e)
{
    const struct publication *u = &t->published;

    if (t->only && strcmp(e->name, t->only) != 0)
        return false;
    return !u->is || published_for(&u->p, e->name);
}

/* Whether it is subscribed to it or not. */
static int give_anyway(struct sequencer *q, struct intake_context *t,
                       struct workspace *ws, int64_t route_order)
{
    struct endpoint *e = endpoint_find(q, t->only);

    if (!e || !e->settings || e->settings->internal)
        return 0;
    routing_give(q, e, t->ev, ws, route_order, t->generation + 1, t->action_id);
    return 1;
}

static int give(struct sequencer *q, struct intake_context *t,
                struct workspace *ws, int64_t route_order)
{
    const size_t *subscribed;
    size_t count = 0;
    int given = 0;

    if (t->only && t->always)
        return give_anyway(q, t, ws, route_order);
    subscribed = q->subscriptions
                     ? subscriptions_ask(q->subscriptions, t->subject, &count)
                     : NULL;
    for (size_t i = 0; i < count; i++) {
        struct endpoint *e = &q->endpoints[subscribed[i]];

        if (!is_meant(t, e))
            continue;
        routing_give(q, e, t->ev, ws, route_order, t->generation + 1,
                     t->action_id);
        given++;
    }
    return given;
}

/* Number the event and make a delivery for each subscribed endpoint; if the event names
 * its endpoints, only for those. Returns how many. */
static int number_and_give(struct sequencer *q, struct intake_context *t)
{
    struct event_row *ev = t->ev;
    struct workspace *ws = lanes_workspace(q, ev->workspace);
    int64_t route_order = q->next_route_order++;
    int endpoints;

    ev->sequence = workspace_number(&q->workspaces, ws, ev->type);
    workspace_clock(ws, ev->type, CLOCK_MAX_BYTES, &t->clock);
    ev->clock = t->clock.data;
    t->subject->type = ev->type;
    t->subject->workspace = ev->workspace;
    endpoints = give(q, t, ws, route_order);
    q->metrics[endpoints ? METRIC_ROUTED : METRIC_UNMATCHED]++;
    return endpoints;
}

void routing_route(struct sequencer *q, struct intake_context *t)
{
    event_move(t->ev, EVENT_ROUTED, NULL);
    t->endpoints = number_and_give(q, t);
    if (t->endpoints)
        return;
    explain_unmatched(q, t->subject, t->reason);
    t->ev->reason = t->reason;
}
