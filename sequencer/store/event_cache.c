/* event_cache: a table in which each place belongs to many events, of which the last one is there:
 * neighbours have different places. */
#include "event_cache.h"
#include "alloc.h"
#include <stdlib.h>
#include <string.h>

enum { PLACES = 2048 };

struct event_cache {
    struct whole_event events[PLACES]; /* row.n 0: the place is free */
    size_t bytes;                      /* of all contents */
};

struct event_cache *event_cache_open(void)
{
    return gr_alloc(sizeof(struct event_cache));
}

void event_cache_close(struct event_cache *c)
{
    event_cache_clear(c);
    free(c);
}

static size_t place_of(int64_t event)
{
    return (size_t)event % PLACES;
}

static size_t size_of(const struct event_content *c)
{
    return c->headers.n + c->body.n;
}

/* Headers and body are in one piece of memory. */
static void free_place(struct event_cache *c, struct whole_event *e)
{
    c->bytes -= size_of(&e->content);
    event_fini(&e->row);
    free((char *)(uintptr_t)e->content.headers.p);
    e->content = (struct event_content){0};
}

const struct whole_event *event_cache_get(const struct event_cache *c,
                                          int64_t event)
{
    const struct whole_event *e = &c->events[place_of(event)];

    return event && e->row.n == event ? e : NULL;
}

static void copy_content(struct whole_event *e,
                         const struct event_content *content)
{
    char *to = gr_alloc(size_of(content) + 1);

    memcpy(to, content->headers.p, content->headers.n);
    memcpy(to + content->headers.n, content->body.p, content->body.n);
    e->content.headers = (struct bytes){to, content->headers.n};
    e->content.body = (struct bytes){to + content->headers.n, content->body.n};
}

const struct whole_event *event_cache_put(struct event_cache *c,
                                          struct event_row *row,
                                          const struct event_content *content)
{
    struct whole_event *e = &c->events[place_of(row->n)];

    if (c->bytes > CACHED_MAX_BYTES)
        event_cache_clear(c);
    free_place(c, e);
    e->row = *row;
    *row = (struct event_row){0};
    copy_content(e, content);
    c->bytes += size_of(content);
    return e;
}

void event_cache_drop(struct event_cache *c, int64_t event)
{
    struct whole_event *e = &c->events[place_of(event)];

    if (e->row.n == event)
        free_place(c, e);
}

void event_cache_clear(struct event_cache *c)
{
    for (size_t i = 0; i < PLACES; i++)
        free_place(c, &c->events[i]);
}
