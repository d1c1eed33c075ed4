/* To whom an event goes and why, and to whom not. Rows do not say why: it is judged
 * by the configuration of today, and said to be when that is not the one of then. */
#include "route.h"
#include "trace.h"
#include <stdlib.h>

enum { WHY_MAX_BYTES = 4096, UNROUTED_SHOWN = 20 };

/* The event for route_wants(). Its body may be gone: then what looks into it can't
 * be judged any more. */
static void subject_of(struct trace *t, const struct event_row *e,
                       struct subject *s)
{
    *s = (struct subject){
        .source = e->source, .type = e->type, .workspace = e->workspace};
    s->gone = !store_body(t->q->store, e->n, &s->headers, &s->body);
}

static void subject_done(struct trace *t, struct subject *s)
{
    subject_fini(s);
    store_body_done(t->q->store);
}

static const char *as_of(const struct trace *t, const struct event_row *e)
{
    return trace_gone_ms(e) < t->q->config_since_ms
               ? " (by today's configuration, which is not that of then)"
               : "";
}

static void tell_given(struct trace *t, const struct event_row *e,
                       struct subject *s, const struct endpoint *to,
                       const struct delivery_row *d)
{
    const char *now = as_of(t, e);
    struct buf why;

    buf_init(&why, WHY_MAX_BYTES);
    if (to->settings && route_wants(t->q->d.settings, to->settings, s, &why))
        trace_say(t, trace_gone_ms(e), "routed to %s: %.*s%s", to->name,
                  (int)why.len, why.data, now);
    else if (d->act)
        trace_say(t, trace_gone_ms(e), "an operator sent it to %s", to->name);
    else if (to->settings && s->gone)
        trace_say(t, trace_gone_ms(e),
                  "routed to %s: by what its subscription found in the body",
                  to->name);
    else
        trace_say(t, trace_gone_ms(e),
                  "routed to %s: by the configuration of then", to->name);
    buf_fini(&why);
}

static void tell_unrouted(struct trace *t, const struct event_row *e,
                          struct subject *s, const struct endpoint_settings *to)
{
    const char *now = as_of(t, e);
    struct buf why;

    buf_init(&why, WHY_MAX_BYTES);
    if (!route_wants(t->q->d.settings, to, s, &why))
        trace_say(t, trace_gone_ms(e), "not to %s: %.*s%s", to->name,
                  (int)why.len, why.data ? why.data : "", now);
    else if (settings_producer(t->q->d.settings, e->source))
        trace_say(t, trace_gone_ms(e),
                  "not to %s: its producer did not name it%s", to->name,
                  *now ? ", or it wants such events only since" : "");
    else
        trace_say(t, trace_gone_ms(e),
                  "not to %s: it wants such events only since", to->name);
    buf_fini(&why);
}

/* What paused or disabled its endpoint while it was on its way, and since when. */
static void tell_held_up(struct trace *t, const struct event_row *e,
                         const struct endpoint *to,
                         const struct delivery_row *d)
{
    int64_t from_ms = trace_gone_ms(e), to_ms = d->status < DELIVERY_DELIVERED
                                                    ? INT64_MAX
                                                    : d->at_ms + d->duration_ms;
    char *subject = gr_printf("endpoint %s", to->name);

    trace_hold_before(t, subject, from_ms);
    if (to_ms >= from_ms)
        trace_acts(t, subject, subject, from_ms, to_ms);
    free(subject);
}

void trace_routes(struct trace *t, const struct event_row *e)
{
    const struct settings *s = t->q->d.settings;
    struct subject subject;
    size_t unrouted = 0;

    subject_of(t, e, &subject);
    for (size_t i = 0; i < t->q->endpoint_count; i++) {
        const struct endpoint *to = &t->q->endpoints[i];
        struct delivery_row d;

        if (store_delivery(t->q->store, e->n, to->id, &d)) {
            tell_given(t, e, &subject, to, &d);
            tell_held_up(t, e, to, &d);
        }
        store_delivery_done(t->q->store);
    }
    for (size_t i = 0; i < s->endpoint_count; i++) {
        struct endpoint *to = endpoint_find(t->q, s->endpoints[i].name);
        struct delivery_row d;
        bool has = to && store_delivery(t->q->store, e->n, to->id, &d);

        store_delivery_done(t->q->store);
        if (!has && !s->endpoints[i].internal && unrouted++ < UNROUTED_SHOWN)
            tell_unrouted(t, e, &subject, &s->endpoints[i]);
    }
    if (unrouted > UNROUTED_SHOWN)
        trace_say(t, trace_gone_ms(e), "nor to %zu other endpoints",
                  unrouted - UNROUTED_SHOWN);
    subject_done(t, &subject);
}
