/* console_http: the console's HTTP server: GET /metrics, /healthz and /api/alerts.
 *
 * libmicrohttpd runs without a thread, driven by the loop. Only the head of a request is
 * used, and the response is made at once by `page`.
 *
 * A client has 30 s to send a request, and 30 s to read the response. When nearly all
 * connections are in use, the one that has waited longest is closed (waiters.h). When
 * responses hold too much memory, the connection with the oldest unread one is closed.
 *
 * DNS rebinding: a web page can point its own host name at this address and make a browser
 * read from here what the page itself cannot reach. The browser sends the page's name in
 * `Host`, so only known names are accepted. An IP address in `Host` is accepted, as nobody
 * else can point it here. */
#ifndef CONSOLE_CONSOLE_HTTP_H
#define CONSOLE_CONSOLE_HTTP_H

#include "alloc.h"
#include "conf.h"

struct console_http;

struct http_page {
    unsigned status;
    const char *type;
    struct buf text;
};

/* Fill in the response for this path. `bearer`: the token of the request, or NULL;
 * borrowed. */
typedef void page_fn(void *self, const char *path, const char *bearer,
                     struct http_page *page);

/* Exits 69 with the reason if it cannot listen. `host` is borrowed. */
struct console_http *http_open(const char *host, int port, page_fn *page,
                               void *self);
/* Further names that `Host` may have; addresses, "localhost" and the host of http_open()
 * are always accepted. Borrowed until the next call. */
void http_set_hosts(struct console_http *h, const struct string_list *hosts);
void http_close(struct console_http *h);
int http_fd(const struct console_http *h); /* for the loop */
/* Returns how long the loop may sleep, in ms; -1: until a socket is ready. */
int http_run(struct console_http *h, int64_t mono_ms);

/* Whether this value of `Host` is accepted. Its port is ignored. */
bool http_host_known(const char *value, const char *listen,
                     const struct string_list *hosts);
/* Whether `token` is one of these; in a time that does not depend on them. */
bool http_token_known(char *const *tokens, size_t count, const char *token);

#endif
