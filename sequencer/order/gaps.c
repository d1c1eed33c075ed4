/* gaps: records of the numbers that are missing in a stream. */
#include "gaps.h"
#include "backfill.h"
#include "log.h"
#include "operational_events.h"
#include "sequencer.h"
#include "store_order.h"
#include "watermarks.h"
#include <stdio.h>
#include <stdlib.h>

/* `reason` may be NULL. */
static void log_gap(const struct gap_row *g, const char *what,
                    const char *reason)
{
    log_info(NULL, what, LI("gap", g->id), LS("source", g->source),
             LS("workspace", g->workspace), LI("first", g->span.first),
             LI("last", g->span.last), LO("reason", reason));
}

int64_t gaps_open(struct sequencer *q, const struct stream_row *st,
                  const struct source *source, struct span span)
{
    struct gap_row g = {.stream = st->id,
                        .source = st->source,
                        .workspace = st->workspace,
                        .type = st->type,
                        .span = span,
                        .status = GAP_OPEN,
                        .opened_ms = q->d.loop.now_ms,
                        .note = source->order.observe ? "observed" : "",
                        .due = watermarks_clock(q->watermarks) +
                               source->order.give_up_after_ms};
    bool asks = source->order.backfill && !source->order.observe;
    const char *wrong = asks ? backfill_wrong(source, &g) : NULL;

    if (wrong)
        g.note = wrong;
    g.id = store_gap_add(q->order, &g);
    q->metrics[METRIC_GAPS_OPENED]++;
    log_gap(&g, "gap opened", NULL);
    operational_gap(q, OPERATIONAL_GAP_OPENED, &g, NULL);
    if (asks && !wrong)
        backfill_ask(q, source, &g);
    return g.due;
}

/* Take the number out of a gap of several: it becomes a filled gap of its own, or extends the
 * filled gap just before, so that a gap that is filled number by number does not leave a row
 * for each. What is left of the gap is one gap, or two. */
static void split(struct sequencer *q, const struct gap_row *g, int64_t number)
{
    struct split_gap parts = gap_split(g->span, number);
    struct gap_row part = *g, before;

    if (number == g->span.first &&
        store_gap_of(q->order, g->stream, number - 1, &before) &&
        before.status == GAP_FILLED) {
        store_gap_span(q->order, before.id,
                       (struct span){before.span.first, number});
    } else {
        part.span = (struct span){number, number};
        part.status = GAP_FILLED;
        part.closed_ms = q->d.loop.now_ms;
        store_gap_add(q->order, &part);
    }
    if (span_is_empty(parts.before)) {
        store_gap_span(q->order, g->id, parts.behind);
        return;
    }
    store_gap_span(q->order, g->id, parts.before);
    if (!span_is_empty(parts.behind)) {
        part = *g;
        part.span = parts.behind;
        store_gap_add(q->order, &part);
    }
}

bool gaps_fill(struct sequencer *q, const struct stream_row *st, int64_t number)
{
    struct gap_row g;
    bool found = store_gap_of(q->order, st->id, number, &g) &&
                 g.status != GAP_FILLED;

    if (found) {
        g.source = st->source;
        g.workspace = st->workspace;
        g.type = st->type;
        g.note = gr_strdup(g.note);
        store_gap_done(q->order);
        if (g.span.first == g.span.last) {
            store_gap_end(q->order, g.id, GAP_FILLED, q->d.loop.now_ms, NULL);
            log_gap(&g, "gap filled", NULL);
        } else {
            split(q, &g, number);
        }
        free((char *)(uintptr_t)g.note);
        q->metrics[METRIC_GAP_NUMBERS_FILLED]++;
    }
    store_gap_done(q->order);
    return found;
}

void gaps_skip(struct sequencer *q, int64_t id, const char *note)
{
    struct gap_row g;

    if (store_gap(q->order, id, &g) && g.status == GAP_OPEN) {
        log_gap(&g, "gap skipped", *note ? note : "its wait has expired");
        operational_gap(q, OPERATIONAL_GAP_SKIPPED, &g,
                        *note ? note : "its wait has expired");
        if (*g.note) /* keep the note that the gap was only observed */
            note = NULL;
        store_gap_end(q->order, id, GAP_SKIPPED, q->d.loop.now_ms, note);
        q->metrics[METRIC_GAPS_SKIPPED]++;
    }
    store_gap_done(q->order);
}

gr_rc gaps_close(struct sequencer *q, int64_t id, const char *note,
                 int64_t *stream, char why[200])
{
    struct gap_row g;
    gr_rc rc = GR_REFUSE;

    if (!store_gap(q->order, id, &g)) {
        control_fail(why, CONTROL_NOT_FOUND, "there is no gap %lld",
                     (long long)id);
    } else if (g.status != GAP_OPEN) {
        snprintf(why, 200, "gap %lld is not open", (long long)id);
    } else {
        log_gap(&g, "gap closed by an operator", NULL);
        *stream = g.stream;
        rc = GR_OK;
    }
    store_gap_done(q->order);
    if (rc == GR_OK) {
        store_gap_end(q->order, id, GAP_CLOSED, q->d.loop.now_ms, note);
        q->metrics[METRIC_GAPS_CLOSED]++;
    }
    return rc;
}

static const char order_changed[] = "the configuration of order changed";

static bool note_skipped(void *arg, const struct gap_row *g)
{
    operational_gap(arg, OPERATIONAL_GAP_SKIPPED, g, order_changed);
    return true;
}

void gaps_skip_all(struct sequencer *q, int64_t stream)
{
    store_gaps_open_of(q->order, stream, note_skipped, q);
    q->metrics[METRIC_GAPS_SKIPPED] += store_gaps_skip_all(
        q->order, stream, GAP_SKIPPED, q->d.loop.now_ms, order_changed);
}

void gaps_reconciled(struct sequencer *q, const struct event_row *ev)
{
    char *note = gr_printf("%s, provider id %.200s", ev->id,
                           ev->provider_id ? ev->provider_id : "unknown");
    struct gap_row g = {.source = ev->source,
                        .workspace = ev->workspace,
                        .type = ev->type,
                        .status = GAP_RECONCILED,
                        .opened_ms = q->d.loop.now_ms,
                        .closed_ms = q->d.loop.now_ms,
                        .note = note};

    g.id = store_gap_add(q->order, &g);
    q->metrics[METRIC_GAPS_RECONCILED]++;
    log_gap(&g, "gap reconciled", note);
    free(note);
}

enum gap_status gaps_before(struct sequencer *q, int64_t stream, int64_t number,
                            int64_t *id)
{
    struct gap_row g;
    /* Without a record do not wait. */
    enum gap_status status = GAP_SKIPPED;

    *id = 0;
    if (store_gap_of(q->order, stream, number - 1, &g)) {
        status = (enum gap_status)g.status;
        *id = g.id;
    }
    store_gap_done(q->order);
    return status;
}
