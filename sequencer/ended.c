/* ended: the last delivery of an event has become final: one log line says what
 * became of it, and its body is dropped. */
#include "clock.h"
#include "event_json.h"
#include "log.h"
#include "profile.h"
#include "store.h"

/* By its request, while that is still here. NULL: unknown. */
static const char *mode_of(struct sequencer *q, const struct event_row *ev)
{
    const struct source *source = settings_source(q->d.settings, ev->source);
    struct subject subject = {.source = ev->source};
    const char *mode = NULL;

    if (source && source->mode.kind != EXPR_NONE &&
        store_body(q->store, ev->n, &subject.headers, &subject.body))
        mode = profile_mode(source, &subject);
    subject_fini(&subject);
    store_body_done(q->store);
    return mode;
}

int64_t event_duration_ms(const struct event_row *ev, int64_t reopened_ms)
{
    int64_t since_ms = ev->received_ms;

    if (ev->reopened_ms > since_ms)
        since_ms = ev->reopened_ms;
    if (reopened_ms > since_ms)
        since_ms = reopened_ms;
    return now_ms() - since_ms;
}

static void log_finished(struct sequencer *q, int64_t n)
{
    struct delivery_totals totals;
    struct event_row ev;

    if (store_event(q->store, n, &ev)) {
        totals = store_delivery_totals(q->store, n);
        log_info(
            ev.id, "finished",
            LS("status",
               event_status_name(&ev, totals.expired ? END_EXPIRED : END_DONE)),
            LO("provider_id", ev.provider_id), LS("source", ev.source),
            LS("workspace", ev.workspace), LS("type", ev.type),
            LI("sequence", ev.sequence), LI("endpoints", totals.endpoints),
            LI("dead", totals.dead), LI("attempts", totals.attempts),
            LI("duration_ms", event_duration_ms(&ev, totals.reopened_ms)),
            LS("mode", mode_of(q, &ev)));
    }
    store_done(q->store);
}

void event_maybe_ended(struct sequencer *q, int64_t event)
{
    if (!store_event_ended(q->store, event))
        return;
    if (log_has_room(LOG_INFO))
        log_finished(q, event);
    body_drop_unneeded(q, event);
}
