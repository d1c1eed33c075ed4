#include "http.h"
#include "listen.h"
#include "log.h"
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    CONNECTIONS_MAX = 64,
    POOL_BYTES = 16 * 1024,
    IDLE_S = 30,
    PAGE_MAX_BYTES = 64 * 1024 * 1024,
};

struct http {
    struct MHD_Daemon *mhd;
    page_fn *page;
    void *self;
    int fd;
};

/* All of them are looked at, whichever fits; SHA-256 makes their lengths and
 * bytes equal in time. */
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

static const char *bearer_of(struct MHD_Connection *c)
{
    const char *v = MHD_lookup_connection_value(c, MHD_HEADER_KIND,
                                                "Authorization");

    if (!v || strncasecmp(v, "Bearer ", 7) != 0)
        return NULL;
    v += 7;
    return v + strspn(v, " ");
}

static enum MHD_Result say(struct MHD_Connection *c, struct page *p)
{
    size_t n = p->text.len;
    struct MHD_Response *r;
    enum MHD_Result done;
    char *text = buf_take(&p->text);

    if (!text) { /* more numbers than a page holds */
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
    done = MHD_queue_response(c, p->status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result on_call(void *cls, struct MHD_Connection *c,
                               const char *url, const char *method,
                               const char *version, const char *data,
                               size_t *data_bytes, void **context)
{
    struct http *h = cls;
    struct page p = {.status = MHD_HTTP_OK,
                     .type = "application/json; charset=utf-8"};

    (void)version, (void)data;
    if (!*context) { /* the head is here; its end is told next */
        *context = h;
        return MHD_YES;
    }
    if (*data_bytes) { /* a body means nothing here */
        *data_bytes = 0;
        return MHD_YES;
    }
    buf_init(&p.text, PAGE_MAX_BYTES);
    /* Of an answer to HEAD libmicrohttpd leaves the body out by itself. */
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
        h->page(h->self, url, bearer_of(c), &p);
    } else {
        p.status = MHD_HTTP_METHOD_NOT_ALLOWED;
        buf_puts(&p.text, "{\"error\":{\"code\":\"method_not_allowed\","
                          "\"message\":\"only GET\"}}\n");
    }
    return say(c, &p);
}

GR_PRINTF(2, 0)
static void mhd_says(void *cls, const char *format, va_list args)
{
    char text[256];

    (void)cls;
    if (!log_wants(LOG_DEBUG))
        return;
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    log_debug(NULL, "libmicrohttpd", LS("says", text));
}

struct http *http_open(const char *host, int port, page_fn *page, void *self)
{
    struct http *h = gr_alloc(sizeof *h);
    int fd = listen_on("console.listen", host, port, NULL, NULL);

    h->page = page;
    h->self = self;
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, (uint16_t)port, NULL, NULL, on_call,
        h, MHD_OPTION_EXTERNAL_LOGGER, mhd_says, h, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    if (!h->mhd)
        die(EXIT_UNAVAILABLE, "libmicrohttpd does not start on %s:%d", host,
            port);
    h->fd = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return h;
}

void http_close(struct http *h)
{
    if (!h)
        return;
    MHD_stop_daemon(h->mhd);
    free(h);
}

int http_fd(const struct http *h)
{
    return h->fd;
}

int http_run(struct http *h)
{
    MHD_UNSIGNED_LONG_LONG ms;

    MHD_run(h->mhd);
    if (MHD_get_timeout(h->mhd, &ms) == MHD_NO)
        return -1;
    return ms > 1000 ? 1000 : (int)ms;
}
