/* http_get: one GET request at a time to a provider's API, in a thread of its own.
 *
 * The loop fills in the request, begins it, and has the response when worker_fd() is readable; while it
 * runs, all members but `cancelled` belong to the thread. TLS is verified, redirects are not followed,
 * and time and size are bounded. Nothing of it is on disk. */
#ifndef RECONCILE_HTTP_GET_H
#define RECONCILE_HTTP_GET_H

#include "alloc.h"
#include "clock.h"
#include <stdatomic.h>

enum { PAGE_MAX_BYTES = 8 * 1024 * 1024, LINK_MAX_BYTES = 8 * 1024 };
#define WAIT_MOST_MS HOUR_MS /* of what a provider may ask for */

struct http_get {
    struct worker *worker;
    atomic_bool cancelled; /* the request ends soon, with an error */
    /* The request. */
    char *url;
    char *header; /* with the credentials; NULL: none */
    int64_t timeout_ms;
    size_t max_bytes;
    /* The response; `status` 0: there is none, and `error` says why. */
    long status;
    struct buf body;
    char link
        [LINK_MAX_BYTES]; /* its headers Link, with ", " between; "": there is none */
    bool link_cut;        /* they are longer */
    int64_t wait_ms; /* how long the provider wants no request; 0 */
    char error[200];
    /* of the thread */
    int64_t limit_left, limit_reset_s;
};

void http_get_open(struct http_get *g);
/* While no request is under way. */
void http_get_close(struct http_get *g);
/* Takes over url and header. */
void http_get_begin(struct http_get *g, char *url, char *header,
                    int64_t timeout_ms, size_t max_bytes);
void http_get_end(struct http_get *g);

#endif
