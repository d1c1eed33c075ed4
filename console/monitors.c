/* monitors: the publisher of metrics, at the ZMTP protocol over plain sockets. */
#include "monitors.h"
#include "alloc.h"
#include "clock.h"
#include "listen.h"
#include "log.h"
#include "waiters.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    GREETING_BYTES = 64,
    HEADER_MAX_BYTES = 9, /* flags and a length of 8 bytes */
    IN_MAX_BYTES = 512,   /* a whole frame of a monitor, with its header */
    LIMIT_MS = 30 * 1000,
    EVENTS_AT_ONCE = 64,
    READS_AT_ONCE = 4, /* per monitor and run: a flood delays only itself */
    ACCEPTS_AT_ONCE = 64,
    IOV_AT_ONCE = 16,
    CONTEXT_MAX_BYTES = 16, /* of a PING */

    FLAG_MORE = 1,
    FLAG_LONG = 2,
    FLAG_COMMAND = 4,
};

/* A frame that is shared by the monitors that wait for it, with its header. */
struct shared {
    int users;
    size_t n;
    unsigned char bytes[];
};

struct queued {
    STAILQ_ENTRY(queued) link;
    struct shared *frame;
};

struct topic {
    unsigned char bytes[MONITOR_TOPIC_MAX_BYTES];
    size_t n;
};

enum stage { STAGE_GREETING, STAGE_READY, STAGE_OPEN };

/* Waiting (waiters.h): until it has subscribed, and while it does not read. */
struct monitor {
    struct waiter waiter; /* first */
    LIST_ENTRY(monitor) link;
    int fd;
    enum stage stage;
    unsigned char in[IN_MAX_BYTES]; /* bytes not parsed yet */
    size_t in_bytes;
    struct topic topics[MONITOR_TOPICS_MAX];
    size_t topic_count;
    STAILQ_HEAD(, queued) queue;
    size_t queue_bytes;
    size_t sent_bytes; /* of the first in the queue */
    bool watches_out;
};

struct monitors {
    LIST_HEAD(, monitor) all;
    struct waiters waiting;
    int epoll, listener;
    char *path; /* of an ipc:// address; or NULL */
    int64_t open, subscribed, refused, dropped, mono_ms;
    size_t queue_bytes;
};

/* ---- opening ---- */

static int listen_at_path(const char *address, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (n >= sizeof a.sun_path)
        die(EXIT_UNAVAILABLE,
            "metrics.publish: %s is too long: a socket's path has at most "
            "%zu bytes",
            address, sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, n);
    unlink(path); /* of an earlier start: this process holds the lock */
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        listen(fd, MONITORS_MAX) != 0)
        die(EXIT_UNAVAILABLE, "metrics.publish: cannot bind %s: %s", address,
            strerror(errno));
    return fd;
}

/* settings_addresses.c has checked its form. */
static int listen_at_port(const char *address)
{
    const char *rest = address + strlen("tcp://"), *colon = strrchr(rest, ':');
    size_t n = colon ? (size_t)(colon - rest) : 0;
    char *host;
    int fd;

    if (!colon)
        die(EXIT_UNAVAILABLE, "metrics.publish: %s has no port", address);
    if (n >= 2 && *rest == '[' && rest[n - 1] == ']')
        host = gr_strndup(rest + 1, n - 2);
    else
        host = n == 1 && *rest == '*' ? gr_strdup("0.0.0.0")
                                      : gr_strndup(rest, n);
    fd = listen_on("metrics.publish", host, (int)strtol(colon + 1, NULL, 10),
                   NULL, NULL);
    free(host);
    return fd;
}

struct monitors *monitors_open(const char *address)
{
    struct monitors *m = gr_alloc(sizeof *m);
    struct epoll_event e = {.events = EPOLLIN};

    LIST_INIT(&m->all);
    waiters_init(&m->waiting);
    m->mono_ms = mono_ms();
    if (strncmp(address, "ipc://", 6) == 0) {
        m->path = gr_strdup(address + 6);
        m->listener = listen_at_path(address, m->path);
    } else {
        m->listener = listen_at_port(address);
    }
    m->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (m->epoll < 0 ||
        epoll_ctl(m->epoll, EPOLL_CTL_ADD, m->listener, &e) != 0)
        die(EXIT_UNAVAILABLE, "no epoll: %s", strerror(errno));
    return m;
}

int monitors_fd(const struct monitors *m)
{
    return m->epoll;
}

int64_t monitors_subscribed(const struct monitors *m)
{
    return m->subscribed;
}

int64_t monitors_refused(const struct monitors *m)
{
    return m->refused;
}

int64_t monitors_dropped(const struct monitors *m)
{
    return m->dropped;
}

/* ---- one connection ---- */

static void sent(struct monitors *m, struct monitor *k)
{
    struct queued *q = STAILQ_FIRST(&k->queue);

    STAILQ_REMOVE_HEAD(&k->queue, link);
    k->queue_bytes -= q->frame->n;
    m->queue_bytes -= q->frame->n;
    k->sent_bytes = 0;
    if (--q->frame->users == 0)
        free(q->frame);
    free(q);
}

static void monitor_free(struct monitors *m, struct monitor *k)
{
    while (!STAILQ_EMPTY(&k->queue))
        sent(m, k);
    waiters_end(&m->waiting, &k->waiter);
    LIST_REMOVE(k, link);
    m->subscribed -= k->topic_count > 0;
    m->open--;
    close(k->fd); /* takes it out of the epoll */
    free(k);
}

/* Write as much as the socket takes. false: the connection is broken. */
static bool flush(struct monitors *m, struct monitor *k)
{
    struct epoll_event e = {.data.ptr = k};
    bool moved = false, waits, out;

    while (!STAILQ_EMPTY(&k->queue)) {
        struct iovec v[IOV_AT_ONCE];
        struct msghdr h = {.msg_iov = v};
        size_t skip = k->sent_bytes;
        struct queued *q;
        ssize_t n;

        STAILQ_FOREACH(q, &k->queue, link)
        {
            v[h.msg_iovlen++] = (struct iovec){q->frame->bytes + skip,
                                               q->frame->n - skip};
            skip = 0;
            if (h.msg_iovlen == IOV_AT_ONCE)
                break;
        }
        n = sendmsg(k->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0)
            break;
        k->sent_bytes += (size_t)n;
        moved = true;
        while ((q = STAILQ_FIRST(&k->queue)) && k->sent_bytes >= q->frame->n) {
            size_t rest = k->sent_bytes - q->frame->n;

            sent(m, k);
            k->sent_bytes = rest;
        }
    }
    if (moved && k->topic_count) /* it has read: its wait begins again */
        waiters_end(&m->waiting, &k->waiter);
    out = !STAILQ_EMPTY(&k->queue);
    waits = !k->topic_count || out; /* the monitor has to act next */
    if (waits && !k->waiter.waits)  /* a wait that continues is not renewed */
        waiters_begin(&m->waiting, &k->waiter, m->mono_ms);
    else if (!waits)
        waiters_end(&m->waiting, &k->waiter);
    if (k->watches_out != out) {
        e.events = EPOLLIN | (out ? EPOLLOUT : 0u);
        k->watches_out = out;
        epoll_ctl(m->epoll, EPOLL_CTL_MOD, k->fd, &e);
    }
    return true;
}

static void queue(struct monitors *m, struct monitor *k, struct shared *frame)
{
    struct queued *q = gr_alloc(sizeof *q);

    q->frame = frame;
    frame->users++;
    STAILQ_INSERT_TAIL(&k->queue, q, link);
    k->queue_bytes += frame->n;
    m->queue_bytes += frame->n;
}

static struct shared *make_frame(unsigned char flags, const void *p, size_t n)
{
    struct shared *f = gr_alloc(sizeof *f + HEADER_MAX_BYTES + n);

    if (n > UINT8_MAX) {
        f->bytes[f->n++] = flags | FLAG_LONG;
        for (int shift = 56; shift >= 0; shift -= 8)
            f->bytes[f->n++] = (unsigned char)((uint64_t)n >> shift);
    } else {
        f->bytes[f->n++] = flags;
        f->bytes[f->n++] = (unsigned char)n;
    }
    memcpy(f->bytes + f->n, p, n);
    f->n += n;
    return f;
}

/* ---- the frames of a monitor ---- */

static const unsigned char greeting[GREETING_BYTES] = {
    0xff, 0,   0,   0,   0, 0, 0, 0, 0, 0x7f, /* signature */
    3,    0,                                  /* version: 3.0 */
    'N',  'U', 'L', 'L',                      /* mechanism, 20 bytes */
};

static const unsigned char ready[] =
    "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";

/* Whether the bytes so far can be ZMTP 3.x without security. */
static bool greeting_is_fine(const unsigned char *p, size_t n)
{
    if (n >= 1 && p[0] != 0xff)
        return false;
    if (n >= 10 && !(p[9] & 1))
        return false;
    if (n >= 11 && p[10] < 3)
        return false;
    return n < 32 || memcmp(p + 12, greeting + 12, 20) == 0;
}

/* The name of a command, and the bytes after it. */
static bool is_command(const unsigned char *p, size_t n, const char *name)
{
    size_t length = strlen(name);

    return n > length && p[0] == length && memcmp(p + 1, name, length) == 0;
}

/* After "\5READY": properties. Only SUB and XSUB are accepted. */
static bool ready_is_fine(const unsigned char *p, size_t n)
{
    static const char type[] = "socket-type";
    bool fine = false;

    while (n) {
        size_t name = p[0], value;

        if (n < 1 + name + 4)
            return false;
        value = (size_t)p[1 + name] << 24 | (size_t)p[2 + name] << 16 |
                (size_t)p[3 + name] << 8 | p[4 + name];
        if (value > n - (1 + name + 4))
            return false;
        if (name == strlen(type) &&
            strncasecmp((const char *)p + 1, type, name) == 0) {
            const unsigned char *v = p + 1 + name + 4;

            fine = (value == 3 && memcmp(v, "SUB", 3) == 0) ||
                   (value == 4 && memcmp(v, "XSUB", 4) == 0);
        }
        p += 1 + name + 4 + value;
        n -= 1 + name + 4 + value;
    }
    return fine;
}

static bool pong(struct monitors *m, struct monitor *k, const unsigned char *p,
                 size_t n)
{
    unsigned char out[5 + CONTEXT_MAX_BYTES] = "\x04PONG";

    if (n < 2 || n - 2 > CONTEXT_MAX_BYTES)
        return false;
    /* No further PONG until the last one has been read. */
    if (k->queue_bytes > MONITOR_QUEUE_MAX_BYTES / 1024)
        return true;
    memcpy(out + 5, p + 2, n - 2);
    queue(m, k, make_frame(FLAG_COMMAND, out, 5 + n - 2));
    return true;
}

static bool subscribe(struct monitors *m, struct monitor *k,
                      const unsigned char *p, size_t n)
{
    struct topic *t = &k->topics[k->topic_count];

    if (k->topic_count == MONITOR_TOPICS_MAX || n > sizeof t->bytes)
        return false;
    memcpy(t->bytes, p, n);
    t->n = n;
    m->subscribed += k->topic_count++ == 0;
    return true;
}

/* A whole frame. false: the connection ends. */
static bool take_frame(struct monitors *m, struct monitor *k, int flags,
                       const unsigned char *p, size_t n)
{
    bool command = flags & FLAG_COMMAND;

    if (k->stage == STAGE_READY) {
        if (!command || !is_command(p, n, "READY") ||
            !ready_is_fine(p + 6, n - 6))
            return false;
        k->stage = STAGE_OPEN;
        return true;
    }
    if (command) /* other commands are ignored, except ERROR */
        return is_command(p, n, "PING")    ? pong(m, k, p + 5, n - 5)
               : is_command(p, n, "ERROR") ? false
                                           : !is_command(p, n, "SUBSCRIBE");
    if (flags & FLAG_MORE || n < 1)
        return false;
    if (p[0] == 1)
        return subscribe(m, k, p + 1, n - 1);
    if (p[0] != 0)
        return false;
    for (size_t i = 0; i < k->topic_count; i++)
        if (k->topics[i].n == n - 1 &&
            memcmp(k->topics[i].bytes, p + 1, n - 1) == 0) {
            k->topics[i] = k->topics[--k->topic_count];
            m->subscribed -= k->topic_count == 0;
            break;
        }
    return true;
}

/* Parse the bytes so far. *used = 0: more are needed. false: close the connection. */
static bool take_part(struct monitors *m, struct monitor *k,
                      const unsigned char *p, size_t n, size_t *used)
{
    size_t header, body;

    *used = 0;
    if (k->stage == STAGE_GREETING) {
        if (!greeting_is_fine(p, n))
            return false;
        if (n < GREETING_BYTES)
            return true;
        *used = GREETING_BYTES;
        k->stage = STAGE_READY;
        queue(m, k, make_frame(FLAG_COMMAND, ready, sizeof ready - 1));
        return true;
    }
    if (p[0] & ~(FLAG_MORE | FLAG_LONG | FLAG_COMMAND))
        return false;
    header = p[0] & FLAG_LONG ? HEADER_MAX_BYTES : 2;
    if (n < header)
        return true;
    body = p[header - 1];
    for (size_t i = 1; i + 1 < header; i++)
        if (p[i] && !(i == header - 2 && p[i] == 1))
            return false; /* longer than is accepted */
    if (header > 2)
        body += (size_t)p[header - 2] << 8;
    if (header + body > IN_MAX_BYTES)
        return false;
    if (n < header + body)
        return true;
    *used = header + body;
    return take_frame(m, k, p[0], p + header, body);
}

static bool take_all(struct monitors *m, struct monitor *k)
{
    size_t at = 0, used = 0;

    while (at < k->in_bytes) {
        if (!take_part(m, k, k->in + at, k->in_bytes - at, &used))
            return false;
        if (!used)
            break;
        at += used;
    }
    k->in_bytes -= at;
    memmove(k->in, k->in + at, k->in_bytes);
    return true;
}

/* false: the monitor has closed, or exceeded a limit (and is counted). */
static bool hear(struct monitors *m, struct monitor *k)
{
    for (int i = 0; i < READS_AT_ONCE; i++) {
        ssize_t n = recv(k->fd, k->in + k->in_bytes, sizeof k->in - k->in_bytes,
                         MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0)
            return false;
        k->in_bytes += (size_t)n;
        if (!take_all(m, k)) {
            m->refused++;
            return false;
        }
    }
    return flush(m, k);
}

/* ---- all of them ---- */

/* The publisher greets first. */
static void arrive(struct monitors *m, int fd)
{
    struct monitor *k = gr_alloc(sizeof *k);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = k};
    struct shared *hello = gr_alloc(sizeof *hello + sizeof greeting);
    struct waiter *longest;
    int on = 1;

    memcpy(hello->bytes, greeting, sizeof greeting);
    hello->n = sizeof greeting;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    k->fd = fd;
    STAILQ_INIT(&k->queue);
    LIST_INSERT_HEAD(&m->all, k, link);
    m->open++;
    epoll_ctl(m->epoll, EPOLL_CTL_ADD, fd, &e);
    queue(m, k, hello);
    if (!flush(m, k)) {
        monitor_free(m, k);
        return;
    }
    longest = waiters_crowded(&m->waiting, m->open, MONITORS_MAX);
    if (longest)
        monitor_free(m, (struct monitor *)(void *)longest);
}

/* Each event belongs to another connection, and frees only that one or one that waits.
 * Accepting may free any connection, so it comes last. */
int monitors_run(struct monitors *m, int64_t now_ms)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int n = epoll_wait(m->epoll, events, EVENTS_AT_ONCE, 0), left_ms;
    bool comes = false;
    struct waiter *w;

    m->mono_ms = now_ms;
    for (int i = 0; i < n; i++) {
        struct monitor *k = events[i].data.ptr;

        comes |= !k;
        if (!k)
            continue;
        if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? !hear(m, k)
                                                               : !flush(m, k))
            monitor_free(m, k);
    }
    while ((w = waiters_overdue(&m->waiting, now_ms, LIMIT_MS, &left_ms)))
        monitor_free(m, (struct monitor *)(void *)w);
    /* When all connections belong to monitors that read, a new one is closed at once. */
    for (int i = 0; comes && i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0)
            break;
        if (m->open < MONITORS_MAX)
            arrive(m, fd);
        else
            close(fd);
    }
    return n == EVENTS_AT_ONCE || comes ? 0 : left_ms;
}

void monitors_send(struct monitors *m, const void *p, size_t n)
{
    struct shared *frame = NULL;
    struct monitor *k, *next;

    for (k = LIST_FIRST(&m->all); k; k = next) {
        bool subscribed = false;

        next = LIST_NEXT(k, link);
        for (size_t i = 0; i < k->topic_count; i++)
            subscribed |= k->topics[i].n <= n &&
                          memcmp(k->topics[i].bytes, p, k->topics[i].n) == 0;
        if (!subscribed)
            continue;
        if (k->queue_bytes + n > MONITOR_QUEUE_MAX_BYTES ||
            m->queue_bytes + n > MONITORS_QUEUE_MAX_BYTES) {
            m->dropped++;
            continue;
        }
        if (!frame) {
            frame = make_frame(0, p, n);
            frame->users = 1; /* held here until all monitors have it */
        }
        queue(m, k, frame);
        if (!k->watches_out && !flush(m, k))
            monitor_free(m, k);
    }
    if (frame && --frame->users == 0)
        free(frame);
}

void monitors_close(struct monitors *m)
{
    struct monitor *k;

    if (!m)
        return;
    while ((k = LIST_FIRST(&m->all)))
        monitor_free(m, k);
    close(m->listener);
    close(m->epoll);
    if (m->path)
        unlink(m->path);
    free(m->path);
    free(m);
}
