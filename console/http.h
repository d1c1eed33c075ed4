/* http: what the console says over HTTP: GET /metrics, /healthz, /api/alerts.
 *
 * libmicrohttpd without a thread, driven by the loop. Whatever is asked is
 * answered at once from what `page` gives; nothing is read but the head. */
#ifndef CONSOLE_HTTP_H
#define CONSOLE_HTTP_H

#include "alloc.h"

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

/* Exits 69 with the reason when it can't listen. */
struct http *http_open(const char *host, int port, page_fn *page, void *self);
void http_close(struct http *h);
int http_fd(const struct http *h); /* for the loop */
/* Returns how long the loop may sleep, in ms; -1: until something comes. */
int http_run(struct http *h);

/* Is `token` one of these? By digests, in a time that says nothing. */
bool http_token_known(char *const *tokens, size_t count, const char *token);

#endif
