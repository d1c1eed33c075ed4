/* http_connection: follows the state of each connection, shuts those that libmicrohttpd cannot. */
#include "http_connection.h"
#include "alloc.h"
#include "log.h"
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void connections_open(struct connections *all, int64_t max)
{
    *all = (struct connections){.max = max};
    waiters_init(&all->waiting);
}

void connections_close(struct connections *all)
{
    free(all->by_fd);
}

/* ---- their state ---- */

static bool is_busy(enum connection_state s)
{
    return s != CONNECTION_IDLE && s != CONNECTION_SHUT;
}

void connection_transition(struct connections *all, struct connection *conn,
                           enum connection_state to)
{
    all->busy += is_busy(to) - is_busy(conn->state);
    conn->state = to;
    if (to == CONNECTION_PROCESSING)
        recent_clients_note(&all->recent, &conn->recent, all->mono_ms);
    if (to != CONNECTION_PROCESSING && to != CONNECTION_SHUT)
        waiters_begin(&all->waiting, &conn->waiter, all->mono_ms);
    else
        waiters_end(&all->waiting, &conn->waiter);
}

static struct connection *of_waiter(struct waiter *w)
{
    return (struct connection *)(void *)w;
}

struct connection *connections_next(const struct connections *all,
                                    const struct connection *conn)
{
    return of_waiter(conn ? TAILQ_NEXT(&conn->waiter, link)
                          : TAILQ_FIRST(&all->waiting));
}

struct connection *connections_overdue(const struct connections *all,
                                       int64_t limit_ms, int *left_ms)
{
    return of_waiter(
        waiters_overdue(&all->waiting, all->mono_ms, limit_ms, left_ms));
}

struct connection *connections_crowded(const struct connections *all)
{
    return of_waiter(waiters_crowded(&all->waiting, all->count, all->max));
}

/* ---- open and close ---- */

/* An IPv4 address is written as such, also on an IPv6 socket. */
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

struct connection *connection_new(struct connections *all,
                                  struct MHD_Connection *c)
{
    struct connection *conn = gr_alloc(sizeof *conn);
    size_t capacity = all->by_fd_count ? all->by_fd_count : 64;
    int on = 1;

    conn->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)
                   ->connect_fd;
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (capacity <= (size_t)conn->fd)
        capacity *= 2;
    if (capacity > all->by_fd_count) {
        all->by_fd = gr_realloc(all->by_fd, capacity * sizeof(*all->by_fd));
        memset(all->by_fd + all->by_fd_count, 0,
               (capacity - all->by_fd_count) * sizeof(*all->by_fd));
        all->by_fd_count = capacity;
    }
    all->by_fd[conn->fd] = conn;
    note_remote(conn, c);
    conn->state = CONNECTION_SHUT;
    connection_transition(all, conn, CONNECTION_IDLE);
    all->count++;
    return conn;
}

void connection_free(struct connections *all, struct connection *conn)
{
    connection_transition(all, conn, CONNECTION_SHUT);
    recent_clients_leave(&all->recent, &conn->recent);
    all->count--;
    all->by_fd[conn->fd] = NULL;
    free(conn);
}

struct connection *connection_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

struct connection *connection_of_fd(const struct connections *all, int fd)
{
    return (size_t)fd < all->by_fd_count ? all->by_fd[fd] : NULL;
}

void connection_shut(struct connections *all, struct connection *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
    connection_transition(all, conn, CONNECTION_SHUT);
}

void connection_shut_with(struct connections *all, struct connection *conn,
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
        log_debug(NULL, "the client did not read its response",
                  LS("client", conn->remote), LI("http_status", f->status));
    buf_fini(&text);
    connection_shut(all, conn);
}
