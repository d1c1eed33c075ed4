/* http: runs libmicrohttpd, judges heads, collects bodies, and enforces the limits of
 * connections, time and memory. */
#include "http.h"
#include "clock.h"
#include "headers.h"
#include "http_connection.h"
#include "log.h"
#include "mhd_response.h"
#include "tap.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* From 0.9.77 on libmicrohttpd itself refuses what http_head.c finds by its traces in 0.9.75
 * (Debian 12). */
#if MHD_VERSION >= 0x00097701
#define LIBRARY_IS_STRICT true
#define STRICTLY          MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#else
#define LIBRARY_IS_STRICT false
#define STRICTLY
#endif

enum {
    /* Of each connection, for its head and a piece of its body. More than HEAD_MAX_BYTES, so
     * that mostly ingress, not libmicrohttpd, writes the 431. */
    POOL_BYTES = 24 * 1024,
    DISCARD_MAX_BYTES = 16 * 1024 * 1024,
    OWN_FILES = 64, /* databases, mailboxes, control, and a reserve */
    HEAR_RUNS =
        256, /* libmicrohttpd accepts about ten connections in one run */
    BODIES_MAX_BYTES = 64 * 1024 * 1024, /* plus one body of max_body */
};

struct http {
    struct MHD_Daemon *mhd;
    const struct http_bounds *bounds;
    struct http_ops ops;
    void *self;
    int64_t now_ms, mono_ms;
    struct connections connections;
    struct requests requests;
    struct mhd_responses responses;
    struct head head; /* the one that is being judged */
    int epoll_fd;
    int responses_given; /* since the last run */
    uint64_t heard;      /* connections and requests that ever began */
    bool quiesced;
    /* A connection was closed when there were as many as allowed: libmicrohttpd looks for new
     * ones only when it is run again. */
    bool slot_freed;
};

static void refused(struct http *h, const struct request *r)
{
    h->ops.responded(h->self, r, r->response);
}

/* Refuse a request whose body is being read; the rest of the body is discarded. */
static void refuse_rest(struct http *h, struct request *r, enum response a)
{
    r->response = a;
    r->discarded_bytes = r->body.len;
    refused(h, r);
    request_drop_body(&h->requests, r);
}

/* Its body is not framed as HTTP requires. The connection ends after the response, also if the
 * request was refused for another reason before. */
static void refuse_framing(struct http *h, struct request *r)
{
    if (r->response)
        r->response = RESPONSE_CHUNKS_MALFORMED;
    else
        refuse_rest(h, r, RESPONSE_CHUNKS_MALFORMED);
}

static enum MHD_Result send_response(struct http *h, struct MHD_Connection *c,
                                     struct request *r, enum response a)
{
    enum MHD_Result queued = mhd_response_queue(&h->responses, c, r, a);

    if (r->own_body.len)
        request_copied(&h->requests, r);
    if (r->connection && r->connection->state != CONNECTION_SHUT)
        connection_transition(&h->connections, r->connection,
                              CONNECTION_RESPONDING);
    return queued;
}

/* The request has no connection any more. If it was taken, http_respond() frees it. */
static void part(struct http *h, struct request *r)
{
    if (r->connection)
        r->connection->request = NULL;
    r->connection = NULL;
    r->method = r->path = NULL;
    if (!r->taken)
        request_free(&h->requests, r);
}

/* ---- the limits of time, connections and memory ---- */

/* Close a connection that kept us waiting. It gets no response if it is idle after an earlier
 * one or does not read its response, the known one if it was refused already, else a 408. */
static void time_out(struct http *h, struct connection *conn)
{
    struct request none = {0}, *r = conn->request ? conn->request : &none;

    if (conn->state == CONNECTION_RESPONDING ||
        (conn->state == CONNECTION_IDLE && conn->kept)) {
        connection_shut(&h->connections, conn);
    } else if (r->response) {
        connection_shut_with(&h->connections, conn, r->response);
    } else {
        if (!r->remote[0])
            memcpy(r->remote, conn->remote, sizeof r->remote);
        h->ops.responded(h->self, r, RESPONSE_TOO_SLOW);
        connection_shut_with(&h->connections, conn, RESPONSE_TOO_SLOW);
    }
}

/* For MHD_OPTION_NOTIFY_CONNECTION. */
static void on_connection(void *cls, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *h = cls;
    struct connections *all = &h->connections;
    struct connection *conn = *context, *longest;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = connection_new(all, c);
        h->heard++;
        longest = connections_crowded(all);
        if (longest)
            time_out(h, longest);
    } else if (conn) {
        if (conn->request) /* libmicrohttpd did not report its end */
            part(h, conn->request);
        h->slot_freed |= all->count >= all->max;
        connection_free(all, conn);
        *context = NULL;
    }
}

/* Free memory of bodies: of the connections that hold more than their share of it, the one that
 * has kept us waiting longest gives way, because it does not send its body or does not read a
 * large response. false: all those wait for us. */
static bool one_gives_way(struct http *h)
{
    size_t share = (size_t)(BODIES_MAX_BYTES / h->connections.max);
    struct connection *conn = NULL;

    while ((conn = connections_next(&h->connections, conn))) {
        struct request *r = conn->request;

        if (conn->state == CONNECTION_READING && r && r->body.cap > share) {
            refuse_rest(h, r, RESPONSE_BODIES_FULL);
            return true;
        }
        if (conn->state == CONNECTION_RESPONDING && r &&
            r->held_bytes > share) {
            request_uncount(&h->requests, r);
            connection_shut(&h->connections, conn);
            return true;
        }
    }
    return false;
}

static bool bodies_are_full(const struct http *h)
{
    return h->requests.bytes > BODIES_MAX_BYTES + h->bounds->max_body_bytes;
}

bool http_hold(struct http *h, struct request *r)
{
    request_count(&h->requests, r);
    while (bodies_are_full(h))
        if (!one_gives_way(h))
            return false;
    return true;
}

/* ---- a request line, and the end of a request ---- */

/* For MHD_OPTION_URI_LOG_CALLBACK: the request line has come, and libmicrohttpd has not yet
 * parsed it.
 *
 * It makes a list of the query's fields, which we do not need, and when it has no memory for
 * them it closes the connection without a response and without a callback. So it is shown a
 * single field: each '&' in its own buffer becomes a '.'. Our copy is made before. */
static void *on_line(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct http *h = cls;
    struct request *r = request_new(&h->requests);
    const char *query = uri ? strchr(uri, '?') : NULL;

    h->heard++;
    r->connection = connection_of(c);
    r->raw_url_bytes = uri ? strlen(uri) : 0;
    if (query) {
        buf_puts(&r->query, query + 1);
        for (char *p = (char *)(uintptr_t)query; (p = strchr(p, '&'));)
            *p = '.';
    }
    if (r->connection)
        r->connection->request = r;
    if (r->connection && r->connection->state == CONNECTION_IDLE)
        connection_transition(&h->connections, r->connection,
                              CONNECTION_READING);
    return r;
}

/* Record a request that libmicrohttpd refused by itself, with a response of its own. */
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
    refused(h, r);
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
        connection_transition(&h->connections, r->connection, CONNECTION_IDLE);
        r->connection->kept = true;
        r->connection->read = false;
    }
    part(h, r);
}

/* ---- the bytes of chunked bodies, as they came (framing.h) ---- */

/* libmicrohttpd has read these bytes into its buffer and has not parsed them yet. */
static void on_bytes(void *self, int fd, const char *p, size_t n)
{
    struct http *h = self;
    struct connection *conn = connection_of_fd(&h->connections, fd);
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
        refuse_framing(h, r);
}

/* The head has just been read: in libmicrohttpd's buffer the first bytes of the body follow it.
 * If libmicrohttpd has read nothing since the last request, it has moved its buffer, and the end
 * of these bytes is unknown. */
static enum response begin_framing(const struct http *h, struct request *r)
{
    const char *body = h->head.method + h->head.bytes;

    r->chunked = true;
    if (!r->connection || !r->connection->read)
        return RESPONSE_CHUNKS_PIPELINED;
    if (r->connection->read_end < body ||
        r->connection->read_end > body + POOL_BYTES)
        return RESPONSE_CHUNKS_MALFORMED; /* an unknown libmicrohttpd */
    framing_read(&r->framing, body, (size_t)(r->connection->read_end - body));
    return r->framing.state == FRAMING_BAD ? RESPONSE_CHUNKS_MALFORMED
                                           : RESPONSE_NONE;
}

static void run(struct http *h)
{
    if (!LIBRARY_IS_STRICT)
        tap_open(on_bytes, h);
    MHD_run(h->mhd);
    tap_close();
}

/* ---- a request ---- */

/* For MHD_OPTION_UNESCAPE_CALLBACK: leaves the target as it was sent, as our paths need no
 * escapes. */
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

/* The message of RESPONSE_HEAD_TOO_LARGE names both. */
_Static_assert(HEAD_MAX_BYTES == 16 * 1024 && HEAD_MAX_COUNT == 128,
               "adapt the message");

static const enum response response_to_head[] = {
    [HEAD_FINE] = RESPONSE_NONE,
    [HEAD_TOO_LARGE] = RESPONSE_HEAD_TOO_LARGE,
    [HEAD_MALFORMED] = RESPONSE_HEAD_MALFORMED,
    [HEAD_LENGTH_AMBIGUOUS] = RESPONSE_LENGTH_AMBIGUOUS,
    [HEAD_HOST_MISSING] = RESPONSE_HOST_MISSING,
    [HEAD_HOST_DOUBLED] = RESPONSE_HOST_DOUBLED,
};

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
    a = response_to_head[head_check(head, facts)];
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
    bool body;

    r->begun = true;
    r->response = judge(h, c, r, &facts);
    if (facts.chunked && !LIBRARY_IS_STRICT) {
        enum response wrong = begin_framing(h, r);

        r->response = wrong ? wrong : r->response;
    }
    if (!r->response)
        return MHD_YES;
    refused(h, r);
    /* Read it to its end before the response, because libmicrohttpd closes the connection after
     * a response that precedes the end; except if the length of the body is unclear, if it is
     * too much to discard, or if the client asks first (Expect). */
    body = facts.chunked || facts.length > 0;
    if ((response_facts(r->response)->closes &&
         r->response != RESPONSE_STOPPING) ||
        (body && facts.expects) || facts.length > DISCARD_MAX_BYTES)
        return send_response(h, c, r, r->response);
    return MHD_YES;
}

static enum MHD_Result more(struct http *h, struct request *r,
                            const char *piece, size_t n)
{
    if (!r->response && r->body.len + n > (size_t)h->bounds->max_body_bytes) {
        refuse_rest(h, r, RESPONSE_BODY_TOO_LARGE);
        return MHD_YES;
    }
    if (!r->response) {
        request_add_body(&h->requests, r, piece, n);
        /* Connections that hold large bodies and do not end them must not keep out clients
         * that send small ones. */
        while (!r->response && bodies_are_full(h))
            if (!one_gives_way(h))
                refuse_rest(h, r, RESPONSE_BODIES_FULL);
        return MHD_YES;
    }
    r->discarded_bytes += n;
    if (r->discarded_bytes <= DISCARD_MAX_BYTES)
        return MHD_YES;
    if (r->connection && r->connection->state != CONNECTION_SHUT)
        connection_shut_with(&h->connections, r->connection, r->response);
    return MHD_NO;
}

static enum MHD_Result finish(struct http *h, struct MHD_Connection *c,
                              struct request *r)
{
    /* libmicrohttpd has found the end of a chunked body; framing.c must have found it, too. */
    if (r->chunked && r->framing.state != FRAMING_END &&
        r->response != RESPONSE_CHUNKS_MALFORMED)
        refuse_framing(h, r);
    if (r->response)
        return send_response(h, c, r, r->response);
    if (r->taken)
        return MHD_YES;
    if (r->connection && r->connection->state == CONNECTION_SHUT)
        return MHD_NO; /* timed out; its response is sent */
    r->received_ms = h->now_ms;
    r->taken_ms = h->mono_ms;
    r->response = h->ops.take(h->self, r);
    request_count(&h->requests, r);
    if (r->response) {
        refused(h, r);
        return send_response(h, c, r, r->response);
    }
    r->taken = true;
    if (r->connection)
        connection_transition(&h->connections, r->connection,
                              CONNECTION_PROCESSING);
    return MHD_YES; /* each MHD_run() calls us again */
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
        request_free(&h->requests, r);
}

/* ---- opening, turning, closing ---- */

GR_PRINTF(2, 0)
static void mhd_logs(void *cls, const char *format, va_list args)
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

/* At the process's limit of open files no connection is accepted, so none would be closed for a
 * new one (on_connection()). The connections must stay below it, and leave some files for
 * ingress itself. */
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
    h->ops = *ops;
    h->self = self;
    h->now_ms = now_ms();
    h->mono_ms = mono_ms();
    connections_open(&h->connections, max_connections(bounds));
    h->connections.mono_ms = h->mono_ms;
    requests_open(&h->requests);
    mhd_responses_open(&h->responses);
    /* No idle timeout (0), as http.c has deadlines. A taken request is not suspended:
     * suspending costs four system calls, being called again costs none
     * (docs/decisions/0009). */
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, (uint16_t)port, NULL, NULL, on_call,
        h, MHD_OPTION_EXTERNAL_LOGGER, mhd_logs, h, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->connections.max,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
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

/* libmicrohttpd has work that waits for no client. */
static bool has_more(struct http *h)
{
    MHD_UNSIGNED_LONG_LONG ms = 1;

    return MHD_get_timeout(h->mhd, &ms) == MHD_YES && ms == 0;
}

int http_run(struct http *h, int64_t now_wall_ms, int64_t now_mono_ms)
{
    struct connection *overdue;
    bool more;
    int due_ms;

    h->now_ms = now_wall_ms;
    h->mono_ms = h->connections.mono_ms = now_mono_ms;
    /* One run makes a response, the next writes it, the third ends the request, and the fourth reads the
     * one that came meanwhile, which would be left for another commit. */
    run(h);
    if (h->responses_given) {
        h->responses_given = 0;
        run(h);
        run(h);
    }
    if (has_more(h))
        run(h);
    more = has_more(h);
    while ((overdue = connections_overdue(&h->connections,
                                          h->bounds->read_timeout_ms, &due_ms)))
        time_out(h, overdue); /* all that has come is read by now */
    if (h->slot_freed)
        due_ms = 0;
    h->slot_freed = false;
    return more ? 0 : due_ms;
}

void http_quiesce(struct http *h)
{
    struct connection *conn, *next;
    uint64_t heard;
    int fd;

    if (h->quiesced)
        return;
    /* Serve the connections that the kernel has accepted: it would reset them. */
    run(h);
    for (int i = 1; i < HEAR_RUNS; i++) {
        heard = h->heard;
        run(h);
        if (heard == h->heard)
            break;
    }
    h->quiesced = true;
    fd = MHD_quiesce_daemon(h->mhd);
    if (fd >= 0)
        close(fd);
    for (conn = connections_next(&h->connections, NULL); conn; conn = next) {
        next = connections_next(&h->connections, conn);
        if (conn->state == CONNECTION_IDLE)
            connection_shut(&h->connections, conn);
    }
}

struct http_figures http_figures(const struct http *h)
{
    return (struct http_figures){
        .connections = h->connections.count,
        .busy = h->connections.busy,
        .recent = recent_clients_count(&h->connections.recent, h->mono_ms),
        .body_bytes = h->requests.bytes};
}

/* Respond 503 to connections whose request is incomplete, then close them. */
static void respond_stopping(struct http *h)
{
    struct connection *conn, *next;

    for (conn = connections_next(&h->connections, NULL); conn; conn = next) {
        struct request *r = conn->request;

        next = connections_next(&h->connections, conn);
        if (conn->state != CONNECTION_READING || !r)
            continue;
        if (!r->response)
            h->ops.responded(h->self, r, RESPONSE_STOPPING);
        connection_shut_with(&h->connections, conn,
                             r->response ? r->response : RESPONSE_STOPPING);
    }
}

void http_close(struct http *h)
{
    if (!h)
        return;
    respond_stopping(h);
    MHD_stop_daemon(h->mhd);
    requests_close(&h->requests);
    mhd_responses_close(&h->responses);
    connections_close(&h->connections);
    free(h);
}
