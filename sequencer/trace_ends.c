/* How deliveries ended, and why events were refused, for `trace`. The row says only how
 * it is now, so what it said before is kept in `acts` when a person has it sent again. */
#include "trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end that this row tells, the caller's; NULL: none. Of a delivery that was never
 * sent its dead letter tells, of an abandoned one the act. */
static char *end_of(const struct delivery_row *d, const char *endpoint)
{
    if (d->status == DELIVERY_DELIVERED)
        return gr_printf("delivered to %s after %lld attempt(s)", endpoint,
                         (long long)d->attempts);
    if (d->status == DELIVERY_DEAD && d->at_ms &&
        strcmp(d->reason, "abandoned") != 0)
        return gr_printf("dead-lettered at %s: %s", endpoint, d->reason);
    return NULL;
}

static char *subject_of(const char *event_id, const char *endpoint)
{
    return gr_printf("end of %s at %s", event_id, endpoint);
}

void trace_ends(struct sequencer *q, const char *event_id,
                const struct delivery_row *d, const char *endpoint, act_fn *fn,
                void *arg)
{
    char *subject = subject_of(event_id, endpoint), *end = end_of(d, endpoint);

    if (d->reopened_ms)
        store_acts(q->search, subject, 0, INT64_MAX, fn, arg);
    if (end)
        fn(arg, d->at_ms + d->duration_ms, end);
    free(subject);
    free(end);
}

void trace_keep_end(struct sequencer *q, const struct delivery_row *d,
                    const char *endpoint)
{
    char *end = end_of(d, endpoint), *subject;
    struct event_row ev;

    if (end && store_event(q->store, d->event, &ev)) {
        subject = subject_of(ev.id, endpoint);
        store_act_add(q->search, d->at_ms + d->duration_ms, subject, end);
        free(subject);
    }
    store_done(q->store);
    free(end);
}

void trace_keep_refusal(struct sequencer *q, int64_t event)
{
    char *subject, *what;
    struct event_row ev;

    if (store_event(q->store, event, &ev) &&
        (ev.status == EVENT_REFUSED || ev.status == EVENT_IGNORED)) {
        subject = gr_printf("event %s", ev.id);
        what = gr_printf("%s: %s",
                         ev.status == EVENT_REFUSED ? "refused" : "ignored",
                         ev.reason);
        store_act_add(q->search, trace_gone_ms(&ev), subject, what);
        free(subject);
        free(what);
    }
    store_done(q->store);
}
