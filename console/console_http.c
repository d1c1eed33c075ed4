/* console_http: serves the console's pages with libmicrohttpd. */
#include "console_http.h"
#include "clock.h"
#include "listen.h"
#include "log.h"
#include "waiters.h"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    CONNECTIONS_MAX = 64,
    POOL_BYTES = 16 * 1024,
    LIMIT_MS = 30 * 1000,
    PAGE_MAX_BYTES = 64 * 1024 * 1024,
    HELD_MAX_BYTES = 16 * 1024 * 1024, /* of responses, beside the last one */
    HOST_MAX_BYTES = 255,
};

struct http_client {
    struct waiter waiter; /* first */
    int fd;
    size_t held_bytes; /* of the response that it reads */
};

struct console_http {
    struct MHD_Daemon *mhd;
    page_fn *page;
    void *self;
    const char *listen; /* the host of console.listen */
    const struct string_list *hosts;
    struct waiters waiting; /* open connections that were not shut down here */
    int64_t open, mono_ms;
    size_t held_bytes;
    int fd;
    /* One of CONNECTIONS_MAX was closed: libmicrohttpd looks for new ones only
     * when it is run again. */
    bool slot_freed;
};

/* ---- connections ---- */

static struct http_client *connection_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

/* libmicrohttpd then sees a closed connection, and frees its memory. */
static void cut(struct console_http *h, struct waiter *w)
{
    shutdown(((struct http_client *)(void *)w)->fd, SHUT_RDWR);
    waiters_end(&h->waiting, w);
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct console_http *h = cls;
    struct http_client *k = *context;
    struct waiter *longest;

    if (what != MHD_CONNECTION_NOTIFY_STARTED) {
        waiters_end(&h->waiting, &k->waiter);
        h->held_bytes -= k->held_bytes;
        h->slot_freed |= h->open-- >= CONNECTIONS_MAX;
        free(k);
        *context = NULL;
        return;
    }
    *context = k = gr_alloc(sizeof *k);
    k->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)
                ->connect_fd;
    waiters_begin(&h->waiting, &k->waiter, h->mono_ms);
    h->open++;
    longest = waiters_crowded(&h->waiting, h->open, CONNECTIONS_MAX);
    if (longest)
        cut(h, longest);
}

/* The wait for its next request begins. */
static void on_completed(void *cls, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct console_http *h = cls;
    struct http_client *k = connection_of(c);

    (void)context, (void)why;
    h->held_bytes -= k->held_bytes;
    k->held_bytes = 0;
    if (k->waiter.waits)
        waiters_begin(&h->waiting, &k->waiter, h->mono_ms);
}

/* A response of this many bytes is being sent. */
static void hold(struct console_http *h, struct http_client *k, size_t bytes)
{
    struct waiter *w, *next;

    k->held_bytes += bytes;
    h->held_bytes += bytes;
    if (k->waiter.waits)
        waiters_begin(&h->waiting, &k->waiter, h->mono_ms);
    if (h->held_bytes <= HELD_MAX_BYTES)
        return;
    for (w = TAILQ_FIRST(&h->waiting); w; w = next) {
        struct http_client *other = (struct http_client *)(void *)w;

        next = TAILQ_NEXT(w, link);
        if (other == k || !other->held_bytes)
            continue;
        cut(h, w); /* a later run frees its bytes and counts them */
        return;
    }
}

/* ---- Host ---- */

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

bool http_host_known(const char *value, const char *listen,
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

struct host_headers {
    const char *value;
    int count;
};

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind,
                                 const char *name, const char *value)
{
    struct host_headers *all = cls;

    (void)kind;
    if (strcasecmp(name, "Host") == 0) {
        all->value = value ? value : "";
        all->count++;
    }
    return MHD_YES;
}

static void fail(struct http_page *p, unsigned status, const char *code,
                 const char *message)
{
    p->status = status;
    buf_printf(&p->text, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}\n",
               code, message);
}

/* HTTP/1.0 clients may omit the host; browsers never do. An unknown name is shown in the response
 * only if it consists of characters that names have. */
static bool host_is_fine(const struct console_http *h, struct MHD_Connection *c,
                         const char *version, struct http_page *p)
{
    struct host_headers all = {0};
    char *message;
    bool plain;
    size_t n;

    MHD_get_connection_values(c, MHD_HEADER_KIND, on_header, &all);
    if (all.count == 0 && strcmp(version, "HTTP/1.0") == 0)
        return true;
    if (all.count != 1) {
        fail(p, MHD_HTTP_BAD_REQUEST, "host_needed",
             "a request must have one Host header");
        return false;
    }
    if (http_host_known(all.value, h->listen, h->hosts))
        return true;
    n = strlen(all.value);
    plain = n && n <= HOST_MAX_BYTES &&
            n == strspn(all.value, "abcdefghijklmnopqrstuvwxyz0123456789"
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._:[]");
    message = gr_printf("Host%s%s is not a name of this console: add it to "
                        "console.hosts, or use an IP address",
                        plain ? " " : "", plain ? all.value : "");
    fail(p, MHD_HTTP_MISDIRECTED_REQUEST, "host_unknown", message);
    free(message);
    return false;
}

/* ---- requests ---- */

/* Compare with all of them, also after a match: comparing SHA-256 digests takes the same
 * time whatever the tokens are. */
bool http_token_known(char *const *tokens, size_t count, const char *token)
{
    unsigned char want[SHA256_DIGEST_LENGTH], got[SHA256_DIGEST_LENGTH];
    int known = 0;

    SHA256((const unsigned char *)token, strlen(token), got);
    for (size_t i = 0; i < count; i++) {
        SHA256((const unsigned char *)tokens[i], strlen(tokens[i]), want);
        known |= CRYPTO_memcmp(want, got, sizeof got) == 0;
    }
    return known;
}

static enum MHD_Result respond(struct console_http *h, struct MHD_Connection *c,
                               struct http_page *p)
{
    size_t n = p->text.len;
    struct MHD_Response *r;
    enum MHD_Result done;
    char *text = buf_take(&p->text);

    if (!text) { /* the metrics exceed the size of a page */
        n = 0;
        p->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
    r = MHD_create_response_from_buffer(n, text ? text : gr_strdup(""),
                                        MHD_RESPMEM_MUST_FREE);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", p->type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    if (p->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (p->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, "Allow", "GET, HEAD");
    hold(h, connection_of(c), n);
    done = MHD_queue_response(c, p->status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result on_call(void *cls, struct MHD_Connection *c,
                               const char *url, const char *method,
                               const char *version, const char *data,
                               size_t *data_bytes, void **context)
{
    struct console_http *h = cls;
    struct http_page p = {.status = MHD_HTTP_OK,
                          .type = "application/json; charset=utf-8"};
    const char *bearer;

    (void)data;
    if (!*context) { /* the head is complete; the next call reports its end */
        *context = h;
        return MHD_YES;
    }
    if (*data_bytes) { /* a body is read and ignored */
        *data_bytes = 0;
        return MHD_YES;
    }
    bearer = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0)
        bearer += 7 + strspn(bearer + 7, " ");
    else
        bearer = NULL;
    buf_init(&p.text, PAGE_MAX_BYTES);
    /* libmicrohttpd leaves out the body of a response to HEAD. */
    if (!host_is_fine(h, c, version, &p))
        ;
    else if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        h->page(h->self, url, bearer, &p);
    else
        fail(&p, MHD_HTTP_METHOD_NOT_ALLOWED, "method_not_allowed", "only GET");
    return respond(h, c, &p);
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

struct console_http *http_open(const char *host, int port, page_fn *page,
                               void *self)
{
    struct console_http *h = gr_alloc(sizeof *h);
    int fd = listen_on("console.listen", host, port, NULL, NULL);

    h->page = page;
    h->self = self;
    h->listen = host;
    h->mono_ms = mono_ms();
    waiters_init(&h->waiting);
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, (uint16_t)port, NULL, NULL, on_call,
        h, MHD_OPTION_EXTERNAL_LOGGER, mhd_says, h, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    if (!h->mhd)
        die(EXIT_UNAVAILABLE, "libmicrohttpd cannot start on %s:%d", host,
            port);
    h->fd = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return h;
}

void http_set_hosts(struct console_http *h, const struct string_list *hosts)
{
    h->hosts = hosts;
}

void http_close(struct console_http *h)
{
    if (!h)
        return;
    MHD_stop_daemon(h->mhd);
    free(h);
}

int http_fd(const struct console_http *h)
{
    return h->fd;
}

int http_run(struct console_http *h, int64_t now_ms)
{
    MHD_UNSIGNED_LONG_LONG more_ms = 1;
    struct waiter *w;
    int due_ms;

    h->mono_ms = now_ms;
    MHD_run(h->mhd);
    if (MHD_get_timeout(h->mhd, &more_ms) == MHD_NO)
        more_ms = 1;
    while ((w = waiters_overdue(&h->waiting, now_ms, LIMIT_MS, &due_ms)))
        cut(h, w);
    if (h->slot_freed)
        due_ms = 0;
    h->slot_freed = false;
    return more_ms ? due_ms : 0;
}
