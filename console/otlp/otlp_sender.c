/* otlp_sender: one POST by libcurl, with retries. */
#include "otlp_sender.h"
#include "alloc.h"
#include "clock.h"
#include "log.h"
#include "rc.h"
#include <curl/curl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    LOOK_MS = 20,
    FIRST_WAIT_MS = 1000,
    LONGEST_WAIT_MS = 60 * 1000,
    RETRY_AFTER_MAX_MS = 60 * 60 * 1000,
    RESPONSE_MAX_BYTES = 64 * 1024,
};

struct otlp_sender {
    const char *path;
    CURLM *multi;
    CURL *easy; /* NULL: no request is in flight */
    struct curl_slist *headers;
    char *body; /* NULL: it is idle */
    struct buf response;
    int64_t due_ms, wait_ms; /* mono: the next try; the wait before it */
    bool warned;             /* since the last success */
};

struct otlp_sender *otlp_sender_open(const char *path)
{
    struct otlp_sender *s = gr_alloc(sizeof *s);

    s->path = path;
    s->multi = curl_multi_init();
    if (!s->multi)
        die(EXIT_UNAVAILABLE, "libcurl cannot start");
    buf_init(&s->response, RESPONSE_MAX_BYTES);
    return s;
}

static void end_transfer(struct otlp_sender *s)
{
    if (!s->easy)
        return;
    curl_multi_remove_handle(s->multi, s->easy);
    curl_easy_cleanup(s->easy);
    curl_slist_free_all(s->headers);
    s->easy = NULL;
    s->headers = NULL;
}

void otlp_sender_cancel(struct otlp_sender *s)
{
    end_transfer(s);
    free(s->body);
    s->body = NULL;
    s->due_ms = s->wait_ms = 0;
}

void otlp_sender_close(struct otlp_sender *s)
{
    otlp_sender_cancel(s);
    curl_multi_cleanup(s->multi);
    buf_fini(&s->response);
    free(s);
}

void otlp_sender_begin(struct otlp_sender *s, char *body)
{
    s->body = body;
    s->due_ms = s->wait_ms = 0;
}

/* A response above the limit fails. */
static size_t on_body(char *p, size_t size, size_t n, void *self)
{
    struct otlp_sender *s = self;

    buf_put(&s->response, p, size * n);
    return s->response.failed ? 0 : size * n;
}

static void add_line(struct otlp_sender *s, const char *line)
{
    struct curl_slist *more = curl_slist_append(s->headers, line);

    if (!more)
        die(EXIT_UNAVAILABLE, "libcurl has no memory");
    s->headers = more;
}

static void start(struct otlp_sender *s, const struct settings *all)
{
    size_t n = strlen(all->telemetry.url);
    char *url;
    CURL *e = s->easy = curl_easy_init();

    if (!e)
        die(EXIT_UNAVAILABLE, "libcurl has no memory");
    while (n && all->telemetry.url[n - 1] == '/')
        n--;
    url = gr_printf("%.*s%s", (int)n, all->telemetry.url, s->path);
    buf_reset(&s->response);
    for (size_t i = 0; i < all->telemetry.headers.count; i++) {
        const struct header *h = &all->telemetry.headers.items[i];
        /* To libcurl "name:" means: not this header. */
        char *line = gr_printf("%s%s%s", h->name, *h->value ? ": " : ";",
                               h->value);

        add_line(s, line);
        free(line);
    }
    add_line(s, "Content-Type: application/json");
    add_line(s, "Expect:"); /* no waiting for a 100 */
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "Grapnel/" GRAPNEL_VERSION);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, s->body);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
                     (curl_off_t)strlen(s->body));
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)all->telemetry.timeout_ms);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, s);
    if (all->telemetry.ca) {
        struct curl_blob blob = {.data = all->telemetry.ca,
                                 .len = strlen(all->telemetry.ca),
                                 .flags = CURL_BLOB_COPY};

        curl_easy_setopt(e, CURLOPT_CAINFO_BLOB, &blob);
        curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
    }
    if (curl_multi_add_handle(s->multi, e) != CURLM_OK)
        die(EXIT_UNAVAILABLE, "libcurl has no memory");
    free(url);
}

/* What the receiver rejected of a request that it accepted. */
static int64_t rejected_of(const struct otlp_sender *s)
{
    json_t *doc = json_loadb(s->response.data ? s->response.data : "",
                             s->response.len, 0, NULL),
           *part = json_object_get(doc, "partialSuccess"), *n;
    int64_t count = 0;

    n = json_object_get(part, "rejectedSpans");
    if (!n)
        n = json_object_get(part, "rejectedDataPoints");
    if (json_is_integer(n))
        count = json_integer_value(n);
    else if (json_is_string(n)) /* as integers of 64 bits are written */
        count = strtoll(json_string_value(n), NULL, 10);
    json_decref(doc);
    return count > 0 ? count : 0;
}

static bool may_pass(CURLcode code, long status)
{
    if (code != CURLE_OK)
        return code != CURLE_WRITE_ERROR; /* its response is too large */
    return status == 429 || status == 502 || status == 503 || status == 504;
}

/* Exponential, with jitter; a Retry-After is at least that. */
static void schedule(struct otlp_sender *s, int64_t mono_ms, CURL *easy)
{
    curl_off_t after_s = 0;
    uint32_t random = 0;
    int64_t wait_ms;

    s->wait_ms = s->wait_ms ? 2 * s->wait_ms : FIRST_WAIT_MS;
    if (s->wait_ms > LONGEST_WAIT_MS)
        s->wait_ms = LONGEST_WAIT_MS;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = 0;
    wait_ms = s->wait_ms / 2 + (int64_t)(random % (uint64_t)(s->wait_ms / 2));
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &after_s);
    if (after_s > RETRY_AFTER_MAX_MS / SECOND_MS)
        after_s = RETRY_AFTER_MAX_MS / SECOND_MS;
    if (after_s > 0 && after_s * SECOND_MS > wait_ms)
        wait_ms = after_s * SECOND_MS;
    s->due_ms = mono_ms + wait_ms;
}

static void warn_once(struct otlp_sender *s, CURLcode code, long status,
                      bool again)
{
    if (s->warned)
        return;
    s->warned = true;
    log_warn(NULL,
             again ? "telemetry cannot be sent; it is tried again"
                   : "telemetry was refused, and is dropped",
             LS("signal", s->path + strlen("/v1/")), LI("http_status", status),
             LS("error", code == CURLE_OK ? "" : curl_easy_strerror(code)));
}

enum otlp_end otlp_sender_run(struct otlp_sender *s, const struct settings *all,
                              int64_t mono_ms, int *wait_ms, int64_t *failed,
                              int64_t *rejected)
{
    int running, left;
    CURLMsg *msg;
    CURLcode code;
    long status = 0;
    bool again;

    *rejected = 0;
    if (!s->body)
        return OTLP_IDLE;
    if (!s->easy && s->due_ms > mono_ms) {
        if (s->due_ms - mono_ms < *wait_ms)
            *wait_ms = (int)(s->due_ms - mono_ms);
        return OTLP_BUSY;
    }
    if (!s->easy)
        start(s, all);
    curl_multi_perform(s->multi, &running);
    msg = curl_multi_info_read(s->multi, &left);
    if (!msg || msg->msg != CURLMSG_DONE) {
        if (*wait_ms > LOOK_MS)
            *wait_ms = LOOK_MS;
        return OTLP_BUSY;
    }
    code = msg->data.result;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status / 100 == 2) {
        *rejected = rejected_of(s);
        otlp_sender_cancel(s);
        s->warned = false;
        return OTLP_SENT;
    }
    ++*failed;
    again = may_pass(code, status);
    warn_once(s, code, status, again);
    if (!again) {
        otlp_sender_cancel(s);
        return OTLP_REFUSED;
    }
    schedule(s, mono_ms, s->easy);
    end_transfer(s);
    if (s->due_ms - mono_ms < *wait_ms)
        *wait_ms = (int)(s->due_ms - mono_ms);
    return OTLP_BUSY;
}
