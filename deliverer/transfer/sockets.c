/* sockets: passes events of an epoll descriptor to libcurl. */
#include "sockets.h"
#include "alloc.h"
#include "log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 512, FIRST_CAPACITY = 256 };

void sockets_open(struct sockets *s)
{
    *s = (struct sockets){.epoll = epoll_create1(EPOLL_CLOEXEC)};
    if (s->epoll < 0)
        die(EXIT_UNAVAILABLE, "no epoll: %s", strerror(errno));
}

void sockets_close(struct sockets *s)
{
    close(s->epoll);
    free(s->of);
    *s = (struct sockets){0};
}

static struct socket *at(struct sockets *s, int fd)
{
    size_t n = (size_t)fd,
           capacity = s->capacity ? s->capacity : FIRST_CAPACITY;

    while (capacity <= n)
        capacity *= 2;
    if (capacity > s->capacity) {
        s->of = gr_realloc(s->of, capacity * sizeof *s->of);
        memset(s->of + s->capacity, 0,
               (capacity - s->capacity) * sizeof *s->of);
        s->capacity = capacity;
    }
    return &s->of[n];
}

static void set(struct sockets *s, int fd, struct socket *k, int what)
{
    struct epoll_event e = {.data.fd = fd};
    int op = !what         ? EPOLL_CTL_DEL
             : k->in_epoll ? EPOLL_CTL_MOD
                           : EPOLL_CTL_ADD;

    if (what & CURL_POLL_IN)
        e.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        e.events |= EPOLLOUT;
    k->in_epoll = (uint8_t)what;
    if (epoll_ctl(s->epoll, op, fd, &e) != 0)
        log_warn(NULL, "epoll_ctl failed", LS("error", strerror(errno)));
}

void sockets_watch(struct sockets *s, int fd, int what, bool kept)
{
    struct socket *k = at(s, fd);

    if (what == CURL_POLL_REMOVE)
        what = CURL_POLL_NONE;
    k->watched = what != CURL_POLL_NONE;
    if (!k->watched && kept && k->in_epoll == CURL_POLL_IN)
        return;
    if (k->in_epoll != what)
        set(s, fd, k, what);
}

int sockets_on_close(void *self, curl_socket_t fd)
{
    static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct sockets *s = self;

    *at(s, fd) = (struct socket){0}; /* the kernel removes it from the epoll */
    if (s->gives_up)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return close(fd);
}

int sockets_turn(struct sockets *s, CURLM *multi)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int running, n = epoll_wait(s->epoll, events, EVENTS_AT_ONCE, 0);

    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd, mask = 0;
        struct socket *k = at(s, fd);

        if (!k->watched) {
            if (k->in_epoll)
                set(s, fd, k, CURL_POLL_NONE);
            continue;
        }
        if (events[i].events & EPOLLIN)
            mask |= CURL_CSELECT_IN;
        if (events[i].events & EPOLLOUT)
            mask |= CURL_CSELECT_OUT;
        if (events[i].events & (EPOLLERR | EPOLLHUP))
            mask |= CURL_CSELECT_ERR;
        curl_multi_socket_action(multi, fd, mask, &running);
    }
    return n;
}
