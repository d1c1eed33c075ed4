#include "http.h"
#include "clock.h"
#include "headers.h"
#include "log.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Since 0.9.77 the library refuses by itself what head.c finds by its traces in
 * 0.9.75 (Debian 12). */
#if MHD_VERSION >= 0x00097701
#define LIBRARY_IS_STRICT true
#define STRICTLY          MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#else
#define LIBRARY_IS_STRICT false
#define STRICTLY
#endif

enum {
    /* Of each connection, for its head and a piece of its body. More than
     * HEAD_MAX_BYTES, so that it is mostly we who answer 431, in our words. */
    POOL_BYTES = 32 * 1024,
    SWALLOW_MAX_BYTES = 16 * 1024 * 1024,
    BODIES_MAX_BYTES = 64 * 1024 * 1024, /* and one body of max_body */
    LISTEN_BACKLOG = 1024,
    /* Requests kept for reuse, with buffers up to this size. */
    SPARE_MAX_COUNT = 256,
    SPARE_BUF_BYTES = 8 * 1024,
};

/* What a connection is doing; each waiting one is in http.waiting. */
enum visit {
    VISIT_BETWEEN,   /* waiting: for a request line */
    VISIT_READING,   /* waiting: for the rest of a request */
    VISIT_STANDING,  /* not waiting: the request is taken */
    VISIT_ANSWERING, /* waiting: for the client to read our answer */
    VISIT_CUT,       /* not waiting: we have shut the socket */
};

struct visitor {
    TAILQ_ENTRY(visitor) link;
    int fd;
    enum visit visit;
    int64_t since_ms; /* mono: the beginning of `visit` */
    bool kept;        /* it has had an answer before */
};

struct http {
    struct MHD_Daemon *mhd;
    const struct http_bounds *bounds;
    struct http_ops ops;
    void *self;
    int64_t now_ms, mono_ms;
    /* Ordered by since_ms: all have the same time. */
    TAILQ_HEAD(, visitor) waiting;
    struct request_list spare;
    size_t spare_count;
    struct http_figures figures;
    struct MHD_Response *responses[ANSWER_COUNT];
    struct head head; /* the one that is being judged */
    int epoll_fd;
    int answers; /* given since the last run */
    bool quiesced;
};

/* ---- connections ---- */

static bool waits(enum visit v)
{
    return v != VISIT_STANDING && v != VISIT_CUT;
}

static bool busy(enum visit v)
{
    return v != VISIT_BETWEEN && v != VISIT_CUT;
}

/* The one mover. */
static void move(struct http *h, struct visitor *v, enum visit to)
{
    if (waits(v->visit))
        TAILQ_REMOVE(&h->waiting, v, link);
    h->figures.busy += busy(to) - busy(v->visit);
    v->visit = to;
    v->since_ms = h->mono_ms;
    if (waits(to))
        TAILQ_INSERT_TAIL(&h->waiting, v, link);
}

static struct visitor *visitor_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

static struct visitor *arrived(struct http *h, struct MHD_Connection *c)
{
    struct visitor *v = gr_alloc(sizeof *v);
    int on = 1;

    v->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)
                ->connect_fd;
    setsockopt(v->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    v->visit = VISIT_CUT;
    move(h, v, VISIT_BETWEEN);
    h->figures.connections++;
    return v;
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *h = cls;
    struct visitor *v = *context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = arrived(h, c);
    } else if (v) {
        move(h, v, VISIT_CUT);
        h->figures.connections--;
        free(v);
        *context = NULL;
    }
}

/* Where libmicrohttpd can't answer any more (in the middle of a body, or
 * before there is a request): say it on the bare socket, and shut it. What it
 * then finds is a client that has gone. */
static void cut(struct http *h, struct visitor *v, enum answer a)
{
    const struct answer_facts *f = answer_facts(a);
    const char *body = answer_body(a);
    char text[512];
    int n;

    n = snprintf(text, sizeof text,
                 "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                 f->status, MHD_get_reason_phrase_for(f->status), strlen(body),
                 body);
    assert(n > 0 && (size_t)n < sizeof text);
    if (send(v->fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
        log_debug(NULL, "the client did not take its answer");
    shutdown(v->fd, SHUT_RDWR);
    move(h, v, VISIT_CUT);
}

static void leave(struct http *h, struct visitor *v)
{
    shutdown(v->fd, SHUT_RDWR);
    move(h, v, VISIT_CUT);
}

/* A kept connection that says nothing is simply closed, as is one that does
 * not read our answer; one that began something is told why. */
static void time_out(struct http *h, struct visitor *v)
{
    if (v->visit == VISIT_ANSWERING || (v->visit == VISIT_BETWEEN && v->kept)) {
        leave(h, v);
        return;
    }
    h->ops.answered(h->self, NULL, ANSWER_TOO_SLOW);
    cut(h, v, ANSWER_TOO_SLOW);
}

/* Returns ms until the next one is due, -1 for none. */
static int time_out_due(struct http *h)
{
    struct visitor *v;
    int64_t left_ms;

    while ((v = TAILQ_FIRST(&h->waiting))) {
        left_ms = v->since_ms + h->bounds->read_timeout_ms - h->mono_ms;
        if (left_ms > 0)
            return (int)(left_ms < MINUTE_MS ? left_ms : MINUTE_MS);
        time_out(h, v);
    }
    return -1;
}

/* ---- requests ---- */

static struct request *request_new(struct http *h)
{
    struct request *r = TAILQ_FIRST(&h->spare);

    if (r) {
        TAILQ_REMOVE(&h->spare, r, link);
        h->spare_count--;
        return r;
    }
    r = gr_alloc(sizeof *r);
    buf_init(&r->headers, HEADERS_MAX_BYTES);
    buf_init(&r->body, BODY_MAX_BYTES);
    return r;
}

/* All bodies are counted by what they take, not by what is in them. */
static void forget_body(struct http *h, struct request *r)
{
    h->figures.body_bytes -= (int64_t)r->body.cap;
    buf_fini(&r->body);
}

static void request_free(struct http *h, struct request *r)
{
    struct buf headers = r->headers, body = r->body;

    h->figures.body_bytes -= (int64_t)body.cap;
    if (h->spare_count == SPARE_MAX_COUNT || headers.cap > SPARE_BUF_BYTES ||
        body.cap > SPARE_BUF_BYTES) {
        buf_fini(&headers);
        buf_fini(&body);
        free(r);
        return;
    }
    buf_reset(&headers);
    buf_reset(&body);
    *r = (struct request){.headers = headers, .body = body};
    TAILQ_INSERT_HEAD(&h->spare, r, link);
    h->spare_count++;
}

/* The request line is here: called before libmicrohttpd takes it apart. */
static void *on_line(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct http *h = cls;
    struct request *r = request_new(h);

    r->visitor = visitor_of(c);
    r->raw_url_bytes = uri ? strlen(uri) : 0;
    h->figures.body_bytes += (int64_t)r->body.cap;
    if (r->visitor && r->visitor->visit == VISIT_BETWEEN)
        move(h, r->visitor, VISIT_READING);
    return r;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct http *h = cls;
    struct request *r = *context;

    (void)c;
    (void)why;
    *context = NULL;
    if (!r)
        return;
    if (r->visitor && r->visitor->visit != VISIT_CUT) {
        move(h, r->visitor, VISIT_BETWEEN);
        r->visitor->kept = true;
    }
    r->visitor = NULL;
    if (!r->taken) /* else http_answer() will */
        request_free(h, r);
}

/* The target stays as it was sent; our paths need no escapes. */
static size_t leave_escaped(void *cls, struct MHD_Connection *c, char *text)
{
    (void)cls;
    (void)c;
    return strlen(text);
}

static struct MHD_Response *accepted_with(const struct request *r)
{
    struct MHD_Response *response;
    char body[128];
    int n = snprintf(body, sizeof body,
                     "{\"id\":\"%s\",\"status\":\"accepted\"}", r->event_id);

    response = MHD_create_response_from_buffer((size_t)n, body,
                                               MHD_RESPMEM_MUST_COPY);
    if (response)
        MHD_add_response_header(response, "Content-Type", "application/json");
    return response;
}

static enum MHD_Result say(struct http *h, struct MHD_Connection *c,
                           const struct request *r, enum answer a)
{
    struct MHD_Response *response = h->responses[a];
    enum MHD_Result queued;

    if (a == ANSWER_ACCEPTED)
        response = accepted_with(r);
    if (!response)
        return MHD_NO;
    queued = MHD_queue_response(c, answer_facts(a)->status, response);
    if (a == ANSWER_ACCEPTED)
        MHD_destroy_response(response);
    if (r->visitor && r->visitor->visit != VISIT_CUT)
        move(h, r->visitor, VISIT_ANSWERING);
    return queued;
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind,
                                 const char *name, size_t name_bytes,
                                 const char *value, size_t value_bytes)
{
    struct head *head = cls;

    (void)kind;
    if (head->count == HEAD_MAX_COUNT) {
        head->count++;
        return MHD_NO;
    }
    head->fields[head->count++] = (struct head_field){
        {name, name_bytes}, {value ? value : "", value ? value_bytes : 0}};
    return MHD_YES;
}

static void pack_headers(struct request *r, const struct head *head)
{
    for (size_t i = 0; i < head->count; i++) {
        struct bytes value = head->fields[i].value;
        const char *p = value.p;

        while (value.n && (p[value.n - 1] == ' ' || p[value.n - 1] == '\t'))
            value.n--; /* white space around a value is not part of it */
        headers_put(&r->headers, head->fields[i].name.p, value);
    }
}

static void note_remote(struct request *r, struct MHD_Connection *c)
{
    const struct sockaddr *a = MHD_get_connection_info(
                                   c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                                   ->client_addr;
    const void *address =
        &((const struct sockaddr_in *)(const void *)a)->sin_addr;

    if (a->sa_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    if (!inet_ntop(a->sa_family, address, r->remote, sizeof r->remote))
        r->remote[0] = 0;
}

/* Is a refused request answered only behind its end? libmicrohttpd closes the
 * connection after an answer that comes before it; so only where its length
 * can't be trusted, is too much to throw away, or where the client asks first. */
static bool read_on(enum answer a, const struct head_facts *facts)
{
    bool body = facts->chunked || facts->length > 0;

    if (answer_facts(a)->closes && a != ANSWER_STOPPING)
        return false;
    return !(body && facts->expects) && facts->length <= SWALLOW_MAX_BYTES;
}

static enum answer judge(struct http *h, struct MHD_Connection *c,
                         struct request *r, struct head_facts *facts)
{
    struct head *head = &h->head;
    enum answer a;

    head->count = 0;
    head->parsed_strictly = LIBRARY_IS_STRICT;
    head->raw_url_bytes = r->raw_url_bytes;
    head->bytes = MHD_get_connection_info(
                      c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
                      ->header_size;
    MHD_get_connection_values_n(c, MHD_HEADER_KIND, on_header, head);
    a = head_check(head, facts);
    if (a)
        return a;
    note_remote(r, c);
    a = h->ops.admit(h->self, r, head->method, head->url, facts);
    if (!a && facts->has_length &&
        facts->length > (uint64_t)h->bounds->max_body_bytes)
        a = ANSWER_BODY_TOO_LARGE;
    if (!a)
        pack_headers(r, head);
    return a;
}

static enum MHD_Result begin(struct http *h, struct MHD_Connection *c,
                             struct request *r)
{
    struct head_facts facts;

    r->begun = true;
    r->answer = judge(h, c, r, &facts);
    if (!r->answer)
        return MHD_YES;
    h->ops.answered(h->self, r, r->answer);
    return read_on(r->answer, &facts) ? MHD_YES : say(h, c, r, r->answer);
}

static void refuse_rest(struct http *h, struct request *r, enum answer a)
{
    r->answer = a;
    r->swallowed_bytes = r->body.len;
    h->ops.answered(h->self, r, a);
    forget_body(h, r);
}

static void keep_piece(struct http *h, struct request *r, const char *piece,
                       size_t n)
{
    int64_t most = BODIES_MAX_BYTES + h->bounds->max_body_bytes;
    size_t cap = r->body.cap;

    if (r->body.len + n > (size_t)h->bounds->max_body_bytes) {
        refuse_rest(h, r, ANSWER_BODY_TOO_LARGE);
        return;
    }
    buf_put(&r->body, piece, n);
    h->figures.body_bytes += (int64_t)(r->body.cap - cap);
    if (h->figures.body_bytes > most)
        refuse_rest(h, r, ANSWER_BODIES_FULL);
}

static enum MHD_Result more(struct http *h, struct request *r,
                            const char *piece, size_t n)
{
    if (!r->answer) {
        keep_piece(h, r, piece, n);
        return MHD_YES;
    }
    r->swallowed_bytes += n;
    if (r->swallowed_bytes <= SWALLOW_MAX_BYTES)
        return MHD_YES;
    if (r->visitor && r->visitor->visit != VISIT_CUT)
        cut(h, r->visitor, r->answer);
    return MHD_NO;
}

static enum MHD_Result finish(struct http *h, struct MHD_Connection *c,
                              struct request *r)
{
    if (r->answer)
        return say(h, c, r, r->answer);
    if (r->taken)
        return MHD_YES;
    if (r->visitor && r->visitor->visit == VISIT_CUT)
        return MHD_NO; /* its time was over; it has been told so */
    r->received_ms = h->now_ms;
    r->taken_ms = h->mono_ms;
    r->answer = h->ops.take(h->self, r);
    if (r->answer) {
        h->ops.answered(h->self, r, r->answer);
        return say(h, c, r, r->answer);
    }
    r->taken = true;
    if (r->visitor)
        move(h, r->visitor, VISIT_STANDING);
    return MHD_YES; /* and we are asked again by every run */
}

static enum MHD_Result on_call(void *cls, struct MHD_Connection *c,
                               const char *url, const char *method,
                               const char *version, const char *data,
                               size_t *data_bytes, void **context)
{
    struct http *h = cls;
    struct request *r = *context;
    size_t n = *data_bytes;

    if (!r)
        return MHD_NO; /* on_line() always makes one */
    if (!r->begun) {
        h->head.method = method;
        h->head.url = url;
        h->head.version = version;
        return begin(h, c, r);
    }
    *data_bytes = 0;
    return n ? more(h, r, data, n) : finish(h, c, r);
}

void http_answer(struct http *h, struct request *r, enum answer a)
{
    assert(r->taken && a);
    r->answer = a;
    r->taken = false;
    h->answers++;
    h->ops.answered(h->self, r, a);
    if (!r->visitor)
        request_free(h, r);
}

/* ---- opening, turning, closing ---- */

GR_PRINTF(2, 0)
static void mhd_says(void *cls, const char *format, va_list args)
{
    char text[256];
    size_t n;

    (void)cls;
    if (!log_wants(LOG_DEBUG))
        return;
    vsnprintf(text, sizeof text, format, args);
    n = strcspn(text, "\n");
    text[n] = 0;
    log_debug(NULL, "libmicrohttpd", LS("says", text));
}

static int listen_at(const struct addrinfo *a)
{
    int fd, on = 1;

    fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Not SO_REUSEPORT: two of us on one port must be noticed. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        listen(fd, LISTEN_BACKLOG) == 0)
        return fd;
    on = errno;
    close(fd);
    errno = on;
    return -1;
}

static int listen_on(const char *host, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    int rc, fd;

    snprintf(service, sizeof service, "%d", port);
    rc = getaddrinfo(host && *host ? host : NULL, service, &hints, &found);
    if (rc)
        die(EXIT_UNAVAILABLE, "ingress.listen: %s: %s", host, gai_strerror(rc));
    fd = listen_at(found);
    if (fd < 0)
        die(EXIT_UNAVAILABLE,
            errno == EADDRINUSE
                ? "ingress.listen: %s:%d is in use by another program (%s)"
                : "ingress.listen: can't listen on %s:%d (%s)",
            host, port, strerror(errno));
    freeaddrinfo(found);
    return fd;
}

static void make_responses(struct http *h)
{
    for (enum answer a = ANSWER_NONE + 1; a < ANSWER_COUNT; a++) {
        const struct answer_facts *f = answer_facts(a);
        const char *body = a == ANSWER_HEALTHY ? "{\"status\":\"ok\"}"
                                               : answer_body(a);
        struct MHD_Response *r = MHD_create_response_from_buffer(
            strlen(body), (void *)(uintptr_t)body, MHD_RESPMEM_PERSISTENT);
        char seconds[16];

        if (!r)
            die(EXIT_UNAVAILABLE, "libmicrohttpd makes no response");
        MHD_add_response_header(r, "Content-Type", "application/json");
        snprintf(seconds, sizeof seconds, "%d", f->retry_after_s);
        if (f->retry_after_s)
            MHD_add_response_header(r, "Retry-After", seconds);
        if (f->closes)
            MHD_add_response_header(r, "Connection", "close");
        if (f->status == 405)
            MHD_add_response_header(
                r, "Allow", a == ANSWER_ONLY_POST ? "POST" : "GET, HEAD");
        h->responses[a] = r;
    }
}

struct http *http_open(const char *host, int port,
                       const struct http_bounds *bounds,
                       const struct http_ops *ops, void *self)
{
    struct http *h = gr_alloc(sizeof *h);
    int fd = listen_on(host, port);

    h->bounds = bounds;
    h->ops = *ops;
    h->self = self;
    h->now_ms = now_ms();
    h->mono_ms = mono_ms();
    TAILQ_INIT(&h->waiting);
    TAILQ_INIT(&h->spare);
    make_responses(h);
    /* No idle timeout (0), because we have deadlines; strictness is head.c's.
     * A request that was taken is not suspended: suspending costs four system
     * calls, and being asked again costs none (docs/decisions/0009). */
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, (uint16_t)port, NULL, NULL, on_call,
        h, MHD_OPTION_EXTERNAL_LOGGER, mhd_says, h, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)bounds->max_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_URI_LOG_CALLBACK, on_line, h, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escaped, h, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        STRICTLY MHD_OPTION_END);
    if (!h->mhd)
        die(EXIT_UNAVAILABLE, "libmicrohttpd does not start on %s:%d", host,
            port);
    h->epoll_fd =
        MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return h;
}

int http_fd(const struct http *h)
{
    return h->epoll_fd;
}

int http_run(struct http *h, int64_t now_wall_ms, int64_t now_mono_ms)
{
    MHD_UNSIGNED_LONG_LONG more_ms = 1;
    int due_ms;

    h->now_ms = now_wall_ms;
    h->mono_ms = now_mono_ms;
    /* One run makes an answer, the next writes it. */
    MHD_run(h->mhd);
    if (h->answers) {
        h->answers = 0;
        MHD_run(h->mhd);
    }
    if (MHD_get_timeout(h->mhd, &more_ms) == MHD_NO)
        more_ms = 1;
    due_ms = time_out_due(h); /* what has come was read before */
    return more_ms ? due_ms : 0;
}

void http_quiesce(struct http *h)
{
    struct visitor *v, *next;
    int fd;

    if (h->quiesced)
        return;
    h->quiesced = true;
    fd = MHD_quiesce_daemon(h->mhd);
    if (fd >= 0)
        close(fd);
    for (v = TAILQ_FIRST(&h->waiting); v; v = next) {
        next = TAILQ_NEXT(v, link);
        if (v->visit == VISIT_BETWEEN)
            leave(h, v);
    }
}

struct http_figures http_figures(const struct http *h)
{
    return h->figures;
}

void http_close(struct http *h)
{
    struct request *r;

    if (!h)
        return;
    MHD_stop_daemon(h->mhd);
    while ((r = TAILQ_FIRST(&h->spare))) {
        TAILQ_REMOVE(&h->spare, r, link);
        buf_fini(&r->headers);
        buf_fini(&r->body);
        free(r);
    }
    for (int i = 0; i < ANSWER_COUNT; i++)
        if (h->responses[i])
            MHD_destroy_response(h->responses[i]);
    free(h);
}
