/* http_get: makes a request with libcurl, and reads of the response what a walk needs. */
#include "http_get.h"
#include "clock.h"
#include "worker.h"
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CONNECT_MS = 10 * 1000 };

static size_t on_body(char *data, size_t size, size_t n, void *self)
{
    struct http_get *g = self;

    buf_put(&g->body, data, size * n);
    return g->body.failed ? 0 : size * n;
}

/* The value of a header line with this name; false: it has another one. */
static bool header_is(const char *line, size_t n, const char *name,
                      struct bytes *value)
{
    size_t at = strlen(name);

    if (n <= at || line[at] != ':' || strncasecmp(line, name, at) != 0)
        return false;
    for (at++; at < n && (line[at] == ' ' || line[at] == '\t');)
        at++;
    while (n > at && strchr(" \t\r\n", line[n - 1]))
        n--;
    *value = (struct bytes){line + at, n - at};
    return true;
}

static int64_t number_in(struct bytes value)
{
    char text[24] = "";

    if (value.n < sizeof text)
        memcpy(text, value.p, value.n);
    return strtoll(text, NULL, 10);
}

static void put_link(struct http_get *g, struct bytes value)
{
    size_t n = strlen(g->link);

    if (n + 2 + value.n >= sizeof g->link) {
        g->link_cut = true;
        return;
    }
    if (n) {
        memcpy(g->link + n, ", ", 2);
        n += 2;
    }
    memcpy(g->link + n, value.p, value.n);
    g->link[n + value.n] = 0;
}

static size_t on_header(char *data, size_t size, size_t n, void *self)
{
    struct http_get *g = self;
    struct bytes value;

    n *= size;
    if (header_is(data, n, "link", &value)) {
        put_link(g, value);
    } else if (header_is(data, n, "x-ratelimit-remaining", &value)) {
        g->limit_left = number_in(value);
    } else if (header_is(data, n, "x-ratelimit-reset", &value)) {
        g->limit_reset_s = number_in(value);
    }
    return n;
}

static int on_progress(void *self, curl_off_t total, curl_off_t now,
                       curl_off_t up_total, curl_off_t up_now)
{
    struct http_get *g = self;

    (void)total, (void)now, (void)up_total, (void)up_now;
    return atomic_load(&g->cancelled);
}

/* How long the provider wants to be left alone. */
static void read_wait(struct http_get *g, CURL *easy)
{
    curl_off_t after_s = 0;

    if (g->status != 403 && g->status != 429 && g->status != 503)
        return;
    if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &after_s) == CURLE_OK &&
        after_s > 0)
        g->wait_ms = after_s > WAIT_MOST_MS / 1000 ? WAIT_MOST_MS
                                                   : (int64_t)after_s * 1000;
    else if (!g->limit_left && g->limit_reset_s > 0 &&
             g->limit_reset_s < INT64_MAX / 1000)
        g->wait_ms = g->limit_reset_s * 1000 - system_ms();
    if (g->wait_ms < 0)
        g->wait_ms = 0;
    if (g->wait_ms > WAIT_MOST_MS)
        g->wait_ms = WAIT_MOST_MS;
}

static void run(void *arg)
{
    struct http_get *g = arg;
    struct curl_slist *headers = curl_slist_append(NULL,
                                                   "Accept: application/json");
    CURL *easy = curl_easy_init();
    CURLcode code;
    char why[CURL_ERROR_SIZE] = "";

    if (!easy) {
        snprintf(g->error, sizeof g->error, "libcurl cannot start");
        curl_slist_free_all(headers);
        return;
    }
    if (g->header)
        headers = curl_slist_append(headers, g->header);
    curl_easy_setopt(easy, CURLOPT_URL, g->url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)g->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, NULL);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "grapnel/" GRAPNEL_VERSION);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, g);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, g);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, g);
    code = curl_easy_perform(easy);
    if (code == CURLE_OK) {
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &g->status);
        read_wait(g, easy);
    } else if (g->body.failed) {
        snprintf(g->error, sizeof g->error,
                 "the response is larger than %zu bytes", g->max_bytes);
    } else {
        snprintf(g->error, sizeof g->error, "%.199s",
                 *why ? why : curl_easy_strerror(code));
    }
    curl_easy_cleanup(easy);
    for (struct curl_slist *at = headers; at; at = at->next)
        explicit_bzero(at->data, strlen(at->data));
    curl_slist_free_all(headers);
}

void http_get_open(struct http_get *g)
{
    atomic_init(&g->cancelled, false);
    buf_init(&g->body, PAGE_MAX_BYTES);
    g->worker = worker_open(run, g);
}

static void forget(struct http_get *g)
{
    if (g->header)
        explicit_bzero(g->header, strlen(g->header));
    free(g->header);
    free(g->url);
    g->header = g->url = NULL;
}

void http_get_close(struct http_get *g)
{
    worker_close(g->worker);
    forget(g);
    buf_fini(&g->body);
}

void http_get_begin(struct http_get *g, char *url, char *header,
                    int64_t timeout_ms, size_t max_bytes)
{
    forget(g);
    g->url = url;
    g->header = header;
    g->timeout_ms = timeout_ms;
    g->max_bytes = g->body.max = max_bytes;
    buf_reset(&g->body);
    g->status = 0;
    g->wait_ms = 0;
    g->limit_left = -1;
    g->limit_reset_s = 0;
    g->link[0] = g->error[0] = 0;
    g->link_cut = false;
    worker_begin(g->worker);
}

void http_get_end(struct http_get *g)
{
    worker_end(g->worker);
    forget(g);
}
