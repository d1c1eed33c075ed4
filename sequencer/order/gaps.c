#include "gaps.h"
#include "backfill.h"
#include "log.h"
#include "watermarks.h"
#include <stdio.h>
#include <stdlib.h>

static void log_gap(const struct gap_row *g, const char *what)
{
    log_info(NULL, what, LI("gap", g->id), LS("source", g->source),
             LS("workspace", g->workspace), LI("first", g->span.first),
             LI("last", g->span.last));
}

void gaps_open(struct streams *s, const struct stream *st,
               const struct source *source, struct span span)
{
    struct gap_row g = {.stream = st->id,
                        .source = st->source,
                        .workspace = st->workspace,
                        .type = st->type,
                        .span = span,
                        .status = GAP_OPEN,
                        .opened_ms = s->q->d.loop.now_ms,
                        .note = source->order.observe ? "observed" : "",
                        .due = watermarks_clock(s->q->watermarks) +
                               source->order.give_up_after_ms};
    bool asks = source->order.backfill && !source->order.observe;
    const char *wrong = asks ? backfill_wrong(source, &g) : NULL;

    if (wrong)
        g.note = wrong;
    g.id = store_gap_add(s->q->order, &g);
    if (s->due >= 0 && g.due < s->due)
        s->due = g.due;
    s->q->metrics[METRIC_GAPS_OPENED]++;
    log_gap(&g, "gap opened");
    if (asks && !wrong)
        backfill_ask(s->q, source, &g);
}

/* Numbers of a gap came: a part of it is its own, filled. */
static void add_filled(struct streams *s, const struct gap_row *g,
                       int64_t number)
{
    struct gap_row part = *g;

    part.span = (struct span){number, number};
    part.status = GAP_FILLED;
    part.closed_ms = s->q->d.loop.now_ms;
    store_gap_add(s->q->order, &part);
}

/* So that a gap that fills one by one is not a row for each number: the filled
 * part just before takes this number too. */
static bool grow_filled(struct streams *s, const struct gap_row *g,
                        int64_t number)
{
    struct gap_row before;

    if (number != g->span.first ||
        !store_gap_of(s->q->order, g->stream, number - 1, &before) ||
        before.status != GAP_FILLED)
        return false;
    store_gap_span(s->q->order, before.id,
                   (struct span){before.span.first, number});
    return true;
}

static void split(struct streams *s, const struct gap_row *g, int64_t number)
{
    struct split_gap parts = gap_split(g->span, number);
    struct gap_row behind = *g;

    if (!grow_filled(s, g, number))
        add_filled(s, g, number);
    if (span_is_empty(parts.before)) {
        store_gap_span(s->q->order, g->id, parts.behind);
        return;
    }
    store_gap_span(s->q->order, g->id, parts.before);
    if (!span_is_empty(parts.behind)) {
        behind.span = parts.behind;
        store_gap_add(s->q->order, &behind);
    }
}

void gaps_fill(struct streams *s, const struct stream *st, int64_t number)
{
    struct gap_row row, g;

    if (store_gap_of(s->q->order, st->id, number, &row) &&
        row.status != GAP_FILLED) {
        g = row;
        g.source = st->source;
        g.workspace = st->workspace;
        g.type = st->type;
        g.note = gr_strdup(row.note);
        store_gap_done(s->q->order);
        if (g.span.first == g.span.last) {
            store_gap_end(s->q->order, g.id, GAP_FILLED, s->q->d.loop.now_ms,
                          NULL);
            log_gap(&g, "gap filled");
        } else {
            split(s, &g, number);
        }
        free((char *)(uintptr_t)g.note);
        s->q->metrics[METRIC_GAP_NUMBERS_FILLED]++;
        s->due = -1;
    }
    store_gap_done(s->q->order);
}

void gaps_give_up(struct streams *s, int64_t id, const char *note)
{
    struct gap_row g;

    if (store_gap(s->q->order, id, &g) && g.status == GAP_OPEN) {
        log_gap(&g, "gap skipped: the time or buffer limit was reached");
        if (*g.note) /* keep the note that the gap was only observed */
            note = NULL;
        store_gap_end(s->q->order, id, GAP_SKIPPED, s->q->d.loop.now_ms, note);
        s->q->metrics[METRIC_GAPS_SKIPPED]++;
        s->due = -1;
    }
    store_gap_done(s->q->order);
}

enum gap_status gaps_before(struct streams *s, const struct stream *st,
                            int64_t number, int64_t *id)
{
    struct gap_row g;
    /* Without a record nothing is waited for. */
    enum gap_status status = GAP_SKIPPED;

    *id = 0;
    if (store_gap_of(s->q->order, st->id, number - 1, &g)) {
        status = (enum gap_status)g.status;
        *id = g.id;
    }
    store_gap_done(s->q->order);
    return status;
}

gr_rc streams_close_gap(struct streams *s, int64_t id, const char *note,
                        char why[200])
{
    struct gap_row g;
    struct stream *st;
    gr_rc rc = GR_REFUSE;

    if (!store_gap(s->q->order, id, &g)) {
        snprintf(why, 200, "there is no gap %lld", (long long)id);
    } else if (g.status != GAP_OPEN) {
        snprintf(why, 200, "gap %lld is not open", (long long)id);
    } else {
        log_gap(&g, "gap closed by an operator");
        st = stream_by_id(s, g.stream);
        stream_ready(s, st);
        rc = GR_OK;
    }
    store_gap_done(s->q->order);
    if (rc == GR_OK) {
        store_gap_end(s->q->order, id, GAP_CLOSED, s->q->d.loop.now_ms, note);
        s->q->metrics[METRIC_GAPS_CLOSED]++;
        s->due = -1;
    }
    return rc;
}

void gaps_abandon(struct streams *s, const struct stream *st)
{
    int n = store_gaps_leave(s->q->order, st->id, GAP_SKIPPED,
                             s->q->d.loop.now_ms,
                             "the configuration of order changed");

    s->q->metrics[METRIC_GAPS_SKIPPED] += n;
    if (n)
        s->due = -1;
}
