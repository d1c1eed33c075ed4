/* http_parts: what the files of the door's HTTP share; nobody else includes it.
 *
 *   visits.c     connections, and the time each has
 *   requests.c   requests and the memory that they take
 *   responses.c  answers as libmicrohttpd wants them
 *   listen.c     the socket
 *   http.c       libmicrohttpd's callbacks; opening, turning, closing */
#ifndef INGRESS_HTTP_PARTS_H
#define INGRESS_HTTP_PARTS_H

#include "http.h"
#include "waiters.h"
#include <microhttpd.h>

/* What a connection is doing; each waiting one is in http.waiting, since the
 * beginning of `visit`. */
enum visit {
    VISIT_BETWEEN,   /* waiting: for a request line */
    VISIT_READING,   /* waiting: for the rest of a request */
    VISIT_STANDING,  /* not waiting: the request is taken */
    VISIT_ANSWERING, /* waiting: for the client to read our answer */
    VISIT_CUT,       /* not waiting: we have shut the socket */
};

struct visitor {
    struct waiter waiter; /* first: visitor_waiting() */
    int fd;
    enum visit visit;
    bool kept;                     /* it has had an answer before */
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
    struct MHD_Response *responses[ANSWER_COUNT];
    struct head head;       /* the one that is being judged */
    struct visitor **by_fd; /* each open connection's, for tap.h */
    size_t by_fd_count;
    int epoll_fd;
    int answers;    /* given since the last run */
    uint64_t heard; /* connections, and requests, that ever began */
    bool quiesced;
    /* One of as many connections as there may be was closed: the library looks
     * at its socket for new ones only when it is run again. */
    bool room_made;
    int64_t most_connections; /* as it was when we began to listen */
};

/* ---- visits.c ---- */

struct visitor *visitor_of(struct MHD_Connection *c);
/* The one that this is part of; NULL: of NULL. */
struct visitor *visitor_waiting(struct waiter *w);
/* The one mover. */
void visit_move(struct http *h, struct visitor *v, enum visit to);
/* Where libmicrohttpd can't answer any more (in the middle of a body, or
 * before there is a request): say it on the bare socket, and shut it. What it
 * then finds is a client that has gone. */
void visit_cut(struct http *h, struct visitor *v, enum answer a);
void visit_leave(struct http *h, struct visitor *v); /* without a word */
/* For MHD_OPTION_NOTIFY_CONNECTION. */
void visit_notify(void *cls, struct MHD_Connection *c, void **context,
                  enum MHD_ConnectionNotificationCode what);
/* Cut whoever is over his time. Returns ms until the next one is due, -1 for
 * none. */
int visits_time_out(struct http *h);

/* ---- requests.c ---- */

struct request *request_new(struct http *h);
void request_free(struct http *h, struct request *r);
/* Count anew what it takes beside its body. */
void request_hold(struct http *h, struct request *r);
/* Its answer was copied: what it was made of goes, the copy counts. */
void request_answered(struct http *h, struct request *r);
/* Its visitor has no more to do with it. Who has taken it keeps it. */
void request_part(struct http *h, struct request *r);
void requests_free_spare(struct http *h);
/* Its body is not framed as it must be: refused, and the connection will end, even
 * if it was refused for something else before. */
void request_misframed(struct http *h, struct request *r);
/* A piece of its body has come; it is kept, or the request is refused. */
void request_keep(struct http *h, struct request *r, const char *piece,
                  size_t n);

/* ---- responses.c ---- */

void responses_make(struct http *h);
void responses_free(struct http *h);
/* Queue the answer; `r` brings what is its own. */
enum MHD_Result responses_say(struct http *h, struct MHD_Connection *c,
                              struct request *r, enum answer a);
void responses_forget(struct request *r); /* it goes */

#endif
