/* http_connection: the open connections, and how long each has kept ingress waiting.
 *
 * Used by http.c only. libmicrohttpd reads and writes them; this module knows what each is
 * doing, so that http.c can close those that wait too long, and can write a response where
 * libmicrohttpd cannot. */
#ifndef INGRESS_HTTP_CONNECTION_H
#define INGRESS_HTTP_CONNECTION_H

#include "recent_clients.h"
#include "response.h"
#include "waiters.h"
#include <arpa/inet.h>
#include <microhttpd.h>

struct request;

/* A connection that waits for its client is in connections.waiting from the beginning of its
 * state on. */
enum connection_state {
    CONNECTION_IDLE,       /* waits for a request line */
    CONNECTION_READING,    /* waits for the rest of a request */
    CONNECTION_PROCESSING, /* its request is taken (http.h) */
    CONNECTION_RESPONDING, /* waits until the client has read the response */
    CONNECTION_SHUT,       /* ingress has shut the socket */
};

struct connection {
    struct waiter waiter; /* first: a waiter is its connection */
    int fd;
    enum connection_state state;
    bool kept;                     /* it has had a response before */
    char remote[INET6_ADDRSTRLEN]; /* the peer's address */
    struct request *request;       /* the one in progress; or NULL */
    /* In libmicrohttpd's buffer: the end of what it has read; and whether it has read
     * anything since the last request ended. */
    const char *read_end;
    bool read;
    struct recent_client recent;
};

struct connections {
    struct waiters waiting;
    struct connection **by_fd;
    size_t by_fd_count;
    int64_t count;
    int64_t busy; /* with a request that has no response yet */
    struct recent_clients recent;
    int64_t max;
    int64_t mono_ms; /* set by http_run() */
};

void connections_open(struct connections *all, int64_t max);
void connections_close(
    struct connections *all); /* after the last connection_free() */

/* libmicrohttpd has accepted a connection. */
struct connection *connection_new(struct connections *all,
                                  struct MHD_Connection *c);
void connection_free(struct connections *all, struct connection *conn);
struct connection *connection_of(struct MHD_Connection *c);
struct connection *connection_of_fd(const struct connections *all, int fd);

/* The only function that changes a connection's state. */
void connection_transition(struct connections *all, struct connection *conn,
                           enum connection_state to);
/* Write the response on the socket and shut it: for where libmicrohttpd cannot respond (in
 * the middle of a body, or before there is a request). It then finds a client that has
 * disconnected. */
void connection_shut_with(struct connections *all, struct connection *conn,
                          enum response a);
/* Shut it without a response. */
void connection_shut(struct connections *all, struct connection *conn);

/* The waiting connections, longest first: begin with NULL; NULL ends. The next one must be
 * read before the state of this one changes. */
struct connection *connections_next(const struct connections *all,
                                    const struct connection *conn);
/* A connection that has waited for `limit_ms`. NULL: there is none; then *left_ms is when the
 * next one will have (-1: none waits). */
struct connection *connections_overdue(const struct connections *all,
                                       int64_t limit_ms, int *left_ms);
/* The one to close for the next that comes; NULL: there is enough space, or none waits. */
struct connection *connections_crowded(const struct connections *all);

#endif
