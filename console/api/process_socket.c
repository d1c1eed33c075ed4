/* process_socket: a client of ZMTP 3.0 (https://rfc.zeromq.org/spec/23/) without security, as a
 * DEALER that asks a ROUTER. */
#include "process_socket.h"
#include "ipc.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    GREETING_BYTES = 64,
    HEADER_MAX_BYTES = 9, /* flags and a length of 8 bytes */
    READ_BYTES = 64 * 1024,
    KEPT_BYTES = 256 * 1024, /* of the buffer of an idle connection */
    READS_AT_ONCE = 16, /* a large reply delays others no longer than that */

    FLAG_MORE = 1,
    FLAG_LONG = 2,
    FLAG_COMMAND = 4,
};

enum { STAGE_GREETING, STAGE_READY, STAGE_OPEN };

static const unsigned char hello[] =
    /* the greeting: signature, version 3.0, mechanism, 32 bytes of filler */
    "\xff\0\0\0\0\0\0\0\0\x7f"
    "\x03\0"
    "NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    /* a command of 28 bytes */
    "\x04\x1c"
    "\x05READY\x0bSocket-Type\0\0\0\x06"
    "DEALER";
_Static_assert(sizeof hello - 1 == GREETING_BYTES + 2 + 28,
               "the greeting and READY");

/* ---- writing ---- */

static void put_frame(struct buf *out, unsigned char flags, const char *p,
                      size_t n)
{
    unsigned char head[HEADER_MAX_BYTES] = {(unsigned char)(flags | FLAG_LONG)};

    for (int i = 0; i < 8; i++)
        head[1 + i] = (unsigned char)((uint64_t)n >> (56 - 8 * i));
    buf_put(out, head, sizeof head);
    buf_put(out, p, n);
}

static void watch(struct process_socket *s, int epoll, bool out)
{
    struct epoll_event e = {.events = EPOLLIN | (out ? EPOLLOUT : 0u),
                            .data.ptr = s};

    if (s->watches_out == out)
        return;
    s->watches_out = out;
    epoll_ctl(epoll, EPOLL_CTL_MOD, s->fd, &e);
}

/* A request is sent only when the process has greeted, so that one that is stopped gets no
 * request on a new connection that it would handle when nobody waits any more. false: the
 * connection is broken. */
static bool flush(struct process_socket *s, int epoll)
{
    size_t end = s->stage == STAGE_OPEN ? s->out.len : s->question_from;

    while (s->sent < end) {
        ssize_t n = send(s->fd, s->out.data + s->sent, end - s->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0)
            break;
        s->sent += (size_t)n;
    }
    watch(s, epoll, s->sent < end);
    return true;
}

struct process_socket *process_socket_open(const char *run_dir,
                                           const char *name, int epoll,
                                           bool *busy)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s/%s.control", run_dir,
                     name);
    struct epoll_event e = {.events = EPOLLIN};
    uint64_t file = ipc_file(run_dir, name, "control");
    struct process_socket *s;
    bool open;

    *busy = false;
    open = fd >= 0 && n > 0 && (size_t)n < sizeof at.sun_path &&
           connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (!open) {
        *busy = fd >= 0 && errno == EAGAIN;
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    e.data.ptr = s = gr_alloc(sizeof *s);
    s->fd = fd;
    s->file = file;
    buf_init(&s->in, REPLY_MAX_BYTES + READ_BYTES);
    buf_init(&s->out, 2 * 1024 * 1024);
    buf_put(&s->out, hello, sizeof hello - 1);
    s->question_from = s->out.len;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
    flush(s, epoll); /* a broken one is noticed when it is read */
    return s;
}

void process_socket_close(struct process_socket *s)
{
    close(s->fd); /* takes it out of the epoll */
    buf_fini(&s->in);
    buf_fini(&s->out);
    free(s);
}

bool process_socket_ask(struct process_socket *s, int epoll, const char *text)
{
    if (s->stage == STAGE_OPEN) {
        buf_reset(&s->out);
        s->sent = 0;
        s->question_from = 0;
    }
    put_frame(&s->out, FLAG_MORE, "", 0);
    put_frame(&s->out, 0, text, strlen(text));
    return flush(s, epoll) || process_socket_was_heard(s);
}

bool process_socket_was_heard(const struct process_socket *s)
{
    return s->sent > s->question_from;
}

/* ---- reading ---- */

/* A whole frame. false: the connection ends. */
static bool take_frame(struct process_socket *s, int flags, const char *p,
                       size_t n)
{
    if (s->stage == STAGE_READY) {
        s->stage = STAGE_OPEN;
        return flags & FLAG_COMMAND && n >= 6 && memcmp(p, "\5READY", 6) == 0;
    }
    if (flags & FLAG_COMMAND) /* other commands need no reply */
        return n < 6 || memcmp(p, "\5ERROR", 6) != 0;
    if (!s->delimiter) {
        s->delimiter = true;
        return flags & FLAG_MORE && n == 0;
    }
    s->delimiter = false;
    s->reply = (struct bytes){p, n};
    return !(flags & FLAG_MORE);
}

/* Takes one frame of `in`. *more: it was whole. false: the connection ends. */
static bool take_part(struct process_socket *s, bool *more)
{
    const unsigned char *p = (unsigned char *)s->in.data + s->taken;
    size_t n = s->in.len - s->taken, header;
    uint64_t body = 0;

    *more = false;
    if (s->stage == STAGE_GREETING) {
        if (n < GREETING_BYTES)
            return true;
        s->taken += GREETING_BYTES;
        s->stage = STAGE_READY;
        *more = true;
        return p[0] == 0xff && p[9] & 1 && p[10] >= 3 &&
               memcmp(p + 12, hello + 12, 20) == 0;
    }
    if (!n)
        return true;
    header = p[0] & FLAG_LONG ? HEADER_MAX_BYTES : 2;
    if (n < header)
        return true;
    for (size_t i = 1; i < header; i++)
        body = body << 8 | p[i];
    if (body > REPLY_MAX_BYTES)
        return false;
    if (n < header + body)
        return true;
    s->taken += header + (size_t)body;
    *more = true;
    return take_frame(s, p[0], (const char *)p + header, (size_t)body);
}

/* false: the connection has ended. */
static bool hear(struct process_socket *s)
{
    for (int i = 0; i < READS_AT_ONCE; i++) {
        char *to = buf_add(&s->in, READ_BYTES);
        ssize_t n;

        if (!to)
            return false;
        n = recv(s->fd, to, READ_BYTES, MSG_DONTWAIT);
        s->in.len -= READ_BYTES - (n > 0 ? (size_t)n : 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        if (n < READ_BYTES)
            return true;
    }
    return true;
}

void process_socket_done(struct process_socket *s)
{
    s->in.len -= s->taken;
    if (s->taken)
        memmove(s->in.data, s->in.data + s->taken, s->in.len);
    s->taken = 0;
    s->reply = (struct bytes){NULL, 0};
    if (!s->in.len && s->in.cap > KEPT_BYTES)
        buf_fini(&s->in);
}

enum socket_event process_socket_run(struct process_socket *s, int epoll)
{
    bool greeted = s->stage == STAGE_OPEN, open, more = true;

    process_socket_done(s);
    open = hear(s);
    while (more && !s->reply.p)
        if (!take_part(s, &more))
            return SOCKET_ENDED;
    if (s->reply.p)
        return s->question ? SOCKET_REPLY : SOCKET_ENDED;
    if (!open)
        return SOCKET_ENDED;
    if ((s->stage == STAGE_OPEN && !greeted) || s->watches_out)
        return flush(s, epoll) ? SOCKET_NOTHING : SOCKET_ENDED;
    return SOCKET_NOTHING;
}
