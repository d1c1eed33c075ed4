/* event: the status of an event, and its end: when its last delivery is final, one log line
 * has the result, and its body is dropped. */
#include "event.h"
#include "clock.h"
#include "json_text.h"
#include "log.h"
#include "profile.h"
#include "sequencer.h"
#include "states.h"
#include "store.h"
#include <stdlib.h>

/* ---- the table of transitions ---- */

#define JUDGED                                          \
    (STATE_TO(EVENT_ROUTED) | STATE_TO(EVENT_REFUSED) | \
     STATE_TO(EVENT_BUFFERED) | STATE_TO(EVENT_IGNORED))

static const struct state event_table[] = {
    [EVENT_ROUTED] = {"routed", 0},
    [EVENT_DUPLICATE] = {"duplicate", JUDGED},
    [EVENT_REFUSED] = {"refused", JUDGED | STATE_TO(EVENT_DUPLICATE) |
                                      STATE_TO(EVENT_SPLIT)},
    [EVENT_BUFFERED] = {"buffered", STATE_TO(EVENT_ROUTED) |
                                        STATE_TO(EVENT_REFUSED) |
                                        STATE_TO(EVENT_IGNORED)},
    [EVENT_IGNORED] = {"ignored",
                       STATE_TO(EVENT_ROUTED) | STATE_TO(EVENT_REFUSED)},
    [EVENT_SPLIT] = {"split", 0},
    [EVENT_NEW] = {"new",
                   JUDGED | STATE_TO(EVENT_DUPLICATE) | STATE_TO(EVENT_SPLIT)},
};
/* The log names an event's source next to its id. */
static const struct states event_states = {"source", event_table,
                                           COUNT_OF(event_table)};

void event_move(struct event_row *e, enum event_status to, const char *reason)
{
    states_transition(&event_states, &e->status, (int)to, e->id, e->source,
                      NULL);
    e->reason = reason;
}

const char *event_status_plain(int status)
{
    return states_name(&event_states, status);
}

const char *event_status_name(const struct event_row *e, enum event_end end)
{
    if (e->status != EVENT_ROUTED && e->status != EVENT_SPLIT)
        return event_status_plain(e->status);
    return end == END_OPEN ? "routed" : end == END_EXPIRED ? "expired" : "done";
}

void event_fini(struct event_row *e)
{
    free(e->strings);
    *e = (struct event_row){0};
}

bool event_reconciled(const struct event_row *e)
{
    return e->note &&
           strncmp(e->note, EVENT_RECONCILED, strlen(EVENT_RECONCILED)) == 0;
}

json_t *event_json(const struct event_row *e, enum event_end end)
{
    return json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:b,s:o,s:b}", "id",
        e->id, "source", json_text_of(e->source), "provider_id",
        json_text_or_null(e->provider_id), "delivery_id",
        json_text_or_null(e->delivery_id), "type", json_text_of(e->type),
        "workspace", json_text_of(e->workspace), "sequence",
        json_number_or_null((int64_t)e->sequence), "source_sequence",
        e->numbered ? json_integer(e->source_sequence) : json_null(),
        "received_at", json_time(e->received_ms), "status",
        event_status_name(e, end), "reason", json_text_or_null(e->reason),
        "duplicate_of", json_text_or_null(e->duplicate_of), "late",
        (int)e->late, "gap", json_text_or_null(e->gap), "reconciled",
        (int)event_reconciled(e));
}

json_t *event_json_of_tenant(const struct event_row *e, enum event_end end)
{
    json_t *out = event_json(e, end);

    /* Why no endpoint is subscribed to it: that names those of the file. */
    if (e->status == EVENT_ROUTED)
        json_object_set_new(out, "reason", json_null());
    return out;
}

/* ---- the end of an event ---- */

/* The mode (test or live) that its request has, if that is still stored; NULL: unknown. */
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
    event_fini(&ev);
}

void event_drop_body(struct sequencer *q, int64_t event)
{
    if (!store_dead_letter_pending(q->store, event) &&
        !(q->reopenings && store_reopening_pending(q->store, event)))
        store_body_drop(q->store, event);
}

void event_maybe_drop_body(struct sequencer *q, int64_t event)
{
    if (store_event_ended(q->store, event))
        event_drop_body(q, event);
}

void event_ended(struct sequencer *q, int64_t event)
{
    if (log_has_capacity(LEVEL_INFO))
        log_finished(q, event);
    event_drop_body(q, event);
}
