/* publication: a producer's event, read out of its request to `POST /events`. */
#ifndef SEQUENCER_PUBLICATION_H
#define SEQUENCER_PUBLICATION_H

#include "published.h"
#include "settings.h"

struct publication {
    bool is; /* the event is a producer's, and could be read */
    struct published p;
    struct bytes key;         /* the idempotency key; empty: it has no key */
    struct buf headers, body; /* as they are stored and delivered */
    char why[440];            /* why it can't be read */
};

/* GR_REFUSE: the object, which was valid at ingress, can't be read: `why`. Call
 * publication_fini() in either case. */
GR_MUST_CHECK gr_rc publication_read(struct publication *u,
                                     struct bytes headers, struct bytes body,
                                     const char *event_id, int64_t received_ms);
void publication_fini(struct publication *u);

/* Add the header that says when the event expires; it must be the first one. */
void publication_put_expires(struct buf *headers, int64_t at_ms);
/* The URL that the event names for its delivery to this endpoint, in these stored headers;
 * empty: none. A delivery to another endpoint, such as that of a redirected dead letter, goes
 * to the other's own URL. */
struct bytes publication_url(struct bytes headers, const char *endpoint);
/* The ordering key of an event with these stored headers; empty: it has none. */
struct bytes publication_ordering_key(struct bytes headers);
/* When an event with these stored headers expires (wall); 0: never. */
int64_t publication_expires_ms(struct bytes headers);

#endif
