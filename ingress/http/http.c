#include "clock.h"
#include "headers.h"
#include "http_parts.h"
#include "listen.h"
#include "log.h"
#include "tap.h"
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
     * HEAD_MAX_BYTES, so that it is mostly we who respond 431, in our words. */
    POOL_BYTES = 24 * 1024,
    SWALLOW_MAX_BYTES = 16 * 1024 * 1024,
    OWN_FILES = 64, /* databases, mailboxes, control; and some that may come */
    HEAR_EPOCHS = 256, /* the library accepts about ten connections in one */
};

/* The library makes a list of the query's fields, of which nobody asks it, and
 * when it has no space for them it ends without a word, and without telling us.
 * So it gets to see one field. The text is in its own buffer, where it would put
 * zeroes; ours is a copy. */
static void join_fields(const char *query)
{
    for (char *p = (char *)(uintptr_t)query; (p = strchr(p, '&'));)
        *p = '.';
}

/* The request line is here: called before libmicrohttpd takes it apart. */
static void *on_line(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct http *h = cls;
    struct request *r = request_new(h);

    const char *query = uri ? strchr(uri, '?') : NULL;

    h->heard++;
    r->connection = connection_of(c);
    r->raw_url_bytes = uri ? strlen(uri) : 0;
    if (query) {
        buf_puts(&r->query, query + 1);
        join_fields(query);
    }
    h->figures.body_bytes += (int64_t)r->body.cap;
    if (r->connection)
        r->connection->request = r;
    if (r->connection && r->connection->state == CONNECTION_IDLE)
        connection_transition(h, r->connection, CONNECTION_READING);
    return r;
}

/* What the library refused by itself, in its words, is on record like the rest. */
static void note_refusal(struct http *h, struct MHD_Connection *c,
                         struct request *r)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        c, MHD_CONNECTION_INFO_HTTP_STATUS);
    unsigned status = info ? info->http_status : 0;

    if (r->response || status < 400)
        return;
    memcpy(r->remote, r->connection->remote, sizeof r->remote);
    r->response = status == 414 || status == 431 ? RESPONSE_HEAD_TOO_LARGE
                  : r->begun                     ? RESPONSE_LENGTH_AMBIGUOUS
                                                 : RESPONSE_HEAD_MALFORMED;
    h->ops.responded(h->self, r, r->response);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct http *h = cls;
    struct request *r = *context;

    (void)why;
    *context = NULL;
    if (!r)
        return;
    if (r->connection && r->connection->state != CONNECTION_SHUT) {
        note_refusal(h, c, r);
        connection_transition(h, r->connection, CONNECTION_IDLE);
        r->connection->kept = true;
        r->connection->read = false;
    }
    request_part(h, r);
}

/* ---- the bytes of chunked bodies, as they came (framing.h) ---- */

/* libmicrohttpd has read these into its buffer, and does not look at them yet. */
static void on_bytes(void *self, int fd, const char *p, size_t n)
{
    struct http *h = self;
    struct connection *conn = (size_t)fd < h->by_fd_count ? h->by_fd[fd] : NULL;
    struct request *r = conn ? conn->request : NULL;

    if (!conn)
        return;
    conn->read_end = p + n;
    conn->read = true;
    if (!r || !r->chunked)
        return;
    framing_read(&r->framing, p, n);
    if (r->framing.state == FRAMING_BAD &&
        r->response != RESPONSE_CHUNKS_MALFORMED)
        request_misframed(h, r);
}

/* The head has just been read: bytes that the library has read after it follow it
 * in its buffer. When it has read nothing since the request before, it has moved
 * its buffer, and we do not know where that ends. */
static enum response begin_framing(const struct http *h, struct request *r)
{
    const char *body = h->head.method + h->head.bytes;

    r->chunked = true;
    if (!r->connection || !r->connection->read)
        return RESPONSE_CHUNKS_PIPELINED;
    if (r->connection->read_end < body ||
        r->connection->read_end > body + POOL_BYTES)
        return RESPONSE_CHUNKS_MALFORMED; /* not the library that we know */
    framing_read(&r->framing, body, (size_t)(r->connection->read_end - body));
    return r->framing.state == FRAMING_BAD ? RESPONSE_CHUNKS_MALFORMED
                                           : RESPONSE_NONE;
}

/* The library has seen the end of the body; so must we. */
static bool is_framed(const struct request *r)
{
    return !r->chunked || r->framing.state == FRAMING_END;
}

static void run(struct http *h)
{
    if (!LIBRARY_IS_STRICT)
        tap_open(on_bytes, h);
    MHD_run(h->mhd);
    tap_close();
}

/* ---- a request ---- */

/* The target stays as it was sent; our paths need no escapes. */
static size_t leave_escaped(void *cls, struct MHD_Connection *c, char *text)
{
    (void)cls;
    (void)c;
    return strlen(text);
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
    if (r->query.len)
        headers_put(&r->headers, ":query",
                    (struct bytes){r->query.data, r->query.len});
    for (size_t i = 0; i < head->count; i++) {
        struct bytes value = head->fields[i].value;
        const char *p = value.p;

        while (value.n && (p[value.n - 1] == ' ' || p[value.n - 1] == '\t'))
            value.n--; /* white space around a value is not part of it */
        headers_put(&r->headers, head->fields[i].name.p, value);
    }
}

/* Is a refused request answered only behind its end? libmicrohttpd closes the
 * connection after a response that comes before it; so only where its length
 * can't be trusted, is too much to throw away, or where the client asks first. */
static bool read_on(enum response a, const struct head_facts *facts)
{
    bool body = facts->chunked || facts->length > 0;

    if (response_facts(a)->closes && a != RESPONSE_STOPPING)
        return false;
    return !(body && facts->expects) && facts->length <= SWALLOW_MAX_BYTES;
}

static enum response judge(struct http *h, struct MHD_Connection *c,
                           struct request *r, struct head_facts *facts)
{
    struct head *head = &h->head;
    enum response a;

    if (r->connection)
        memcpy(r->remote, r->connection->remote, sizeof r->remote);
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
    r->method = head->method;
    r->path = head_path(head);
    pack_headers(r, head);
    a = h->ops.admit(h->self, r, facts);
    if (!a && facts->has_length &&
        facts->length > (uint64_t)h->bounds->max_body_bytes)
        a = RESPONSE_BODY_TOO_LARGE;
    return a;
}

static enum MHD_Result begin(struct http *h, struct MHD_Connection *c,
                             struct request *r)
{
    struct head_facts facts;

    r->begun = true;
    r->response = judge(h, c, r, &facts);
    if (facts.chunked && !LIBRARY_IS_STRICT) {
        enum response wrong = begin_framing(h, r);

        r->response = wrong ? wrong : r->response;
    }
    if (!r->response)
        return MHD_YES;
    h->ops.responded(h->self, r, r->response);
    return read_on(r->response, &facts) ? MHD_YES
                                        : responses_send(h, c, r, r->response);
}

static enum MHD_Result more(struct http *h, struct request *r,
                            const char *piece, size_t n)
{
    if (!r->response) {
        request_keep(h, r, piece, n);
        return MHD_YES;
    }
    r->swallowed_bytes += n;
    if (r->swallowed_bytes <= SWALLOW_MAX_BYTES)
        return MHD_YES;
    if (r->connection && r->connection->state != CONNECTION_SHUT)
        connection_shut_with(h, r->connection, r->response);
    return MHD_NO;
}

static enum MHD_Result finish(struct http *h, struct MHD_Connection *c,
                              struct request *r)
{
    if (!is_framed(r) && r->response != RESPONSE_CHUNKS_MALFORMED)
        request_misframed(h, r);
    if (r->response)
        return responses_send(h, c, r, r->response);
    if (r->taken)
        return MHD_YES;
    if (r->connection && r->connection->state == CONNECTION_SHUT)
        return MHD_NO; /* its time had expired; it has been told so */
    r->received_ms = h->now_ms;
    r->taken_ms = h->mono_ms;
    r->response = h->ops.take(h->self, r);
    request_hold(h, r);
    if (r->response) {
        h->ops.responded(h->self, r, r->response);
        return responses_send(h, c, r, r->response);
    }
    r->taken = true;
    if (r->connection)
        connection_transition(h, r->connection, CONNECTION_PROCESSING);
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

void http_respond(struct http *h, struct request *r, enum response a)
{
    assert(r->taken && a);
    r->response = a;
    r->taken = false;
    h->responses_given++;
    h->ops.responded(h->self, r, a);
    if (!r->connection)
        request_free(h, r);
}

/* ---- opening, turning, closing ---- */

GR_PRINTF(2, 0)
static void mhd_says(void *cls, const char *format, va_list args)
{
    char text[256];
    size_t n;

    (void)cls;
    if (!log_is_on(LEVEL_DEBUG))
        return;
    vsnprintf(text, sizeof text, format, args);
    n = strcspn(text, "\n");
    text[n] = 0;
    log_debug(NULL, "libmicrohttpd", LS("says", text));
}

/* Past the process's bound on open files nobody is accepted, and then nobody makes
 * space (connections.c). So the connections must stay below it, with some files left
 * for ourselves. */
static int64_t max_connections(const struct http_bounds *bounds)
{
    struct rlimit files;
    int64_t max = bounds->max_connections, left;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > INT64_MAX / 2)
        return max;
    left = (int64_t)files.rlim_cur - OWN_FILES;
    if (left >= max)
        return max;
    max = left < 1 ? 1 : left;
    log_warn(NULL,
             "the limit of open files is too low for ingress.max_connections; "
             "raise it (ulimit -n)",
             LI("files", (int64_t)files.rlim_cur),
             LI("max_connections", bounds->max_connections),
             LI("connections", max));
    return max;
}

struct http *http_open(const char *host, int port,
                       const struct http_bounds *bounds,
                       const struct http_ops *ops, void *self,
                       listen_peers *peers, void *arg)
{
    struct http *h = gr_alloc(sizeof *h);
    int fd = listen_on("ingress.listen", host, port, peers, arg);

    h->bounds = bounds;
    h->max_connections = max_connections(bounds);
    h->ops = *ops;
    h->self = self;
    h->now_ms = now_ms();
    h->mono_ms = mono_ms();
    waiters_init(&h->waiting);
    TAILQ_INIT(&h->spare);
    responses_make(h);
    /* No idle timeout (0), because we have deadlines; strictness is head.c's.
     * A request that was taken is not suspended: suspending costs four system
     * calls, and being asked again costs none (docs/decisions/0009). */
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, (uint16_t)port, NULL, NULL, on_call,
        h, MHD_OPTION_EXTERNAL_LOGGER, mhd_says, h, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->max_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_CONNECTION,
        connection_notify, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_URI_LOG_CALLBACK, on_line, h, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escaped, h, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        STRICTLY MHD_OPTION_END);
    if (!h->mhd)
        die(EXIT_UNAVAILABLE, "libmicrohttpd cannot start on %s:%d", host,
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
    /* One run makes a response, the next writes it. */
    run(h);
    if (h->responses_given) {
        h->responses_given = 0;
        run(h);
    }
    if (MHD_get_timeout(h->mhd, &more_ms) == MHD_NO)
        more_ms = 1;
    due_ms = connections_time_out(h); /* what has come was read before */
    if (h->slot_freed)
        due_ms = 0;
    h->slot_freed = false;
    return more_ms ? due_ms : 0;
}

/* Who has come before is heard, and gets a response: else the kernel resets him. */
static void hear_all(struct http *h)
{
    uint64_t heard;

    for (int i = 0; i < HEAR_EPOCHS; i++) {
        heard = h->heard;
        run(h);
        if (heard == h->heard && i)
            return;
    }
}

void http_quiesce(struct http *h)
{
    struct connection *conn, *next;
    int fd;

    if (h->quiesced)
        return;
    hear_all(h);
    h->quiesced = true;
    fd = MHD_quiesce_daemon(h->mhd);
    if (fd >= 0)
        close(fd);
    for (conn = connection_waiting(TAILQ_FIRST(&h->waiting)); conn;
         conn = next) {
        next = connection_waiting(TAILQ_NEXT(&conn->waiter, link));
        if (conn->state == CONNECTION_IDLE)
            connection_shut(h, conn);
    }
}

struct http_figures http_figures(const struct http *h)
{
    return h->figures;
}

/* Whose request is still not whole is told why it goes no further. */
static void respond_stopping(struct http *h)
{
    struct connection *conn, *next;

    for (conn = connection_waiting(TAILQ_FIRST(&h->waiting)); conn;
         conn = next) {
        next = connection_waiting(TAILQ_NEXT(&conn->waiter, link));
        if (conn->state != CONNECTION_READING || !conn->request)
            continue;
        if (!conn->request->response)
            h->ops.responded(h->self, conn->request, RESPONSE_STOPPING);
        connection_shut_with(h, conn,
                             conn->request->response ? conn->request->response
                                                     : RESPONSE_STOPPING);
    }
}

void http_close(struct http *h)
{
    if (!h)
        return;
    respond_stopping(h);
    MHD_stop_daemon(h->mhd);
    requests_free_spare(h);
    responses_free(h);
    free(h->by_fd);
    free(h);
}
