/* http_request: one HTTP request, and the memory that all requests take together.
 *
 * http.c makes a request when its request line has come, and frees it when its connection has
 * ended or, if it was taken (http.h), when it has its response. Requests are kept for reuse.
 * Memory is counted by the capacity of buffers, not by their length. Nothing of it survives a
 * crash. */
#ifndef INGRESS_HTTP_REQUEST_H
#define INGRESS_HTTP_REQUEST_H

#include "alloc.h"
#include "bounds.h"
#include "framing.h"
#include "response.h"
#include <arpa/inet.h>
#include <sys/queue.h>

struct connection;
struct lines;
struct MHD_Response;

enum { ACCEPTED_BYTES = 59 }; /* the body of a 200 */

enum request_kind {
    REQUEST_HOOK,  /* POST /in/SOURCE */
    REQUEST_EVENT, /* POST /v1/events */
    REQUEST_BATCH, /* POST /v1/events/batch */
};

struct request {
    TAILQ_ENTRY(request)
    link; /* in the list of its owner: http.c, or the module that took it */
    struct connection *connection; /* NULL: the client has disconnected */
    char source[NAME_MAX_BYTES + 1];
    char remote[INET6_ADDRSTRLEN];
    const char *method,
        *path; /* libmicrohttpd's memory: valid while there is a connection */
    struct buf query; /* as sent, after the first '?' */
    /* All headers, packed (headers.h), in order; `:query` comes first if there is a query. */
    struct buf headers;
    struct buf body;
    enum response response; /* RESPONSE_NONE until it is decided */
    /* If it is not empty, the response's body; then its status, unless 0, and its type, unless
     * NULL (JSON). The type is static. */
    struct buf own_body;
    unsigned own_status;
    int retry_after_s; /* 0: the response's own (response.h) */
    const char *own_type;
    /* Set by the module that took it: */
    enum request_kind kind;
    struct lines *lines; /* of a batch (lines.h); owned */
    uint64_t arrival;    /* its number among the requests taken, from 1 */
    int64_t event_count; /* events that it brought, once accepted */
    char event_id[EVENT_ID_BYTES + 1]; /* sent with ACCEPTED; may be set */
    /* Decided when it is stored, sent after the commit. RESPONSE_NONE: accepted. */
    enum response refusal;
    int secret;          /* index of the secret that verified it */
    int64_t received_ms; /* wall clock, when the body was complete */
    int64_t taken_ms;    /* the same moment, monotonic */
    /* Of http.c: */
    size_t raw_url_bytes;
    size_t discarded_bytes; /* of the body of a refused request */
    size_t
        held_bytes; /* counted for its own response and what that is made of */
    bool begun, taken, chunked;
    struct framing framing; /* of a chunked body */
    /* Of mhd_response.c, kept for the next use. */
    char accepted[ACCEPTED_BYTES];
    struct MHD_Response *accepted_response; /* made of `accepted`; or NULL */
};
TAILQ_HEAD(request_list, request);

/* Its headers, packed. */
static inline struct bytes request_head(const struct request *r)
{
    return (struct bytes){r->headers.data ? r->headers.data : "",
                          r->headers.len};
}

static inline struct bytes request_body(const struct request *r)
{
    return (struct bytes){r->body.data ? r->body.data : "", r->body.len};
}

/* ---- for http.c ---- */

struct requests {
    struct request_list spare;
    size_t spare_count;
    int64_t
        bytes; /* of bodies, of responses of their own, and of what these are made of */
};

void requests_open(struct requests *all);
void requests_close(struct requests *all); /* after the last request_free() */

struct request *request_new(struct requests *all);
void request_free(struct requests *all, struct request *r);
void request_add_body(struct requests *all, struct request *r,
                      const char *piece, size_t n);
void request_drop_body(struct requests *all, struct request *r);
/* Count again what its own response takes, and what that is made of. */
void request_count(struct requests *all, struct request *r);
/* libmicrohttpd has copied its own response: free what that was made of, count the copy. */
void request_copied(struct requests *all, struct request *r);
/* Its connection closes: the copy of its response counts no more. */
void request_uncount(struct requests *all, struct request *r);

#endif
