/* out_rows: tables in which each place belongs to many rows, of which the last one is there. */
#include "out_rows.h"
#include "hash.h"
#include <string.h>

enum { PLACES_BITS = 13, PLACES = 1 << PLACES_BITS };

struct event_name {
    int64_t event; /* 0: the place is free */
    char id[EVENT_ID_BYTES];
};

struct open_count {
    int64_t event;
    int count; /* 0: the place is free */
};

struct out_rows {
    bool used;                    /* since it was cleared */
    struct delivery rows[PLACES]; /* event 0: the place is free */
    struct event_name names[PLACES];
    struct open_count open[PLACES];
};

struct out_rows *out_rows_open(void)
{
    return gr_alloc(sizeof(struct out_rows));
}

void out_rows_close(struct out_rows *o)
{
    out_rows_clear(o);
    free(o);
}

/* Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, 6.4): the highest bits of the
 * product depend on all bits of the key. */
static size_t place_of(uint64_t key)
{
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PLACES_BITS));
}

static struct delivery *row_place(struct out_rows *o, int64_t event,
                                  int64_t endpoint)
{
    return &o->rows[place_of((uint64_t)delivery_ref(event, endpoint))];
}

static size_t name_place(const char *id)
{
    uint64_t h = HASH_BEGIN;

    for (int i = 0; i < EVENT_ID_BYTES; i++)
        h = hash_byte(h, (unsigned char)id[i]);
    return place_of(h);
}

void out_rows_give(struct out_rows *o, struct delivery *d)
{
    struct delivery *place = row_place(o, d->event, d->endpoint);
    struct event_name *name = &o->names[name_place(d->event_id)];

    o->used = true;
    name->event = d->event;
    memcpy(name->id, d->event_id, EVENT_ID_BYTES);
    delivery_fini(place);
    *place = *d;
    *d = (struct delivery){0};
}

bool out_rows_take(struct out_rows *o, int64_t event, int64_t endpoint,
                   struct delivery *d)
{
    struct delivery *place = row_place(o, event, endpoint);

    if (place->event != event || place->endpoint != endpoint || !event)
        return false;
    *d = *place;
    *place = (struct delivery){0};
    return true;
}

void out_rows_drop(struct out_rows *o, int64_t event, int64_t endpoint)
{
    struct delivery d;

    if (out_rows_take(o, event, endpoint, &d))
        delivery_fini(&d);
}

void out_rows_clear(struct out_rows *o)
{
    if (!o->used)
        return;
    o->used = false;
    for (size_t i = 0; i < PLACES; i++) {
        if (o->rows[i].event)
            delivery_fini(&o->rows[i]);
        if (o->names[i].event)
            o->names[i].event = 0;
        if (o->open[i].count)
            o->open[i].count = 0;
    }
}

/* Neighbours have different places. */
static struct open_count *open_place(struct out_rows *o, int64_t event)
{
    return &o->open[(size_t)event % PLACES];
}

void out_rows_note_open(struct out_rows *o, int64_t event, int count)
{
    o->used = true;
    *open_place(o, event) = (struct open_count){event, count};
}

bool out_rows_others_open(struct out_rows *o, int64_t event)
{
    struct open_count *c = open_place(o, event);

    if (c->event != event || !c->count)
        return false;
    return --c->count > 0;
}

int64_t out_rows_event(const struct out_rows *o, struct bytes id)
{
    const struct event_name *name;

    if (id.n != EVENT_ID_BYTES)
        return 0;
    name = &o->names[name_place(id.p)];
    return name->event && memcmp(name->id, id.p, EVENT_ID_BYTES) == 0
               ? name->event
               : 0;
}
