/* endpoint_test: makes a test event, sends it once, and shows the exchange as JSON. */
#include "endpoint_test.h"
#include "bounds.h"
#include "clock.h"
#include "deliverer.h"
#include "delivery_trace.h"
#include "headers.h"
#include "json_text.h"
#include "request.h"
#include "ulid.h"
#include "wire.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const char type[] = "grapnel.test";

enum { SHOWN_BYTES = 16 * 1024 }; /* of a body, in the reply */

/* ---- the configuration ---- */

/* NULL: it is not base64. The caller frees it. */
static unsigned char *decode(const char *text, size_t *bytes)
{
    size_t n = text ? strlen(text) : 0, padding = 0;
    unsigned char *out;
    int got;

    if (n == 0 || n % 4 != 0 || n > INT32_MAX)
        return NULL;
    out = gr_alloc(n);
    got = EVP_DecodeBlock(out, (const unsigned char *)text, (int)n);
    while (padding < 2 && text[n - 1 - padding] == '=')
        padding++;
    if (got < 0 || (size_t)got < padding) {
        free(out);
        return NULL;
    }
    *bytes = (size_t)got - padding;
    return out;
}

static struct endpoint_config *config_of(const char *text, char why[200])
{
    struct endpoint_config *config = NULL;
    const char *wrong = "args.config: it is not base64 of a configuration";
    size_t n = 0;
    unsigned char *raw = decode(text, &n);

    if (raw &&
        endpoint_config_new(&config, (struct bytes){raw, n}, &wrong) != GR_OK)
        config = NULL;
    if (!config)
        control_fail(why, CONTROL_INVALID, "%s", wrong);
    if (config && config->settings.transport == TRANSPORT_PULL) {
        control_fail(why, CONTROL_REFUSED,
                     "it is a pull endpoint, to which nothing is sent: take a "
                     "delivery from it instead");
        endpoint_config_drop(config);
        config = NULL;
    }
    if (raw)
        OPENSSL_cleanse(raw, n);
    free(raw);
    return config;
}

/* ---- the event ---- */

static char *body_of(const char *id, int64_t now_ms)
{
    char at[RFC3339_BYTES], *text;
    json_t *doc;

    rfc3339(at, now_ms);
    doc = json_pack("{s:s,s:s,s:s,s:s,s:{s:s}}", "id", id, "type", type,
                    "workspace", "default", "timestamp", at, "data", "message",
                    "A test of this endpoint, sent by an operator. "
                    "Nothing has happened.");
    text = json_dumps(doc, JSON_COMPACT);
    json_decref(doc);
    return text;
}

static const char *text_in(const json_t *drill, const char *key)
{
    return json_string_value(json_object_get(drill, key));
}

static int64_t number_in(const json_t *drill, const char *key)
{
    return json_integer_value(json_object_get(drill, key));
}

/* The caller frees it. NULL: the given body is not a JSON object. */
static char *drill_body(const json_t *drill, int64_t now_ms)
{
    const char *given = text_in(drill, "body");
    size_t padding = (size_t)number_in(drill, "padding");
    char at[RFC3339_BYTES], *text, *pad;
    json_t *doc;

    rfc3339(at, now_ms);
    doc = given ? json_loads(given, 0, NULL)
                : json_pack("{s:s,s:s,s:s,s:s,s:{s:s,s:s}}", "id",
                            text_in(drill, "event_id"), "type",
                            text_in(drill, "type"), "workspace",
                            text_in(drill, "workspace"), "timestamp", at,
                            "data", "message",
                            "A drill of this endpoint, started by an operator. "
                            "Nothing has happened.",
                            "step", text_in(drill, "step"));
    if (!json_is_object(doc)) {
        json_decref(doc);
        return NULL;
    }
    if (padding) {
        pad = gr_alloc(padding + 1);
        memset(pad, 'x', padding);
        json_object_set_new(doc, "padding", json_string(pad));
        free(pad);
    }
    text = json_dumps(doc, JSON_COMPACT);
    json_decref(doc);
    return text;
}

static struct task *task_from(const struct wire_task *w)
{
    struct buf message;
    struct task *t;

    buf_init(&message, MESSAGE_MAX_BYTES);
    wire_put_task(&message, w);
    t = task_new((struct bytes){message.data, message.len});
    t->test = true;
    buf_fini(&message);
    return t;
}

static struct task *task_of(int64_t now_ms)
{
    struct ulid ulid = {0};
    char number[ULID_BYTES + 1], *id, *body;
    struct buf headers;
    struct task *t;

    ulid_next(&ulid, now_ms, number);
    id = gr_printf("evt_%s", number);
    body = body_of(id, now_ms);
    buf_init(&headers, 256);
    headers_put(&headers, "content-type", wire_text("application/json"));
    t = task_from(&(struct wire_task){.grant = 1, /* any: a task needs one */
                                      .endpoint = wire_text("test"),
                                      .event_id = wire_text(id),
                                      .source = wire_text("grapnel"),
                                      .type = wire_text(type),
                                      .workspace = wire_text("default"),
                                      .received_ms = now_ms,
                                      .headers = {headers.data, headers.len},
                                      .body = wire_text(body)});
    buf_fini(&headers);
    free(body);
    free(id);
    return t;
}

/* An event as the drill wants it. NULL: its body is not a JSON object. */
static struct task *task_of_drill(const json_t *drill, int64_t now_ms)
{
    const char *step = text_in(drill, "step");
    int64_t attempt = number_in(drill, "attempt");
    char *body = drill_body(drill, now_ms);
    struct buf headers;
    struct task *t;

    if (!body)
        return NULL;
    buf_init(&headers, 256);
    headers_put(&headers, "content-type", wire_text("application/json"));
    if (*step)
        headers_put(&headers, DRILL_STEP, wire_text(step));
    t = task_from(&(struct wire_task){
        .grant = 1,
        .endpoint = wire_text("test"),
        .event_id = wire_text(text_in(drill, "event_id")),
        .source = wire_text("grapnel"),
        .type = wire_text(text_in(drill, "type")),
        .workspace = wire_text(text_in(drill, "workspace")),
        .received_ms = now_ms,
        .series = (uint64_t)number_in(drill, "series"),
        .sequence = (uint64_t)number_in(drill, "sequence"),
        .previous = (uint64_t)number_in(drill, "previous"),
        .replay = json_is_true(json_object_get(drill, "replay")),
        .headers = {headers.data, headers.len},
        .body = wire_text(body)});
    t->attempts = attempt ? (uint64_t)attempt - 1 : 0;
    t->signed_offset_ms = number_in(drill, "signed_offset_ms");
    t->bytes_per_s = number_in(drill, "bytes_per_s");
    buf_fini(&headers);
    free(body);
    return t;
}

/* ---- ask ---- */

static struct endpoint_test *free_place(struct deliverer *d)
{
    for (size_t i = 0; i < ENDPOINT_TESTS_MAX; i++)
        if (!d->endpoint_tests[i].task)
            return &d->endpoint_tests[i];
    return NULL;
}

json_t *endpoint_test_ask(void *self, json_t *args, char why[200])
{
    struct deliverer *d = self;
    const char *text = json_string_value(json_object_get(args, "config"));
    const json_t *drill = json_object_get(args, "drill");
    struct endpoint_test *test = free_place(d);

    if (!test) {
        control_fail(why, CONTROL_IN_PROGRESS,
                     "%d tests are already in progress: repeat it later",
                     ENDPOINT_TESTS_MAX);
        return NULL;
    }
    if (d->daemon.loop.stopping) {
        control_fail(why, CONTROL_IN_PROGRESS, "it is stopping");
        return NULL;
    }
    test->config = config_of(text, why);
    if (!test->config)
        return NULL;
    test->task = drill ? task_of_drill(drill, d->daemon.loop.now_ms)
                       : task_of(d->daemon.loop.now_ms);
    if (!test->task) {
        endpoint_config_drop(test->config);
        test->config = NULL;
        control_fail(why, CONTROL_INVALID,
                     "args.drill.body: it is not a JSON object");
        return NULL;
    }
    return control_hold(d->daemon.control, &test->held);
}

/* ---- begin ---- */

void endpoint_test_after_commit(struct deliverer *d)
{
    for (size_t i = 0; i < ENDPOINT_TESTS_MAX; i++) {
        struct endpoint_test *test = &d->endpoint_tests[i];

        if (!test->config)
            continue;
        transfer_begin(&d->transfers, test->task, test->config, now_ms());
        endpoint_config_drop(test->config);
        test->config = NULL;
    }
}

/* ---- response ---- */

/* The value of a header that the endpoint's configuration adds may be a token, and is not
 * shown. */
static json_t *request_json(const struct transfer *f)
{
    const struct endpoint_config *c = f->config;
    struct bytes body = f->task->w.body;

    if (body.n > SHOWN_BYTES)
        body.n = SHOWN_BYTES;
    return json_pack(
        "{s:s,s:o,s:o,s:o}", "method", c->put ? "PUT" : "POST", "url",
        json_text_of(c->settings.url), "headers",
        request_headers_json(&f->request,
                             (struct bytes){c->headers, c->headers_bytes}),
        "body", json_text(body));
}

static json_t *exchange_json(const struct deliverer *d,
                             const struct transfer *f)
{
    static const char *const verdicts[] = {[VERDICT_DELIVERED] = "delivered",
                                           [VERDICT_RETRY] = "retried",
                                           [VERDICT_DEAD] = "dead",
                                           [VERDICT_FAULT] = "our_fault"};
    struct judgement j = classify(&f->result, f->policy);
    char error[ERROR_TEXT_BYTES];

    classify_text(&f->result, error);
    if (f->interrupted)
        snprintf(error, sizeof error,
                 "interrupted: the deliverer was stopping");
    return json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:i,s:o}", "event_id",
                     f->task->event_id, "deliverer", d->daemon.name, "verdict",
                     verdicts[j.verdict], "reason", json_text_or_null(j.reason),
                     "http_status",
                     f->result.responded ? json_integer(f->result.status)
                                         : json_null(),
                     "error", json_text_or_null(error), "timings",
                     delivery_trace_timings(&f->timings), "request",
                     request_json(f), "sends", f->sends, "response",
                     delivery_trace_response(
                         (struct bytes){f->headers.data, f->headers.len},
                         (struct bytes){f->response.data, f->response.len},
                         (int)f->http_version));
}

/* NULL reply: `why`. A second one has no effect. */
static void respond(struct deliverer *d, struct endpoint_test *test,
                    json_t *reply, const char *why)
{
    if (test->held)
        control_release(d->daemon.control, test->held, reply, CONTROL_REFUSED,
                        why);
    else
        json_decref(reply);
    test->held = NULL;
}

void endpoint_test_work(struct deliverer *d)
{
    struct transfer *f;

    for (size_t i = 0; i < ENDPOINT_TESTS_MAX; i++)
        if (d->endpoint_tests[i].task && d->daemon.loop.stopping)
            /* it may not end before the stop */
            respond(d, &d->endpoint_tests[i], NULL, "it is stopping");
    while ((f = TAILQ_FIRST(&d->transfers.tested.all))) {
        struct endpoint_test *test = d->endpoint_tests;

        while (test->task != f->task)
            test++;
        respond(d, test, exchange_json(d, f), NULL);
        transfer_test_done(&d->transfers, f);
        task_free(test->task);
        test->task = NULL;
    }
}

void endpoint_test_close(struct deliverer *d)
{
    for (size_t i = 0; i < ENDPOINT_TESTS_MAX; i++) {
        struct endpoint_test *test = &d->endpoint_tests[i];

        endpoint_config_drop(test->config);
        task_free(test->task);
        if (test->held)
            control_drop(test->held);
        *test = (struct endpoint_test){0};
    }
}
