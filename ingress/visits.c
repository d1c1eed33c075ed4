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

static bool waits(enum visit v)
{
    return v != VISIT_STANDING && v != VISIT_CUT;
}

static bool busy(enum visit v)
{
    return v != VISIT_BETWEEN && v != VISIT_CUT;
}

void visit_move(struct http *h, struct visitor *v, enum visit to)
{
    h->figures.busy += busy(to) - busy(v->visit);
    v->visit = to;
    if (waits(to))
        waiters_begin(&h->waiting, &v->waiter, h->mono_ms);
    else
        waiters_end(&h->waiting, &v->waiter);
}

struct visitor *visitor_waiting(struct waiter *w)
{
    return (struct visitor *)(void *)w;
}

struct visitor *visitor_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

/* One of IPv4 is written as such, whatever the socket is of. */
static void note_remote(struct visitor *v, struct MHD_Connection *c)
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
    if (!inet_ntop(family, address, v->remote, sizeof v->remote))
        v->remote[0] = 0;
}

void visit_cut(struct http *h, struct visitor *v, enum answer a)
{
    const struct answer_facts *f = answer_facts(a);
    const char *body = answer_body(a);
    struct buf text;

    buf_init(&text, 1024);
    buf_printf(&text,
               "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\nConnection: close\r\n",
               f->status, MHD_get_reason_phrase_for(f->status), strlen(body));
    if (f->retry_after_s)
        buf_printf(&text, "Retry-After: %d\r\n", f->retry_after_s);
    if (answer_allow(a))
        buf_printf(&text, "Allow: %s\r\n", answer_allow(a));
    buf_printf(&text, "\r\n%s", body);
    assert(!text.failed);
    if (send(v->fd, text.data, text.len, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t)text.len)
        log_debug(NULL, "the client did not take its answer");
    buf_fini(&text);
    shutdown(v->fd, SHUT_RDWR);
    visit_move(h, v, VISIT_CUT);
}

void visit_leave(struct http *h, struct visitor *v)
{
    shutdown(v->fd, SHUT_RDWR);
    visit_move(h, v, VISIT_CUT);
}

/* Its request may not even have begun. */
static void tell_too_slow(struct http *h, const struct visitor *v)
{
    struct request none = {0}, *r = v->request ? v->request : &none;

    if (!r->remote[0])
        memcpy(r->remote, v->remote, sizeof r->remote);
    h->ops.answered(h->self, r, ANSWER_TOO_SLOW);
}

/* A kept connection that says nothing is simply closed, as is one that does
 * not read our answer; one that began something is told why, and one that is
 * refused already, and goes on sending, only that. */
static void time_out(struct http *h, struct visitor *v)
{
    if (v->visit == VISIT_ANSWERING || (v->visit == VISIT_BETWEEN && v->kept)) {
        visit_leave(h, v);
    } else if (v->request && v->request->answer) {
        visit_cut(h, v, v->request->answer);
    } else {
        tell_too_slow(h, v);
        visit_cut(h, v, ANSWER_TOO_SLOW);
    }
}

static void make_room(struct http *h)
{
    struct waiter *longest = waiters_crowded(
        &h->waiting, h->figures.connections, h->most_connections);

    if (longest)
        time_out(h, visitor_waiting(longest));
}

static void keep_by_fd(struct http *h, struct visitor *v)
{
    size_t room = h->by_fd_count ? h->by_fd_count : 64;

    while (room <= (size_t)v->fd)
        room *= 2;
    if (room > h->by_fd_count) {
        h->by_fd = gr_realloc(h->by_fd, room * sizeof(*h->by_fd));
        memset(h->by_fd + h->by_fd_count, 0,
               (room - h->by_fd_count) * sizeof(*h->by_fd));
        h->by_fd_count = room;
    }
    h->by_fd[v->fd] = v;
}

static struct visitor *arrived(struct http *h, struct MHD_Connection *c)
{
    struct visitor *v = gr_alloc(sizeof *v);
    int on = 1;

    v->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)
                ->connect_fd;
    setsockopt(v->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    keep_by_fd(h, v);
    note_remote(v, c);
    v->visit = VISIT_CUT;
    visit_move(h, v, VISIT_BETWEEN);
    h->figures.connections++;
    h->heard++;
    make_room(h);
    return v;
}

void visit_notify(void *cls, struct MHD_Connection *c, void **context,
                  enum MHD_ConnectionNotificationCode what)
{
    struct http *h = cls;
    struct visitor *v = *context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = arrived(h, c);
    } else if (v) {
        visit_move(h, v, VISIT_CUT);
        if (v->request) /* the library did not say that it is over */
            request_part(h, v->request);
        h->room_made |= h->figures.connections-- >= h->most_connections;
        h->by_fd[v->fd] = NULL;
        free(v);
        *context = NULL;
    }
}

int visits_time_out(struct http *h)
{
    struct waiter *w;
    int left_ms;

    while ((w = waiters_overdue(&h->waiting, h->mono_ms,
                                h->bounds->read_timeout_ms, &left_ms)))
        time_out(h, visitor_waiting(w));
    return left_ms;
}
