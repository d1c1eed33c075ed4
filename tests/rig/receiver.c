/* rig-receiver: an HTTP/1.1 endpoint that does as it is told, and writes down
 * what it was sent.
 *
 *   rig-receiver [--address A] [--port N] [--record FILE] [--keep N] [--ends]
 *                [--pretty]
 *
 * It listens on 127.0.0.1, or on --address (port 0, the default, means a free
 * one), and prints the port on standard output when it is ready. With --ends
 * the record says when each response was sent (record.h). Paths under /_rig are
 * its own:
 *
 *   POST /_rig/rules        sets how it responds (rules.h); replaces all rules
 *   POST /_rig/release      sends all delayed responses now
 *   POST /_rig/reset        no rules, no counts, nothing in memory
 *   GET  /_rig/stats        counts by path and status, connections
 *   GET  /_rig/requests?since=N&limit=M
 *                           requests in memory after number N (record.h)
 *
 * One thread, one epoll; a response that must wait holds up its connection
 * only. SIGTERM writes out the record and ends it. */
#include "record.h"
#include "rules.h"
#include "text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS             256
#define READ_BYTES         (64 * 1024)
#define REQUEST_MAX_BYTES  (64 * 1024 * 1024)
#define HEAD_MAX_BYTES     (256 * 1024)
#define PRETTY_BODY_BYTES  4096
#define KEEP_DEFAULT       10000
#define LIST_LIMIT_DEFAULT 1000

struct connection {
    struct connection *next, **link; /* the list of all */
    int fd;
    int64_t number;
    char from[INET_ADDRSTRLEN];
    struct text in, out;
    struct text held; /* the response that isn't due yet */
    size_t head_len;  /* 0: not all of it is here */
    size_t body_len;
    /* The request that is being answered; its action, and when it is due.
     * While there is one, nothing further is read from `in`. */
    struct path_stats *open;
    int64_t request; /* its number in the record */
    enum action action;
    int close;
    int64_t due_us;
    struct connection *later, **later_link; /* the list of those not due */
    int writing;                            /* epoll waits for space */
};

struct receiver {
    int listener, epoll;
    int pretty;
    struct rules *rules;
    struct record *record;
    struct connection *all, *later;
    int64_t earliest_us; /* none of `later` is due before */
    int64_t connections, connections_open, connections_max_open;
};

static volatile sig_atomic_t stopping;

static void on_signal(int signo)
{
    (void)signo;
    stopping = 1;
}

/* --- connections -------------------------------------------------------- */

static void not_later(struct connection *c)
{
    if (!c->later_link)
        return;
    *c->later_link = c->later;
    if (c->later)
        c->later->later_link = c->later_link;
    c->later_link = NULL;
}

static void later(struct receiver *r, struct connection *c, int64_t due_us)
{
    c->due_us = due_us;
    if (!r->later || due_us < r->earliest_us)
        r->earliest_us = due_us;
    c->later = r->later;
    c->later_link = &r->later;
    if (c->later)
        c->later->later_link = &c->later;
    r->later = c;
}

static void end_request(struct receiver *r, struct connection *c)
{
    record_end(c->open);
    record_put_end(r->record, c->request, wall_us());
    c->open = NULL;
}

static void drop(struct receiver *r, struct connection *c)
{
    if (c->open)
        end_request(r, c);
    not_later(c);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    close(c->fd);
    text_fini(&c->in);
    text_fini(&c->out);
    text_fini(&c->held);
    free(c);
    r->connections_open--;
}

static void wait_for_space(struct receiver *r, struct connection *c, int on)
{
    struct epoll_event e = {.events = EPOLLIN | (on ? EPOLLOUT : 0),
                            .data.ptr = c};

    if (c->writing == on)
        return;
    c->writing = on;
    if (epoll_ctl(r->epoll, EPOLL_CTL_MOD, c->fd, &e))
        fail("epoll: %s", strerror(errno));
}

static void accept_all(struct receiver *r)
{
    for (;;) {
        struct sockaddr_in from = {0};
        socklen_t len = sizeof from;
        int fd = accept4(r->listener, (struct sockaddr *)&from, &len,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct connection *c;
        struct epoll_event e = {.events = EPOLLIN};

        if (fd < 0)
            return;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        c = calloc(1, sizeof *c);
        if (!c)
            fail("out of memory");
        c->fd = fd;
        inet_ntop(AF_INET, &from.sin_addr, c->from, sizeof c->from);
        c->number = ++r->connections;
        c->next = r->all;
        c->link = &r->all;
        if (c->next)
            c->next->link = &c->next;
        r->all = c;
        e.data.ptr = c;
        if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &e))
            fail("epoll: %s", strerror(errno));
        if (++r->connections_open > r->connections_max_open)
            r->connections_max_open = r->connections_open;
    }
}

/* --- HTTP --------------------------------------------------------------- */

/* The value of a header; NULL when it is absent. */
static const char *header(const struct request *q, const char *name,
                          size_t *len)
{
    const char *at = q->headers, *end = q->headers + q->headers_len;
    size_t name_len = strlen(name);

    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        const char *stop = eol ? eol : end;

        if ((size_t)(stop - at) > name_len && at[name_len] == ':' &&
            !strncasecmp(at, name, name_len)) {
            at += name_len + 1;
            while (at < stop && *at == ' ')
                at++;
            while (stop > at && (stop[-1] == '\r' || stop[-1] == ' '))
                stop--;
            *len = (size_t)(stop - at);
            return at;
        }
        at = eol ? eol + 1 : end;
    }
    *len = 0;
    return NULL;
}

static int header_is(const struct request *q, const char *name,
                     const char *value)
{
    size_t len;
    const char *at = header(q, name, &len);

    return at && len == strlen(value) && !strncasecmp(at, value, len);
}

static int split_head(const char *head, size_t len, struct request *q)
{
    const char *eol = memchr(head, '\r', len);
    const char *path, *stop;

    path = memchr(head, ' ', (size_t)(eol - head));
    if (!path)
        return -1;
    stop = memchr(path + 1, ' ', (size_t)(eol - path - 1));
    if (!stop || eol - stop != 9 || memcmp(stop + 1, "HTTP/1.", 7))
        return -1;
    q->method = head;
    q->method_len = (size_t)(path - head);
    q->path = path + 1;
    q->path_len = (size_t)(stop - path - 1);
    q->headers = eol + 2;
    q->headers_len = len - (size_t)(eol + 2 - head) - 2;
    return 0;
}

static void send_plain(struct connection *c, int status, const char *type,
                       const char *body, size_t len)
{
    text_fmt(&c->out,
             "HTTP/1.1 %d Told So\r\nContent-Type: %s\r\n"
             "Content-Length: %zu\r\n%s\r\n",
             status, type, len, c->close ? "Connection: close\r\n" : "");
    text_add(&c->out, body, len);
}

static void refuse(struct connection *c, int status, const char *why)
{
    c->close = 1;
    send_plain(c, status, "text/plain", why, strlen(why));
}

/* --- the rig's own paths ------------------------------------------------ */

static int64_t query_number(const struct request *q, const char *name,
                            int64_t otherwise)
{
    const char *mark = memchr(q->path, '?', q->path_len);
    const char *end = q->path + q->path_len;
    size_t len = strlen(name);

    while (mark && (size_t)(end - mark) > len + 1) {
        if (!memcmp(mark + 1, name, len) && mark[1 + len] == '=')
            return strtoll(mark + len + 2, NULL, 10);
        mark = memchr(mark + 1, '&', (size_t)(end - mark - 1));
    }
    return otherwise;
}

static int is(const struct request *q, const char *method, const char *path)
{
    size_t len = strlen(path);

    return q->method_len == strlen(method) &&
           !memcmp(q->method, method, q->method_len) && q->path_len >= len &&
           !memcmp(q->path, path, len) &&
           (q->path_len == len || q->path[len] == '?');
}

static void set_rules(struct receiver *r, struct connection *c,
                      const struct request *q)
{
    char *reason = NULL;
    struct rules *rules = rules_parse(q->body, q->body_len, &reason);

    if (!rules) {
        send_plain(c, 400, "text/plain", reason, strlen(reason));
        free(reason);
        return;
    }
    rules_free(r->rules);
    r->rules = rules;
    send_plain(c, 200, "application/json", "{}\n", 3);
}

static void release(struct receiver *r)
{
    for (struct connection *c = r->later; c; c = c->later)
        c->due_us = 0;
    r->earliest_us = 0;
}

static void own_request(struct receiver *r, struct connection *c,
                        const struct request *q)
{
    struct text out = {0};

    if (is(q, "POST", "/_rig/rules")) {
        set_rules(r, c, q);
        return;
    }
    if (is(q, "POST", "/_rig/release")) {
        release(r);
        text_str(&out, "{}\n");
    } else if (is(q, "POST", "/_rig/reset")) {
        rules_free(r->rules);
        r->rules = NULL;
        record_reset(r->record);
        r->connections_max_open = r->connections_open;
        text_str(&out, "{}\n");
    } else if (is(q, "GET", "/_rig/stats")) {
        record_stats(r->record, &out);
        text_fmt(&out,
                 ",\"connections\":{\"total\":%lld,\"open\":%lld,"
                 "\"max_open\":%lld}}\n",
                 (long long)r->connections, (long long)r->connections_open,
                 (long long)r->connections_max_open);
    } else if (is(q, "GET", "/_rig/requests")) {
        record_list(r->record, query_number(q, "since", 0),
                    query_number(q, "limit", LIST_LIMIT_DEFAULT), &out);
    }
    if (out.len)
        send_plain(c, 200, "application/json", out.at, out.len);
    else
        send_plain(c, 404, "text/plain", "rules release reset stats requests\n",
                   35);
    text_fini(&out);
}

/* --- everybody else's --------------------------------------------------- */

static void print_text(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)at[i];

        if (ch != '\r')
            putchar(ch >= ' ' || ch == '\n' ? ch : '?');
    }
}

static void print_request(const struct request *q, const struct response *a)
{
    time_t seconds = q->at_us / 1000000;
    size_t shown = q->body_len < PRETTY_BODY_BYTES ? q->body_len
                                                   : PRETTY_BODY_BYTES;
    struct tm tm;
    char when[16];

    localtime_r(&seconds, &tm);
    strftime(when, sizeof when, "%H:%M:%S", &tm);
    printf("\n%s.%03d  %.*s %.*s  ", when, (int)(q->at_us / 1000 % 1000),
           (int)q->method_len, q->method, (int)q->path_len, q->path);
    if (a->action == RESPOND && a->status)
        printf("answered %d\n", a->status);
    else
        printf("%s\n", action_names[a->action]);
    print_text(q->headers, q->headers_len);
    putchar('\n');
    print_text(q->body, shown);
    if (shown < q->body_len)
        printf("… and %zu bytes more", q->body_len - shown);
    putchar('\n');
    fflush(stdout);
}

static void respond(struct receiver *r, struct connection *c,
                    const struct request *q)
{
    const char *mark = memchr(q->path, '?', q->path_len);
    size_t path_len = mark ? (size_t)(mark - q->path) : q->path_len;
    size_t id_len;
    const char *id = header(q, "webhook-id", &id_len);
    const struct response *a = rules_pick(r->rules, q->path, path_len,
                                          id ? id : "", id_len);

    c->open = record_path(r->record, q->path, path_len);
    c->action = a->action;
    c->close = c->close || a->close;
    record_begin(c->open, a);
    c->request = record_put(r->record, q, a);
    if (r->pretty)
        print_request(q, a);
    text_add(&c->held, a->bytes.at, a->bytes.len);
    c->due_us = a->action == BLACKHOLE ? INT64_MAX : 0;
    if (a->delay_us && a->action != BLACKHOLE)
        later(r, c, mono_us() + a->delay_us);
}

/* One request out of `in`. 1: there was one; 0: not all of it is here. */
static int take_request(struct receiver *r, struct connection *c)
{
    struct request q = {.at_us = 0, .connection = c->number, .from = c->from};
    const char *value;
    size_t len;

    if (!c->head_len) {
        char *end = c->in.len ? memmem(c->in.at, c->in.len, "\r\n\r\n", 4)
                              : NULL;

        if (!end) {
            if (c->in.len > HEAD_MAX_BYTES)
                refuse(c, 431, "too much of a head\n");
            return 0;
        }
        c->head_len = (size_t)(end - c->in.at) + 4;
        if (split_head(c->in.at, c->head_len, &q)) {
            refuse(c, 400, "no HTTP/1 request\n");
            return 0;
        }
        value = header(&q, "content-length", &len);
        c->body_len = value ? (size_t)strtoull(value, NULL, 10) : 0;
        if (header(&q, "transfer-encoding", &len) ||
            c->body_len > REQUEST_MAX_BYTES) {
            refuse(c, 411, "a Content-Length up to 64 MiB, please\n");
            return 0;
        }
        if (header_is(&q, "expect", "100-continue"))
            text_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    if (c->in.len - c->head_len < c->body_len)
        return 0;
    split_head(c->in.at, c->head_len, &q);
    q.at_us = wall_us();
    q.body = c->in.at + c->head_len;
    q.body_len = c->body_len;
    c->close = header_is(&q, "connection", "close");
    if (q.path_len >= 5 && !memcmp(q.path, "/_rig", 5)) {
        record_flush(r->record, INT64_MAX); /* who asks may read the file */
        own_request(r, c, &q);
    } else {
        respond(r, c, &q);
    }
    text_drop(&c->in, c->head_len + c->body_len);
    c->head_len = 0;
    return 1;
}

/* Send what is ready. Drops the connection, and says so, at its end. */
static int flush_out(struct receiver *r, struct connection *c)
{
    size_t done = 0;

    while (done < c->out.len) {
        ssize_t n = send(c->fd, c->out.at + done, c->out.len - done,
                         MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            drop(r, c);
            return -1;
        }
        done += (size_t)n;
    }
    text_drop(&c->out, done);
    wait_for_space(r, c, c->out.len > 0);
    if (!c->out.len && c->close && !c->open) {
        drop(r, c);
        return -1;
    }
    return 0;
}

static int conclude(struct receiver *r, struct connection *c)
{
    not_later(c);
    end_request(r, c);
    text_add(&c->out, c->held.at, c->held.len);
    c->held.len = 0;
    if (c->action != CLOSE && c->action != RESET)
        return 0;
    if (c->action == RESET)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
                   sizeof(struct linger));
    drop(r, c);
    return -1;
}

/* Go on with a connection as far as it goes now. */
static void advance(struct receiver *r, struct connection *c, int64_t now_us)
{
    for (;;) {
        if (c->open && c->due_us > now_us)
            break;
        if (c->open && conclude(r, c))
            return;
        if (c->close || !take_request(r, c))
            break;
    }
    if (c->out.len || (c->close && !c->open))
        flush_out(r, c);
}

static void read_some(struct receiver *r, struct connection *c, int64_t now_us)
{
    ssize_t n = recv(c->fd, text_reserve(&c->in, READ_BYTES), READ_BYTES, 0);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0 || c->in.len > 2 * (size_t)REQUEST_MAX_BYTES) {
        drop(r, c);
        return;
    }
    c->in.len += (size_t)n;
    advance(r, c, now_us);
}

static void on_event(struct receiver *r, const struct epoll_event *e,
                     int64_t now_us)
{
    struct connection *c = e->data.ptr;

    if (!c)
        accept_all(r);
    else if (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_some(r, c, now_us);
    else if (e->events & EPOLLOUT)
        flush_out(r, c);
}

/* --- time --------------------------------------------------------------- */

static void conclude_due(struct receiver *r, int64_t now_us)
{
    struct connection *next;
    int64_t earliest_us = INT64_MAX;

    if (!r->later || now_us < r->earliest_us)
        return;
    for (struct connection *c = r->later; c; c = next) {
        next = c->later;
        if (c->due_us <= now_us)
            advance(r, c, now_us);
    }
    for (struct connection *c = r->later; c; c = c->later)
        if (c->due_us < earliest_us)
            earliest_us = c->due_us;
    r->earliest_us = earliest_us;
}

static int wait_ms(struct receiver *r, int64_t now_us)
{
    int64_t wait_us = record_flush(r->record, now_us);

    if (r->later) {
        int64_t due_us = r->earliest_us > now_us ? r->earliest_us - now_us : 0;

        if (wait_us < 0 || due_us < wait_us)
            wait_us = due_us;
    }
    return wait_us < 0 ? -1 : (int)((wait_us + 999) / 1000);
}

static void run(struct receiver *r, const sigset_t *unblocked)
{
    struct epoll_event events[EVENTS];

    while (!stopping) {
        int n = epoll_pwait(r->epoll, events, EVENTS, wait_ms(r, mono_us()),
                            unblocked);
        int64_t now_us = mono_us();

        for (int i = 0; i < n; i++)
            on_event(r, &events[i], now_us);
        conclude_due(r, now_us);
    }
}

/* --- start -------------------------------------------------------------- */

static int listen_on(const char *address, int port, int pretty)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (inet_pton(AF_INET, address, &at.sin_addr) != 1)
        fail("%s is not an IPv4 address", address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&at, &len))
        fail("%s:%d: %s", address, port, strerror(errno));
    if (pretty)
        printf("Listening on http://%s:%d\n", address, ntohs(at.sin_port));
    else
        printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static void catch_signals(sigset_t *unblocked)
{
    struct sigaction stop = {.sa_handler = on_signal};
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, unblocked);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"address", required_argument, NULL, 'a'},
        {"ends", no_argument, NULL, 'e'},
        {"port", required_argument, NULL, 'p'},
        {"record", required_argument, NULL, 'r'},
        {"keep", required_argument, NULL, 'k'},
        {"pretty", no_argument, NULL, 'P'},
        {0}};
    struct receiver r = {0};
    struct epoll_event e = {.events = EPOLLIN};
    const char *file = NULL, *address = "127.0.0.1";
    int ends = 0;
    long keep = KEEP_DEFAULT;
    int port = 0, option;
    sigset_t unblocked;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'a')
            address = optarg;
        else if (option == 'e')
            ends = 1;
        else if (option == 'p')
            port = (int)strtol(optarg, NULL, 10);
        else if (option == 'r')
            file = optarg;
        else if (option == 'k')
            keep = strtol(optarg, NULL, 10);
        else if (option == 'P')
            r.pretty = 1;
        else
            fail("rig-receiver [--address A] [--port N] [--record FILE] "
                 "[--keep N] [--ends] [--pretty]");
    }
    raise_descriptor_limit();
    catch_signals(&unblocked);
    r.record = record_open(file, (size_t)keep, ends);
    r.epoll = epoll_create1(EPOLL_CLOEXEC);
    r.listener = listen_on(address, port, r.pretty);
    if (r.epoll < 0 || epoll_ctl(r.epoll, EPOLL_CTL_ADD, r.listener, &e))
        fail("epoll: %s", strerror(errno));
    run(&r, &unblocked);
    while (r.all)
        drop(&r, r.all);
    rules_free(r.rules);
    record_close(r.record);
    return 0;
}
