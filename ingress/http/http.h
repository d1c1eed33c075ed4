/* http: ingress's HTTP: accept, read, bounds, one response for each request.
 *
 * libmicrohttpd without a thread of its own, driven by http_run() from the
 * loop. A request whose body is whole is given away (`take`), stands still (not
 * read, not timed) and is answered later with http_respond(). While any stands,
 * http_run() asks to be called again at once: the code that took one works on it in
 * each turn until it is answered.
 *
 * Bounds: size and count of headers (head.h), size of a body, bytes of all
 * bodies together, connections, and a deadline for each whole request, so that
 * a byte a second holds nothing open. A request that is refused before its body
 * has come is read to its end and thrown away up to SWALLOW_MAX_BYTES, because
 * closing on a client that still writes would take our response from it. */
#ifndef INGRESS_HTTP_H
#define INGRESS_HTTP_H

#include "alloc.h"
#include "bounds.h"
#include "framing.h"
#include "head.h"
#include "listen.h"
#include "response.h"
#include <arpa/inet.h>
#include <sys/queue.h>

struct http;
struct connection; /* one connection */
struct MHD_Response;

enum { ACCEPTED_BYTES = 59 }; /* the body of a 200 */

/* Which way a request comes in. */
enum request_kind { REQUEST_HOOK, REQUEST_EVENT, REQUEST_BATCH };

struct request {
    TAILQ_ENTRY(request) link;     /* of the code that took it */
    struct connection *connection; /* NULL: the client is gone */
    char source[NAME_MAX_BYTES + 1];
    char remote[INET6_ADDRSTRLEN];
    const char *method, *path; /* the library's: while there is a connection */
    struct buf query;          /* as it was sent, behind the first '?' */
    /* Packed (headers.h), all of them, in order; before them `:query`, when
     * there is one. */
    struct buf headers;
    struct buf body;
    enum response response; /* RESPONSE_NONE until it is decided */
    /* What the response's own body is replaced with, if anything is in it; its
     * status, if not 0; and its type, JSON if NULL (static). */
    struct buf own_body;
    unsigned own_status;
    int retry_after_s; /* 0: as the response's facts have it */
    const char *own_type;
    /* Of the one who takes it: */
    enum request_kind kind;
    struct lines *lines;               /* of a batch (lines.h); owned */
    uint64_t arrival;                  /* among those that were taken, from 1 */
    int64_t event_count;               /* that it brought, when accepted */
    char event_id[EVENT_ID_BYTES + 1]; /* told with ACCEPTED; may be set */
    /* Decided while it is stored, given after the commit. RESPONSE_NONE: accepted. */
    enum response refusal;
    int secret;          /* index of the one that fits */
    int64_t received_ms; /* wall clock, when the body was whole */
    int64_t taken_ms;    /* the same moment, mono */
    /* Of http.c: */
    size_t raw_url_bytes;
    size_t swallowed_bytes;
    size_t held_bytes; /* of a response of its own, and what it is made of */
    bool begun, taken, chunked;
    struct framing framing; /* of a chunked body */
    /* Of mhd_response.c, from one use to the next. */
    char accepted[ACCEPTED_BYTES];
    struct MHD_Response *accepted_response; /* of `accepted`; or NULL */
};
TAILQ_HEAD(request_list, request);

struct http_bounds {
    int64_t max_body_bytes;
    int64_t max_connections; /* read at http_open() only */
    int64_t read_timeout_ms;
};

/* Both are called inside http_run(). */
struct http_ops {
    /* The headers are in and in order. RESPONSE_NONE: read the body; `r->source`
     * is filled in. Anything else is the response. */
    enum response (*admit)(void *self, struct request *r,
                           const struct head_facts *facts);
    /* The body is whole. RESPONSE_NONE: taken; the caller of http_respond() owns
     * the request until then. */
    enum response (*take)(void *self, struct request *r);
    /* A response was given; for log and counters. Of a request that is not
     * whole only `remote` is sure to be there. */
    void (*responded)(void *self, const struct request *r, enum response a);
};

struct http_figures {
    int64_t connections;
    int64_t busy;       /* of these, with a request that is not answered yet */
    int64_t body_bytes; /* of memory; with the responds to that are as large */
};

/* `peers`: are there other ingress processes of this pipeline? Then a port
 * that is taken may be theirs, and is shared.
 *
 * Binds and listens: exits 69 with the reason when that can't be. `bounds` may
 * change later (read_timeout, max_body) and belongs to the caller. */
struct http *http_open(const char *host, int port,
                       const struct http_bounds *bounds,
                       const struct http_ops *ops, void *self,
                       listen_peers *peers, void *arg);
/* Every request that was taken must have been answered. */
void http_close(struct http *h);
int http_fd(const struct http *h); /* for the loop */

/* Accept, read, write. Returns how long the loop may sleep, in ms; -1 for
 * "until something comes". */
int http_run(struct http *h, int64_t now_ms, int64_t mono_ms);

/* Response a request that was taken; it is http's again. Written by the next
 * http_run(), which must follow at once. */
void http_respond(struct http *h, struct request *r, enum response a);
/* A request that was taken has grown: count what it takes, beside its body, among the
 * memory of bodies. false: there is too little, and slow clients have given way. */
bool http_hold(struct http *h, struct request *r);

/* Its head, packed. */
static inline struct bytes request_head(const struct request *r)
{
    return (struct bytes){r->headers.data ? r->headers.data : "",
                          r->headers.len};
}

/* Listen no more. Who has come before is heard; connections without a request
 * are closed. */
void http_quiesce(struct http *h);
struct http_figures http_figures(const struct http *h);

#endif
