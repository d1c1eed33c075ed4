/* request: makes the headers of one attempt. Pure; transfer.c calls it.
 *
 * In this order: headers that the endpoint's configuration adds, headers of the event (content
 * type and the profile's event headers), and Grapnel's own, which are sorted by name and signed
 * if the endpoint has signing secrets. A header that strangers must not set is skipped; one
 * whose value has CR, LF or NUL (libcurl would send them) is left out, with a warning. The
 * request owns the list, and its memory is used again for the next attempt. */
#ifndef DELIVERER_REQUEST_H
#define DELIVERER_REQUEST_H

#include "alloc.h"
#include "sign.h"
#include "wire.h"
#include <curl/curl.h>
#include <jansson.h>

/* In the packed headers of a task that is part of a drill (endpoint_test.h): the value of
 * `grapnel-drill`. No event has it. */
#define DRILL_STEP ":drill"

struct outgoing_request {
    struct buf text;    /* the lines, each ended with 0 */
    struct buf covered; /* what grapnel-signature was made over (sign.h) */
    size_t *lines;      /* where in `text` each node begins */
    struct curl_slist *nodes;
    size_t count, capacity;
    bool joining; /* the next lines belong to the last node */
};

void request_init(struct outgoing_request *r);
void request_fini(struct outgoing_request *r);

/* Build them for attempt number `attempt` (from 1) at `now_ms`. `own` are the
 * endpoint's headers, packed. `traced`: with a traceparent of this attempt, unless `own` has one.
 * Returns the list, which belongs to `r`. */
struct curl_slist *request_headers(struct outgoing_request *r,
                                   const struct wire_task *t, struct bytes own,
                                   const struct signer *signer, bool traced,
                                   uint64_t attempt, int64_t now_ms);

/* The same list as JSON: [[name, value]…]. Values of the headers in `hidden`, packed, are not
 * shown. */
json_t *request_headers_json(const struct outgoing_request *r,
                             struct bytes hidden);

#endif
