#include "clock.h"
#include "http_parts.h"
#include "log.h"
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool waits(enum connection_state s)
{
    return s != CONNECTION_PROCESSING && s != CONNECTION_SHUT;
}

static bool busy(enum connection_state s)
{
    return s != CONNECTION_IDLE && s != CONNECTION_SHUT;
}

void connection_transition(struct http *h, struct connection *conn,
                           enum connection_state to)
{
    h->figures.busy += busy(to) - busy(conn->state);
    conn->state = to;
    if (waits(to))
        waiters_begin(&h->waiting, &conn->waiter, h->mono_ms);
    else
        waiters_end(&h->waiting, &conn->waiter);
}

struct connection *connection_waiting(struct waiter *w)
{
    return (struct connection *)(void *)w;
}

struct connection *connection_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

/* One of IPv4 is written as such, whatever the socket is of. */
static void note_remote(struct connection *conn, struct MHD_Connection *c)
{
    const struct sockaddr *a = MHD_get_connection_info(
                                   c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                                   ->client_addr;
    const struct in6_addr *six =
        &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    const void *address =
        &((const struct sockaddr_in *)(const void *)a)->sin_addr;
    int family = AF_INET;

    if (a->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six)) {
        address = six->s6_addr + 12;
    } else if (a->sa_family == AF_INET6) {
        address = six;
        family = AF_INET6;
    }
    if (!inet_ntop(family, address, conn->remote, sizeof conn->remote))
        conn->remote[0] = 0;
}

void connection_shut_with(struct http *h, struct connection *conn,
                          enum response a)
{
    const struct response_facts *f = response_facts(a);
    const char *body = response_body(a);
    struct buf text;

    buf_init(&text, 1024);
    buf_printf(&text,
               "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\nConnection: close\r\n",
               f->status, MHD_get_reason_phrase_for(f->status), strlen(body));
    if (f->retry_after_s)
        buf_printf(&text, "Retry-After: %d\r\n", f->retry_after_s);
    if (response_allow(a))
        buf_printf(&text, "Allow: %s\r\n", response_allow(a));
    buf_printf(&text, "\r\n%s", body);
    assert(!text.failed);
    if (send(conn->fd, text.data, text.len, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t)text.len)
        log_debug(NULL, "the client did not read its response");
    buf_fini(&text);
    shutdown(conn->fd, SHUT_RDWR);
    connection_transition(h, conn, CONNECTION_SHUT);
}

void connection_shut(struct http *h, struct connection *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
    connection_transition(h, conn, CONNECTION_SHUT);
}

/* Its request may not even have begun. */
static void log_too_slow(struct http *h, const struct connection *conn)
{
    struct request none = {0}, *r = conn->request ? conn->request : &none;

    if (!r->remote[0])
        memcpy(r->remote, conn->remote, sizeof r->remote);
    h->ops.responded(h->self, r, RESPONSE_TOO_SLOW);
}

/* A kept connection that says nothing is simply closed, as is one that does
 * not read our response; one that began something is told why, and one that is
 * refused already, and goes on sending, only that. */
static void time_out(struct http *h, struct connection *conn)
{
    if (conn->state == CONNECTION_RESPONDING ||
        (conn->state == CONNECTION_IDLE && conn->kept)) {
        connection_shut(h, conn);
    } else if (conn->request && conn->request->response) {
        connection_shut_with(h, conn, conn->request->response);
    } else {
        log_too_slow(h, conn);
        connection_shut_with(h, conn, RESPONSE_TOO_SLOW);
    }
}

static void make_space(struct http *h)
{
    struct waiter *longest = waiters_crowded(
        &h->waiting, h->figures.connections, h->max_connections);

    if (longest)
        time_out(h, connection_waiting(longest));
}

static void keep_by_fd(struct http *h, struct connection *conn)
{
    size_t capacity = h->by_fd_count ? h->by_fd_count : 64;

    while (capacity <= (size_t)conn->fd)
        capacity *= 2;
    if (capacity > h->by_fd_count) {
        h->by_fd = gr_realloc(h->by_fd, capacity * sizeof(*h->by_fd));
        memset(h->by_fd + h->by_fd_count, 0,
               (capacity - h->by_fd_count) * sizeof(*h->by_fd));
        h->by_fd_count = capacity;
    }
    h->by_fd[conn->fd] = conn;
}

static struct connection *arrived(struct http *h, struct MHD_Connection *c)
{
    struct connection *conn = gr_alloc(sizeof *conn);
    int on = 1;

    conn->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)
                   ->connect_fd;
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    keep_by_fd(h, conn);
    note_remote(conn, c);
    conn->state = CONNECTION_SHUT;
    connection_transition(h, conn, CONNECTION_IDLE);
    h->figures.connections++;
    h->heard++;
    make_space(h);
    return conn;
}

void connection_notify(void *cls, struct MHD_Connection *c, void **context,
                       enum MHD_ConnectionNotificationCode what)
{
    struct http *h = cls;
    struct connection *conn = *context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = arrived(h, c);
    } else if (conn) {
        connection_transition(h, conn, CONNECTION_SHUT);
        if (conn->request) /* the library did not say that it has ended */
            request_part(h, conn->request);
        h->slot_freed |= h->figures.connections-- >= h->max_connections;
        h->by_fd[conn->fd] = NULL;
        free(conn);
        *context = NULL;
    }
}

int connections_time_out(struct http *h)
{
    struct waiter *w;
    int left_ms;

    while ((w = waiters_overdue(&h->waiting, h->mono_ms,
                                h->bounds->read_timeout_ms, &left_ms)))
        time_out(h, connection_waiting(w));
    return left_ms;
}
