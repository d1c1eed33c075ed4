/* streams: buffers and releases each source's events, in the order that it configures. */
#include "streams.h"
#include "clock.h"
#include "event_intake.h"
#include "gaps.h"
#include "hash.h"
#include "parsed_event.h"
#include "sequencer.h"
#include "siphash.h"
#include "store.h"
#include "store_order.h"
#include "watermarks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
    STREAMS_CACHED = 65536,
    RELEASE_PER_TURN = 128, /* buffered events */
    LOOK_PER_TURN = 256,    /* expired waits; streams looked at */
};
/* A time so far in the future is a mistake. If it were believed, all later events would be late
 * for as long. */
#define AHEAD_MAX_MS DAY_MS

/* The present epoch of a configured source. */
struct epoch {
    char *source;
    int64_t n;
};

struct stream {
    SLIST_ENTRY(stream) dirty_next;
    STAILQ_ENTRY(stream) ready_next;
    char *source, *workspace, *type;
    int kind;      /* enum order_by */
    int64_t epoch; /* its source's, when it began (`orders` in store.sql) */
    int64_t id, next, high, buffered;
    /* In time order: the last position that may be released, as of watermarks_arrived(). */
    int64_t upto, arrived;
    bool dirty, ready;
};

struct streams {
    struct sequencer *q;
    struct lookup cache;
    SLIST_HEAD(, stream) dirty;  /* their rows are to be written */
    STAILQ_HEAD(, stream) ready; /* an event of theirs may be released now */
    struct epoch *epochs;
    size_t epoch_count;
    int64_t due; /* when the next wait ends (watermark clock); -1: not known */
    int64_t buffered;
    int64_t scanned; /* scan() has looked at streams up to this one */
    bool scanning;
};

/* ---- the cache: a stream's row is read when one of its events arrives, changed in memory, and
 * written once a turn ---- */

static uint64_t key_of(const char *source, const char *workspace,
                       const char *type, int kind)
{
    uint64_t h = hash_keyed_text((uint64_t)kind, source);

    return hash_keyed_text(hash_keyed_text(h, workspace), type);
}

/* When all rows are written, or after a rolled back turn. */
static void clear(struct streams *s)
{
    struct stream *st;

    for (size_t at = 0; (st = lookup_walk(&s->cache, &at));) {
        free(st->source);
        free(st->workspace);
        free(st->type);
        free(st);
    }
    lookup_fini(&s->cache);
    SLIST_INIT(&s->dirty);
    STAILQ_INIT(&s->ready);
}

static struct stream *cached(struct streams *s, const char *source,
                             const char *workspace, const char *type, int kind)
{
    uint64_t key = key_of(source, workspace, type, kind);
    struct stream *st;

    for (size_t at = 0; (st = lookup_get(&s->cache, key, &at));)
        if (st->kind == kind && strcmp(st->workspace, workspace) == 0 &&
            strcmp(st->source, source) == 0 && strcmp(st->type, type) == 0)
            return st;
    return NULL;
}

static struct stream *add(struct streams *s, const struct stream_row *r)
{
    struct stream *st = gr_alloc(sizeof *st);

    *st = (struct stream){.source = gr_strdup(r->source),
                          .workspace = gr_strdup(r->workspace),
                          .type = gr_strdup(r->type),
                          .kind = r->kind,
                          .epoch = r->epoch,
                          .id = r->id,
                          .next = r->next,
                          .high = r->high,
                          .buffered = r->held,
                          .arrived = -1};
    lookup_add(&s->cache, key_of(r->source, r->workspace, r->type, r->kind),
               st);
    return st;
}

static struct stream_row row_of(const struct stream *st)
{
    return (struct stream_row){.id = st->id,
                               .source = st->source,
                               .workspace = st->workspace,
                               .type = st->type,
                               .kind = st->kind,
                               .next = st->next,
                               .high = st->high,
                               .held = st->buffered,
                               .epoch = st->epoch};
}

static void mark_dirty(struct streams *s, struct stream *st)
{
    if (st->dirty)
        return;
    st->dirty = true;
    SLIST_INSERT_HEAD(&s->dirty, st, dirty_next);
}

static void write_dirty(struct streams *s)
{
    struct stream *st;

    SLIST_FOREACH(st, &s->dirty, dirty_next)
    {
        const struct stream_row row = row_of(st);

        store_stream_set(s->q->order, &row);
        st->dirty = false;
    }
    SLIST_INIT(&s->dirty);
}

/* An event of it may be released now. `st` may be NULL. */
static void mark_ready(struct streams *s, struct stream *st)
{
    if (!st || st->ready)
        return;
    st->ready = true;
    STAILQ_INSERT_TAIL(&s->ready, st, ready_next);
}

/* NULL: there is no such stream. */
static struct stream *find(struct streams *s, int64_t id)
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

/* ---- epochs: which expressions give the numbers ---- */

/* A hash of the expressions that give an event's number. It is stored: never change how it is
 * computed. */
static int64_t form_of(const struct order *o)
{
    struct buf text;
    uint64_t h;

    buf_init(&text, TEXT_MAX_BYTES);
    if (o->by != ORDER_ARRIVAL)
        expr_print(o->by == ORDER_SEQUENCE ? &o->sequence : &o->timestamp,
                   &text);
    buf_put(&text, "", 1);
    h = hash_text(HASH_BEGIN_SHORT + (uint64_t)(o->by * 2 + o->per_type),
                  text.data);
    buf_fini(&text);
    return (int64_t)h;
}

static void free_epochs(struct streams *s)
{
    for (size_t i = 0; i < s->epoch_count; i++)
        free(s->epochs[i].source);
    free(s->epochs);
    s->epochs = NULL;
    s->epoch_count = 0;
}

/* After a change of the configuration, inside the turn's transaction: begin a new epoch for each
 * source whose numbers are given by other expressions than before. */
static void read_epochs(struct streams *s)
{
    const struct settings *set = s->q->d.settings;

    free_epochs(s);
    s->epochs = gr_alloc((set->source_count + 1) * sizeof *s->epochs);
    s->epoch_count = set->source_count;
    for (size_t i = 0; i < set->source_count; i++) {
        const struct source *source = &set->sources[i];

        s->epochs[i] = (struct epoch){
            gr_strdup(source->name),
            store_order_epoch(s->q->order, source->name,
                              form_of(&source->order))};
    }
}

/* -1: the source is not configured. */
static int64_t epoch_of(const struct streams *s, const char *source)
{
    for (size_t i = 0; i < s->epoch_count; i++)
        if (strcmp(s->epochs[i].source, source) == 0)
            return s->epochs[i].n;
    return -1;
}

/* It began when other expressions gave its source's numbers. */
static bool is_old(const struct streams *s, const struct stream *st)
{
    return st->epoch != epoch_of(s, st->source);
}

/* ---- the beginning of a stream ---- */

/* Set the first number that is expected. */
static void begin(struct stream_row *r, const struct order *o, int64_t position,
                  bool at_first)
{
    if (o->by == ORDER_TIMESTAMP)
        r->next = INT64_MIN + 1;
    else
        r->next = at_first || o->start_first ? position : 1;
    r->high = r->next - 1;
}

/* The stream of an event at this position; added if this is its first event. */
static struct stream *stream_of(struct streams *s, const struct source *source,
                                const struct event_row *ev, int64_t position)
{
    const struct order *o = &source->order;
    const char *type = o->by == ORDER_SEQUENCE && o->per_type ? ev->type : "";
    struct stream *st = cached(s, source->name, ev->workspace, type,
                               (int)o->by);
    struct stream_row r;

    if (!st) {
        if (!store_stream(s->q->order, source->name, ev->workspace, type,
                          (int)o->by, &r)) {
            r = (struct stream_row){.source = source->name,
                                    .workspace = ev->workspace,
                                    .type = type,
                                    .kind = (int)o->by,
                                    .epoch = epoch_of(s, source->name)};
            begin(&r, o, position, false);
            r.id = store_stream_add(s->q->order, &r);
        }
        st = add(s, &r);
        store_stream_done(s->q->order);
    }
    if (is_old(s, st) && !st->buffered) {
        /* It begins anew, at this number whatever `start` says, as the provider's numbering
         * began earlier. */
        gaps_skip_all(s->q, st->id);
        s->due = -1;
        begin(&r, o, position, true);
        st->epoch = epoch_of(s, st->source);
        st->next = r.next;
        st->high = r.high;
        mark_dirty(s, st);
    }
    return st;
}

/* ---- start, configuration, end ---- */

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
    clear(s);
    load(s);
    return s;
}

void streams_close(struct streams *s)
{
    clear(s);
    free_epochs(s);
    free(s);
}

void streams_undo(struct streams *s)
{
    clear(s);
    load(s);
}

void streams_configure(struct streams *s)
{
    const struct settings *set = s->q->d.settings;
    int64_t now = watermarks_clock(s->q->watermarks);

    read_epochs(s);
    /* No event waits longer than the present configuration permits. */
    for (size_t i = 0; i < set->source_count; i++) {
        const struct source *source = &set->sources[i];
        const struct order *o = &source->order;

        if (o->by == ORDER_SEQUENCE)
            store_gaps_shorten_waits(s->q->order, source->name,
                                     now + o->give_up_after_ms);
        else if (o->by == ORDER_TIMESTAMP)
            store_buffered_shorten_waits(s->q->order, source->name,
                                         now + o->window_ms);
    }
    s->due = -1;
    look_at_all(s);
}

/* ---- an event arrives ---- */

struct arriving {
    struct event_row *ev;
    int64_t generation;
    struct position_strings *p;
};

static void buffer_event(struct streams *s, struct stream *st,
                         struct arriving *a, int64_t position, bool observed,
                         int64_t due)
{
    struct event_row *ev = a->ev;
    struct buffered_row b = {.position = position,
                             .event = ev->n,
                             .generation = a->generation,
                             .observed = observed};

    store_buffered_add(s->q->order, st->id, &b, due);
    st->buffered++;
    s->buffered++;
    if (due && s->due >= 0 && due < s->due)
        s->due = due;
    mark_dirty(s, st);
    if (!observed)
        event_move(ev, EVENT_BUFFERED, NULL);
}

/* The numbers between the next one to be released and this one: the gap before it. */
static void note_gap(char text[SPAN_BYTES], const struct stream *st,
                     int64_t number)
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
    const struct stream_row row = row_of(st);
    int64_t due;

    if (number <= st->high) {
        if (gaps_fill(s->q, &row, number))
            s->due = -1;
    } else if (!span_is_empty(missing)) {
        due = gaps_open(s->q, &row, source, missing);
        if (s->due >= 0 && due < s->due)
            s->due = due;
    }
    if (number > st->high)
        st->high = number;
    mark_dirty(s, st);
    if (v == ORDER_LATE) {
        ev->late = !o->observe;
        snprintf(p->note, sizeof p->note, "arrived late%s",
                 o->observe ? " (only observed)" : "");
        s->q->metrics[METRIC_EVENTS_LATE]++;
    } else if (v == ORDER_BUFFER) {
        buffer_event(s, st, a, number, o->observe, 0);
        if (st->buffered > o->buffer || number < st->high)
            mark_ready(s, st);
        if (o->observe) {
            note_gap(p->gap, st, number);
            snprintf(p->note, sizeof p->note, "would have waited for %s",
                     p->gap);
            s->q->metrics[METRIC_WOULD_BUFFER]++;
        }
        return o->observe;
    } else {
        note_gap(p->gap, st, number);
        ev->gap = o->observe ? NULL : p->gap;
        st->next = number + 1;
        if (st->buffered)
            mark_ready(s, st);
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
    mark_dirty(s, st);
    if (o->observe) {
        if (behind) {
            snprintf(a->p->note, sizeof a->p->note,
                     "arrived %lld ms after a later event",
                     (long long)((st->high - us) / 1000));
            s->q->metrics[METRIC_WOULD_BUFFER]++;
        }
        return true;
    }
    if (us < st->next) { /* a later event was released */
        ev->late = true;
        s->q->metrics[METRIC_EVENTS_LATE]++;
        return true;
    }
    buffer_event(s, st, a, us, false,
                 watermarks_clock(s->q->watermarks) + o->window_ms);
    if (st->buffered > o->buffer)
        mark_ready(s, st);
    return false;
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
    if (is_old(s, st)) {
        /* It has buffered events of the old numbering: buffer this one after them, then
         * release all. */
        buffer_event(s, st, &a, f->position, source->order.observe, 0);
        mark_ready(s, st);
        return source->order.observe;
    }
    if (source->order.by == ORDER_TIMESTAMP)
        return admit_time(s, source, st, f->position, &a);
    return admit_number(s, source, st, f->position, &a);
}

/* ---- buffered events are released ---- */

static void skip_gap(struct streams *s, int64_t gap, const char *note)
{
    gaps_skip(s->q, gap, note);
    s->due = -1;
}

static void release(struct streams *s, struct stream *st,
                    const struct buffered_row *b, int64_t from)
{
    char gap[SPAN_BYTES] = "";

    store_buffered_drop(s->q->order, st->id, b);
    st->buffered--;
    s->buffered--;
    mark_dirty(s, st);
    if (st->kind == ORDER_SEQUENCE && b->position > from)
        span_print(gap, (struct span){from, b->position - 1});
    if (st->kind == ORDER_TIMESTAMP)
        s->due = -1;
    if (!b->observed)
        intake_release_buffered(s->q, b->event, b->generation, gap);
}

/* The configuration asks for another order now: all buffered events are released. */
static bool order_has_changed(const struct streams *s, const struct stream *st,
                              const struct source *source,
                              const struct buffered_row *b)
{
    const struct order *o = source ? &source->order : NULL;

    return !o || is_old(s, st) || (int)o->by != st->kind ||
           o->observe != b->observed ||
           (o->by == ORDER_SEQUENCE && o->per_type != (*st->type != 0));
}

static bool may_release_number(struct streams *s, const struct stream *st,
                               const struct order *o,
                               const struct buffered_row *b)
{
    int64_t id = 0;
    enum gap_status gap = b->position > st->next
                              ? gaps_before(s->q, st->id, b->position, &id)
                              : GAP_FILLED;

    switch (order_head(st->next, b->position, o->tolerance_gap, gap,
                       st->buffered > o->buffer)) {
    case HEAD_WAITS:
        return false;
    case HEAD_SKIPS:
        skip_gap(s, id, "the buffer was full");
        return true;
    default:
        return true;
    }
}

/* May the stream's first buffered event be released? */
static bool may_release(struct streams *s, struct stream *st,
                        const struct buffered_row *b)
{
    const struct source *source = settings_source(s->q->d.settings, st->source);
    int64_t id = 0, arrived;

    if (order_has_changed(s, st, source, b)) {
        if (st->kind == ORDER_SEQUENCE && b->position > st->next &&
            gaps_before(s->q, st->id, b->position, &id) == GAP_OPEN)
            skip_gap(s, id, "the configuration of order changed");
        return true;
    }
    if (st->kind == ORDER_SEQUENCE)
        return may_release_number(s, st, &source->order, b);
    if (st->buffered > source->order.buffer)
        return true;
    /* Looked up once for each new value of watermarks_arrived(), as the index steps over all
     * events that are not due. Events that are buffered meanwhile are due later. */
    arrived = watermarks_arrived(s->q->watermarks);
    if (st->arrived != arrived)
        st->upto = store_buffered_upto(s->q->order, st->id, arrived);
    st->arrived = arrived;
    return b->position <= st->upto;
}

/* Release events from the head of the buffer, at most `budget`. Returns how many; *more: the
 * budget was too small. */
static int drain(struct streams *s, struct stream *st, int budget, bool *more)
{
    struct buffered_row b;
    int n = 0;

    *more = false;
    while (st->buffered > 0 && store_buffered_first(s->q->order, st->id, &b)) {
        int64_t from = st->next;

        if (n == budget) {
            *more = true;
            return n;
        }
        if (!may_release(s, st, &b))
            return n;
        if (b.position >= st->next)
            st->next = st->kind == ORDER_SEQUENCE ? b.position + 1 : b.position;
        release(s, st, &b, from);
        n++;
    }
    return n;
}

/* ---- once a turn ---- */

/* End the waits that have expired before watermarks_arrived(). true: there may be more. */
static bool end_waits(struct streams *s)
{
    int64_t arrived = watermarks_arrived(s->q->watermarks), stream = 0, id;
    int64_t due[LOOK_PER_TURN];
    int n = 0, held;

    if (streams_due(s) > arrived)
        return false;
    for (; n < LOOK_PER_TURN; n++) {
        struct stream *st;

        id = store_gap_due(s->q->order, arrived, &stream);
        if (!id)
            break;
        skip_gap(s, id, "");
        st = find(s, stream);
        mark_ready(s, st);
    }
    held = store_buffered_due(s->q->order, arrived, LOOK_PER_TURN, due);
    for (int i = 0; i < held; i++)
        mark_ready(s, find(s, due[i]));
    return n == LOOK_PER_TURN || held;
}

/* After a start or a reload, look at each stream that has buffered events. */
static void scan(struct streams *s)
{
    for (int i = 0; s->scanning && i < LOOK_PER_TURN; i++) {
        s->scanned = store_stream_buffering(s->q->order, s->scanned);
        s->scanning = s->scanned != 0;
        if (s->scanning)
            mark_ready(s, find(s, s->scanned));
    }
}

void streams_follow(struct streams *s)
{
    int left = RELEASE_PER_TURN;
    struct stream *st;
    bool rest;

    while (left > 0 && (st = STAILQ_FIRST(&s->ready))) {
        STAILQ_REMOVE_HEAD(&s->ready, ready_next);
        st->ready = false;
        left -= drain(s, st, left, &rest);
        if (rest)
            mark_ready(s, st);
    }
}

bool streams_work(struct streams *s, bool disk_low)
{
    bool more;

    write_dirty(s); /* scan() and end_waits() read rows */
    if (disk_low)
        return false;
    scan(s);
    more = end_waits(s);
    streams_follow(s);
    write_dirty(s);
    if (s->cache.used > STREAMS_CACHED && STAILQ_EMPTY(&s->ready))
        clear(s);
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

gr_rc streams_close_gap(struct streams *s, int64_t id, const char *note,
                        char why[200])
{
    int64_t stream;

    if (gaps_close(s->q, id, note, &stream, why) != GR_OK)
        return GR_REFUSE;
    s->due = -1;
    mark_ready(s, find(s, stream));
    return GR_OK;
}
