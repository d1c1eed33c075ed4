#include "stream.h"
#include "gaps.h"
#include "hash.h"
#include "siphash.h"
#include <stdlib.h>
#include <string.h>

/* A source that is ordered, as the settings have it. */
struct epoch {
    char *source;
    int64_t n;
};

/* ---- the cache ---- */

static uint64_t key_of(const char *source, const char *workspace,
                       const char *type, int kind)
{
    uint64_t h = hash_keyed_text((uint64_t)kind, source);

    return hash_keyed_text(hash_keyed_text(h, workspace), type);
}

static void stream_free(struct stream *st)
{
    free(st->source);
    free(st->workspace);
    free(st->type);
    free(st);
}

void stream_clear(struct streams *s)
{
    struct stream *st;

    for (size_t at = 0; (st = lookup_walk(&s->cache, &at));)
        stream_free(st);
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
                          .judged = -1};
    lookup_add(&s->cache, key_of(r->source, r->workspace, r->type, r->kind),
               st);
    return st;
}

void stream_changed(struct streams *s, struct stream *st)
{
    if (st->dirty)
        return;
    st->dirty = true;
    SLIST_INSERT_HEAD(&s->dirty, st, dirty_next);
}

void stream_write(struct streams *s)
{
    struct stream *st;

    SLIST_FOREACH(st, &s->dirty, dirty_next)
    {
        store_stream_set(s->q->order, &(struct stream_row){.id = st->id,
                                                           .next = st->next,
                                                           .high = st->high,
                                                           .held = st->buffered,
                                                           .epoch = st->epoch});
        st->dirty = false;
    }
    SLIST_INIT(&s->dirty);
}

void stream_ready(struct streams *s, struct stream *st)
{
    if (!st || st->ready)
        return;
    st->ready = true;
    STAILQ_INSERT_TAIL(&s->ready, st, ready_next);
}

struct stream *stream_take_ready(struct streams *s)
{
    struct stream *st = STAILQ_FIRST(&s->ready);

    if (!st)
        return NULL;
    STAILQ_REMOVE_HEAD(&s->ready, ready_next);
    st->ready = false;
    return st;
}

struct stream *stream_by_id(struct streams *s, int64_t id)
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

/* ---- where the numbers come from ---- */

/* A hash of the expressions that give the number. It is stored: never change how it is
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

void stream_epochs_free(struct streams *s)
{
    for (size_t i = 0; i < s->epoch_count; i++)
        free(s->epochs[i].source);
    free(s->epochs);
    s->epochs = NULL;
    s->epoch_count = 0;
}

void stream_epochs(struct streams *s)
{
    const struct settings *set = s->q->d.settings;

    stream_epochs_free(s);
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

/* -1: it has no order. */
static int64_t epoch_of(const struct streams *s, const char *source)
{
    for (size_t i = 0; i < s->epoch_count; i++)
        if (strcmp(s->epochs[i].source, source) == 0)
            return s->epochs[i].n;
    return -1;
}

bool stream_is_old(const struct streams *s, const struct stream *st)
{
    return st->epoch != epoch_of(s, st->source);
}

/* ---- a stream begins ---- */

/* Its positions are to come; what they begin with. */
static void begin(struct stream_row *r, const struct order *o, int64_t position,
                  bool at_first)
{
    if (o->by == ORDER_TIMESTAMP)
        r->next = INT64_MIN + 1;
    else
        r->next = at_first || o->start_first ? position : 1;
    r->high = r->next - 1;
}

/* It begins at the first number that comes, whatever `start` says, because the numbering of
 * the provider began earlier. */
static void begin_anew(struct streams *s, struct stream *st,
                       const struct source *source, int64_t position)
{
    struct stream_row r;

    gaps_abandon(s, st);
    begin(&r, &source->order, position, true);
    st->epoch = epoch_of(s, st->source);
    st->next = r.next;
    st->high = r.high;
    stream_changed(s, st);
}

struct stream *stream_of(struct streams *s, const struct source *source,
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
    if (stream_is_old(s, st) && !st->buffered)
        begin_anew(s, st, source, position);
    return st;
}
