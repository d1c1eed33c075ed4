/* Tests of published: which objects a producer may send, the errors, and the body that
 * endpoints get. P7. */
#include "published.h"
#include "settings.h"
#include "ulid.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static void an_error_names_its_field(void **state)
{
    static const struct {
        const char *body, *field, *why;
    } wrong[] = {
        {"", "", "is not JSON"},
        {"{", "", "is not JSON"},
        {"[]", "", "must be an object"},
        {"7", "", "is not JSON"},
        {"{\"workspace\":\"w\",\"data\":1}", "type", "is missing"},
        {"{\"type\":1,\"workspace\":\"w\",\"data\":1}", "type", "be a string"},
        {"{\"type\":\"\",\"workspace\":\"w\",\"data\":1}", "type", "be empty"},
        {"{\"type\":\"t\",\"data\":1}", "workspace", "is missing"},
        {"{\"type\":\"t\",\"workspace\":\"a\\nb\",\"data\":1}", "workspace",
         "control character"},
        {"{\"type\":\"t\",\"workspace\":\"\\u0000\",\"data\":1}", "workspace",
         "control character"},
        {"{\"type\":\"t\",\"workspace\":\"w\"}", "data", "is missing"},
        {"{\"type\":\"t\",\"type\":\"t\",\"workspace\":\"w\",\"data\":1}", "",
         "duplicate"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,\"dat\":2}", "",
         "unknown field \"dat\""},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,\"id\":5}", "id",
         "be a string"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,\"endpoints\":\"a\"}",
         "endpoints", "list of names"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,\"endpoints\":[]}",
         "endpoints", "list of names"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,\"endpoints\":[1]}",
         "endpoints", "list of names"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,\"priority\":"
         "\"urgent\"}",
         "priority", "must be \"high\", \"normal\" or \"low\""},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,\"priority\":1}",
         "priority", "must be"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"priority\":\"high\\u0000\"}",
         "priority", "must be"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,\"expires_in\":60}",
         "expires_in", "duration"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"expires_in\":\"0s\"}",
         "expires_in", "longer than 0"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"expires_in\":\"9223372036854775807ms\"}",
         "expires_in", "duration"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"retry_policy\":1}",
         "retry_policy", "must be a string"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"max_attempts\":0}",
         "max_attempts", "from 1 to 1000000"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"max_attempts\":1.5}",
         "max_attempts", "whole number"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"max_attempts\":\"3\"}",
         "max_attempts", "whole number"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"max_attempts\":1e300}",
         "max_attempts", "from 1 to 1000000"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"ordering_key\":\"\"}",
         "ordering_key", "must not be empty"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"ordering_key\":7}",
         "ordering_key", "must be a string"},
        {"{\"type\":\"t\",\"workspace\":\"w\",\"data\":1,"
         "\"ordering_key\":\"a\\u0000b\"}",
         "ordering_key", "control character"},
    };
    struct published_wrong w;
    struct published p;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        if (published_read(&p, text(wrong[i].body), &w) != GR_REFUSE ||
            strcmp(w.field, wrong[i].field) != 0 ||
            !strstr(w.why, wrong[i].why))
            fail_msg("%s: %s %s", wrong[i].body, w.field, w.why);
        published_fini(&p);
    }
}

static void data_is_passed_on_unchanged(void **state)
{
    static const char *const datas[] = {
        "1.10",
        "12345678901234567890123",
        "null",
        "\"a \\\" } , ] \\\\\"",
        "{\"data\":{\"b\" : [1, {\"c\":\"]}\"}]}, \"n\":\"\\u0000\"}",
        "[ ]",
        "\"\\ud83d\"",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(datas); i++) {
        struct published_wrong w;
        struct published p;
        struct buf body, out;
        char want[300];

        buf_init(&body, 1000);
        buf_init(&out, 1000);
        buf_printf(
            &body,
            " { \"type\" : \"invoice.p\\u00e4id\",\"id\":\"k\",\"d\\u0061ta\" "
            ": %s , \"workspace\":\"w\\\"1\"} ",
            datas[i]);
        if (published_read(&p, text(body.data), &w) != GR_OK)
            fail_msg("%s: %s %s", datas[i], w.field, w.why);
        published_body(&p, "evt_x", 1700000000123, &out);
        snprintf(want, sizeof want,
                 "{\"id\":\"evt_x\",\"type\":\"invoice.p\xc3\xa4id\","
                 "\"workspace\":\"w\\\"1\",\"timestamp\":"
                 "\"2023-11-14T22:13:20.123Z\",\"data\":%s}",
                 datas[i]);
        assert_string_equal(out.data, want);
        published_fini(&p);
        buf_fini(&body);
        buf_fini(&out);
    }
}

static void an_object_may_name_endpoints_and_an_expiry(void **state)
{
    struct published_wrong w;
    struct published p;

    (void)state;
    assert_int_equal(
        published_read(&p,
                       text("{\"type\":\"t\",\"workspace\":\"w\",\"data\":{},"
                            "\"endpoints\":[\"crm\",\"erp\"],"
                            "\"expires_in\":\"90s\"}"),
                       &w),
        GR_OK);
    assert_int_equal(p.expires_in_ms, 90000);
    assert_true(published_for(&p, "crm") && published_for(&p, "erp"));
    assert_false(published_for(&p, "er"));
    assert_null(p.id);
    published_fini(&p);
}

static void an_object_may_have_an_ordering_key(void **state)
{
    static const char *const keys[] = {"order-7", "order-8"};
    uint8_t digests[2][PUBLISHED_DIGEST_BYTES];
    struct published_wrong w;
    struct published p;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char *body = gr_printf("{\"type\":\"t\",\"workspace\":\"w\","
                               "\"ordering_key\":\"%s\",\"data\":{}}",
                               keys[i]);

        assert_int_equal(published_read(&p, text(body), &w), GR_OK);
        assert_string_equal(p.ordering_key, keys[i]);
        published_digest(&p, text(body), digests[i]);
        published_fini(&p);
        free(body);
    }
    assert_memory_not_equal(digests[0], digests[1], sizeof digests[0]);
}

static void an_object_may_choose_how_hard_to_try(void **state)
{
    static char own[] = "default", quick[] = "quick";
    struct retry_policy policies[] = {{.name = own}, {.name = quick}};
    struct settings s = {.policies = policies, .policy_count = 2};
    struct published_wrong w;
    struct published p;

    (void)state;
    assert_int_equal(
        published_read(&p,
                       text("{\"type\":\"t\",\"workspace\":\"w\",\"data\":{},"
                            "\"retry_policy\":\"quick\","
                            "\"max_attempts\":3,\"priority\":\"low\"}"),
                       &w),
        GR_OK);
    assert_string_equal(p.retry_policy, "quick");
    assert_int_equal(p.max_attempts, 3);
    assert_int_equal(p.priority, PRIORITY_LOW);
    assert_int_equal(published_judge(&p, &s, &(struct producer){0}, &w),
                     PUBLISHED_GOOD);
    quick[0] = 'Q';
    assert_int_equal(published_judge(&p, &s, &(struct producer){0}, &w),
                     PUBLISHED_UNKNOWN);
    assert_string_equal(w.field, "retry_policy");
    assert_string_equal(w.why, "there is no retry policy \"quick\"; there are: "
                               "default, Quick");
    published_fini(&p);
}

static void an_object_may_name_a_url(void **state)
{
    static char crm[] = "crm", erp[] = "erp";
    static char *patterns[] = {(char *)(uintptr_t) "https://*.b.c:*/h/*"};
    struct endpoint_settings endpoints[] = {
        {.name = crm, .allowed_ports = {{443, 8443}, 2}}, {.name = erp}};
    struct settings s = {.endpoints = endpoints, .endpoint_count = 2};
    struct producer may = {.may_name_urls = {patterns, 1}}, not = {0};
    static const struct {
        const char *endpoints, *url, *why;
        enum published_verdict verdict;
    } cases[] = {
        {"[\"crm\"]", "https://a.b.c/h/1", "", PUBLISHED_GOOD},
        {"[\"crm\"]", "https://a.b.c:8443/h/1", "", PUBLISHED_GOOD},
        {"[\"erp\"]", "https://a.b.c:9/h/1", "", PUBLISHED_GOOD},
        {"[\"crm\"]", "https://a.b.c:9/h/1", "port 9 is not in",
         PUBLISHED_UNKNOWN},
        {"[\"crm\"]", "https://a.b.d/h/1", "matches none of",
         PUBLISHED_URL_FORBIDDEN},
        {"[\"crm\",\"erp\"]", "https://a.b.c/h/1", "needs `endpoints`", 0},
        {"[\"crm\"]", "https://u@a.b.c/h/1", "a user or a password", 0},
        {"[\"crm\"]", "https://a.b.c/h/\\u0000", "must be a string", 0},
    };
    struct published_wrong w;
    struct published p;
    struct buf body;

    (void)state;
    buf_init(&body, 1000);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bool readable = !*cases[i].why || cases[i].verdict;
        gr_rc rc;

        buf_reset(&body);
        buf_printf(&body,
                   "{\"type\":\"t\",\"workspace\":\"w\",\"data\":{},"
                   "\"endpoints\":%s,\"url\":\"%s\"}",
                   cases[i].endpoints, cases[i].url);
        rc = published_read(&p, text(body.data), &w);
        assert_int_equal(rc, readable ? GR_OK : GR_REFUSE);
        if (readable) {
            assert_string_equal(p.url, cases[i].url);
            assert_int_equal(published_judge(&p, &s, &may, &w),
                             cases[i].verdict);
        }
        if (*cases[i].why) {
            assert_string_equal(w.field, "url");
            assert_non_null(strstr(w.why, cases[i].why));
        }
        if (readable) {
            assert_int_equal(published_judge(&p, &s, &not, &w),
                             PUBLISHED_URL_FORBIDDEN);
        }
        published_fini(&p);
    }
    buf_fini(&body);
}

static void an_idempotency_key_always_makes_the_same_id(void **state)
{
    char a[EVENT_ID_BYTES + 1], b[EVENT_ID_BYTES + 1], c[EVENT_ID_BYTES + 1];

    (void)state;
    published_event_id(a, "billing", text("order-7"));
    published_event_id(b, "billing", text("order-7"));
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), EVENT_ID_BYTES);
    published_event_id(c, "crm", text("order-7"));
    assert_string_not_equal(a, c);
    published_event_id(c, "billing", text("order-8"));
    assert_string_not_equal(a, c);
    assert_false(ulid_valid(a + 4));
    assert_true(strcmp(KEYED_IDS_FROM, "evt_7ZZZZZZZZZZZZZZZZZZZZZZZZZ") > 0);
    assert_true(strcmp(a, KEYED_IDS_FROM) > 0);
}

static void digest(const char *body, uint8_t out[PUBLISHED_DIGEST_BYTES])
{
    struct published_wrong w;
    struct published p;

    assert_int_equal(published_read(&p, text(body), &w), GR_OK);
    published_digest(&p, text(body), out);
    published_fini(&p);
}

static bool same(const char *left, const char *right)
{
    uint8_t a[PUBLISHED_DIGEST_BYTES], b[PUBLISHED_DIGEST_BYTES];

    digest(left, a);
    digest(right, b);
    return memcmp(a, b, sizeof a) == 0;
}

#define OBJECT(data) "{\"type\":\"t\",\"workspace\":\"w\",\"data\":" data "}"

static void a_digest_ignores_the_form_of_the_object(void **state)
{
    static const char body[] = OBJECT("{\"a\":[1,{\"x\":\"\\u0041/\",\"y\":2}],"
                                      "\"b\":null}");

    (void)state;
    assert_true(same(body, body));
    assert_true(same(body,
                     " { \"data\" : {\"b\":null , \"a\" : [ 1 , { \"y\":2,"
                     "\"x\":\"A\\/\" } ] },\n\"id\":\"k\",\"workspace\":\"w\","
                     "\"ty\\u0070e\":\"t\"}"));
    assert_true(same(OBJECT("[]"), OBJECT(" [ ] ")));
    assert_true(same(OBJECT("{ }"), OBJECT("{}")));
    assert_true(same(OBJECT("\"\\ud800\""), OBJECT("\"\\ud800\"")));
}

static void another_content_has_another_digest(void **state)
{
    static const char *const others[] = {
        OBJECT("{\"a\":1,\"b\":2}"),
        OBJECT("{\"a\":2,\"b\":1}"),
        OBJECT("{\"a\":1}"),
        OBJECT("{\"a\":1.0}"),
        OBJECT("{\"a\":\"1\"}"),
        OBJECT("[1,2]"),
        OBJECT("[2,1]"),
        OBJECT("[[1],2]"),
        OBJECT("[1,[2]]"),
        OBJECT("[{\"a\":1},{\"b\":2}]"),
        OBJECT("{\"id\":1}"),
        OBJECT("{\"id\":2}"),
        OBJECT("{}"),
        OBJECT("[]"),
        OBJECT("\"{}\""),
        OBJECT("12345678901234567890123"),
        OBJECT("12345678901234567890124"),
        "{\"type\":\"u\",\"workspace\":\"w\",\"data\":{}}",
        "{\"type\":\"t\",\"workspace\":\"x\",\"data\":{}}",
        "{\"type\":\"t\",\"workspace\":\"w\",\"data\":{},"
        "\"endpoints\":[\"crm\"]}",
        "{\"type\":\"t\",\"workspace\":\"w\",\"data\":{},"
        "\"expires_in\":\"9s\"}"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        for (size_t k = 0; k < i; k++)
            assert_false(same(others[i], others[k]));
}

/* A producer can't make it expensive: each byte is looked at a few times,
 * however deep it is. */
static void deep_objects_have_a_digest_too(void **state)
{
    enum { DEPTH = 1000 };
    struct buf body, other;

    (void)state;
    buf_init(&body, 1 << 20);
    buf_puts(&body, "{\"type\":\"t\",\"workspace\":\"w\",\"data\":");
    for (int i = 0; i < DEPTH; i++)
        buf_puts(&body, "{\"b\":1,\"a\":[");
    for (int i = 0; i < DEPTH; i++)
        buf_puts(&body, "]}");
    buf_puts(&body, "}");
    buf_init(&other, 1 << 20);
    buf_put(&other, body.data, body.len);
    assert_true(same(body.data, other.data));
    *strchr(other.data, '1') = '2';
    assert_false(same(body.data, other.data));
    buf_fini(&body);
    buf_fini(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_names_its_field),
        cmocka_unit_test(data_is_passed_on_unchanged),
        cmocka_unit_test(an_object_may_name_endpoints_and_an_expiry),
        cmocka_unit_test(an_object_may_have_an_ordering_key),
        cmocka_unit_test(an_object_may_choose_how_hard_to_try),
        cmocka_unit_test(an_object_may_name_a_url),
        cmocka_unit_test(an_idempotency_key_always_makes_the_same_id),
        cmocka_unit_test(a_digest_ignores_the_form_of_the_object),
        cmocka_unit_test(another_content_has_another_digest),
        cmocka_unit_test(deep_objects_have_a_digest_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
