/* http_parts: what the files of ingress's HTTP share; nobody else includes it.
 *
 *   connections.c     connections, and the time each has
 *   requests.c   requests and the memory that they take
 *   mhd_response.c  responses as libmicrohttpd needs them
 *   listen.c     the socket
 *   http.c       libmicrohttpd's callbacks; opening, turning, closing */
#ifndef INGRESS_HTTP_PARTS_H
#define INGRESS_HTTP_PARTS_H

#include "http.h"
#include "waiters.h"
#include <microhttpd.h>

/* What a connection is doing; each waiting one is in http.waiting, since the
 * beginning of `state`. */
enum connection_state {
    CONNECTION_IDLE,       /* waiting: for a request line */
    CONNECTION_READING,    /* waiting: for the rest of a request */
    CONNECTION_PROCESSING, /* not waiting: the request is taken */
    CONNECTION_RESPONDING, /* waiting: for the client to read our response */
    CONNECTION_SHUT,       /* not waiting: we have shut the socket */
};

struct connection {
    struct waiter waiter; /* first: connection_waiting() */
    int fd;
    enum connection_state state;
    bool kept;                     /* it has had a response before */
    char remote[INET6_ADDRSTRLEN]; /* the peer's address */
    struct request *request;       /* the one that is under way; or NULL */
    /* Of libmicrohttpd's buffer: the end of what it has read; and did it read
     * anything since the request before ended? */
    const char *read_end;
    bool read;
};

struct http {
    struct MHD_Daemon *mhd;
    const struct http_bounds *bounds;
    struct http_ops ops;
    void *self;
    int64_t now_ms, mono_ms;
    struct waiters waiting;
    struct request_list spare;
    size_t spare_count;
    struct http_figures figures;
    struct MHD_Response *responses[RESPONSE_COUNT];
    struct head head;          /* the one that is being judged */
    struct connection **by_fd; /* each open connection's, for tap.h */
    size_t by_fd_count;
    int epoll_fd;
    int responses_given; /* given since the last run */
    uint64_t heard;      /* connections, and requests, that ever began */
    bool quiesced;
    /* One of as many connections as there may be was closed: the library looks
     * at its socket for new ones only when it is run again. */
    bool slot_freed;
    int64_t max_connections; /* as it was when we began to listen */
};

/* ---- connections.c ---- */

struct connection *connection_of(struct MHD_Connection *c);
/* The one that this is part of; NULL: of NULL. */
struct connection *connection_waiting(struct waiter *w);
/* The one mover. */
void connection_transition(struct http *h, struct connection *conn,
                           enum connection_state to);
/* Where libmicrohttpd can't respond to any more (in the middle of a body, or
 * before there is a request): say it on the bare socket, and shut it. What it
 * then finds is a client that has gone. */
void connection_shut_with(struct http *h, struct connection *conn,
                          enum response a);
void connection_shut(struct http *h,
                     struct connection *conn); /* without a word */
/* For MHD_OPTION_NOTIFY_CONNECTION. */
void connection_notify(void *cls, struct MHD_Connection *c, void **context,
                       enum MHD_ConnectionNotificationCode what);
/* Cut connections whose time has expired. Returns ms until the next one is due, -1 for
 * none. */
int connections_time_out(struct http *h);

/* ---- requests.c ---- */

struct request *request_new(struct http *h);
void request_free(struct http *h, struct request *r);
/* Count anew what it takes beside its body. */
void request_hold(struct http *h, struct request *r);
/* Its response was copied: what it was made of goes, the copy counts. */
void request_responded(struct http *h, struct request *r);
/* Its connection has no more to do with it. Who has taken it keeps it. */
void request_part(struct http *h, struct request *r);
void requests_free_spare(struct http *h);
/* Its body is not framed as it must be: refused, and the connection will end, even
 * if it was refused for something else before. */
void request_misframed(struct http *h, struct request *r);
/* A piece of its body has come; it is kept, or the request is refused. */
void request_keep(struct http *h, struct request *r, const char *piece,
                  size_t n);

/* ---- mhd_response.c ---- */

void responses_make(struct http *h);
void responses_free(struct http *h);
/* Queue the response; `r` brings what is its own. */
enum MHD_Result responses_send(struct http *h, struct MHD_Connection *c,
                               struct request *r, enum response a);
void responses_forget(struct request *r); /* it goes */

#endif
