/* http: what the console says over HTTP: GET /metrics, /healthz, /api/alerts.
 *
 * libmicrohttpd without a thread, driven by the loop. Each request gets its
 * response at once, from what `page` gives; nothing is read but the head.
 *
 * A connection has 30 s to send a request, and again to read the response; when
 * nearly all connections are taken, the one that has kept us waiting longest is
 * closed (waiters.h), and so is the one with the oldest response that is not
 * read, when responses hold too much memory.
 *
 * A web page may give its own name our address (DNS rebinding) and have its
 * reader's browser read from us what the page can't reach. A browser sends the
 * page's name in `Host`: so a name must be a known one. An address is no name
 * that somebody else could give to us, and is allowed. */
#ifndef CONSOLE_HTTP_H
#define CONSOLE_HTTP_H

#include "alloc.h"
#include "conf.h"

struct http;

struct page {
    unsigned status;
    const char *type;
    struct buf text;
};

/* Fill in the answer for this path. `bearer`: the token that came, or NULL;
 * borrowed. */
typedef void page_fn(void *self, const char *path, const char *bearer,
                     struct page *page);

/* Exits 69 with the reason when it can't listen. `host` is borrowed. */
struct http *http_open(const char *host, int port, page_fn *page, void *self);
/* The names that `Host` may have beside addresses, "localhost" and the host of
 * http_open(). Borrowed until the next ones; before any of them there are no
 * such names. */
void http_set_hosts(struct http *h, const struct text_list *hosts);
void http_close(struct http *h);
int http_fd(const struct http *h); /* for the loop */
/* Returns how long the loop may sleep, in ms; -1: until something comes. */
int http_run(struct http *h, int64_t mono_ms);

/* May `Host` be this? Its port, if there is one, does not matter. */
bool http_host_known(const char *value, const char *listen,
                     const struct text_list *hosts);
/* Is `token` one of these? By digests, in a time that says nothing. */
bool http_token_known(char *const *tokens, size_t count, const char *token);

#endif
