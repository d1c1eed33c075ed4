/* Tests of routes and arguments: paths, queries and bodies of the management API, and which are
 * refused. */
#include "arguments.h"
#include "clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NOW = 1000000000 };

static struct routes *routes;
static struct arguments_wrong wrong;

static int open_routes(void **state)
{
    (void)state;
    routes = routes_open();
    return 0;
}

static int close_routes(void **state)
{
    (void)state;
    routes_close(routes);
    return 0;
}

/* ---- paths ---- */

static const char *command_at(const char *method, const char *path)
{
    struct route_match m;
    const char *name;

    routes_match(routes, method, path, &m);
    name = m.command ? m.command->name : m.known ? "other method" : "unknown";
    route_match_fini(&m);
    return name;
}

static void test_paths(void **state)
{
    (void)state;
    assert_string_equal(command_at("GET", "/events"), "events");
    assert_string_equal(command_at("HEAD", "/events"), "events");
    assert_string_equal(command_at("GET", "/%65vents"), "events");
    assert_string_equal(command_at("POST", "/endpoints/crm/pause"),
                        "endpoint_pause");
    assert_string_equal(command_at("POST", "/endpoints/a%2Fb/pause"),
                        "endpoint_pause");
    assert_string_equal(command_at("POST", "/events"), "other method");
    assert_string_equal(command_at("get", "/events"), "other method");
    assert_string_equal(command_at("GET", "/endpoints/crm/pause"),
                        "other method");
}

static void test_unknown_paths(void **state)
{
    static const char *const all[] = {"",
                                      "/",
                                      "//",
                                      "/events/",
                                      "//events",
                                      "/Events",
                                      "events",
                                      "/events%00",
                                      "/events%",
                                      "/events%2",
                                      "/event%zz",
                                      "/events%ff",
                                      "/endpoints//pause",
                                      "/endpoints/../events",
                                      "/endpoints/crm%2Fpause/x",
                                      "/endpoints/{name}/pausee",
                                      "/a/b/c/d/e/f/g/h",
                                      "/events/%c0%80/retry",
                                      "/events/\xff/retry"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (strcmp(command_at("POST", all[i]), "unknown") != 0)
            fail_msg("%s is %s", all[i], command_at("POST", all[i]));
}

static void test_path_has_decoded_value(void **state)
{
    struct route_match m;

    (void)state;
    routes_match(routes, "POST", "/endpoints/a%2Fb%20+/pause", &m);
    assert_int_equal(m.value_count, 1);
    assert_string_equal(m.values[0].value, "a/b +");
    assert_int_equal(m.values[0].name_bytes, 4);
    assert_memory_equal(m.values[0].name, "name", 4);
    route_match_fini(&m);
}

static void test_methods_of_path(void **state)
{
    struct route_match m;

    (void)state;
    routes_match(routes, "PUT", "/events", &m);
    assert_true(m.known);
    assert_string_equal(m.methods, "GET, HEAD");
    route_match_fini(&m);
}

static void test_decode(void **state)
{
    char *text;

    (void)state;
    text = percent_decode("a+b%2B%c3%a9x", 12, true);
    assert_string_equal(text, "a b+\xc3\xa9");
    free(text);
    text = percent_decode("%4", 2, true);
    assert_null(text);
    text = percent_decode("%41", 3, false);
    assert_string_equal(text, "A");
    free(text);
}

/* ---- arguments ---- */

/* The arguments as JSON, the caller's; or NULL with `wrong`. */
static char *read_at(const char *method, const char *path, const char *query,
                     const char *body)
{
    struct route_match m;
    json_t *args;
    char *text;

    routes_match(routes, method, path, &m);
    assert_non_null(m.command);
    args = arguments_read(
        &m, "tok_1", query, body != NULL,
        (struct bytes){body ? body : "", body ? strlen(body) : 0}, NOW, &wrong);
    text = args ? json_dumps(args, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(args);
    route_match_fini(&m);
    return text;
}

static void expect(char *got, const char *want)
{
    if (!got)
        fail_msg("refused: %s", wrong.why);
    assert_string_equal(got, want);
    free(got);
}

static void refused(char *got, const char *field, const char *part)
{
    if (got)
        fail_msg("accepted: %s", got);
    assert_string_equal(wrong.field, field);
    if (!strstr(wrong.why, part))
        fail_msg("\"%s\" is not in: %s", part, wrong.why);
}

#define QUERY(q)   read_at("GET", "/events", q, NULL)
#define STATS(q)   read_at("GET", "/endpoints/crm/stats", q, NULL)
#define CREATE(b)  read_at("POST", "/endpoints", NULL, b)
#define ABANDON(b) read_at("POST", "/events/evt_1/abandon", NULL, b)

static void test_query(void **state)
{
    (void)state;
    expect(QUERY(NULL), "{}");
    expect(QUERY(""), "{}");
    expect(QUERY("&&"), "{}");
    expect(QUERY("limit=5&type=a.b+c%2B"), "{\"limit\":5,\"type\":\"a.b c+\"}");
    expect(QUERY("%6cimit=5"), "{\"limit\":5}");
    expect(QUERY("since=1s&until=1970-01-02T00:00:00Z"),
           "{\"since_ms\":999999000,\"until_ms\":86400000}");
    expect(QUERY("status=done"), "{\"status\":\"done\"}");
    expect(read_at("GET", "/gaps", "open=true", NULL), "{\"open\":true}");
}

static void test_wrong_query(void **state)
{
    (void)state;
    refused(QUERY("limit=0"), "limit", "from 1 to 1000");
    refused(QUERY("limit=1001"), "limit", "from 1 to 1000");
    refused(QUERY("limit="), "limit", "whole number");
    refused(QUERY("limit"), "limit", "whole number");
    refused(QUERY("limit=1.0"), "limit", "whole number");
    refused(QUERY("limit=+1"), "limit", "whole number");
    refused(QUERY("limit=%201"), "limit", "whole number");
    refused(QUERY("limit=99999999999999999999"), "limit", "whole number");
    refused(QUERY("limit=1&limit=1"), "limit", "twice");
    refused(QUERY("limit=1&%6cimit=1"), "limit", "twice");
    refused(QUERY("nothing=1"), "nothing", "workspace, source, type");
    refused(QUERY("=1"), "", "there is no argument");
    refused(QUERY("since_ms=1"), "since_ms", "since");
    refused(QUERY("before=1"), "before", "cursor");
    refused(QUERY("since=yesterday"), "since", "7d");
    refused(QUERY("since=1960-01-01"), "since", "needed");
    refused(QUERY("status=maybe"), "status", "is unknown");
    refused(STATS("period=2d"), "period", "period: from 5m to 1h is needed");
    refused(STATS("period=2"), "period", "period: \"2\" needs a unit");
    refused(STATS("period=a"), "period", "period: \"a\" is not a duration");
    refused(QUERY("type=%00"), "type", "NUL");
    refused(QUERY("type=%ff"), "type", "UTF-8");
    refused(QUERY("type=%f"), "type", "hex");
    refused(QUERY("ty%00pe=1"), "", "NUL");
    refused(read_at("GET", "/gaps", "open=yes", NULL), "open", "true or false");
}

static void test_body(void **state)
{
    (void)state;
    expect(ABANDON("{\"endpoint\":\"crm\",\"note\":\"n\"}"),
           "{\"endpoint\":\"crm\",\"event\":\"evt_1\",\"note\":\"n\"}");
    expect(read_at("POST", "/endpoints/crm/pause", "", ""),
           "{\"name\":\"crm\"}");
    expect(read_at("POST", "/endpoints/crm/pause", NULL, "{}"),
           "{\"name\":\"crm\"}");
}

static void test_wrong_body(void **state)
{
    char *deep = gr_alloc(60000);

    (void)state;
    refused(ABANDON(""), "endpoint", "is missing");
    refused(ABANDON("{}"), "endpoint", "is missing");
    refused(ABANDON("[]"), "", "object");
    refused(ABANDON("{"), "", "not JSON");
    assert_true(wrong.body);
    refused(ABANDON("nope"), "", "not JSON");
    refused(ABANDON("{} {}"), "", "not JSON");
    refused(ABANDON("{\"note\":\"a\",\"note\":\"a\"}"), "", "not JSON");
    refused(ABANDON("{\"note\":\"\\u0000\"}"), "", "not JSON");
    refused(ABANDON("{\"note\":\"\xff\"}"), "", "not JSON");
    refused(ABANDON("{\"note\":\"\\ud800\"}"), "", "not JSON");
    refused(ABANDON("{\"note\":5}"), "note", "a text is needed");
    refused(ABANDON("{\"note\":null}"), "note", "a text is needed");
    refused(ABANDON("{\"who\":\"me\"}"), "who", "there is no argument");
    refused(ABANDON("{\"event\":\"evt_2\"}"), "event", "there is no argument");
    refused(CREATE("{\"retry_polcy\":\"default\"}"), "retry_polcy",
            "here (did you mean retry_policy?); there are transport, ");
    refused(CREATE("{\"zzzzzz\":1}"), "zzzzzz", ", retry_policy, ");
    refused(CREATE("{\"timeout\":5}"), "timeout",
            "timeout: a duration as a text, such as \"24h\", is needed");
    refused(CREATE("{\"zzzzzz\":1}"), "zzzzzz", ", description");
    memset(deep, '[', 59999);
    refused(ABANDON(deep), "", "not JSON");
    free(deep);
    refused(read_at("POST", "/endpoints/crm/pause", "name=x", "{}"), "",
            "not into the query");
    refused(read_at("POST", "/endpoints/crm/pause", NULL, "{\"name\":\"x\"}"),
            "name", "there is none");
}

static void test_cursors(void **state)
{
    json_t *next = json_string("1700000000000.123?>~\xc3\xbf");
    char *cursor = cursor_write(next, "tok_1");
    char *query = gr_printf("cursor=%s", cursor);

    (void)state;
    assert_null(strpbrk(cursor, "+/= %&"));
    expect(QUERY(query), "{\"before\":\"1700000000000.123?>~\xc3\xbf\"}");
    json_decref(next);
    free(cursor);
    free(query);
    assert_null(cursor_write(NULL, "tok_1"));
    assert_null(cursor_write(json_null(), "tok_1"));
    refused(QUERY("cursor="), "cursor", "next_cursor");
    refused(QUERY("cursor=%25"), "cursor", "next_cursor");
    refused(QUERY("cursor=bnVsbA"), "cursor", "next_cursor"); /* null */
    next = json_string("1700000000000.123");
    cursor = cursor_write(next, "tok_2"); /* another token's */
    query = gr_printf("cursor=%s", cursor);
    refused(QUERY(query), "cursor", "next_cursor");
    free(query);
    query = gr_printf("cursor=%s", strchr(cursor, '.') + 1);
    refused(QUERY(query), "cursor", "next_cursor");
    json_decref(next);
    free(cursor);
    free(query);
    refused(QUERY("cursor=NQ"), "cursor", "next_cursor"); /* 5 */
    refused(QUERY("cursor=eA"), "cursor", "next_cursor"); /* x */
    query = gr_alloc(13100);
    memcpy(query, "cursor=", 7);
    memset(query + 7, 'A', 13000);
    refused(QUERY(query), "cursor", "next_cursor");
    free(query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_path_has_decoded_value),
        cmocka_unit_test(test_methods_of_path),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_wrong_query),
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_wrong_body),
        cmocka_unit_test(test_cursors),
    };

    return cmocka_run_group_tests(tests, open_routes, close_routes);
}
