/* What happened to the event itself: when it came, what held it up, when it went. */
#include "store_order.h"
#include "trace.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t trace_gone_ms(const struct event_row *e)
{
    return e->let_go_ms ? e->let_go_ms : e->taken_ms;
}

static void tell_gap(struct trace *t, const struct gap_row *g)
{
    char subject[32];
    char *told = gr_printf("gap_%" PRId64 " (%" PRId64 "-%" PRId64 " missing)",
                           g->id, g->span.first, g->span.last);

    snprintf(subject, sizeof subject, "gap %" PRId64, g->id);
    trace_say(t, g->opened_ms, "%s: noticed", told);
    if (g->status == GAP_CLOSED)
        trace_acts(t, subject, told, 0, INT64_MAX);
    else if (g->status != GAP_OPEN)
        trace_say(t, g->closed_ms, "%s: %s%s%s", told,
                  g->status == GAP_FILLED ? "came after all" : "given up",
                  *g->note ? ": " : "", g->note);
    free(told);
}

/* The gap in front of it, when that held it back or was passed by it. */
static void tell_gap_before(struct trace *t, const struct event_row *e)
{
    struct gap_row g;

    if (e->numbered && (*e->gap || e->status == EVENT_BUFFERED) &&
        store_gap_before(t->q->order, e->source, e->workspace, e->type,
                         e->source_sequence, &g))
        tell_gap(t, &g);
    store_gap_before_done(t->q->order);
}

static void tell_order(struct trace *t, const struct event_row *e)
{
    if (e->late)
        trace_say(t, trace_gone_ms(e),
                  "late: later ones of its stream had gone");
    else if (*e->note)
        trace_say(t, trace_gone_ms(e), "%s", e->note);
    if (*e->gap)
        trace_say(t, trace_gone_ms(e), "let go past what is missing: %s",
                  e->gap);
    tell_gap_before(t, e);
}

/* What people did with the event. */
static void tell_acts(struct trace *t, const struct event_row *e)
{
    char *subject = gr_printf("event %s", e->id);

    trace_acts(t, subject, "", 0, INT64_MAX);
    free(subject);
}

/* What was found when it came: a repeat, perhaps let through later. */
static void tell_repeat(struct trace *t, const struct event_row *e)
{
    bool refused = strstr(e->reason, "idempotency_key_reused") != NULL;

    if (refused)
        trace_say(t, e->taken_ms, "it came with the idempotency key of %s",
                  e->duplicate_of);
    else if (e->status == EVENT_DUPLICATE || *e->duplicate_of)
        trace_say(t, e->taken_ms, "a repeat of %s: kept, not delivered",
                  *e->duplicate_of ? e->duplicate_of : "one no longer kept");
    tell_acts(t, e);
}

static void tell_transition(struct trace *t, const struct event_row *e)
{
    const char *object, *from, *to;

    if (!store_transition(t->q->store, e->n, &object, &from, &to))
        ;
    else if (*from)
        trace_say(t, trace_gone_ms(e), "state of %s: %s to %s", object, from,
                  to);
    else
        trace_say(t, trace_gone_ms(e), "state of %s: begins as %s", object, to);
    store_transition_done(t->q->store);
}

void trace_event_itself(struct trace *t, const struct event_row *e)
{
    int64_t at_ms = trace_gone_ms(e);

    tell_repeat(t, e);
    if (e->status == EVENT_BUFFERED ||
        (e->let_go_ms && !*e->duplicate_of && strstr(e->note, "held back")))
        trace_say(t, e->taken_ms,
                  "held back: earlier ones of its stream have not come");
    tell_order(t, e);
    tell_transition(t, e);
    if (e->status == EVENT_SPLIT)
        trace_say(t, e->taken_ms,
                  "a request of %s: each is an event of its own", e->reason);
    else if (e->status == EVENT_REFUSED)
        trace_say(t, at_ms, "refused: %s", e->reason);
    else if (e->status == EVENT_IGNORED)
        trace_say(t, at_ms, "ignored: %s", e->reason);
    else if (e->status == EVENT_ROUTED && !e->sequence)
        trace_say(t, at_ms, "made here: %s", e->type);
    else if (e->status == EVENT_ROUTED)
        trace_say(t, at_ms, "sequenced: number %llu of workspace %s, type %s",
                  (unsigned long long)e->sequence, e->workspace, e->type);
}
