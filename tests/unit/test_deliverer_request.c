/* Tests of a request's headers and body against examples/receiver/vectors.json, which
 * another program made from docs/RECEIVING.md. */
#include "headers.h"
#include "request.h"
#include "trace_context.h"
#include <jansson.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char secret[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/* ---- vectors ---- */

static const char *member(const json_t *v, const char *key)
{
    const char *value = json_string_value(json_object_get(v, key));

    return value ? value : "";
}

/* NULL: it is not there. */
static const char *header(const json_t *v, const char *name)
{
    json_t *pair;
    size_t i;

    json_array_foreach(json_object_get(v, "headers"), i, pair)
    {
        if (strcmp(json_string_value(json_array_get(pair, 0)), name) == 0)
            return json_string_value(json_array_get(pair, 1));
    }
    return NULL;
}

static struct bytes text_of(const json_t *v, const char *name)
{
    const char *value = header(v, name);

    return wire_text(value ? value : "");
}

static uint64_t number_of(const json_t *v, const char *name)
{
    const char *value = header(v, name);

    return value ? strtoull(value, NULL, 10) : 0;
}

static int64_t ms_of(const char *rfc3339)
{
    struct tm tm = {0};
    const char *rest = strptime(rfc3339, "%Y-%m-%dT%H:%M:%S.", &tm);

    assert_non_null(rest);
    return (int64_t)timegm(&tm) * 1000 + strtol(rest, NULL, 10);
}

static struct bytes body_of(const json_t *v, unsigned char capacity[4096])
{
    const char *text = member(v, "body_base64");
    size_t n = strlen(text), padding = 0;
    int got = EVP_DecodeBlock(capacity, (const unsigned char *)text, (int)n);

    assert_true(got >= 0 && n < 4096);
    while (n && padding < 2 && text[n - 1 - padding] == '=')
        padding++;
    return (struct bytes){capacity, (size_t)got - padding};
}

static void open_signer(struct signer *s, const json_t *secrets)
{
    struct buf all;
    json_t *one;
    size_t i;

    buf_init(&all, 4096);
    json_array_foreach(secrets, i, one)
    {
        buf_puts(&all, i ? " " : "");
        buf_puts(&all, json_string_value(one));
    }
    assert_int_equal(signer_init(s, (struct bytes){all.data, all.len}), GR_OK);
    buf_fini(&all);
}

/* ---- what is sent ---- */

/* The line of this name, and how often it is there. */
static const char *sent(const struct outgoing_request *r, const char *name,
                        int *count)
{
    static char value[4096];
    const char *found = NULL;
    size_t n = strlen(name);

    *count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const char *line = r->text.data + r->lines[i];

        while (line) {
            const char *end = strstr(line, "\r\n");
            size_t all = end ? (size_t)(end - line) : strlen(line);

            if (all > n && line[n] == ':' && strncasecmp(line, name, n) == 0) {
                size_t from = all > n + 2 ? n + 2 : n + 1;

                snprintf(value, sizeof value, "%.*s", (int)(all - from),
                         line + from);
                found = value;
                ++*count;
            }
            line = end ? end + 2 : NULL;
        }
    }
    return found;
}

static int count_ours(const struct outgoing_request *r)
{
    const char *line = r->text.data + r->lines[r->count - 1];
    int n = 0;

    for (line = strcasestr(line, "\ngrapnel-"); line;
         line = strcasestr(line + 1, "\ngrapnel-"))
        n++;
    return n;
}

static void check(const json_t *v)
{
    const json_t *headers = json_object_get(v, "headers");
    unsigned char capacity[4096];
    struct wire_task t = {
        .event_id = text_of(v, "webhook-id"),
        .source = text_of(v, "grapnel-source"),
        .type = text_of(v, "grapnel-type"),
        .workspace = text_of(v, "grapnel-workspace"),
        .received_ms = ms_of(header(v, "grapnel-time")),
        .sequence = number_of(v, "grapnel-sequence"),
        .previous = number_of(v, "grapnel-previous"),
        .clock = text_of(v, "grapnel-clock"),
        .source_sequence = text_of(v, "grapnel-source-sequence"),
        .gap = text_of(v, "grapnel-gap"),
        .late = number_of(v, "grapnel-late"),
        .series = number_of(v, "grapnel-series"),
        .replay = number_of(v, "grapnel-replay"),
        .body = body_of(v, capacity)};
    struct signer signer;
    struct outgoing_request r;
    int ours = 0;
    json_t *pair;
    size_t i;

    open_signer(&signer, json_object_get(v, "secrets"));
    request_init(&r);
    for (int again = 0; again < 2; again++)
        request_headers(&r, &t, (struct bytes){0}, &signer, true,
                        number_of(v, "grapnel-attempt"),
                        (int64_t)number_of(v, "webhook-timestamp") * 1000 + 7);
    json_array_foreach(headers, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0));
        int count;
        const char *value = sent(&r, name, &count);

        ours += strncmp(name, "grapnel-", 8) == 0;
        assert_int_equal(count, 1);
        assert_string_equal(value, json_string_value(json_array_get(pair, 1)));
    }
    assert_int_equal(count_ours(&r), ours);
    request_fini(&r);
    signer_fini(&signer);
}

static json_t *load_vectors(void)
{
    char here[4096];
    json_error_t why;
    json_t *all;
    char *path;

    if (*__FILE__ == '/' || !getcwd(here, sizeof here))
        *here = 0;
    path = gr_printf("%s%s%.*s%s", here, *here ? "/" : "",
                     (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__,
                     "/../../examples/receiver/vectors.json");
    all = json_load_file(path, 0, &why);
    if (!all)
        fail_msg("%s: %s", path, why.text);
    free(path);
    return all;
}

static void sent_requests_equal_the_vectors(void **state)
{
    json_t *all = load_vectors(), *v;
    int checked = 0;
    size_t i;

    (void)state;
    json_array_foreach(all, i, v)
    {
        if (!json_object_get(v, "secrets"))
            continue;
        print_message("%s\n", member(v, "name"));
        check(v);
        checked++;
    }
    assert_true(checked > 10);
    json_decref(all);
}

/* ---- names that are ours ---- */

static void only_grapnel_sets_its_headers(void **state)
{
    static const char *const names[] = {
        "grapnel-signature", "Grapnel-Signature", "grapnel-sequence",
        "grapnel-zone",      "webhook-signature", "webhook-id"};
    struct wire_task t = {.event_id = wire_text("evt_1"),
                          .source = wire_text("s"),
                          .type = wire_text("t"),
                          .workspace = wire_text("w")};
    struct buf packed;
    struct signer none, one;
    struct outgoing_request r;
    int count;

    (void)state;
    buf_init(&packed, 4096);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        headers_put(&packed, names[i], wire_text("forged"));
    t.headers = (struct bytes){packed.data, packed.len};
    assert_int_equal(signer_init(&none, (struct bytes){"", 0}), GR_OK);
    assert_int_equal(signer_init(&one, wire_text(secret)), GR_OK);
    request_init(&r);
    request_headers(&r, &t, t.headers, &none, false, 1, 1000);
    assert_null(memmem(r.text.data, r.text.len, "forged", 6));
    sent(&r, "grapnel-signature", &count);
    assert_int_equal(count, 0); /* without a secret */
    request_headers(&r, &t, t.headers, &one, false, 1, 1000);
    assert_null(memmem(r.text.data, r.text.len, "forged", 6));
    sent(&r, "grapnel-signature", &count);
    assert_int_equal(count, 1);
    request_fini(&r);
    signer_fini(&one);
    signer_fini(&none);
    buf_fini(&packed);
}

/* ---- the trace ---- */

static void an_attempt_has_one_traceparent(void **state)
{
    static const char came[] =
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    struct wire_task t = {.event_id = wire_text("evt_1"),
                          .endpoint = wire_text("crm")};
    char first[TRACEPARENT_CHARS + 1];
    struct buf packed, own;
    struct signer none;
    struct outgoing_request r;
    int count;

    (void)state;
    buf_init(&packed, 4096);
    buf_init(&own, 4096);
    headers_put(&packed, "Traceparent", wire_text(came));
    headers_put(&packed, "tracestate", wire_text("a=1"));
    headers_put(&own, "TraceParent", wire_text("mine"));
    assert_int_equal(signer_init(&none, (struct bytes){"", 0}), GR_OK);
    request_init(&r);
    request_headers(&r, &t, (struct bytes){"", 0}, &none, true, 1, 1000);
    snprintf(first, sizeof first, "%s", sent(&r, "traceparent", &count));
    assert_int_equal(count, 1);
    assert_string_equal(first + 53, "01");
    sent(&r, "tracestate", &count);
    assert_int_equal(count, 0);
    request_headers(&r, &t, (struct bytes){"", 0}, &none, true, 1, 9000);
    assert_string_equal(sent(&r, "traceparent", &count), first);
    request_headers(&r, &t, (struct bytes){"", 0}, &none, true, 2, 1000);
    assert_memory_equal(sent(&r, "traceparent", &count), first, 36);
    assert_string_not_equal(sent(&r, "traceparent", &count), first);

    t.headers = (struct bytes){packed.data, packed.len};
    request_headers(&r, &t, (struct bytes){"", 0}, &none, true, 1, 1000);
    assert_memory_equal(sent(&r, "traceparent", &count), came, 36);
    assert_int_equal(count, 1);
    assert_memory_equal(sent(&r, "traceparent", &count) + 36, first + 36, 16);
    assert_string_equal(sent(&r, "traceparent", &count) + 53, "00");
    assert_string_equal(sent(&r, "tracestate", &count), "a=1");
    assert_int_equal(count, 1);
    /* The endpoint's own header is sent as it is. */
    request_headers(&r, &t, (struct bytes){own.data, own.len}, &none, true, 1,
                    1000);
    assert_string_equal(sent(&r, "traceparent", &count), "mine");
    assert_int_equal(count, 1);
    request_headers(&r, &t, (struct bytes){"", 0}, &none, false, 1, 1000);
    assert_string_equal(sent(&r, "traceparent", &count), came);
    t.headers = (struct bytes){"", 0};
    request_headers(&r, &t, (struct bytes){"", 0}, &none, false, 1, 1000);
    sent(&r, "traceparent", &count);
    assert_int_equal(count, 0);
    request_fini(&r);
    signer_fini(&none);
    buf_fini(&packed);
    buf_fini(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sent_requests_equal_the_vectors),
        cmocka_unit_test(only_grapnel_sets_its_headers),
        cmocka_unit_test(an_attempt_has_one_traceparent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
