/* publication: a producer's event, taken out of what it sent. */
#ifndef SEQUENCER_PUBLICATION_H
#define SEQUENCER_PUBLICATION_H

#include "published.h"
#include "settings.h"

struct publication {
    bool is; /* it is one, and could be read */
    struct published p;
    struct bytes key;         /* the idempotency key; empty: none */
    struct buf headers, body; /* what is kept of it and handed on */
    char why[200];            /* it can't be read */
};

/* GR_REFUSE: the object, which was whole at ingress, can't be read: `why`.
 * publication_fini() in either case. */
GR_MUST_CHECK gr_rc publication_read(struct publication *u,
                                     struct bytes headers, struct bytes body,
                                     const char *event_id, int64_t received_ms);
void publication_fini(struct publication *u);

/* The first of the headers that are kept says when it expires. */
void publication_put_expires(struct buf *headers, int64_t at_ms);
/* When an event with these headers, as they are kept, expires; 0: never. */
int64_t publication_expires_ms(struct bytes headers);

#endif
