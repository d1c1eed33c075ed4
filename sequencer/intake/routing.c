/* routing: gives an event its number in its workspace, and a delivery for each endpoint that
 * is subscribed to it. */
#include "routing.h"
#include "choice.h"
#include "delivery.h"
#include "lanes.h"
#include "managed_endpoints.h"
#include "publication.h"
#include "route.h"
#include "sequencer.h"
#include "tenants.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNMATCHED_BYTES = 300 }; /* fewer than EVENT_REASON_BYTES */

/* Its id is never used again: a temporary endpoint that was deleted, or any that was forgotten. */
static bool is_over(void *arg, int64_t id)
{
    const struct endpoint *e = endpoint_by_id(arg, id);

    return !e || (e->temporary && !e->managed);
}

void routing_add_delivery(struct sequencer *q, struct endpoint *e,
                          const struct event_row *ev, struct workspace *ws,
                          int64_t route_order, const char *choice,
                          const struct routing_options *o)
{
    /* Of an event that is replayed and unknown here, earlier attempts are unknown, too. */
    struct delivery d = {.event = ev->n,
                         .route_order = route_order,
                         .generation = o->generation + 1,
                         .action_id = o->action_id,
                         .sent = o->action_id != 0,
                         .reopened_ms = ev->reopened_ms,
                         .retry_choice = choice ? gr_strdup(choice) : NULL};

    if (ev->sequence && e->temporary)
        workspace_forget_routed(ws, e->id, is_over, q);
    if (ev->sequence)
        d.previous = workspace_routed(ws, e->id, ev->sequence);
    delivery_add(q, e,
                 lanes_of(q, e, ws, ev->ordering_key, choice_priority(choice)),
                 &d, ev, o->content);
    free(d.retry_choice);
}

/* Why no endpoint is subscribed to the event, as far as fits. It is asked now, as the body
 * that conditions look into is dropped soon. */
static void explain_unmatched(const struct settings *s, struct subject *subject,
                              char out[UNMATCHED_BYTES])
{
    size_t at = 0;

    *out = 0;
    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];
        struct buf why;

        if (at + strlen(e->name) + 8 > UNMATCHED_BYTES)
            break;
        buf_init(&why, UNMATCHED_BYTES);
        if (route_is_subscribed(s, e, subject, &why)) {
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

/* What is sent to an endpoint of one workspace, the tokens of that workspace can read: it hears only
 * of endpoints that belong to the workspace. */
static bool may_hear_of(struct sequencer *q, const struct endpoint *e,
                        const char *about)
{
    const struct endpoint *subject = endpoint_find(q, about);
    char *workspace = managed_workspace(q, e->id);
    bool may = !workspace ||
               (subject && tenant_has_endpoint(q, workspace, subject->id));

    free(workspace);
    return may;
}

static int add_deliveries(struct sequencer *q, const struct event_row *ev,
                          struct subject *subject, struct workspace *ws,
                          int64_t route_order, const struct routing_options *o)
{
    const struct publication *u = o->published;
    const size_t *subscribed = NULL;
    size_t count = 0;
    char *choice;
    int added = 0;

    if (o->only && o->always) {
        struct endpoint *e = endpoint_find(q, o->only);

        if (!e || !endpoint_is_configured(e) ||
            (e->settings && e->settings->internal) ||
            (o->about && !may_hear_of(q, e, o->about)))
            return 0;
        endpoint_wake(q, e);
        choice = choice_text(u, NULL, ev->received_ms, true);
        routing_add_delivery(q, e, ev, ws, route_order, choice, o);
        free(choice);
        return 1;
    }
    if (q->subscriptions)
        subscribed = subscriptions_ask(q->subscriptions, subject, &count);
    for (size_t i = 0; i < count; i++) {
        struct endpoint *e = &q->endpoints[subscribed[i]];

        if ((o->only && strcmp(e->name, o->only) != 0) ||
            (u && u->is && !published_for(&u->p, e->name)))
            continue;
        choice = choice_text(
            u, subscriptions_chosen_by(q->subscriptions, subscribed[i]),
            ev->received_ms, o->action_id != 0);
        routing_add_delivery(q, e, ev, ws, route_order, choice, o);
        free(choice);
        added++;
    }
    if (!managed_count(q))
        return added;
    subscribed = managed_subscribed(q, subject, &count);
    for (size_t i = 0; i < count; i++) {
        struct endpoint *e = &q->endpoints[subscribed[i]];

        if ((o->only && strcmp(e->name, o->only) != 0) ||
            (u && u->is && !published_for(&u->p, e->name)) ||
            (o->about && !may_hear_of(q, e, o->about)))
            continue;
        endpoint_wake(q, e);
        choice = choice_text(u, NULL, ev->received_ms, o->action_id != 0);
        routing_add_delivery(q, e, ev, ws, route_order, choice, o);
        free(choice);
        added++;
    }
    return added;
}

bool routing_has_endpoints(struct sequencer *q, struct subject *subject)
{
    size_t count = 0;

    if (q->subscriptions)
        subscriptions_ask(q->subscriptions, subject, &count);
    if (!count && managed_count(q))
        managed_subscribed(q, subject, &count);
    return count > 0;
}

int routing_route(struct sequencer *q, struct event_row *ev,
                  struct subject *subject, const struct routing_options *o,
                  struct buf *clock, char reason[EVENT_REASON_BYTES])
{
    struct workspace *ws = lanes_workspace(q, ev->workspace);
    int64_t route_order = q->next_route_order++;
    int endpoints;

    event_move(ev, EVENT_ROUTED, NULL);
    ev->sequence = workspace_number(&q->workspaces, ws, ev->type);
    workspace_clock(ws, ev->type, CLOCK_MAX_BYTES, clock);
    ev->clock = clock->data;
    subject->type = ev->type;
    subject->workspace = ev->workspace;
    endpoints = add_deliveries(q, ev, subject, ws, route_order, o);
    q->metrics[endpoints ? METRIC_ROUTED : METRIC_UNMATCHED]++;
    if (!endpoints) {
        explain_unmatched(q->d.settings, subject, reason);
        ev->reason = reason;
    }
    return endpoints;
}
