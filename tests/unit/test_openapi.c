/* The OpenAPI document and its page: each route of the declarations is in them, each reference
 * leads somewhere, and texts are escaped. tests/flow/test_api_document.py compares the document
 * with what the console really does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include "commands.h"
#include "openapi.h"
#include <cmocka.h>
#include <string.h>

static const struct openapi_error errors[] = {
    {400, "invalid_argument", "a parameter is <wrong>"},
    {400, "invalid_body", "the body is not JSON"},
    {404, "not_found", "there is no such thing"},
    {415, "unsupported_type", "it is not JSON"},
    {0}};

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Follows "#/components/responses/NotFound". */
static json_t *follow(json_t *document, const char *ref)
{
    char *copy = gr_strdup(ref), *rest = copy, *name;
    json_t *at = document;

    assert_string_equal(strsep(&rest, "/"), "#");
    while ((name = strsep(&rest, "/")))
        at = json_object_get(at, name);
    free(copy);
    return at;
}

static void check_references(json_t *document, json_t *at)
{
    const char *key;
    json_t *v;
    size_t i;

    json_array_foreach(at, i, v) check_references(document, v);
    json_object_foreach(at, key, v)
    {
        if (strcmp(key, "$ref") == 0)
            assert_non_null(follow(document, json_string_value(v)));
        check_references(document, v);
    }
}

static void each_route_is_in_the_document(void **state)
{
    json_t *document = openapi_document(errors), *paths, *operation;
    size_t count = 0;

    (void)state;
    assert_string_equal(text_of(document, "openapi"), "3.1.0");
    paths = json_object_get(document, "paths");
    for (size_t i = 0; command_lists[i].commands; i++)
        for (const struct command_spec *const *c = command_lists[i].commands;
             *c; c++)
            for (size_t r = 0;
                 r < COUNT_OF((*c)->routes) && (*c)->routes[r].path; r++) {
                char method[8] = "";

                for (size_t n = 0; (*c)->routes[r].method[n]; n++)
                    method[n] = (char)((*c)->routes[r].method[n] | 0x20);
                operation = json_object_get(
                    json_object_get(paths, (*c)->routes[r].path), method);
                assert_non_null(operation);
                assert_non_null(
                    strstr(text_of(operation, "description"), (*c)->help));
                count++;
            }
    assert_true(count > 0);
    check_references(document, document);
    json_decref(document);
}

static void errors_are_described_by_status(void **state)
{
    json_t *document = openapi_document(errors), *response, *operation;

    (void)state;
    response = follow(document, "#/components/responses/400");
    assert_string_equal(text_of(response, "description"),
                        "`invalid_argument`: a parameter is <wrong>. "
                        "`invalid_body`: the body is not JSON.");
    operation = json_object_get(
        json_object_get(json_object_get(document, "paths"), "/events"), "get");
    operation = json_object_get(operation, "responses");
    assert_non_null(json_object_get(operation, "404"));
    assert_null(json_object_get(operation, "415")); /* it has no body */
    json_decref(document);
}

static void operations_have_different_names(void **state)
{
    json_t *document = openapi_document(errors), *seen = json_object(),
           *methods, *o;
    const char *path, *method;

    (void)state;
    json_object_foreach(json_object_get(document, "paths"), path, methods)
        json_object_foreach(methods, method, o)
    {
        assert_null(json_object_get(seen, text_of(o, "operationId")));
        json_object_set_new(seen, text_of(o, "operationId"), json_true());
    }
    json_decref(seen);
    json_decref(document);
}

/* ---- schemas ---- */

static const char *const colours[] = {"red", "green", NULL};
static const struct value item = {
    .name = "item", .type = VALUE_TEXT, .help = "one", .min = 1, .max = 9};
static const struct value fields[] = {
    {.name = "since_ms", .type = VALUE_TIME_MS, .help = "from"},
    {.name = "colour",
     .type = VALUE_CHOICE,
     .help = "c",
     .choices = colours,
     .flags = VALUE_NULL},
    {.name = "n",
     .type = VALUE_INTEGER,
     .help = "count",
     .min = 1,
     .max = 5,
     .otherwise = 2,
     .flags = VALUE_REQUIRED},
    {.name = "all",
     .type = VALUE_LIST,
     .help = "items",
     .item = &item,
     .min = 1,
     .max = 3,
     .flags = VALUE_ABSENT},
    {0}};
static const struct value whole = {
    .name = "whole", .type = VALUE_OBJECT, .help = "", .fields = fields};

static void assert_schema(bool request, const char *expected)
{
    json_t *schema = openapi_schema(&whole, request), *want;
    json_error_t error;

    want = json_loads(expected, 0, &error);
    assert_non_null(want);
    if (!json_equal(schema, want)) {
        char *text = json_dumps(schema, JSON_INDENT(1));

        fail_msg("%s", text);
    }
    json_decref(want);
    json_decref(schema);
}

static void a_request_has_bounds_and_public_names(void **state)
{
    (void)state;
    assert_schema(
        true,
        "{\"type\":\"object\",\"additionalProperties\":false,"
        "\"required\":[\"n\"],\"properties\":{"
        "\"since\":{\"anyOf\":[{\"type\":\"string\",\"format\":\"date-time\"},"
        "{\"type\":\"string\",\"pattern\":\"^[0-9]{1,6}(ms|s|m|h|d)$\"}],"
        "\"description\":\"from\"},"
        "\"colour\":{\"enum\":[\"red\",\"green\",null],\"description\":\"c\"},"
        "\"n\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":5,"
        "\"default\":2,\"description\":\"count\"},"
        "\"all\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":3,"
        "\"description\":\"items\",\"items\":{\"type\":\"string\","
        "\"minLength\":1,\"maxLength\":9,\"pattern\":\"^[^\\\\u0000]*$\","
        "\"description\":\"one\"}}}}");
}

static void a_reply_requires_what_is_always_there(void **state)
{
    json_t *schema = openapi_schema(&whole, false);
    char *required = json_dumps(json_object_get(schema, "required"), 0);

    (void)state;
    assert_string_equal(required, "[\"since_ms\", \"colour\", \"n\"]");
    assert_null(json_object_get(schema, "additionalProperties"));
    free(required);
    json_decref(schema);
}

/* ---- the page ---- */

static void the_page_has_each_path_and_no_script(void **state)
{
    json_t *document = openapi_document(errors), *methods;
    const char *path;
    struct buf page;

    (void)state;
    buf_init(&page, 4 * 1024 * 1024);
    openapi_page(&page, errors);
    assert_false(page.failed);
    json_object_foreach(json_object_get(document, "paths"), path, methods)
    {
        char *shown = gr_printf("/api/v1%s</code>", path);

        assert_non_null(strstr(page.data, shown));
        free(shown);
    }
    assert_non_null(strstr(page.data, "a parameter is &lt;wrong&gt;"));
    assert_null(strstr(page.data, "<script"));
    assert_null(strstr(page.data, "http://"));
    assert_null(strstr(page.data, "https://"));
    buf_fini(&page);
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_route_is_in_the_document),
        cmocka_unit_test(errors_are_described_by_status),
        cmocka_unit_test(operations_have_different_names),
        cmocka_unit_test(a_request_has_bounds_and_public_names),
        cmocka_unit_test(a_reply_requires_what_is_always_there),
        cmocka_unit_test(the_page_has_each_path_and_no_script),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
