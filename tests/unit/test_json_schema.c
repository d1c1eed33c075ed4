/* Tests of json_schema: which values fit a schema, which schemas are refused, and the bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "alloc.h"
#include "json_schema.h"
#include "json_text.h"
#include <string.h>

static struct json_schema_wrong wrong;

static struct json_schema *schema_of(const char *text)
{
    return json_schema_new((struct bytes){text, strlen(text)}, &wrong);
}

static bool fits(const struct json_schema *s, const char *text)
{
    json_error_t error;
    json_t *v = json_read(
        (struct bytes){text, strlen(text)},
        JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
    bool is;

    assert_non_null(v);
    is = json_schema_fits(s, v, &wrong);
    json_decref(v);
    return is;
}

/* Values that fit, and those that do not; each list ends with NULL. */
struct vector {
    const char *schema, *good[8], *bad[8];
};

static const struct vector vectors[] = {
    {"true", {"1", "null", "{}"}, {NULL}},
    {"{}", {"1", "null", "{}"}, {NULL}},
    {"false", {NULL}, {"1", "null"}},
    {"{\"type\":\"integer\"}",
     {"0", "-3", "2.0", "1e3"},
     {"1.5", "\"1\"", "true", "null"}},
    {"{\"type\":\"number\"}", {"1", "1.5"}, {"\"1\"", "[]"}},
    {"{\"type\":[\"string\",\"null\"]}", {"\"\"", "null"}, {"0", "false"}},
    {"{\"type\":\"boolean\"}", {"true", "false"}, {"0", "\"true\""}},
    {"{\"type\":\"array\"}", {"[]"}, {"{}"}},
    {"{\"type\":\"object\"}", {"{}"}, {"[]"}},
    {"{\"enum\":[1,\"a\",null,{\"b\":[2]}]}",
     {"1", "1.0", "\"a\"", "null", "{\"b\":[2]}"},
     {"2", "\"1\"", "{\"b\":[3]}", "{}"}},
    {"{\"const\":{\"a\":1,\"b\":2}}",
     {"{\"b\":2,\"a\":1}"},
     {"{\"a\":1}", "{\"a\":1,\"b\":2,\"c\":3}"}},
    {"{\"const\":null}", {"null"}, {"0", "false"}},
    {"{\"minimum\":1,\"maximum\":3}",
     {"1", "3", "\"x\""},
     {"0.999", "3.001", "-4"}},
    {"{\"exclusiveMinimum\":1,\"exclusiveMaximum\":3}", {"2"}, {"1", "3"}},
    {"{\"multipleOf\":0.01}", {"19.99", "0", "1e3"}, {"0.001", "19.999"}},
    {"{\"multipleOf\":2}", {"4", "-6"}, {"3", "0.5"}},
    {"{\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"äöü\"", "7"},
     {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\""}},
    {"{\"pattern\":\"^[A-Z]{2}-\\\\d+$\"}",
     {"\"DE-1\"", "7", "null"},
     {"\"DE-\"", "\"xDE-1\"", "\"\""}},
    {"{\"pattern\":\"b\",\"maxLength\":2}", {"\"ab\""}, {"\"abc\"", "\"a\""}},
    {"{\"patternProperties\":{\"^n_\":{\"type\":\"integer\"},\"_c$\":"
     "{\"minimum\":3}}}",
     {"{}", "{\"n_a\":1,\"b\":\"x\"}", "{\"n_c\":3}", "{\"a_c\":\"x\"}"},
     {"{\"n_a\":1.5}", "{\"n_c\":2}", "{\"n_c\":3.5}", "{\"c\":0,\"_c\":0}"}},
    {"{\"properties\":{\"a1\":{\"minimum\":5}},\"patternProperties\":{\"^a\":"
     "{\"type\":\"number\"}},\"additionalProperties\":false}",
     {"{\"a1\":5,\"a2\":1}", "{}"},
     {"{\"a1\":4}", "{\"a1\":\"x\"}", "{\"b\":1}", "{\"a2\":\"x\"}"}},
    {"{\"propertyNames\":{\"pattern\":\"^[a-z]+$\"}}",
     {"{\"ab\":1}"},
     {"{\"A\":1}"}},
    {"{\"items\":{\"type\":\"integer\"}}", {"[]", "[1,2]", "7"}, {"[1,\"a\"]"}},
    {"{\"prefixItems\":[{\"type\":\"string\"}],\"items\":false}",
     {"[]", "[\"a\"]"},
     {"[1]", "[\"a\",1]"}},
    {"{\"minItems\":1,\"maxItems\":2}", {"[1]", "[1,2]"}, {"[]", "[1,2,3]"}},
    {"{\"contains\":{\"const\":7}}", {"[1,7]"}, {"[]", "[1]"}},
    {"{\"contains\":{\"const\":7},\"minContains\":2,\"maxContains\":3}",
     {"[7,7]", "[7,1,7,7]"},
     {"[7]", "[7,7,7,7]"}},
    {"{\"contains\":{\"const\":7},\"minContains\":0}", {"[]"}, {NULL}},
    {"{\"uniqueItems\":true}",
     {"[]", "[1,\"1\",true,null,[1],{\"a\":1}]", "[[1,2],[2,1]]"},
     {"[1,1.0]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]", "[null,1,null]",
      "[[\"x\"],[\"x\"]]", "[0,-0.0]"}},
    {"{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}",
     {"{\"a\":1}", "{\"a\":1,\"b\":\"x\"}", "[]"},
     {"{}", "{\"a\":\"x\"}", "{\"A\":1}"}},
    {"{\"properties\":{\"a\":true},\"additionalProperties\":false}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":1}", "{\"a\":1,\"aa\":1}"}},
    {"{\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{\"x\":1}"},
     {"{\"x\":\"1\"}"}},
    {"{\"minProperties\":1,\"maxProperties\":1}",
     {"{\"a\":1}"},
     {"{}", "{\"a\":1,\"b\":1}"}},
    {"{\"propertyNames\":{\"maxLength\":2}}", {"{\"ab\":1}"}, {"{\"abc\":1}"}},
    {"{\"dependentRequired\":{\"card\":[\"cvc\"]}}",
     {"{}", "{\"cvc\":1}", "{\"card\":1,\"cvc\":1}"},
     {"{\"card\":1}"}},
    {"{\"allOf\":[{\"minimum\":1},{\"maximum\":3}]}", {"2"}, {"0", "4"}},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":3}]}",
     {"\"a\"", "3"},
     {"2"}},
    {"{\"oneOf\":[{\"multipleOf\":2},{\"multipleOf\":3}]}",
     {"2", "3", "4"},
     {"1", "6"}},
    {"{\"not\":{\"type\":\"string\"}}", {"1"}, {"\"a\""}},
    {"{\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
     "\"then\":{\"required\":[\"a\"]},\"else\":{\"required\":[\"b\"]}}",
     {"{\"k\":1,\"a\":0}", "{\"b\":0}", "{\"k\":2,\"b\":0}"},
     {"{\"k\":1,\"b\":0}", "{\"a\":0}"}},
    {"{\"$ref\":\"#/$defs/a%20b~1c\",\"maximum\":5,\"$defs\":{\"a b/c\":"
     "{\"minimum\":1}}}",
     {"1", "5"},
     {"0", "6"}},
    {"{\"properties\":{\"next\":{\"$ref\":\"#\"},\"n\":{\"type\":\"integer\"}},"
     "\"required\":[\"n\"]}",
     {"{\"n\":1}", "{\"n\":1,\"next\":{\"n\":2,\"next\":{\"n\":3}}}"},
     {"{\"n\":1,\"next\":{\"n\":2,\"next\":{}}}"}},
    {"{\"$ref\":\"#/definitions/t\",\"definitions\":{\"t\":true}}",
     {"1"},
     {NULL}},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$id\":\"x\","
     "\"title\":\"t\",\"$ref\":\"#/definitions/t\",\"definitions\":{\"t\":"
     "{\"type\":\"string\",\"format\":\"email\"}}}",
     {"\"not an address\""},
     {"1"}},
};

static void values_fit_or_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        const struct vector *v = &vectors[i];
        struct json_schema *s = schema_of(v->schema);

        print_message("%s\n", v->schema);
        assert_non_null(s);
        for (size_t k = 0; k < COUNT_OF(v->good) && v->good[k]; k++)
            if (!fits(s, v->good[k]))
                fail_msg("%s does not fit: %s %s", v->good[k], wrong.path,
                         wrong.why);
        for (size_t k = 0; k < COUNT_OF(v->bad) && v->bad[k]; k++) {
            if (fits(s, v->bad[k]))
                fail_msg("%s fits", v->bad[k]);
            assert_true(*wrong.rule && *wrong.why);
        }
        json_schema_free(s);
    }
}

static void the_place_and_the_rule_are_named(void **state)
{
    struct json_schema *s = schema_of(
        "{\"properties\":{\"a/b~\":{\"items\":{\"properties\":{\"n\":"
        "{\"minimum\":3}}}}}}");

    (void)state;
    assert_false(fits(s, "{\"a/b~\":[{},{\"n\":2}]}"));
    assert_string_equal(wrong.path, "/a~1b~0/1/n");
    assert_string_equal(wrong.rule, "minimum");
    assert_string_equal(wrong.why, "must be at least 3");
    json_schema_free(s);
}

/* A schema, and the path of what is wrong with it. */
static void what_is_not_checked_is_refused(void **state)
{
    static const char *const all[][2] = {
        {"{", ""},
        {"3", ""},
        {"\"x\"", ""},
        {"{\"type\":\"money\"}", "/type"},
        {"{\"type\":[]}", "/type"},
        {"{\"requird\":[\"a\"]}", "/requird"},
        {"{\"required\":\"a\"}", "/required"},
        {"{\"properties\":[]}", "/properties"},
        {"{\"properties\":{\"a\":{\"pattern\":\"a(?=b)\"}}}",
         "/properties/a/pattern"},
        {"{\"pattern\":7}", "/pattern"},
        {"{\"patternProperties\":[]}", "/patternProperties"},
        {"{\"patternProperties\":{\"a\":{},\"(\":{}}}", "/patternProperties/("},
        {"{\"patternProperties\":{\"a\":7}}", "/patternProperties/a"},
        {"{\"items\":[{}]}", "/items"},
        {"{\"anyOf\":[]}", "/anyOf"},
        {"{\"anyOf\":[{},7]}", "/anyOf/1"},
        {"{\"minLength\":-1}", "/minLength"},
        {"{\"minLength\":1.5}", "/minLength"},
        {"{\"minimum\":\"1\"}", "/minimum"},
        {"{\"exclusiveMinimum\":true}", "/exclusiveMinimum"},
        {"{\"multipleOf\":0}", "/multipleOf"},
        {"{\"uniqueItems\":1}", "/uniqueItems"},
        {"{\"dependentRequired\":{\"a\":1}}", "/dependentRequired"},
        {"{\"$ref\":\"https://example.com/a\"}", "/$ref"},
        {"{\"$ref\":\"other.json#/a\"}", "/$ref"},
        {"{\"$ref\":\"#/$defs/none\"}", "/$ref"},
        {"{\"$ref\":\"#anchor\"}", "/$ref"},
        {"{\"$ref\":\"#/%a\"}", "/$ref"},
        {"{\"$ref\":\"#/%\"}", "/$ref"},
        {"{\"properties\":{\"a\":{\"$ref\":\"#/enum/0\"}},\"enum\":[{}]}",
         "/properties/a/$ref"},
        {"{\"$ref\":\"#\"}", ""},
        {"{\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/a\"}]}}}", ""},
        {"{\"$defs\":{\"unused\":{\"type\":1}}}", "/$defs/unused/type"},
        {"{\"items\":{\"$id\":\"x\"}}", "/items/$id"},
        {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\"}",
         "/$schema"},
        {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"items\":"
         "{\"$ref\":\"#/definitions/a\",\"type\":\"string\"},\"definitions\":"
         "{\"a\":{}}}",
         "/items"},
        {"{\"type\":\"string\",\"type\":\"null\"}", ""},
        {"{\"ty\\u0000pe\":1}", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        print_message("%s\n", all[i][0]);
        assert_null(schema_of(all[i][0]));
        assert_string_equal(wrong.path, all[i][1]);
        assert_true(*wrong.why);
    }
}

/* ---- bounds ---- */

static void repeat(struct buf *out, const char *text, int n)
{
    for (int i = 0; i < n; i++)
        buf_puts(out, text);
}

static struct json_schema *repeated_schema(const char *before, int n,
                                           const char *middle,
                                           const char *after)
{
    struct json_schema *s;
    struct buf text;

    buf_init(&text, 1024 * 1024);
    repeat(&text, before, n);
    buf_puts(&text, middle);
    repeat(&text, after, n);
    s = json_schema_new((struct bytes){text.data, text.len}, &wrong);
    buf_fini(&text);
    return s;
}

static void schemas_are_bounded(void **state)
{
    struct json_schema *s = repeated_schema(
        "{\"items\":", JSON_SCHEMA_DEPTH_MAX - 1, "{}", "}");
    struct buf text;

    (void)state;
    assert_non_null(s);
    json_schema_free(s);
    assert_null(
        repeated_schema("{\"items\":", JSON_SCHEMA_DEPTH_MAX, "{}", "}"));
    buf_init(&text, 2 * JSON_SCHEMA_MAX_BYTES);
    buf_puts(&text, "{\"title\":\"");
    repeat(&text, "x", JSON_SCHEMA_MAX_BYTES);
    buf_puts(&text, "\"}");
    assert_null(json_schema_new((struct bytes){text.data, text.len}, &wrong));
    buf_reset(&text);
    buf_puts(&text, "{\"anyOf\":[");
    repeat(&text, "{},", 4096);
    buf_puts(&text, "{}]}");
    assert_null(json_schema_new((struct bytes){text.data, text.len}, &wrong));
    buf_fini(&text);
}

static void checks_are_bounded(void **state)
{
    struct json_schema *s;
    struct buf text;

    (void)state;
    buf_init(&text, 1024 * 1024);
    buf_puts(&text, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
    for (int i = 0; i < 40; i++)
        buf_printf(&text,
                   "\"a%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/a%d\"},"
                   "{\"$ref\":\"#/$defs/a%d\"}]},",
                   i, i + 1, i + 1);
    buf_puts(&text, "\"a40\":{\"type\":\"string\"}}}");
    s = json_schema_new((struct bytes){text.data, text.len}, &wrong);
    assert_non_null(s);
    assert_true(fits(s, "\"a\""));
    assert_false(fits(s, "1"));
    assert_string_equal(wrong.rule, "steps");
    json_schema_free(s);
    s = schema_of("{\"items\":{\"$ref\":\"#\"}}");
    buf_reset(&text);
    repeat(&text, "[", 1000);
    repeat(&text, "]", 1000);
    buf_put(&text, "", 1);
    assert_false(fits(s, text.data));
    assert_string_equal(wrong.rule, "steps");
    json_schema_free(s);
    /* `not` does not turn a check that gave up into one that fits. */
    s = schema_of("{\"not\":{\"$ref\":\"#/$defs/deep\"},\"$defs\":{\"deep\":"
                  "{\"items\":{\"$ref\":\"#/$defs/deep\"}}}}");
    assert_false(fits(s, text.data));
    assert_string_equal(wrong.rule, "steps");
    json_schema_free(s);
    buf_fini(&text);
}

/* The time of a pattern counts as steps, so hostile ones end, and so do many harmless ones. */
static void patterns_are_bounded(void **state)
{
    struct json_schema *s = schema_of("{\"pattern\":\"^(a|b)*a.{1000}x\"}");
    struct buf text;

    (void)state;
    assert_non_null(s);
    buf_init(&text, 1024 * 1024);
    buf_puts(&text, "\"");
    repeat(&text, "ab", 10 * 1000);
    buf_puts(&text, "\"");
    buf_put(&text, "", 1);
    assert_false(fits(s, text.data));
    assert_string_equal(wrong.rule, "steps");
    json_schema_free(s);
    s = schema_of("{\"pattern\":\"^(a|b)*$\"}");
    assert_true(fits(s, text.data));
    json_schema_free(s);
    /* All patterns of a schema share the number of states. */
    assert_null(schema_of("{\"properties\":{\"a\":{\"pattern\":\"a{5000}\"},"
                          "\"b\":{\"pattern\":\"xa{5000}\"}}}"));
    assert_string_equal(wrong.path, "/properties/b/pattern");
    assert_non_null(strstr(wrong.why, "character 3:"));
    /* A match costs at least what it takes to begin it. */
    s = schema_of("{\"items\":{\"pattern\":\"^b|a{8000}\"}}");
    assert_non_null(s);
    buf_reset(&text);
    buf_puts(&text, "[\"b\"");
    repeat(&text, ",\"b\"", 5000);
    buf_puts(&text, "]");
    buf_put(&text, "", 1);
    assert_false(fits(s, text.data));
    assert_string_equal(wrong.rule, "steps");
    json_schema_free(s);
    buf_fini(&text);
}

static void a_pattern_is_named(void **state)
{
    struct json_schema *s = schema_of(
        "{\"properties\":{\"sku\":{\"pattern\":\"^[a-z]+$\"}}}");

    (void)state;
    assert_false(fits(s, "{\"sku\":\"A\"}"));
    assert_string_equal(wrong.path, "/sku");
    assert_string_equal(wrong.rule, "pattern");
    assert_string_equal(wrong.why, "must match ^[a-z]+$");
    json_schema_free(s);
}

static void long_paths_are_cut(void **state)
{
    struct json_schema *s = schema_of(
        "{\"additionalProperties\":{\"$ref\":\"#\"},\"not\":{\"const\":1}}");
    struct buf text;

    (void)state;
    buf_init(&text, 1024 * 1024);
    repeat(&text, "{\"äää\":", 100);
    buf_puts(&text, "1");
    repeat(&text, "}", 100);
    buf_put(&text, "", 1);
    assert_false(fits(s, text.data));
    assert_true(strlen(wrong.path) >= JSON_SCHEMA_PATH_BYTES - 3);
    assert_true(utf8_valid((struct bytes){wrong.path, strlen(wrong.path)}));
    json_schema_free(s);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_fit_or_not),
        cmocka_unit_test(the_place_and_the_rule_are_named),
        cmocka_unit_test(what_is_not_checked_is_refused),
        cmocka_unit_test(schemas_are_bounded),
        cmocka_unit_test(checks_are_bounded),
        cmocka_unit_test(patterns_are_bounded),
        cmocka_unit_test(a_pattern_is_named),
        cmocka_unit_test(long_paths_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
