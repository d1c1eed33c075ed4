/* http: the HTTP front end of ingress: it accepts connections, reads requests within limits, and
 * sends one response for each.
 *
 * It is libmicrohttpd without a thread of its own, driven by http_run() from the loop. A request
 * whose body is complete is given away (`take`): from then on it has no deadline, and the module
 * that took it must respond with http_respond(). While there are such requests, http_run() wants
 * to be called again at once, so that module must work on them in each turn.
 *
 * Limits: size and number of headers (http_head.h), size of a body, memory of all bodies together,
 * connections, and a deadline for each whole request, so that a client that sends one byte a
 * second cannot keep a connection. A request that is refused before its body has come is read to
 * its end and discarded, up to DISCARD_MAX_BYTES: a client that is still writing would lose the
 * response if its connection were closed. */
#ifndef INGRESS_HTTP_H
#define INGRESS_HTTP_H

#include "http_head.h"
#include "http_request.h"
#include "listen.h"

struct http;

struct http_bounds {
    int64_t max_body_bytes;
    int64_t max_connections; /* read at http_open() only */
    int64_t read_timeout_ms;
};

/* All are called inside http_run() or http_respond(). */
struct http_ops {
    /* The head is complete and correct. RESPONSE_NONE: read the body; `r->source` is filled
     * in. Anything else is the response. */
    enum response (*admit)(void *self, struct request *r,
                           const struct head_facts *facts);
    /* The body is complete. RESPONSE_NONE: the callee owns the request until it calls
     * http_respond(). */
    enum response (*take)(void *self, struct request *r);
    /* A response was decided; for log and counters. Of an incomplete request only `remote` is
     * sure to be set. */
    void (*responded)(void *self, const struct request *r, enum response a);
};

struct http_figures {
    int64_t connections;
    int64_t busy;       /* of these: with a request that has no response yet */
    int64_t recent;     /* of these: with a request in the last second or two */
    int64_t body_bytes; /* memory of bodies and of large responses */
};

/* Binds and listens; exits 69 with the reason if it cannot. `peers` says whether other ingress
 * processes of this pipeline run: then a port that is taken may be theirs, and is shared.
 * `bounds` belongs to the caller, who may change read_timeout and max_body later. */
struct http *http_open(const char *host, int port,
                       const struct http_bounds *bounds,
                       const struct http_ops *ops, void *self,
                       listen_peers *peers, void *arg);
/* Every request that was taken must have its response. */
void http_close(struct http *h);
int http_fd(const struct http *h); /* for the loop */

/* Accept, read, write. Returns how long the loop may sleep, in ms; -1: until the socket is
 * ready. */
int http_run(struct http *h, int64_t now_ms, int64_t mono_ms);

/* Respond to a request that was taken; it belongs to http again. The next http_run(), which
 * must follow at once, writes the response. */
void http_respond(struct http *h, struct request *r, enum response a);
/* A request that was taken has grown: count what it takes, beside its body, among the memory
 * of bodies. false: there is too little, even after slow clients were disconnected. */
bool http_hold(struct http *h, struct request *r);

/* Stop listening. Connections that the kernel has accepted are served; those without a request
 * are closed. */
void http_quiesce(struct http *h);
struct http_figures http_figures(const struct http *h);

#endif
