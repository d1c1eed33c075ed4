/* event_cache: events of which tasks were made lately, with headers and body, as each endpoint that gets an
 * event needs them once more. Only store.c uses it, and drops an event before it changes its row or its
 * body. At most CACHED_MAX_BYTES of headers and bodies, and one event more. */
#ifndef SEQUENCER_EVENT_CACHE_H
#define SEQUENCER_EVENT_CACHE_H

#include "event.h"

enum { CACHED_MAX_BYTES = 4 * 1024 * 1024 };

struct whole_event {
    struct event_row row;
    struct event_content content;
};

struct event_cache;
struct event_cache *event_cache_open(void);
void event_cache_close(struct event_cache *c);

/* NULL: it is not here. Valid until the next call. */
const struct whole_event *event_cache_get(const struct event_cache *c,
                                          int64_t event);
/* Takes the texts of `row` over, which is empty then, and copies the content. */
const struct whole_event *event_cache_put(struct event_cache *c,
                                          struct event_row *row,
                                          const struct event_content *content);
void event_cache_drop(struct event_cache *c, int64_t event);
void event_cache_clear(struct event_cache *c);

#endif
