/* Tests of where: conditions on headers and JSON. */
#include "bounds.h"
#include "headers.h"
#include "string_list.h"
#include "where.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char body[] =
    "{\"data\":{\"priority\":\"high\",\"amount\":250,\"price\":9.5,"
    "\"text\":\"10\",\"key\":\"OPS-7\",\"none\":null,\"empty\":\"\","
    "\"yes\":true,\"list\":[1],\"big\":9007199254740993,"
    "\"below\":-3,\"words\":\"0x10\"}}";

/* Does an event with this body fulfil `field` `kind` `values` (a comma between)? */
static bool holds_in(const char *json, const char *field, enum test_kind kind,
                     const char *values)
{
    struct where_test test = {.kind = kind};
    struct where_field f = {.tests = &test, .count = 1};
    struct where w = {&f, 1};
    struct buf headers;
    struct subject s = {.source = "plane",
                        .type = "issue.created",
                        .workspace = "acme",
                        .body = {json, strlen(json)}};
    const char *why;
    char *copy = gr_strdup(values), *rest = copy;
    bool holds;

    buf_init(&headers, HEADERS_MAX_BYTES);
    headers_put(&headers, "X-Env", (struct bytes){"prod", 4});
    headers_put(&headers, "X-Size", (struct bytes){"42", 2});
    headers_put(&headers, "X-Twice", (struct bytes){"1", 1});
    headers_put(&headers, "X-Twice", (struct bytes){"2", 1});
    s.headers = (struct bytes){headers.data, headers.len};
    for (char *value; (value = strsep(&rest, ",")) != NULL;)
        string_list_add(&test.values, value);
    assert_int_equal(expr_parse(&f.field, field, &why), GR_OK);
    holds = where_holds(&w, &s, NULL);
    subject_fini(&s);
    expr_fini(&f.field);
    string_list_fini(&test.values);
    buf_fini(&headers);
    free(copy);
    return holds;
}

static bool holds(const char *field, enum test_kind kind, const char *values)
{
    return holds_in(body, field, kind, values);
}

static void a_condition_can_list_values(void **state)
{
    (void)state;
    assert_true(holds("json:/data/priority", TEST_IN, "high"));
    assert_true(holds("json:/data/priority", TEST_IN, "urgent,high"));
    assert_false(holds("json:/data/priority", TEST_IN, "urgent,hig,highe"));
    assert_true(holds("header:x-env", TEST_IN, "prod"));
    assert_false(holds("header:x-env", TEST_IN, "PROD"));
    assert_true(holds("json:/data/amount", TEST_IN, "250"));
    assert_true(holds("json:/data/yes", TEST_IN, "true"));
    assert_true(holds("workspace", TEST_IN, "acme"));
    assert_false(holds("json:/data/list", TEST_IN, "1"));
    assert_false(holds("json:/data/nowhere", TEST_IN, ""));
    assert_false(holds("json:/data/none", TEST_IN, "null"));
}

static void a_condition_can_require_a_field(void **state)
{
    static const char *const there[] = {"json:/data/priority",
                                        "json:/data/list", "header:X-Env",
                                        "header:X-Twice"};
    static const char *const missing[] = {"json:/data/none", "json:/data/empty",
                                          "json:/nowhere", "header:X-Other"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(there); i++) {
        assert_true(holds(there[i], TEST_EXISTS, "true"));
        assert_false(holds(there[i], TEST_EXISTS, "false"));
        assert_false(holds(missing[i], TEST_EXISTS, "true"));
        assert_true(holds(missing[i], TEST_EXISTS, "false"));
    }
}

static void a_condition_can_require_a_prefix(void **state)
{
    (void)state;
    assert_true(holds("json:/data/key", TEST_PREFIX, "OPS-"));
    assert_true(holds("json:/data/key", TEST_PREFIX, "OPS-7"));
    assert_false(holds("json:/data/key", TEST_PREFIX, "OPS-77"));
    assert_false(holds("json:/data/key", TEST_PREFIX, "ops"));
    assert_false(holds("json:/data/nowhere", TEST_PREFIX, "x"));
}

static void a_condition_can_bound_a_number(void **state)
{
    (void)state;
    assert_true(holds("json:/data/amount", TEST_ABOVE, "249.9"));
    assert_false(holds("json:/data/amount", TEST_ABOVE, "250"));
    assert_true(holds("json:/data/amount", TEST_AT_LEAST, "250"));
    assert_true(holds("json:/data/amount", TEST_BELOW, "1e3"));
    assert_false(holds("json:/data/amount", TEST_BELOW, "250"));
    assert_true(holds("json:/data/amount", TEST_AT_MOST, "250"));
    assert_true(holds("json:/data/price", TEST_ABOVE, "9"));
    assert_true(holds("json:/data/below", TEST_BELOW, "-2"));
    assert_true(holds("json:/data/text", TEST_AT_LEAST, "9"));
    assert_true(holds("header:X-Size", TEST_ABOVE, "41"));
    /* beyond what a double tells apart */
    assert_true(holds("json:/data/big", TEST_ABOVE, "9007199254740992"));
    assert_false(holds("json:/data/big", TEST_ABOVE, "9007199254740993"));
}

static void text_is_within_no_bound(void **state)
{
    static const enum test_kind kinds[] = {TEST_ABOVE, TEST_AT_LEAST,
                                           TEST_BELOW, TEST_AT_MOST};
    static const char *const fields[] = {
        "json:/data/priority", "json:/data/words", "json:/data/nowhere",
        "json:/data/none",     "json:/data/list",  "json:/data/yes"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t k = 0; k < COUNT_OF(fields); k++)
            assert_false(holds(fields[k], kinds[i], "1"));
}

static void a_body_that_is_not_json_has_no_field(void **state)
{
    (void)state;
    assert_false(holds_in("<x/>", "json:/a", TEST_IN, "1"));
    assert_false(holds_in("<x/>", "json:/a", TEST_EXISTS, "true"));
    assert_true(holds_in("<x/>", "json:/a", TEST_EXISTS, "false"));
    assert_true(holds_in("<x/>", "header:X-Env", TEST_IN, "prod"));
}

static void meaningless_conditions_are_errors(void **state)
{
    (void)state;
    assert_null(where_wrong(TEST_IN, ""));
    assert_null(where_wrong(TEST_ABOVE, "-1.5e3"));
    assert_non_null(where_wrong(TEST_ABOVE, "0x1"));
    assert_non_null(where_wrong(TEST_BELOW, "inf"));
    assert_non_null(where_wrong(TEST_AT_MOST, ""));
    assert_non_null(where_wrong(TEST_EXISTS, "yes"));
    assert_non_null(where_wrong(TEST_PREFIX, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_condition_can_list_values),
        cmocka_unit_test(a_condition_can_require_a_field),
        cmocka_unit_test(a_condition_can_require_a_prefix),
        cmocka_unit_test(a_condition_can_bound_a_number),
        cmocka_unit_test(text_is_within_no_bound),
        cmocka_unit_test(a_body_that_is_not_json_has_no_field),
        cmocka_unit_test(meaningless_conditions_are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
