/* web: runs libmicrohttpd, checks heads, collects bodies, and enforces the limits of connections,
 * time and memory. */
#include "web.h"
#include "clock.h"
#include "http_head.h"
#include "json_text.h"
#include "listen.h"
#include "log.h"
#include "waiters.h"
#include "web_tls.h"
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

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
    /* More than HEAD_MAX_BYTES, so that mostly this server, not libmicrohttpd, writes the 431. */
    POOL_BYTES = 24 * 1024,
    STREAM_PIECE_BYTES = 32 * 1024,
    DISCARD_MAX_BYTES = 1024 * 1024, /* of the body of a refused request */
    LIMIT_MS = 30 * 1000,
    TEXT_BYTES_MAX = 192 * 1024 * 1024,
    HELD_MAX_BYTES = 16 * 1024 * 1024, /* of responses, beside the last one */
    HOST_MAX_BYTES = 255,
};

/* A connection. Waiting (waiters.h) while its client has to send or to read. */
struct web_client {
    struct waiter waiter; /* first */
    int fd;
    bool cut;              /* shut down here */
    struct web_pair *pair; /* of web_tls.h; NULL: HTTP */
    size_t held_bytes;     /* of the response that it reads */
    char remote[INET6_ADDRSTRLEN];
    struct web_request *request; /* the one in progress; or NULL */
};

struct web {
    struct MHD_Daemon *mhd;
    struct web_ops ops;
    void *self;
    const char *listen; /* the host of console.listen */
    const struct string_list *hosts;
    struct waiters waiting;
    TAILQ_HEAD(, web_request) requests;
    struct ulid ids;
    struct head head; /* the one that is being checked */
    int64_t open, now_ms, mono_ms;
    size_t held_bytes;
    int fd;
    int resumed; /* since the last run */
    bool tls;
    /* One of WEB_CONNECTIONS_MAX was closed: libmicrohttpd looks for new ones only
     * when it is run again. */
    bool slot_freed;
};

/* ---- connections ---- */

static struct web_client *client_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

/* The client has to act next. */
static void wait_for(struct web *w, struct web_client *k)
{
    if (!k->cut)
        waiters_begin(&w->waiting, &k->waiter, w->mono_ms);
}

/* libmicrohttpd then sees a closed connection, and frees its memory. */
static void cut(struct web *w, struct waiter *of)
{
    struct web_client *k = (struct web_client *)(void *)of;

    k->cut = true;
    shutdown(k->fd, SHUT_RDWR);
    waiters_end(&w->waiting, of);
}

/* An IPv4 address is written as such, also on an IPv6 socket. */
static void note_remote(struct web_client *k, struct MHD_Connection *c)
{
    const struct sockaddr *a = MHD_get_connection_info(
                                   c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                                   ->client_addr;
    const struct in6_addr *six =
        &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    const void *address =
        &((const struct sockaddr_in *)(const void *)a)->sin_addr;
    bool mapped = a->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six);

    if (a->sa_family == AF_INET6)
        address = mapped ? six->s6_addr + 12 : six->s6_addr;
    if (!inet_ntop(mapped ? AF_INET : a->sa_family, address, k->remote,
                   sizeof k->remote))
        k->remote[0] = 0;
}

static void request_free(struct web *w, struct web_request *r)
{
    if (r->given)
        w->ops.end(w->self, r);
    r->client->request = NULL;
    TAILQ_REMOVE(&w->requests, r, link);
    for (size_t i = 0; i < r->header_count; i++)
        free(r->headers[i].value);
    buf_fini(&r->body);
    buf_fini(&r->text);
    free(r->path);
    free(r->query);
    free(r);
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct web *w = cls;
    struct web_client *k = *context;
    struct waiter *longest;

    if (what != MHD_CONNECTION_NOTIFY_STARTED) {
        if (k->request) /* libmicrohttpd did not report its end */
            request_free(w, k->request);
        waiters_end(&w->waiting, &k->waiter);
        w->held_bytes -= k->held_bytes;
        w->slot_freed |= w->open-- >= WEB_CONNECTIONS_MAX;
        web_tls_end(k->pair);
        free(k);
        *context = NULL;
        return;
    }
    *context = k = gr_alloc(sizeof *k);
    k->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)
                ->connect_fd;
    note_remote(k, c);
    k->pair = web_tls_begin();
    wait_for(w, k);
    w->open++;
    longest = waiters_crowded(&w->waiting, w->open, WEB_CONNECTIONS_MAX);
    if (longest)
        cut(w, longest);
}

/* The wait for its next request begins. */
static void on_completed(void *cls, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct web *w = cls;
    struct web_request *r = *context;
    struct web_client *k = client_of(c);

    (void)why;
    *context = NULL;
    w->held_bytes -= k->held_bytes;
    k->held_bytes = 0;
    if (r)
        request_free(w, r);
    wait_for(w, k);
}

/* A response of this many bytes is being sent. */
static void hold(struct web *w, struct web_client *k, size_t bytes)
{
    struct waiter *of, *next;

    k->held_bytes += bytes;
    w->held_bytes += bytes;
    wait_for(w, k);
    if (w->held_bytes <= HELD_MAX_BYTES)
        return;
    for (of = TAILQ_FIRST(&w->waiting); of; of = next) {
        struct web_client *other = (struct web_client *)(void *)of;

        next = TAILQ_NEXT(of, link);
        if (other == k || !other->held_bytes)
            continue;
        cut(w, of); /* a later run frees its bytes and counts them */
        return;
    }
}

/* ---- Host and Origin ---- */

static bool same_name(const char *name, size_t n, const char *known)
{
    return known && strlen(known) == n && strncasecmp(name, known, n) == 0;
}

static bool is_address(int family, const char *text, size_t n)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr a;

    if (n >= sizeof copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    return inet_pton(family, copy, &a) == 1;
}

bool web_host_known(const char *value, const char *listen,
                    const struct string_list *hosts)
{
    size_t n = strcspn(value, ":");
    const char *end;

    if (*value == '[') {
        end = strchr(value, ']');
        return end && (!end[1] || end[1] == ':') &&
               is_address(AF_INET6, value + 1, (size_t)(end - value) - 1);
    }
    if (value[n + (value[n] == ':')] &&
        value[n + 1 + strspn(value + n + 1, "0123456789")])
        return false; /* behind the colon: not a port */
    if (is_address(AF_INET, value, n))
        return true;
    if (n && value[n - 1] == '.')
        n--;
    if (n == 0)
        return false;
    for (size_t i = 0; hosts && i < hosts->count; i++)
        if (same_name(value, n, hosts->items[i]))
            return true;
    return same_name(value, n, "localhost") || same_name(value, n, listen);
}

bool web_same_origin(const char *origin, const char *host)
{
    const char *at = strstr(origin, "://");
    size_t scheme = at ? (size_t)(at - origin) : 0;

    return ((scheme == 4 && strncasecmp(origin, "http", 4) == 0) ||
            (scheme == 5 && strncasecmp(origin, "https", 5) == 0)) &&
           strcasecmp(at + 3, host) == 0;
}

/* An unknown name is shown in the response only if it consists of characters that names have.
 * HTTP/1.0 clients may omit the host; browsers never do. */
static bool host_is_fine(const struct web *w, struct web_request *r)
{
    int count;
    const char *value = web_header(r, "Host", &count);
    size_t n = value ? strlen(value) : 0;
    bool plain;

    if (!count || web_host_known(value, w->listen, w->hosts))
        return true;
    plain = n && n <= HOST_MAX_BYTES &&
            n == strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._:[]");
    web_fail(r, WEB_HOST_UNKNOWN, NULL,
             "Host%s%s is not a name of this console: add it to "
             "console.hosts, or use an IP address",
             plain ? " " : "", plain ? value : "");
    return false;
}

/* ---- responses ---- */

void web_add_header(struct web_request *r, const char *name, const char *value)
{
    if (r->header_count == WEB_HEADERS_MAX)
        die(EXIT_SOFTWARE, "a response has too many headers");
    r->headers[r->header_count].name = name;
    r->headers[r->header_count++].value = gr_strdup(value);
}

void web_fail(struct web_request *r, enum web_error e, const char *field,
              const char *format, ...)
{
    const struct web_error_facts *facts = web_error_facts(e);
    char message[WEB_MESSAGE_BYTES];
    json_t *doc;
    va_list args;
    char *text;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    doc = json_pack("{s:{s:s,s:o,s:o,s:s}}", "error", "code", facts->code,
                    "message", json_text_of(message), "field",
                    json_text_of(field), "request_id", r->id);
    text = json_dumps(doc, JSON_COMPACT);
    json_decref(doc);
    r->status = facts->status;
    r->type = "application/json; charset=utf-8";
    r->cache = "no-store";
    r->stream = NULL;
    buf_reset(&r->text);
    buf_puts(&r->text, text);
    buf_puts(&r->text, "\n");
    free(text);
    if (e == WEB_UNAUTHORIZED)
        web_add_header(r, "WWW-Authenticate", "Bearer");
}

static void suspend(struct web *w, struct web_request *r)
{
    waiters_end(&w->waiting, &r->client->waiter);
    r->suspended = true;
    MHD_suspend_connection(r->mhd);
}

static void resume(struct web *w, struct web_request *r)
{
    if (!r->suspended)
        return;
    r->suspended = false;
    w->resumed++;
    MHD_resume_connection(r->mhd);
}

void web_respond(struct web_request *r)
{
    r->responded = true;
    resume(r->web, r);
}

/* A suspended connection is not watched by libmicrohttpd. With TLS the end of the stream follows
 * bytes that nobody has read. */
bool web_client_left(const struct web_request *r)
{
    struct pollfd p = {.fd = r->client->fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1;
}

void web_continue(struct web_request *r)
{
    resume(r->web, r);
}

void web_cut(struct web_request *r)
{
    resume(r->web, r);
    cut(r->web, &r->client->waiter);
}

static ssize_t on_stream(void *cls, uint64_t at, char *to, size_t max)
{
    struct web_request *r = cls;
    int64_t n = r->stream(r->self, to, max);

    (void)at;
    if (n == 0)
        suspend(r->web, r);
    else
        wait_for(r->web, r->client);
    return n == WEB_STREAM_END ? MHD_CONTENT_READER_END_OF_STREAM
           : n < 0             ? MHD_CONTENT_READER_END_WITH_ERROR
                               : (ssize_t)n;
}

static enum MHD_Result send_response(struct web *w, struct MHD_Connection *c,
                                     struct web_request *r)
{
    size_t n = r->text.len;
    struct MHD_Response *m;
    enum MHD_Result done;
    char *text;

    if (r->text.failed) {
        buf_reset(&r->text);
        web_fail(r, WEB_INTERNAL, NULL, "the response is too large");
        n = r->text.len;
    }
    text = buf_take(&r->text);
    if (r->stream)
        m = MHD_create_response_from_callback(
            r->stream_bytes, STREAM_PIECE_BYTES, on_stream, r, NULL);
    else
        m = MHD_create_response_from_buffer(n, text ? text : gr_strdup(""),
                                            MHD_RESPMEM_MUST_FREE);
    if (r->stream || !m)
        free(text);
    if (!m)
        return MHD_NO;
    MHD_add_response_header(m, "Content-Type", r->type);
    MHD_add_response_header(m, "Cache-Control", r->cache);
    MHD_add_response_header(m, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(m, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(m, "X-Request-Id", r->id);
    for (size_t i = 0; i < r->header_count; i++)
        MHD_add_response_header(m, r->headers[i].name, r->headers[i].value);
    hold(w, r->client, r->stream ? STREAM_PIECE_BYTES : n);
    /* libmicrohttpd leaves out the body of a response to HEAD. */
    done = MHD_queue_response(c, r->status, m);
    MHD_destroy_response(m);
    return done;
}

/* ---- a request ---- */

/* For MHD_OPTION_URI_LOG_CALLBACK: the request line has come, and libmicrohttpd has not yet
 * parsed it.
 *
 * It makes a list of the query's fields, which is not needed, and when it has no memory for
 * them it closes the connection without a response and without a callback. So it is shown a
 * single field: each '&' in its own buffer becomes a '.'. The copy is made before. */
static void *on_line(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct web *w = cls;
    struct web_request *r = gr_alloc(sizeof *r);
    const char *query = uri ? strchr(uri, '?') : NULL;

    r->web = w;
    r->client = client_of(c);
    r->client->request = r;
    TAILQ_INSERT_TAIL(&w->requests, r, link);
    r->mhd = c;
    r->raw_url_bytes = uri ? strlen(uri) : 0;
    r->status = MHD_HTTP_OK;
    r->type = "application/json; charset=utf-8";
    r->cache = "no-store";
    memcpy(r->remote, r->client->remote, sizeof r->remote);
    memcpy(r->id, "req_", 4);
    ulid_next(&w->ids, w->now_ms, r->id + 4);
    buf_init(&r->body, WEB_BODY_MAX_BYTES);
    buf_init(&r->text, TEXT_BYTES_MAX);
    if (query) {
        r->query = gr_strdup(query + 1);
        for (char *p = (char *)(uintptr_t)query; (p = strchr(p, '&'));)
            *p = '.';
    }
    return r;
}

/* For MHD_OPTION_UNESCAPE_CALLBACK: paths are decoded where they are matched. */
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

struct looked_up {
    const char *name, *value;
    int count;
};

static enum MHD_Result on_looked(void *cls, enum MHD_ValueKind kind,
                                 const char *name, const char *value)
{
    struct looked_up *l = cls;

    (void)kind;
    if (strcasecmp(name, l->name) == 0 && l->count++ == 0)
        l->value = value ? value : "";
    return MHD_YES;
}

const char *web_header(const struct web_request *r, const char *name,
                       int *count)
{
    struct looked_up l = {.name = name};

    MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, on_looked, &l);
    *count = l.count;
    return l.value;
}

/* Refuses a request whose head is wrong. false: its connection must end, as the bytes that follow
 * cannot be trusted. */
static bool refuse_head(struct web_request *r, enum head_fault fault)
{
    switch (fault) {
    case HEAD_TOO_LARGE:
        web_fail(r, WEB_HEAD_TOO_LARGE, NULL,
                 "the request line and headers exceed 16 KiB, or 128 headers");
        break;
    case HEAD_LENGTH_AMBIGUOUS:
        web_fail(r, WEB_BAD_REQUEST, NULL,
                 "the length of the body is ambiguous: send one "
                 "Content-Length");
        break;
    case HEAD_HOST_MISSING:
    case HEAD_HOST_DOUBLED:
        web_fail(r, WEB_HOST_NEEDED, NULL,
                 "a request must have one Host header");
        break;
    default:
        web_fail(r, WEB_BAD_REQUEST, NULL,
                 "the request line or a header is malformed");
    }
    return false;
}

/* Judges the head. r->refused: the response is made. false: send it now and end the
 * connection; else the body is read first, as a client that is still writing might lose a
 * response. */
static bool judge(struct web *w, struct MHD_Connection *c,
                  struct web_request *r)
{
    struct head *head = &w->head;
    struct head_facts facts;
    enum head_fault fault;

    head->count = 0;
    head->parsed_strictly = LIBRARY_IS_STRICT;
    head->raw_url_bytes = r->raw_url_bytes;
    head->bytes = MHD_get_connection_info(
                      c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
                      ->header_size;
    MHD_get_connection_values_n(c, MHD_HEADER_KIND, on_header, head);
    fault = head_check(head, &facts);
    r->refused = true;
    if (fault)
        return refuse_head(r, fault);
    r->method = head->method;
    r->path = gr_strdup(head_path(head));
    if (facts.chunked) {
        web_fail(r, WEB_LENGTH_REQUIRED, NULL,
                 "send the body with a Content-Length, not in chunks");
        return false;
    }
    if (!host_is_fine(w, r))
        ;
    else if (facts.length > WEB_BODY_MAX_BYTES)
        web_fail(r, WEB_TOO_LARGE, NULL,
                 "the body has %llu bytes; at most 65536 are accepted",
                 (unsigned long long)facts.length);
    else if (facts.compressed)
        web_fail(r, WEB_UNSUPPORTED_TYPE, NULL,
                 "Content-Encoding is not supported: send the body "
                 "uncompressed");
    else
        r->refused = false;
    return !r->refused || (!facts.expects && facts.length <= DISCARD_MAX_BYTES);
}

static enum MHD_Result finish(struct web *w, struct MHD_Connection *c,
                              struct web_request *r)
{
    if (r->refused)
        return send_response(w, c, r);
    if (!r->given) {
        r->given = true;
        w->ops.begin(w->self, r);
    }
    if (r->responded)
        return send_response(w, c, r);
    suspend(w, r);
    return MHD_YES;
}

static enum MHD_Result on_call(void *cls, struct MHD_Connection *c,
                               const char *url, const char *method,
                               const char *version, const char *data,
                               size_t *data_bytes, void **context)
{
    struct web *w = cls;
    struct web_request *r = *context;
    size_t n = *data_bytes;

    if (!r)
        return MHD_NO; /* on_line() always makes one */
    if (!r->begun) {
        r->begun = true;
        w->head.method = method;
        w->head.url = url;
        w->head.version = version;
        if (judge(w, c, r))
            return MHD_YES;
        web_add_header(r, "Connection", "close");
        return send_response(w, c, r);
    }
    if (!n)
        return finish(w, c, r);
    *data_bytes = 0;
    if (!r->refused) /* its length is known, so it fits */
        buf_put(&r->body, data, n);
    return MHD_YES;
}

GR_PRINTF(2, 0)
static void mhd_says(void *cls, const char *format, va_list args)
{
    char text[256];

    (void)cls;
    if (!log_is_on(LEVEL_DEBUG))
        return;
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    log_debug(NULL, "libmicrohttpd", LS("says", text));
}

/* ---- opening, turning, closing ---- */

/* libmicrohttpd needs to be told of HTTPS by options of its own. */
static const char priorities[] =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE";

struct web *web_open(const char *host, int port, const struct tls *tls,
                     const struct web_ops *ops, void *self)
{
    struct MHD_OptionItem https[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(intptr_t)web_tls_choose},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)priorities},
        {MHD_OPTION_END, 0, NULL}};
    struct web *w = gr_alloc(sizeof *w);
    char why[200];
    int fd;

    w->tls = tls->key != NULL;
    if (w->tls && !web_tls_use(tls, why))
        die(EXIT_CONFIG, "%s", why);
    fd = listen_on("console.listen", host, port, NULL, NULL);

    w->ops = *ops;
    w->self = self;
    w->listen = host;
    w->now_ms = now_ms();
    w->mono_ms = mono_ms();
    waiters_init(&w->waiting);
    TAILQ_INIT(&w->requests);
    w->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME |
            (w->tls ? MHD_USE_TLS : MHD_NO_FLAG),
        (uint16_t)port, NULL, NULL, on_call, w, MHD_OPTION_EXTERNAL_LOGGER,
        mhd_says, w, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)WEB_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, 0u,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, w,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, w,
        MHD_OPTION_URI_LOG_CALLBACK, on_line, w, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escaped, w, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_ARRAY, w->tls ? https : https + COUNT_OF(https) - 1,
        STRICTLY MHD_OPTION_END);
    if (!w->mhd)
        die(EXIT_UNAVAILABLE, "libmicrohttpd cannot start on %s:%d", host,
            port);
    w->fd = MHD_get_daemon_info(w->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return w;
}

void web_set_tls(struct web *w, const struct tls *tls)
{
    char why[200];

    if (!w->tls || !tls->key) /* HTTPS begins or ends at a start */
        return;
    if (web_tls_use(tls, why))
        log_info(NULL, "the certificate of console.tls was loaded");
    else
        log_error(NULL, "the certificate of console.tls was not replaced",
                  LS("error", why));
}

void web_set_hosts(struct web *w, const struct string_list *hosts)
{
    w->hosts = hosts;
}

void web_close(struct web *w)
{
    struct web_request *r;

    if (!w)
        return;
    /* libmicrohttpd ends the process if a connection is suspended when it stops. */
    TAILQ_FOREACH(r, &w->requests, link)
    resume(w, r);
    MHD_stop_daemon(w->mhd);
    web_tls_close();
    free(w);
}

int web_fd(const struct web *w)
{
    return w->fd;
}

int web_run(struct web *w, int64_t now_wall_ms, int64_t now_mono_ms)
{
    MHD_UNSIGNED_LONG_LONG more_ms = 1;
    struct waiter *overdue;
    int due_ms;

    w->now_ms = now_wall_ms;
    w->mono_ms = now_mono_ms;
    MHD_run(w->mhd);
    /* One run makes a response, the next writes it, the third ends the request, and the fourth takes note that the connection can
     * be written to. Left to the loop, each of the last two would be a turn of its own. */
    if (w->resumed) {
        w->resumed = 0;
        MHD_run(w->mhd);
        MHD_run(w->mhd);
        MHD_run(w->mhd);
    }
    if (MHD_get_timeout(w->mhd, &more_ms) == MHD_NO)
        more_ms = 1;
    while ((
        overdue = waiters_overdue(&w->waiting, now_mono_ms, LIMIT_MS, &due_ms)))
        cut(w, overdue);
    if (w->slot_freed || w->resumed)
        due_ms = 0;
    w->slot_freed = false;
    return more_ms ? due_ms : 0;
}
