#include "streams.h"
#include "clock.h"
#include "gaps.h"
#include "intake.h"
#include "parsed_event.h"
#include "watermarks.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    STREAMS_CACHED = 65536,
    GO_PER_TURN = 128,   /* held events released */
    LOOK_PER_TURN = 256, /* waits that have ended, streams looked at */
};
/* A time so far ahead of its arrival is a mistake. Were it believed, all that
 * come after it would be late for as long. */
#define AHEAD_MAX_MS DAY_MS

static void look_at_all(struct streams *s)
{
    s->scanning = true;
    s->scanned = 0;
}

static void load(struct streams *s)
{
    s->due = -1;
    s->buffered = store_buffered_count(s->q->order, NULL);
    look_at_all(s);
}

struct streams *streams_open(struct sequencer *q)
{
    struct streams *s = gr_alloc(sizeof *s);

    s->q = q;
    stream_clear(s);
    load(s);
    return s;
}

void streams_close(struct streams *s)
{
    stream_clear(s);
    stream_epochs_free(s);
    free(s);
}

void streams_undo(struct streams *s)
{
    stream_clear(s);
    load(s);
}

/* No event waits longer than the configuration says now. */
static void hasten(struct streams *s, const struct source *source)
{
    const struct order *o = &source->order;
    int64_t now = watermarks_clock(s->q->watermarks);

    if (o->by == ORDER_SEQUENCE)
        store_gaps_hasten(s->q->order, source->name, now + o->give_up_after_ms);
    else if (o->by == ORDER_TIMESTAMP)
        store_buffered_hasten(s->q->order, source->name, now + o->window_ms);
    s->due = -1;
}

void streams_configure(struct streams *s)
{
    const struct settings *set = s->q->d.settings;

    stream_epochs(s);
    for (size_t i = 0; i < set->source_count; i++)
        hasten(s, &set->sources[i]);
    look_at_all(s);
}

/* ---- an event comes ---- */

struct arriving {
    struct event_row *ev;
    int64_t generation;
    struct position_strings *p;
};

static void hold(struct streams *s, struct stream *st, struct arriving *a,
                 int64_t position, bool observed, int64_t due)
{
    struct event_row *ev = a->ev;
    struct buffered_row h = {.position = position,
                             .event = ev->n,
                             .generation = a->generation,
                             .observed = observed};

    store_buffered_add(s->q->order, st->id, &h, due);
    st->buffered++;
    s->buffered++;
    if (due && s->due >= 0 && due < s->due)
        s->due = due;
    stream_changed(s, st);
    if (!observed)
        event_move(ev, EVENT_BUFFERED, NULL);
}

/* The numbers between the next one to be released and this one: the gap before it. */
static void past(char text[SPAN_BYTES], const struct stream *st, int64_t number)
{
    if (number > st->next)
        span_print(text, (struct span){st->next, number - 1});
}

static bool admit_number(struct streams *s, const struct source *source,
                         struct stream *st, int64_t number, struct arriving *a)
{
    const struct order *o = &source->order;
    struct event_row *ev = a->ev;
    struct position_strings *p = a->p;
    enum order_verdict v = order_arrives(st->next, number, o->tolerance_gap,
                                         st->ready && !o->observe);
    struct span missing = order_missing(st->high, number);

    if (number <= st->high)
        gaps_fill(s, st, number);
    else if (!span_is_empty(missing))
        gaps_open(s, st, source, missing);
    if (number > st->high)
        st->high = number;
    stream_changed(s, st);
    if (v == ORDER_LATE) {
        ev->late = !o->observe;
        snprintf(p->note, sizeof p->note, "arrived late%s",
                 o->observe ? " (only observed)" : "");
        s->q->metrics[METRIC_EVENTS_LATE]++;
    } else if (v == ORDER_BUFFER) {
        hold(s, st, a, number, o->observe, 0);
        if (st->buffered > o->buffer || number < st->high)
            stream_ready(s, st);
        if (o->observe) {
            past(p->gap, st, number);
            snprintf(p->note, sizeof p->note, "would have waited for %s",
                     p->gap);
            s->q->metrics[METRIC_WOULD_BUFFER]++;
        }
        return o->observe;
    } else {
        past(p->gap, st, number);
        ev->gap = o->observe ? NULL : p->gap;
        st->next = number + 1;
        if (st->buffered)
            stream_ready(s, st);
    }
    return true;
}

static bool admit_time(struct streams *s, const struct source *source,
                       struct stream *st, int64_t us, struct arriving *a)
{
    const struct order *o = &source->order;
    struct event_row *ev = a->ev;
    bool behind = us < st->high;

    if (us / 1000 - ev->received_ms > AHEAD_MAX_MS) {
        snprintf(
            a->p->note, sizeof a->p->note,
            "its time is more than a day in the future, so it is not ordered");
        return true;
    }
    if (us > st->high)
        st->high = us;
    stream_changed(s, st);
    if (o->observe) {
        if (behind) {
            snprintf(a->p->note, sizeof a->p->note,
                     "arrived %lld ms after a later event",
                     (long long)((st->high - us) / 1000));
            s->q->metrics[METRIC_WOULD_BUFFER]++;
        }
        return true;
    }
    if (us < st->next) { /* a later one has gone */
        ev->late = true;
        s->q->metrics[METRIC_EVENTS_LATE]++;
        return true;
    }
    hold(s, st, a, us, false,
         watermarks_clock(s->q->watermarks) + o->window_ms);
    if (st->buffered > o->buffer)
        stream_ready(s, st);
    return false;
}

/* The stream holds events of the old numbering: buffer this one behind them, then release
 * all. */
static bool admit_behind_old(struct streams *s, const struct source *source,
                             struct stream *st, int64_t position,
                             struct arriving *a)
{
    hold(s, st, a, position, source->order.observe, 0);
    stream_ready(s, st);
    return source->order.observe;
}

bool streams_admit(struct streams *s, const struct source *source,
                   const struct parsed_event *f, struct event_row *ev,
                   int64_t generation, struct position_strings *p)
{
    struct arriving a = {.ev = ev, .generation = generation, .p = p};
    struct stream *st;

    *p = (struct position_strings){0};
    if (!f->has_position)
        return true;
    st = stream_of(s, source, ev, f->position);
    ev->note = p->note;
    if (source->order.by == ORDER_SEQUENCE) {
        ev->numbered = true;
        ev->source_sequence = f->position;
    }
    if (stream_is_old(s, st))
        return admit_behind_old(s, source, st, f->position, &a);
    if (source->order.by == ORDER_TIMESTAMP)
        return admit_time(s, source, st, f->position, &a);
    return admit_number(s, source, st, f->position, &a);
}

/* ---- what was held goes ---- */

static void release(struct streams *s, struct stream *st,
                    const struct buffered_row *h, int64_t from)
{
    char gap[SPAN_BYTES] = "";

    store_buffered_drop(s->q->order, st->id, h);
    st->buffered--;
    s->buffered--;
    stream_changed(s, st);
    if (st->kind == ORDER_SEQUENCE && h->position > from)
        span_print(gap, (struct span){from, h->position - 1});
    if (st->kind == ORDER_TIMESTAMP)
        s->due = -1;
    if (!h->observed)
        intake_release_buffered(s->q, h->event, h->generation, gap);
}

/* The configuration asks for another order now: all buffered events are released. */
static bool wait_has_ended(const struct streams *s, const struct stream *st,
                           const struct source *source,
                           const struct buffered_row *h)
{
    const struct order *o = source ? &source->order : NULL;

    return !o || stream_is_old(s, st) || (int)o->by != st->kind ||
           o->observe != h->observed ||
           (o->by == ORDER_SEQUENCE && o->per_type != (*st->type != 0));
}

static bool goes_by_number(struct streams *s, const struct stream *st,
                           const struct order *o, const struct buffered_row *h)
{
    int64_t id = 0;
    enum gap_status gap = h->position > st->next
                              ? gaps_before(s, st, h->position, &id)
                              : GAP_FILLED;

    switch (order_head(st->next, h->position, o->tolerance_gap, gap,
                       st->buffered > o->buffer)) {
    case HEAD_WAITS:
        return false;
    case HEAD_GIVES_UP:
        gaps_give_up(s, id, "the buffer was full");
        return true;
    default:
        return true;
    }
}

/* Looked up once for each judgement: the index steps over all that are not due.
 * What is held meanwhile is due later. */
static int64_t due_position(struct streams *s, struct stream *st)
{
    int64_t judged = watermarks_judged(s->q->watermarks);

    if (st->judged != judged)
        st->upto = store_buffered_upto(s->q->order, st->id, judged);
    st->judged = judged;
    return st->upto;
}

/* true: the first that is held goes. */
static bool goes(struct streams *s, struct stream *st,
                 const struct buffered_row *h)
{
    const struct source *source = settings_source(s->q->d.settings, st->source);
    int64_t id = 0;

    if (wait_has_ended(s, st, source, h)) {
        if (st->kind == ORDER_SEQUENCE && h->position > st->next &&
            gaps_before(s, st, h->position, &id) == GAP_OPEN)
            gaps_give_up(s, id, "the configuration of order changed");
        return true;
    }
    if (st->kind == ORDER_SEQUENCE)
        return goes_by_number(s, st, &source->order, h);
    return st->buffered > source->order.buffer ||
           h->position <= due_position(s, st);
}

/* Returns how many went; *more: the budget was too small. */
static int drain(struct streams *s, struct stream *st, int budget, bool *more)
{
    struct buffered_row h;
    int n = 0;

    *more = false;
    while (st->buffered > 0 && store_buffered_first(s->q->order, st->id, &h)) {
        int64_t from = st->next;

        if (n == budget) {
            *more = true;
            return n;
        }
        if (!goes(s, st, &h))
            return n;
        if (h.position >= st->next)
            st->next = st->kind == ORDER_SEQUENCE ? h.position + 1 : h.position;
        release(s, st, &h, from);
        n++;
    }
    return n;
}

/* ---- once a turn ---- */

/* Waits that have ended. */
static bool judge(struct streams *s)
{
    int64_t judged = watermarks_judged(s->q->watermarks), stream = 0, id;
    int64_t due[LOOK_PER_TURN];
    int n = 0, held;

    if (streams_due(s) > judged)
        return false;
    for (; n < LOOK_PER_TURN; n++) {
        struct stream *st;

        id = store_gap_due(s->q->order, judged, &stream);
        if (!id)
            break;
        gaps_give_up(s, id, "");
        st = stream_by_id(s, stream);
        stream_ready(s, st);
    }
    held = store_buffered_due(s->q->order, judged, LOOK_PER_TURN, due);
    for (int i = 0; i < held; i++)
        stream_ready(s, stream_by_id(s, due[i]));
    return n == LOOK_PER_TURN || held;
}

/* After a start or with another configuration. */
static void scan(struct streams *s)
{
    for (int i = 0; s->scanning && i < LOOK_PER_TURN; i++) {
        s->scanned = store_stream_buffering(s->q->order, s->scanned);
        s->scanning = s->scanned != 0;
        if (s->scanning)
            stream_ready(s, stream_by_id(s, s->scanned));
    }
}

void streams_follow(struct streams *s)
{
    int left = GO_PER_TURN;
    struct stream *st;
    bool rest;

    while (left > 0 && (st = stream_take_ready(s))) {
        left -= drain(s, st, left, &rest);
        if (rest)
            stream_ready(s, st);
    }
}

bool streams_work(struct streams *s, bool disk_low)
{
    bool more;

    stream_write(s); /* scan and judge look at rows */
    if (disk_low)
        return false;
    scan(s);
    more = judge(s);
    streams_follow(s);
    stream_write(s);
    if (s->cache.used > STREAMS_CACHED && STAILQ_EMPTY(&s->ready))
        stream_clear(s);
    return more || !STAILQ_EMPTY(&s->ready) || s->scanning;
}

int64_t streams_due(struct streams *s)
{
    if (s->due < 0)
        s->due = store_next_due(s->q->order);
    return s->due;
}

int64_t streams_buffered(const struct streams *s)
{
    return s->buffered;
}
