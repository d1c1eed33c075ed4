/* request: the headers of one attempt. Pure.
 *
 * In this order: what the endpoint's configuration adds, what the event brings
 * along (content type and the profile's event headers), and our own, which are sorted
 * by name and signed when the endpoint has signing secrets. A name
 * that a stranger must not set is skipped; a value that would break out of its
 * line (CR, LF, NUL: libcurl sends them as they are) is left out, with a
 * warning. The list lives inside of the request and is used again. */
#ifndef DELIVERER_REQUEST_H
#define DELIVERER_REQUEST_H

#include "alloc.h"
#include "sign.h"
#include "wire.h"
#include <curl/curl.h>

struct outgoing_request {
    struct buf text;    /* the lines, each ended with 0 */
    struct buf covered; /* what grapnel-signature was made over (sign.h) */
    size_t *lines;      /* where they begin */
    struct curl_slist *nodes;
    size_t count, capacity;
    bool joining; /* the next lines belong to the last node */
};

void request_init(struct outgoing_request *r);
void request_fini(struct outgoing_request *r);

/* Build them for attempt number `attempt` (from 1) at `now_ms`. `own` are the
 * endpoint's headers, packed. Returns the list, which belongs to `r`. */
struct curl_slist *request_headers(struct outgoing_request *r,
                                   const struct wire_task *t, struct bytes own,
                                   const struct signer *signer,
                                   uint64_t attempt, int64_t now_ms);

#endif
