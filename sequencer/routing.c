/* routing: an event that goes gets its number, and deliveries to all that want
 * it. */
#include "blocks.h"
#include "route.h"
#include "store.h"
#include "taking.h"
#include <stdio.h>
#include <string.h>

enum { UNWANTED_BYTES = 300 };

void routing_give(struct sequencer *q, struct endpoint *e,
                  const struct event_row *ev, struct workspace *ws,
                  int64_t place, int64_t life, uint64_t act)
{
    /* Of a replayed event that is not known here, nothing is known of what was
     * sent before. */
    struct delivery_row d = {.event = ev->n,
                             .endpoint = e->id,
                             .place = place,
                             .life = life,
                             .act = act,
                             .sent = act != 0,
                             .reopened_ms = ev->reopened_ms};

    if (ev->sequence)
        d.previous = workspace_routed(ws, e->id, ev->sequence);
    d.lane = lanes_of(e, ws);
    d.behind = lanes_busy(q, e, d.lane);
    if (!d.behind && dispatch_may(q, e)) {
        d.status = DELIVERY_IN_FLIGHT;
        d.grant = e->grant;
        d.out_n = dispatch_task(q, e, ev->n, false);
    } else {
        d.status = DELIVERY_WAITING;
        e->waiting = e->waiting || !d.behind;
    }
    store_delivery_add(q->store, &d);
    blocks_note_endpoint(q->blocks, ev->n, e->id);
}

/* Why nobody wants it, as far as fits: it is asked once, when its body is still
 * there to be looked at. */
static void say_unwanted(struct sequencer *q, struct subject *subject,
                         char out[UNWANTED_BYTES])
{
    size_t at = 0;

    *out = 0;
    for (size_t i = 0; i < q->d.settings->endpoint_count; i++) {
        const struct endpoint_settings *e = &q->d.settings->endpoints[i];
        struct buf why;

        if (at + strlen(e->name) + 8 > UNWANTED_BYTES)
            break;
        buf_init(&why, UNWANTED_BYTES);
        if (route_wants(q->d.settings, e, subject, &why)) {
            buf_reset(&why);
            buf_puts(&why, "the producer does not name it");
        }
        buf_put(&why, "", 1);
        snprintf(out + at, UNWANTED_BYTES - at, "%s%s: %s", at ? "; " : "",
                 e->name, why.failed ? "it does not want it" : why.data);
        at += strlen(out + at);
        buf_fini(&why);
    }
}

/* An operator may have named one, and the producer may have named some. */
static bool is_meant(const struct taking *t, const struct endpoint *e)
{
    const struct publication *u = &t->published;

    if (t->only && strcmp(e->name, t->only) != 0)
        return false;
    return !u->is || published_for(&u->p, e->name);
}

/* Whether it wants it or not. */
static int give_anyway(struct sequencer *q, struct taking *t,
                       struct workspace *ws, int64_t place)
{
    struct endpoint *e = endpoint_find(q, t->only);

    if (!e || !e->settings || e->settings->internal)
        return 0;
    routing_give(q, e, t->ev, ws, place, t->life + 1, t->act);
    return 1;
}

static int give(struct sequencer *q, struct taking *t, struct workspace *ws,
                int64_t place)
{
    const size_t *wanting;
    size_t count = 0;
    int given = 0;

    if (t->only && t->always)
        return give_anyway(q, t, ws, place);
    wanting = q->subscriptions
                  ? subscriptions_ask(q->subscriptions, t->subject, &count)
                  : NULL;
    for (size_t i = 0; i < count; i++) {
        struct endpoint *e = &q->endpoints[wanting[i]];

        if (!is_meant(t, e))
            continue;
        routing_give(q, e, t->ev, ws, place, t->life + 1, t->act);
        given++;
    }
    return given;
}

/* Number the event and give it to everyone who wants it and, if it says who may
 * have it, is named. Returns how many. */
static int number_and_give(struct sequencer *q, struct taking *t)
{
    struct event_row *ev = t->ev;
    struct workspace *ws = lanes_workspace(q, ev->workspace);
    int64_t place = q->next_place++;
    int wanted;

    ev->sequence = workspace_number(&q->workspaces, ws, ev->type);
    workspace_clock(ws, ev->type, CLOCK_MAX_BYTES, &t->clock);
    ev->clock = t->clock.data;
    t->subject->type = ev->type;
    t->subject->workspace = ev->workspace;
    wanted = give(q, t, ws, place);
    q->metrics[wanted ? METRIC_ROUTED : METRIC_UNWANTED]++;
    return wanted;
}

void routing_route(struct sequencer *q, struct taking *t)
{
    t->ev->status = EVENT_ROUTED;
    t->wanted = number_and_give(q, t);
    if (t->wanted)
        return;
    say_unwanted(q, t->subject, t->reason);
    t->ev->reason = t->reason;
}
