/* endpoint_document: an endpoint's settings as JSON: read by the tables of grapnel.yaml,
 * refused with a path, bounded, its secrets taken out and put back. */
#include "config.h"
#include "endpoint_document.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"

static char folder[] = "/tmp/grapnel-test-document-XXXXXX";
static struct settings *settings;

static const char yaml[] =
    "endpoint_defaults:\n"
    "  timeout: 20s\n"
    "  max_in_flight: 10\n"
    "  retry_policy: careful\n"
    "retry_policies:\n"
    "  - {name: careful, max_attempts: 7}\n"
    "  - {name: hasty, max_attempts: 2}\n"
    "endpoints:\n"
    "  - name: whole\n"
    "    url: https://example.com/hook?token=abc\n"
    "    types: [issue.*, \"5\"]\n"
    "    workspaces: [\"a$$b\", \"line\\u2028\\x85end\"]\n"
    "    where: {\"json:/data/p\": [high, 5], "
    "\"json:/data/n\": {above: 1, below: 5.5}}\n"
    "    headers: {X-Token: \"s$$cret\", x-empty: \"\"}\n"
    "    signing_secrets: [" SECRET "]\n"
    "    allow_private: [10.0.0.0/8, \"fd00::/8\"]\n"
    "    timeout: 30s\n"
    "    rate_limit: 5/m\n"
    "    guard: off\n"
    "    breaker: false\n"
    "    ordered: workspace\n"
    "    on_dead: halt\n"
    "    max_in_flight: 3\n"
    "    retry_policy: hasty\n"
    "    allowed_ports: [443, 8443]\n"
    "  - name: plain\n"
    "    url: https://example.com/plain\n";

static int load(void **state)
{
    struct buf errors;
    FILE *f;

    (void)state;
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return -1;
    f = fopen("g.yaml", "w");
    fputs(yaml, f);
    fclose(f);
    f = fopen("secret", "w");
    fputs(SECRET, f);
    fclose(f);
    buf_init(&errors, 1 << 20);
    settings = settings_load("g.yaml", &errors);
    if (!settings)
        print_message("%s\n", errors.data);
    buf_fini(&errors);
    return settings ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    settings_free(settings);
    unlink("g.yaml");
    unlink("secret");
    return chdir("/") || rmdir(folder);
}

static json_t *json(const char *text)
{
    json_error_t error;
    json_t *v = json_loads(text, JSON_REJECT_DUPLICATES, &error);

    if (!v)
        print_message("%s: %s\n", text, error.text);
    assert_non_null(v);
    return v;
}

/* `doc` is freed. */
static struct endpoint_settings *read_doc(json_t *doc, bool tenant,
                                          char field[128], char why[300])
{
    struct endpoint_settings *e = endpoint_document_read(settings, "ep_1", doc,
                                                         tenant, field, why);

    json_decref(doc);
    return e;
}

static struct endpoint_settings *accepted(const char *text)
{
    char field[128], why[300] = "";
    struct endpoint_settings *e = read_doc(json(text), false, field, why);

    if (!e)
        print_message("%s: %s: %s\n", text, field, why);
    assert_non_null(e);
    return e;
}

static void refuse(json_t *doc, bool tenant, const char *want_field,
                   const char *want_why)
{
    char field[128] = "?", why[300] = "?";

    assert_null(read_doc(doc, tenant, field, why));
    assert_string_equal(field, want_field);
    if (!strstr(why, want_why))
        print_message("%s: %s\n", field, why);
    assert_non_null(strstr(why, want_why));
}

/* ---- what is read ---- */

static void a_document_is_read_like_the_file(void **state)
{
    struct endpoint_settings *e = accepted(
        "{\"url\":\"https://example.com/a\",\"types\":\"issue.*\","
        "\"workspaces\":[\"w1\",\"w2\"],\"headers\":{\"x-a\":\"b\"},"
        "\"timeout\":\"5s\",\"guard\":\"off\",\"breaker\":false,"
        "\"rate_limit\":\"50/s\",\"max_in_flight\":20,"
        "\"where\":{\"json:/p\":[\"high\",5,true]},"
        "\"signing_secrets\":[\"" SECRET "\"],"
        "\"ordered\":\"all\",\"retry_policy\":\"hasty\"}");

    (void)state;
    assert_string_equal(e->name, "ep_1");
    assert_true(e->enabled && !e->internal);
    assert_string_equal(e->types.items[0], "issue.*");
    assert_true(e->workspaces.count == 2);
    assert_string_equal(e->headers.items[0].value, "b");
    assert_true(e->timeout_ms == 5000 && !e->guard && !e->breaker);
    assert_true(e->rate_limit.count == 50 && e->max_in_flight == 20);
    assert_string_equal(e->where.fields->tests->values.items[1], "5");
    assert_string_equal(e->where.fields->tests->values.items[2], "true");
    assert_true(e->ordered == LANES_ALL);
    assert_ptr_equal(e->policy, settings_policy(settings, "hasty"));
    endpoint_document_free(e);
}

static void what_is_not_set_comes_from_the_defaults(void **state)
{
    struct endpoint_settings *e = accepted("{\"url\":\"https://a.example\"}");

    (void)state;
    assert_true(e->timeout_ms == 20000 && e->connect_timeout_ms == 5000);
    assert_true(e->max_in_flight == 10 && e->guard && e->breaker);
    assert_string_equal(e->method, "POST");
    assert_string_equal(e->retry_policy, "careful");
    assert_ptr_equal(e->policy, settings_policy(settings, "careful"));
    endpoint_document_free(e);
    endpoint_document_free(NULL);
}

/* Neither the environment nor a file is read. */
static void a_text_is_taken_as_it_is(void **state)
{
    struct endpoint_settings *e;

    (void)state;
    setenv("GRAPNEL_TEST_SECRET", "leaked", 1);
    e = accepted("{\"url\":\"https://a.example\",\"headers\":{"
                 "\"x-a\":\"${GRAPNEL_TEST_SECRET} $$ $\","
                 "\"x-b\":\"a\\u2028b\\u0085 \\ud83d\\ude00\"}}");
    assert_string_equal(e->headers.items[0].value,
                        "${GRAPNEL_TEST_SECRET} $$ $");
    assert_string_equal(e->headers.items[1].value,
                        "a\xe2\x80\xa8"
                        "b\xc2\x85 \xf0\x9f\x98\x80");
    endpoint_document_free(e);
    refuse(json("{\"url\":\"https://a.example\","
                "\"headers\":{\"x-a\":\"file:secret\"}}"),
           false, "headers.x-a", "only in grapnel.yaml");
    refuse(json("{\"url\":\"https://a.example\","
                "\"signing_secrets\":\"file:secret\"}"),
           false, "signing_secrets", "only in grapnel.yaml");
    refuse(json("{\"url\":\"https://a.example\","
                "\"signing_secrets\":[\"" SECRET "\",\"file:secret\"]}"),
           false, "signing_secrets[1]", "only in grapnel.yaml");
    refuse(json("{\"url\":\"https://a.example\",\"tls\":{\"ca\":"
                "\"file:secret\"}}"),
           false, "tls.ca", "only in grapnel.yaml");
}

/* ---- what is refused ---- */

#define URL "\"url\":\"https://a.example\""

static void the_first_wrong_key_is_told(void **state)
{
    static const struct {
        const char *text, *field, *why;
    } all[] = {
        {"[]", "", "must be an object"},
        {"\"x\"", "", "must be an object"},
        {"{}", "url", "is missing"},
        {"{\"url\":null}", "url", "has no value"},
        {"{\"url\":5}", "url", "must be a string, not a number"},
        {"{\"url\":{}}", "url", "must be a string, not an object"},
        {"{\"url\":\"ftp://a\"}", "url", "must begin with https://"},
        {"{" URL ",\"tiemout\":\"5s\"}", "tiemout", "did you mean timeout?"},
        {"{" URL ",\"secret\":\"x\"}", "secret", "signing_secrets"},
        {"{" URL ",\"name\":\"x\"}", "name", "unknown key"},
        {"{" URL ",\"enabled\":true}", "enabled", "unknown key"},
        {"{" URL ",\"timeout\":5}", "timeout", "needs a unit"},
        {"{" URL ",\"max_in_flight\":\"5\"}", "max_in_flight", "not a string"},
        {"{" URL ",\"guard\":\"maybe\"}", "guard", "\"on\" or \"off\""},
        {"{" URL ",\"breaker\":\"true\"}", "breaker", "true or false"},
        {"{" URL ",\"types\":{}}", "types", "must be a list, not an object"},
        {"{" URL ",\"types\":[]}", "types", "empty list"},
        {"{" URL ",\"types\":[[\"a\"]]}", "types[0]", "not a list"},
        {"{" URL ",\"types\":[null]}", "types[0]", "has no value"},
        {"{" URL ",\"headers\":[\"a\"]}", "headers", "must be an object"},
        {"{" URL ",\"headers\":{\"x-a\":1}}", "headers.x-a", "a string"},
        {"{" URL ",\"headers\":{\"x-a\":\"a\\nb\"}}", "headers.x-a",
         "line break"},
        {"{" URL ",\"headers\":{\"x-a\":\"…\"}}", "headers", "not shown"},
        {"{" URL ",\"headers\":{\"webhook-id\":\"a\"}}", "headers.webhook-id",
         "cannot be set"},
        {"{" URL ",\"headers\":{\"x-a\":\"1\",\"X-A\":\"2\"}}", "headers.X-A",
         "same header"},
        {"{" URL ",\"retry_policy\":\"hastyy\"}", "retry_policy",
         "there is no retry policy \"hastyy\" (did you mean hasty?)"},
        {"{" URL ",\"where\":{\"json:/a\":{\"over\":1}}}", "where.json:/a.over",
         "is not a condition"},
        {"{" URL ",\"allowed_ports\":[80]}", "url", "has port 443"},
        {"{" URL ",\"a\\nb\":1}", "a?b", "unknown key"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        json_t *doc = json_loads(all[i].text, JSON_DECODE_ANY, NULL);

        assert_non_null(doc);
        refuse(doc, false, all[i].field, all[i].why);
    }
}

static void a_tenant_may_not_open_the_guard(void **state)
{
    char field[128], why[300];
    struct endpoint_settings *e;

    (void)state;
    refuse(json("{" URL ",\"allow_private\":true}"), true, "allow_private",
           "token of a workspace");
    refuse(json("{" URL ",\"allow_private\":false}"), true, "allow_private",
           "token of a workspace");
    refuse(json("{" URL ",\"allowed_ports\":[443]}"), true, "allowed_ports",
           "token of a workspace");
    refuse(json("{" URL ",\"tls\":{}}"), true, "tls", "token of a workspace");
    refuse(json("{" URL ",\"max_in_flight\":11}"), true, "max_in_flight",
           "at most 10");
    refuse(json("{" URL ",\"retry_policy\":\"hasty\"}"), true, "retry_policy",
           "token of a workspace");
    refuse(json("{" URL ",\"forward_headers\":[\"x-a\"]}"), true,
           "forward_headers", "token of a workspace");
    refuse(json("{" URL ",\"where\":{\"header:X-Token\":\"a\"}}"), true,
           "where", "headers");
    refuse(json("{" URL ",\"where\":{\"query:token\":{\"prefix\":\"a\"}}}"),
           true, "where", "query");
    refuse(json("{" URL ",\"timeout\":\"5m\"}"), true, "timeout", "at most");
    refuse(json("{" URL ",\"disable_after\":\"6d\"}"), true, "disable_after",
           "at most 5d");
    e = read_doc(json("{" URL ",\"max_in_flight\":10,"
                      "\"where\":{\"json:/a\":\"b\"}}"),
                 true, field, why);
    assert_non_null(e);
    endpoint_document_free(e);
}

/* ---- bounds ---- */

static json_t *with(const char *key, json_t *value)
{
    return json_pack("{s:s,s:o}", "url", "https://a.example", key, value);
}

static json_t *texts(size_t n, const char *text)
{
    json_t *list = json_array();

    while (n--)
        json_array_append_new(list, json_string(text));
    return list;
}

static json_t *filled(size_t n)
{
    char *text = gr_alloc(n + 1);
    json_t *v;

    memset(text, 'a', n);
    v = json_string(text);
    free(text);
    return v;
}

static void a_document_is_bounded(void **state)
{
    json_t *deep = json_integer(1), *wide = json_object();
    char name[40];

    (void)state;
    for (int i = 0; i < 1500; i++)
        deep = json_pack("[o]", deep);
    refuse(with("types", deep), false, "", "levels deep");
    for (int i = 0; i < 30000; i++) {
        snprintf(name, sizeof name, "%d", i);
        json_object_set_new(wide, name, json_integer(1));
    }
    refuse(with("headers", wide), false, "", "larger than 256 KiB");
    refuse(with("types", texts(5000, "a")), false, "", "more than 4096");
    refuse(with("types", texts(1001, "a")), false, "types", "maximum is 1000");
    refuse(with("types", filled(300000)), false, "", "larger than 256 KiB");
    refuse(with("types", filled(4097)), false, "types", "too long");
    refuse(with("signing_secrets", texts(17, SECRET)), false, "signing_secrets",
           "maximum is 16");
    refuse(with("headers", json_pack("{s:o}", "x-a", filled(70000))), false,
           "headers", "64 KiB");
}

static void a_pattern_is_bounded(void **state)
{
    char text[300], field[128], why[300];
    struct endpoint_settings *e;

    (void)state;
    memset(text, '*', sizeof text);
    text[257] = 0;
    refuse(with("types", texts(1, text)), false, "types", "256 for a pattern");
    text[256] = 0;
    e = read_doc(with("types", texts(1, text)), false, field, why);
    assert_non_null(e);
    endpoint_document_free(e);
}

/* An error is cut, but it stays UTF-8, or it could not be sent as JSON. */
static void an_error_is_always_utf8(void **state)
{
    char field[128], why[300];

    (void)state;
    for (size_t n = 0; n < 70; n++) {
        struct buf key;
        json_t *doc = json_object(), *v;

        buf_init(&key, 2000);
        for (size_t i = 0; i < n; i++)
            buf_puts(&key, "a");
        for (size_t i = 0; i < 400; i++)
            buf_puts(&key, "é");
        json_object_set_new(doc, "url", json_string(key.data));
        json_object_set_new(doc, "ordered", json_string(key.data));
        json_object_set_new(doc, n % 2 ? key.data : "types", json_string("ü"));
        assert_null(read_doc(doc, false, field, why));
        v = json_pack("[s,s]", field, why);
        assert_non_null(v);
        json_decref(v);
        buf_fini(&key);
    }
}

/* ---- secrets ---- */

#define PRIVATE                                                  \
    "{\"url\":\"https://a.example/?token=t\",\"types\":[\"a\"]," \
    "\"signing_secrets\":[\"s1\",\"s2\"],"                       \
    "\"headers\":{\"x-a\":\"h1\",\"x-b\":\"h2\"},"               \
    "\"tls\":{\"ca\":\"c\",\"certificate\":\"d\",\"key\":\"k\"}}"

static void equal(json_t *got, const char *want)
{
    json_t *v = json(want);

    if (!json_equal(got, v))
        print_message("%s\n", json_dumps(got, 0));
    assert_true(json_equal(got, v));
    json_decref(v);
}

static void secrets_are_taken_out_and_put_back(void **state)
{
    json_t *doc = json(PRIVATE), *secrets;

    (void)state;
    secrets = endpoint_document_take_secrets(doc);
    equal(secrets, "{\"signing_secrets\":[\"s1\",\"s2\"],"
                   "\"headers\":{\"x-a\":\"h1\",\"x-b\":\"h2\"},"
                   "\"tls\":{\"key\":\"k\"}}");
    equal(doc, "{\"url\":\"https://a.example/?token=t\",\"types\":[\"a\"],"
               "\"signing_secrets\":[null,null],"
               "\"headers\":{\"x-a\":null,\"x-b\":null},"
               "\"tls\":{\"ca\":\"c\",\"certificate\":\"d\",\"key\":null}}");
    refuse(json_incref(doc), false, "headers.x-a", "has no value");
    endpoint_document_add_secrets(doc, secrets);
    equal(doc, PRIVATE);
    json_decref(secrets);
    json_decref(doc);
    doc = json("{\"url\":\"https://a.example\",\"types\":[\"a\"]}");
    assert_null(endpoint_document_take_secrets(doc));
    json_decref(doc);
}

static void a_wiped_document_has_no_text(void **state)
{
    json_t *doc = json(PRIVATE);
    const json_t *secrets = json_object_get(doc, "signing_secrets");

    (void)state;
    endpoint_document_wipe(doc);
    for (size_t i = 0; i < json_array_size(secrets); i++)
        assert_memory_equal(json_string_value(json_array_get(secrets, i)),
                            "\0\0", 2);
    assert_memory_equal(json_string_value(json_object_get(
                            json_object_get(doc, "headers"), "x-b")),
                        "\0\0", 2);
    json_decref(doc);
    endpoint_document_wipe(NULL);
}

static void a_masked_document_has_no_secret(void **state)
{
    static const char want[] =
        "{\"url\":\"https://a.example/?…\",\"types\":[\"a\"],"
        "\"signing_secrets\":[\"…\",\"…\"],"
        "\"headers\":{\"x-a\":\"…\",\"x-b\":\"…\"},"
        "\"tls\":{\"ca\":\"c\",\"certificate\":\"d\",\"key\":\"…\"}}";
    json_t *doc = json(PRIVATE), *shown = endpoint_document_masked(doc);

    (void)state;
    equal(shown, want);
    equal(doc, PRIVATE);
    json_decref(shown);
    json_decref(endpoint_document_take_secrets(doc));
    shown = endpoint_document_masked(doc);
    equal(shown, want);
    json_decref(shown);
    json_decref(doc);
}

/* ---- changes and parts ---- */

/* The examples of RFC 7396, appendix A, as far as both are objects. */
static void a_patch_is_that_of_rfc_7396(void **state)
{
    static const char *const all[][3] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}",
         "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
        {"{\"a\":\"b\"}", "[\"c\"]", "{\"a\":\"b\"}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        json_t *doc = json(all[i][0]), *patch = json(all[i][1]);

        endpoint_document_patch(doc, patch);
        json_decref(patch);
        equal(doc, all[i][2]);
        json_decref(doc);
    }
}

static void the_subscription_alone_is_that_of_the_whole(void **state)
{
    static const char *const all[] = {
        "{" URL "}",
        "{" URL ",\"types\":\"a.*\",\"sources\":[\"s1\",\"s2\"]}",
        "{" URL ",\"workspaces\":[\"w$$\"],\"types\":[\"a\",\"b\"],"
        "\"where\":{\"json:/p\":\"high\",\"header:x\":{\"exists\":true}}}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct endpoint_settings *e = accepted(all[i]);
        json_t *doc = json(all[i]);
        struct own_subscription o;

        assert_true(endpoint_document_subscription(doc, &o));
        assert_true(o.sources.count == e->sources.count);
        assert_true(o.types.count == e->types.count);
        assert_true(o.workspaces.count == e->workspaces.count);
        assert_true(o.where.count == e->where.count);
        for (size_t k = 0; k < o.types.count; k++)
            assert_string_equal(o.types.items[k], e->types.items[k]);
        for (size_t k = 0; k < o.where.count; k++)
            assert_string_equal(o.where.fields[k].tests->values.items[0],
                                e->where.fields[k].tests->values.items[0]);
        own_subscription_fini(&o);
        json_decref(doc);
        endpoint_document_free(e);
    }
}

static void a_wrong_subscription_is_refused(void **state)
{
    static const char *const all[] = {"{\"types\":5}", "{\"types\":[\"a\",5]}",
                                      "{\"workspaces\":{}}", "{\"where\":5}",
                                      "{\"where\":{\"json:/a\":{\"over\":1}}}"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        json_t *doc = json(all[i]);
        struct own_subscription o;

        assert_false(endpoint_document_subscription(doc, &o));
        own_subscription_fini(&o);
        json_decref(doc);
    }
}

static void belongs(const char *text, const char *want)
{
    json_t *doc = json(text);
    const char *got = endpoint_document_workspace(doc);

    assert_true(!got == !want);
    if (want)
        assert_string_equal(got, want);
    json_decref(doc);
}

static void one_literal_workspace_is_that_of_the_endpoint(void **state)
{
    (void)state;
    belongs("{\"workspaces\":\"acme\"}", "acme");
    belongs("{\"workspaces\":[\"acme\"]}", "acme");
    belongs("{\"workspaces\":[\"acme\",\"b\"]}", NULL);
    belongs("{\"workspaces\":[\"ac*\"]}", NULL);
    belongs("{\"workspaces\":[]}", NULL);
    belongs("{\"workspaces\":5}", NULL);
    belongs("{}", NULL);
}

/* ---- of the file ---- */

static void an_endpoint_of_the_file_is_a_document(void **state)
{
    const struct endpoint_settings *e = settings_endpoint(settings, "whole");
    json_t *doc = endpoint_settings_document(settings, e, false), *again;
    struct endpoint_settings *same;
    char field[128], why[300] = "";

    (void)state;
    equal(doc,
          "{\"url\":\"https://example.com/hook?token=abc\","
          "\"types\":[\"issue.*\",\"5\"],"
          "\"workspaces\":[\"a$b\",\"line\\u2028\\u0085end\"],"
          "\"where\":{\"json:/data/p\":[\"high\",\"5\"],"
          "\"json:/data/n\":{\"above\":\"1\",\"below\":\"5.5\"}},"
          "\"headers\":{\"X-Token\":\"s$cret\",\"x-empty\":\"\"},"
          "\"signing_secrets\":[\"" SECRET "\"],"
          "\"allow_private\":[\"10.0.0.0/8\",\"fd00::/8\"],"
          "\"timeout\":\"30s\",\"rate_limit\":\"5/m\",\"guard\":\"off\","
          "\"breaker\":false,\"ordered\":\"workspace\",\"on_dead\":\"halt\","
          "\"max_in_flight\":3,\"retry_policy\":\"hasty\","
          "\"allowed_ports\":[443,8443]}");
    same = read_doc(json_incref(doc), false, field, why);
    assert_string_equal(why, "");
    again = endpoint_settings_document(settings, same, false);
    assert_true(json_equal(doc, again));
    json_decref(again);
    json_decref(doc);
    endpoint_document_free(same);
    doc = endpoint_settings_document(settings, e, true);
    equal(json_object_get(doc, "headers"),
          "{\"X-Token\":\"…\",\"x-empty\":\"…\"}");
    assert_string_equal(json_string_value(json_object_get(doc, "url")),
                        "https://example.com/hook?…");
    json_decref(doc);
    doc = endpoint_settings_document(
        settings, settings_endpoint(settings, "plain"), true);
    equal(doc, "{\"url\":\"https://example.com/plain\"}");
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_read_like_the_file),
        cmocka_unit_test(what_is_not_set_comes_from_the_defaults),
        cmocka_unit_test(a_text_is_taken_as_it_is),
        cmocka_unit_test(the_first_wrong_key_is_told),
        cmocka_unit_test(a_tenant_may_not_open_the_guard),
        cmocka_unit_test(a_document_is_bounded),
        cmocka_unit_test(a_pattern_is_bounded),
        cmocka_unit_test(an_error_is_always_utf8),
        cmocka_unit_test(secrets_are_taken_out_and_put_back),
        cmocka_unit_test(a_wiped_document_has_no_text),
        cmocka_unit_test(a_masked_document_has_no_secret),
        cmocka_unit_test(a_patch_is_that_of_rfc_7396),
        cmocka_unit_test(the_subscription_alone_is_that_of_the_whole),
        cmocka_unit_test(a_wrong_subscription_is_refused),
        cmocka_unit_test(one_literal_workspace_is_that_of_the_endpoint),
        cmocka_unit_test(an_endpoint_of_the_file_is_a_document),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
