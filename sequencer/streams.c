#include "streams.h"
#include "backfill.h"
#include "doors.h"
#include "finding.h"
#include "log.h"
#include "store.h"
#include "store_order.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS = 4096,
    STREAMS_CACHED = 65536,
    GO_PER_TURN = 128,   /* held events let go */
    LOOK_PER_TURN = 256, /* waits that are over, streams looked at */
};

struct stream {
    struct stream *next_in_bucket;
    struct stream *next_dirty, *next_ready;
    char *source, *workspace, *type;
    int kind; /* enum order_by */
    int64_t id, next, high, held;
    bool dirty, ready;
};

struct streams {
    struct sequencer *q;
    struct stream *buckets[BUCKETS];
    size_t count;
    struct stream *dirty;
    struct stream *ready, *ready_last; /* something in it may go now */
    int64_t due;                       /* -1: look */
    int64_t held;
    int64_t scanned; /* stream up to which all that hold were looked at */
    bool scanning;
};

/* ---- the cache ---- */

static size_t bucket_of(const char *source, const char *workspace,
                        const char *type, int kind)
{
    const char *const parts[] = {source, workspace, type};
    uint64_t h = 1469598103934665603ULL + (uint64_t)kind;

    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        for (const char *p = parts[i]; *p; p++)
            h = (h ^ (unsigned char)*p) * 1099511628211ULL;
        h = (h ^ 0xff) * 1099511628211ULL;
    }
    return (size_t)((h ^ h >> 32) % BUCKETS);
}

static void stream_free(struct stream *st)
{
    free(st->source);
    free(st->workspace);
    free(st->type);
    free(st);
}

static void clear(struct streams *s)
{
    for (size_t b = 0; b < BUCKETS; b++) {
        while (s->buckets[b]) {
            struct stream *st = s->buckets[b];

            s->buckets[b] = st->next_in_bucket;
            stream_free(st);
        }
    }
    s->count = 0;
    s->dirty = s->ready = s->ready_last = NULL;
}

static void load(struct streams *s)
{
    s->due = -1;
    s->held = store_held_count(s->q->order, NULL);
    streams_configure(s);
}

struct streams *streams_open(struct sequencer *q)
{
    struct streams *s = gr_alloc(sizeof *s);

    s->q = q;
    load(s);
    return s;
}

void streams_close(struct streams *s)
{
    clear(s);
    free(s);
}

void streams_undo(struct streams *s)
{
    clear(s);
    load(s);
}

void streams_configure(struct streams *s)
{
    s->scanning = true;
    s->scanned = 0;
}

static struct stream *cached(struct streams *s, const char *source,
                             const char *workspace, const char *type, int kind)
{
    struct stream *st = s->buckets[bucket_of(source, workspace, type, kind)];

    while (st &&
           (st->kind != kind || strcmp(st->workspace, workspace) != 0 ||
            strcmp(st->source, source) != 0 || strcmp(st->type, type) != 0))
        st = st->next_in_bucket;
    return st;
}

static struct stream *add(struct streams *s, const struct stream_row *r)
{
    struct stream *st = gr_alloc(sizeof *st);
    size_t b = bucket_of(r->source, r->workspace, r->type, r->kind);

    *st = (struct stream){.source = gr_strdup(r->source),
                          .workspace = gr_strdup(r->workspace),
                          .type = gr_strdup(r->type),
                          .kind = r->kind,
                          .id = r->id,
                          .next = r->next,
                          .high = r->high,
                          .held = r->held,
                          .next_in_bucket = s->buckets[b]};
    s->buckets[b] = st;
    s->count++;
    return st;
}

/* The stream of an event, begun with it when it is the first. */
static struct stream *stream_of(struct streams *s, const struct source *source,
                                const struct event_row *ev, int64_t place)
{
    const struct order *o = &source->order;
    const char *type = o->by == ORDER_SEQUENCE && o->per_type ? ev->type : "";
    struct stream *st = cached(s, source->name, ev->workspace, type,
                               (int)o->by);
    struct stream_row r;

    if (st)
        return st;
    if (!store_stream(s->q->order, source->name, ev->workspace, type,
                      (int)o->by, &r)) {
        r = (struct stream_row){.source = source->name,
                                .workspace = ev->workspace,
                                .type = type,
                                .kind = (int)o->by};
        if (o->by == ORDER_SEQUENCE)
            r.next = o->start_first ? place : 1;
        else
            r.next = INT64_MIN + 1;
        r.high = r.next - 1;
        r.id = store_stream_add(s->q->order, &r);
    }
    st = add(s, &r);
    store_stream_done(s->q->order);
    return st;
}

static struct stream *stream_by_id(struct streams *s, int64_t id)
{
    struct stream_row r;
    struct stream *st = NULL;

    if (store_stream_by_id(s->q->order, id, &r)) {
        st = cached(s, r.source, r.workspace, r.type, r.kind);
        if (!st)
            st = add(s, &r);
    }
    store_stream_done(s->q->order);
    return st;
}

static void changed(struct streams *s, struct stream *st)
{
    if (st->dirty)
        return;
    st->dirty = true;
    st->next_dirty = s->dirty;
    s->dirty = st;
}

static void make_ready(struct streams *s, struct stream *st)
{
    if (!st || st->ready)
        return;
    st->ready = true;
    st->next_ready = NULL;
    if (s->ready_last)
        s->ready_last->next_ready = st;
    else
        s->ready = st;
    s->ready_last = st;
}

/* ---- gaps ---- */

static void say_gap(const struct gap_row *g, const char *what)
{
    log_info(NULL, what, LI("gap", g->id), LS("source", g->source),
             LS("workspace", g->workspace), LI("from", g->span.first),
             LI("to", g->span.last));
}

static void open_gap(struct streams *s, const struct stream *st,
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
                        .due = doors_time(s->q->doors) +
                               source->order.give_up_after_ms};

    g.id = store_gap_add(s->q->order, &g);
    if (s->due >= 0 && g.due < s->due)
        s->due = g.due;
    s->q->metrics[METRIC_GAPS_OPENED]++;
    say_gap(&g, "gap opened");
    if (source->order.backfill && !source->order.observe)
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

/* A number that may be one of a gap's. */
static void fill(struct streams *s, const struct stream *st, int64_t number)
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
            say_gap(&g, "gap filled");
        } else {
            split(s, &g, number);
        }
        free((char *)(uintptr_t)g.note);
        s->q->metrics[METRIC_GAP_NUMBERS_FILLED]++;
        s->due = -1;
    }
    store_gap_done(s->q->order);
}

static void give_up(struct streams *s, int64_t id, const char *note)
{
    struct gap_row g;

    if (store_gap(s->q->order, id, &g) && g.status == GAP_OPEN) {
        say_gap(&g, "gap given up");
        if (*g.note) /* it was only observed: say so on */
            note = NULL;
        store_gap_end(s->q->order, id, GAP_SKIPPED, s->q->d.loop.now_ms, note);
        s->q->metrics[METRIC_GAPS_SKIPPED]++;
        s->due = -1;
    }
    store_gap_done(s->q->order);
}

/* How what is missing before `number` stands. */
static enum gap_status gap_before(struct streams *s, const struct stream *st,
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

/* ---- an event comes ---- */

static void hold(struct streams *s, struct stream *st, struct event_row *ev,
                 int64_t place, bool observed, int64_t due)
{
    struct held_row h = {.place = place, .event = ev->n, .observed = observed};

    store_held_add(s->q->order, st->id, &h, due);
    st->held++;
    s->held++;
    if (due && s->due >= 0 && due < s->due)
        s->due = due;
    changed(s, st);
    if (!observed)
        ev->status = EVENT_BUFFERED;
}

/* The numbers between what may go next and this one, as far as they are
 * missing: what its way is over. */
static void past(char text[SPAN_BYTES], const struct stream *st, int64_t number)
{
    if (number > st->next)
        span_print(text, (struct span){st->next, number - 1});
}

static bool place_number(struct streams *s, const struct source *source,
                         struct stream *st, int64_t number,
                         struct event_row *ev, struct placing *p)
{
    const struct order *o = &source->order;
    enum order_verdict v = order_arrives(st->next, number, o->tolerance_gap,
                                         st->ready);
    struct span missing = order_missing(st->high, number);

    if (number <= st->high)
        fill(s, st, number);
    else if (!span_is_empty(missing))
        open_gap(s, st, source, missing);
    if (number > st->high)
        st->high = number;
    changed(s, st);
    if (v == ORDER_LATE) {
        ev->late = !o->observe;
        snprintf(p->note, sizeof p->note, "came late%s",
                 o->observe ? ": would have been marked so" : "");
        s->q->metrics[METRIC_EVENTS_LATE]++;
    } else if (v == ORDER_HELD) {
        hold(s, st, ev, number, o->observe, 0);
        if (st->held > o->buffer || number < st->high)
            make_ready(s, st);
        if (o->observe) {
            past(p->gap, st, number);
            snprintf(p->note, sizeof p->note,
                     "would have been held: %s had not come", p->gap);
            s->q->metrics[METRIC_WOULD_HOLD]++;
        }
        return o->observe;
    } else {
        past(p->gap, st, number);
        ev->gap = o->observe ? NULL : p->gap;
        st->next = number + 1;
        if (st->held)
            make_ready(s, st);
    }
    return true;
}

static bool place_time(struct streams *s, const struct source *source,
                       struct stream *st, int64_t us, struct event_row *ev,
                       struct placing *p)
{
    const struct order *o = &source->order;
    bool behind = us < st->high;

    if (us > st->high)
        st->high = us;
    changed(s, st);
    if (o->observe) {
        if (behind) {
            snprintf(p->note, sizeof p->note, "came %lld ms after a later one",
                     (long long)((st->high - us) / 1000));
            s->q->metrics[METRIC_WOULD_HOLD]++;
        }
        return true;
    }
    if (us < st->next) { /* a later one has gone */
        ev->late = true;
        s->q->metrics[METRIC_EVENTS_LATE]++;
        return true;
    }
    hold(s, st, ev, us, false, doors_time(s->q->doors) + o->window_ms);
    if (st->held > o->buffer)
        make_ready(s, st);
    return false;
}

bool streams_place(struct streams *s, const struct source *source,
                   const struct finding *f, struct event_row *ev,
                   struct placing *p)
{
    struct stream *st;

    *p = (struct placing){0};
    if (!f->placed)
        return true;
    st = stream_of(s, source, ev, f->place);
    ev->note = p->note;
    if (source->order.by == ORDER_TIMESTAMP)
        return place_time(s, source, st, f->place, ev, p);
    ev->numbered = true;
    ev->source_sequence = f->place;
    return place_number(s, source, st, f->place, ev, p);
}

/* ---- what was held goes ---- */

static void let_go(struct streams *s, struct stream *st,
                   const struct held_row *h, int64_t from)
{
    char gap[SPAN_BYTES] = "";

    store_held_drop(s->q->order, st->id, h);
    st->held--;
    s->held--;
    changed(s, st);
    if (st->kind == ORDER_SEQUENCE && h->place > from)
        span_print(gap, (struct span){from, h->place - 1});
    if (st->kind == ORDER_TIMESTAMP)
        s->due = -1;
    if (!h->observed)
        intake_let_go(s->q, h->event, gap);
}

/* The order that is asked for now is another one: all goes. */
static bool is_over(const struct stream *st, const struct source *source,
                    const struct held_row *h)
{
    const struct order *o = source ? &source->order : NULL;

    return !o || (int)o->by != st->kind || o->observe != h->observed ||
           (o->by == ORDER_SEQUENCE && o->per_type != (*st->type != 0));
}

static bool goes_by_number(struct streams *s, const struct stream *st,
                           const struct order *o, const struct held_row *h)
{
    int64_t id = 0;
    enum gap_status gap = h->place > st->next ? gap_before(s, st, h->place, &id)
                                              : GAP_FILLED;

    switch (order_head(st->next, h->place, o->tolerance_gap, gap,
                       st->held > o->buffer)) {
    case HEAD_WAITS:
        return false;
    case HEAD_GIVES_UP:
        give_up(s, id, "the buffer was full");
        return true;
    default:
        return true;
    }
}

/* true: the first that is held goes. */
static bool goes(struct streams *s, const struct stream *st,
                 const struct held_row *h)
{
    const struct source *source = settings_source(s->q->d.settings, st->source);
    int64_t id = 0;

    if (is_over(st, source, h)) {
        if (st->kind == ORDER_SEQUENCE && h->place > st->next &&
            gap_before(s, st, h->place, &id) == GAP_OPEN)
            give_up(s, id, "another order was configured");
        return true;
    }
    if (st->kind == ORDER_SEQUENCE)
        return goes_by_number(s, st, &source->order, h);
    return st->held > source->order.buffer ||
           h->place <=
               store_held_upto(s->q->order, st->id, doors_judged(s->q->doors));
}

/* Returns how many went; *more: the budget was too small. */
static int drain(struct streams *s, struct stream *st, int budget, bool *more)
{
    struct held_row h;
    int n = 0;

    *more = false;
    while (st->held > 0 && store_held_first(s->q->order, st->id, &h)) {
        int64_t from = st->next;

        if (n == budget) {
            *more = true;
            return n;
        }
        if (!goes(s, st, &h))
            return n;
        if (h.place >= st->next)
            st->next = st->kind == ORDER_SEQUENCE ? h.place + 1 : h.place;
        let_go(s, st, &h, from);
        n++;
    }
    return n;
}

static struct stream *take_ready(struct streams *s)
{
    struct stream *st = s->ready;

    s->ready = st->next_ready;
    if (!s->ready)
        s->ready_last = NULL;
    st->ready = false;
    return st;
}

/* ---- once a turn ---- */

/* Waits that are over. */
static bool judge(struct streams *s)
{
    int64_t judged = doors_judged(s->q->doors), stream = 0, id;
    int64_t due[LOOK_PER_TURN];
    int n = 0, held;

    if (streams_due(s) > judged)
        return false;
    for (; n < LOOK_PER_TURN; n++) {
        struct stream *st;

        id = store_gap_due(s->q->order, judged, &stream);
        if (!id)
            break;
        give_up(s, id, "");
        st = stream_by_id(s, stream);
        make_ready(s, st);
    }
    held = store_held_due(s->q->order, judged, LOOK_PER_TURN, due);
    for (int i = 0; i < held; i++)
        make_ready(s, stream_by_id(s, due[i]));
    return n == LOOK_PER_TURN || held;
}

/* After a start or with another configuration. */
static void scan(struct streams *s)
{
    for (int i = 0; s->scanning && i < LOOK_PER_TURN; i++) {
        s->scanned = store_stream_held(s->q->order, s->scanned);
        s->scanning = s->scanned != 0;
        if (s->scanning)
            make_ready(s, stream_by_id(s, s->scanned));
    }
}

static void write_changed(struct streams *s)
{
    for (; s->dirty; s->dirty = s->dirty->next_dirty) {
        struct stream *st = s->dirty;

        store_stream_set(s->q->order, st->id, st->next, st->high, st->held);
        st->dirty = false;
    }
}

void streams_follow(struct streams *s)
{
    int left = GO_PER_TURN;

    while (s->ready && left > 0) {
        struct stream *st = take_ready(s);
        bool rest;

        left -= drain(s, st, left, &rest);
        if (rest)
            make_ready(s, st);
    }
}

bool streams_work(struct streams *s, bool no_room)
{
    bool more;

    write_changed(s); /* scan and judge look at rows */
    if (no_room)
        return false;
    scan(s);
    more = judge(s);
    streams_follow(s);
    write_changed(s);
    if (s->count > STREAMS_CACHED && !s->ready)
        clear(s);
    return more || s->ready || s->scanning;
}

int64_t streams_due(struct streams *s)
{
    if (s->due < 0)
        s->due = store_next_due(s->q->order);
    return s->due;
}

int64_t streams_held(const struct streams *s)
{
    return s->held;
}

/* ---- a person's word ---- */

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
        say_gap(&g, "gap closed by a person");
        st = stream_by_id(s, g.stream);
        make_ready(s, st);
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
