/* source_test: sends a test event of a source to ingress, as its provider would: signed with the source's
 * secret, over HTTP, so that it takes the same way as any other event. */
#include "clock.h"
#include "conf.h"
#include "console.h"
#include "headers.h"
#include "json_text.h"
#include "rate.h"
#include "sample.h"
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

enum {
    TESTS_MAX = 5,
    EVERY_US = 2 * 1000 * 1000, /* and TESTS_MAX at once */
    LOOK_MS = 20,
    CONNECT_MS = 3000,
    WHOLE_MS = 10000, /* ingress responds 503 after 5 s at the latest */
};

/* One that was asked for; `easy` NULL: the place is free. */
struct source_test {
    struct control_held *held;
    CURL *easy;
    struct curl_slist *headers;
    struct event_sample sample;
    struct buf response;
    char *url; /* without the query, which may have a token */
    bool begun, ended;
    CURLcode code;
};

struct source_tests {
    CURLM *multi;
    struct source_test all[TESTS_MAX];
    struct bucket bucket;
};

struct source_tests *source_tests_open(void)
{
    struct source_tests *t = gr_alloc(sizeof *t);

    t->multi = curl_multi_init();
    if (!t->multi)
        die(EXIT_UNAVAILABLE, "libcurl cannot start");
    return t;
}

static void wipe(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    buf_fini(b);
}

/* What was sent may be the secret itself. */
static void end(struct source_tests *t, struct source_test *one)
{
    if (one->begun)
        curl_multi_remove_handle(t->multi, one->easy);
    curl_easy_cleanup(one->easy);
    for (struct curl_slist *at = one->headers; at; at = at->next)
        explicit_bzero(at->data, strlen(at->data));
    curl_slist_free_all(one->headers);
    wipe(&one->sample.headers);
    wipe(&one->sample.body);
    wipe(&one->sample.query);
    buf_fini(&one->response);
    free(one->url);
    *one = (struct source_test){0};
}

void source_tests_close(struct source_tests *t)
{
    for (size_t i = 0; i < TESTS_MAX; i++) {
        if (t->all[i].held)
            control_drop(t->all[i].held);
        if (t->all[i].easy)
            end(t, &t->all[i]);
    }
    curl_multi_cleanup(t->multi);
    free(t);
}

/* ---- asking ---- */

const char *source_test_refusal(const struct source *source)
{
    if (sample_needs_key(source))
        return "only the provider has the private key with which its requests "
               "are signed: use `grapnel send` with --private-key";
    return NULL;
}

static struct source_test *free_place(struct source_tests *t)
{
    for (size_t i = 0; i < TESTS_MAX; i++)
        if (!t->all[i].easy)
            return &t->all[i];
    return NULL;
}

/* A request with an idempotency key makes the same event when it is repeated after a crash, so that most
 * sources suppress the second one as a duplicate. */
static bool make(struct source_test *one, const struct source *source,
                 const struct act_by *by, char why[200])
{
    char uuid[SAMPLE_UUID_BYTES + 1],
        *of = *by->key ? gr_printf("%s %s %s", source->name, by->owner, by->key)
                       : gr_strdup("");
    struct sample_options options = {
        .uuid = uuid,
        .now_ms = now_ms(),
        .n = 1,
        .made_by = "a test of the console",
    };

    sample_uuid(uuid, (struct bytes){of, strlen(of)});
    free(of);
    return sample_make(&one->sample, source, &options, why) == GR_OK &&
           sample_sign(&one->sample, source, NULL, why) == GR_OK;
}

static size_t on_response(char *data, size_t size, size_t n, void *self)
{
    buf_put(self, data, size * n);
    return size * n; /* drops what exceeds the limit of the buffer */
}

static void prepare(struct source_test *one)
{
    struct bytes packed = {one->sample.headers.data, one->sample.headers.len},
                 name, value;
    const struct buf *query = &one->sample.query;
    char *url = gr_printf("%s%s%s", one->url, query->len ? "?" : "",
                          query->len ? query->data : "");
    CURL *e = one->easy;
    size_t at = 0;

    one->headers = curl_slist_append(NULL, "Expect:");
    while (headers_next(packed, &at, &name, &value)) {
        char *line = gr_printf("%.*s: %.*s", (int)name.n, (const char *)name.p,
                               (int)value.n, (const char *)value.p);

        one->headers = curl_slist_append(one->headers, line);
        explicit_bzero(line, strlen(line));
        free(line);
    }
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)WHOLE_MS);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "grapnel-test/" GRAPNEL_VERSION);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, one->headers);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, one->sample.body.data);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
                     (curl_off_t)one->sample.body.len);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_response);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, &one->response);
    explicit_bzero(url, strlen(url));
    free(url);
}

/* The control command `source_test`. */
json_t *source_test_ask(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    struct source_tests *t = c->source_tests;
    const char *name = json_string_value(json_object_get(args, "name"));
    const struct source *source = settings_source(c->daemon.settings, name);
    bool producer = settings_producer(c->daemon.settings, name);
    struct source_test *one = free_place(t);
    int64_t now_us = mono_us();
    char *path;

    if (!source) {
        control_fail(
            why, CONTROL_NOT_FOUND, "there is no source \"%.60s\"%s", name,
            producer ? "; it is a producer: publish with its token" : "");
        return NULL;
    }
    if (source_test_refusal(source)) {
        snprintf(why, 200, "%s", source_test_refusal(source));
        return NULL;
    }
    if (!one || c->daemon.loop.stopping ||
        !bucket_has(&t->bucket, (int64_t)(TESTS_MAX - 1) * EVERY_US, now_us)) {
        control_fail(why, CONTROL_LIMITED,
                     "too many test events: at most %d at once, and one every "
                     "%d s",
                     TESTS_MAX, EVERY_US / 1000000);
        return NULL;
    }
    one->easy = curl_easy_init();
    if (!one->easy)
        die(EXIT_UNAVAILABLE, "libcurl has no memory");
    buf_init(&one->response, RESPONSE_MAX_BYTES);
    if (!make(one, source, control_by(c->daemon.control), why)) {
        end(t, one);
        return NULL;
    }
    bucket_take(&t->bucket, EVERY_US, now_us);
    path = gr_printf("in/%s", name);
    one->url = sample_url(c->daemon.settings, path);
    free(path);
    prepare(one);
    return control_hold(c->daemon.control, &one->held);
}

/* ---- replying ---- */

/* The message of an error of ingress; else the beginning of its response. */
static json_t *error_of(const struct source_test *one, json_t *doc)
{
    json_t *message = json_object_get(json_object_get(doc, "error"), "message");

    return message             ? json_incref(message)
           : one->response.len ? json_text((struct bytes){one->response.data,
                                                          one->response.len})
                               : json_string("");
}

static json_t *reply_of(const struct source_test *one)
{
    json_t *doc = json_loadb(one->response.len ? one->response.data : "",
                             one->response.len, 0, NULL);
    json_t *id = json_object_get(doc, "id"), *reply;
    long status = 0;

    curl_easy_getinfo(one->easy, CURLINFO_RESPONSE_CODE, &status);
    reply = json_pack(
        "{s:s,s:i,s:o,s:o}", "url", one->url, "http_status", (int)status,
        "event", json_is_string(id) ? json_incref(id) : json_null(), "error",
        status == 200 ? json_null() : error_of(one, doc));
    json_decref(doc);
    return reply;
}

static void respond(struct console *c, struct source_test *one)
{
    char why[200] = "the console is stopping: ask again when it runs";

    if (one->ended && one->code == CURLE_OK) {
        control_release(c->daemon.control, one->held, reply_of(one),
                        CONTROL_REFUSED, NULL);
        return;
    }
    if (one->ended)
        snprintf(why, sizeof why,
                 "ingress at %.60s cannot be reached: %.60s. `grapnel status` "
                 "shows the processes",
                 one->url, curl_easy_strerror(one->code));
    control_release(c->daemon.control, one->held, NULL, CONTROL_REFUSED, why);
}

void source_tests_work(struct console *c)
{
    struct source_tests *t = c->source_tests;

    for (size_t i = 0; i < TESTS_MAX; i++) {
        struct source_test *one = &t->all[i];

        if (!one->held || (!one->ended && !c->daemon.loop.stopping))
            continue;
        respond(c, one);
        one->held = NULL;
        end(t, one);
    }
}

/* ---- sending ---- */

static void take_ended(struct source_tests *t)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(t->multi, &left)))
        for (size_t i = 0; i < TESTS_MAX; i++)
            if (msg->msg == CURLMSG_DONE &&
                t->all[i].easy == msg->easy_handle) {
                t->all[i].ended = true;
                t->all[i].code = msg->data.result;
            }
}

void source_tests_flush(struct console *c)
{
    struct source_tests *t = c->source_tests;
    bool any = false, ended = false;
    int running;

    for (size_t i = 0; i < TESTS_MAX; i++) {
        struct source_test *one = &t->all[i];

        if (!one->easy)
            continue;
        any = true;
        if (!one->begun && !one->ended) {
            one->begun = curl_multi_add_handle(t->multi, one->easy) == CURLM_OK;
            one->ended = !one->begun;
            one->code = CURLE_OUT_OF_MEMORY;
        }
    }
    if (!any)
        return;
    curl_multi_perform(t->multi, &running);
    take_ended(t);
    for (size_t i = 0; i < TESTS_MAX; i++)
        ended |= t->all[i].ended;
    daemon_wake_in(&c->daemon, ended ? 0 : LOOK_MS);
}
