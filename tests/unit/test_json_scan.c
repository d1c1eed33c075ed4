/* Tests of json_scan: it finds the values that Jansson finds, and leaves the rest to
 * Jansson. */
#include "alloc.h"
#include "expr.h"
#include "headers.h"
#include "json_scan.h"
#include "json_text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FLAGS = JSON_DECODE_ANY | JSON_ALLOW_NUL, MIB = 1 << 20 };

/* A literal with its length, as it may contain a 0 byte. */
#define TEXT(s)          \
    {                    \
        s, sizeof(s) - 1 \
    }

static struct bytes whole(const struct buf *b)
{
    return (struct bytes){b->data, b->len};
}

static void repeat(struct buf *b, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        buf_puts(b, text);
}

static enum json_scanned look(struct bytes text, const char *pointer)
{
    struct bytes value;
    size_t read_bytes = 0;

    return json_scan(text, pointer, &value, &read_bytes);
}

/* "" when it is not found; "?" when only Jansson can say. */
static const char *found(const char *text, const char *pointer)
{
    static char out[200];
    struct bytes value = {"", 0};
    size_t read_bytes = 0;
    enum json_scanned scanned = json_scan((struct bytes){text, strlen(text)},
                                          pointer, &value, &read_bytes);

    if (scanned == JSON_SCAN_UNSURE)
        return "?";
    if (scanned == JSON_SCAN_ABSENT)
        return "";
    snprintf(out, sizeof out, "%.*s", (int)value.n, (const char *)value.p);
    return out;
}

static void pointers_lead_to_strings_of_values(void **state)
{
    static const char text[] =
        " { \"a\" : [ 10 , {\"b\":\"x\"} , [ ] ] , \"\":1.50 ,"
        "\"s/t\":true, \"m~n\":null, \"a\\u0062\" : 2 }\r\n";
    static const char plain[] =
        " { \"a\" : [ 10 , {\"b\":\"x\"} , [ ] ] , \"\":1.50 ,"
        "\"s/t\":true, \"m~n\":null, \"ab\" : -0 }\r\n";
    static const struct {
        const char *pointer, *value;
    } all[] = {
        {"/a/0", "10"},
        {"/a/1/b", "\"x\""},
        {"/a/1", "{\"b\":\"x\"}"},
        {"/a/2", "[ ]"},
        {"/", "1.50"},
        {"/s~1t", "true"},
        {"/m~0n", "null"},
        {"/ab", "-0"},
        {"/a/3", ""},
        {"/a/00", ""},
        {"/a/-", ""},
        {"/a/1x", ""},
        {"/a/99999999999999999999", ""},
        {"/a/1/b/c", ""},
        {"/ab/0", ""},
        {"/a/1/", ""},
        {"/s", ""},
        {"/abc", ""},
        {"/m~1n", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++)
        assert_string_equal(found(plain, all[i].pointer), all[i].value);
    assert_string_equal(found(" [1 , 2]\n", ""), "[1 , 2]");
    assert_string_equal(found("\"x\"", ""), "\"x\"");
    assert_string_equal(found("7", "/a"), "");
    /* A name with an escape is left to Jansson. */
    assert_string_equal(found(text, "/a/0"), "?");
}

static void of_equal_names_the_last_counts(void **state)
{
    (void)state;
    assert_string_equal(found("{\"a\":1,\"b\":2,\"a\":3}", "/a"), "3");
    assert_string_equal(found("{\"a\":{\"b\":1},\"a\":{}}", "/a/b"), "");
    assert_string_equal(found("{\"a\":{},\"a\":{\"b\":1,\"b\":[]}}", "/a/b"),
                        "[]");
    assert_string_equal(found("{\"a\":{\"b\":1},\"a\":2}", "/a/b"), "");
    /* Names deeper down are others. */
    assert_string_equal(found("{\"x\":{\"a\":1}}", "/a"), "");
    assert_string_equal(found("[[1],2]", "/1"), "2");
}

static const struct bytes accepted[] = {
    TEXT("null"),
    TEXT("true"),
    TEXT("false"),
    TEXT("0"),
    TEXT("-0"),
    TEXT("-12"),
    TEXT("9223372036854775807"),
    TEXT("-9223372036854775808"),
    TEXT("1e0"),
    TEXT("1E+99"),
    TEXT("-1.5e-99"),
    TEXT("0.10"),
    TEXT("\"\""),
    TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00Ff\\u0000\""),
    TEXT("\"\\ud83d\\ude00\""),
    TEXT("\"\x7f caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf\""),
    TEXT("\"\xed\x9f\xbf\xee\x80\x80\""),
    TEXT("[]"),
    TEXT("{}"),
    TEXT("\t[ \n{ \r} , [ ] , \"a\" ]  "),
    TEXT("{\"\":{\"\":[]},\"caf\xc3\xa9\":1}"),
};

/* Not JSON: Jansson refuses these, too. */
static const struct bytes refused[] = {
    TEXT(""),
    TEXT(" "),
    TEXT("nul"),
    TEXT("nullx"),
    TEXT("True"),
    TEXT("'a'"),
    TEXT("NaN"),
    TEXT("-"),
    TEXT("+1"),
    TEXT("01"),
    TEXT("-01"),
    TEXT("00"),
    TEXT(".5"),
    TEXT("1."),
    TEXT("1.e1"),
    TEXT("1e"),
    TEXT("1e+"),
    TEXT("0x10"),
    TEXT("1 2"),
    TEXT("\""),
    TEXT("\"a"),
    TEXT("\"\\\""),
    TEXT("\"\\"),
    TEXT("\"\\x\""),
    TEXT("\"\\\0\""),
    TEXT("\"\\u\""),
    TEXT("\"\\u12g4\""),
    TEXT("\"\\u123"),
    TEXT("\"\n\""),
    TEXT("\"\0\""),
    TEXT("\"1234567\n\""),
    TEXT("\"\x1f\""),
    TEXT("\"\x80\""),
    TEXT("\"\xc3\""),
    TEXT("\"\xc3"),
    TEXT("\"\xc0\xaf\""),
    TEXT("\"\xe0\x80\xaf\""),
    TEXT("\"\xed\xa0\x80\""),
    TEXT("\"\xf4\x90\x80\x80\""),
    TEXT("\"\xf8\x88\x80\x80\x80\""),
    TEXT("\"\xff\""),
    TEXT("\xef\xbb\xbf{}"),
    TEXT("["),
    TEXT("[1"),
    TEXT("[1,"),
    TEXT("[1,]"),
    TEXT("[,1]"),
    TEXT("[1 2]"),
    TEXT("[]]"),
    TEXT("[}"),
    TEXT("{"),
    TEXT("{\"a\""),
    TEXT("{\"a\":"),
    TEXT("{\"a\":1"),
    TEXT("{\"a\":1,}"),
    TEXT("{\"a\" 1}"),
    TEXT("{a:1}"),
    TEXT("{1:1}"),
    TEXT("{\"a\":1]"),
    TEXT("{}x"),
    TEXT("{}\0"),
    TEXT("\0"),
    TEXT("// c\n1"),
    TEXT("{\"a\\u0000b\":1}"),
};

/* Jansson decides, in either direction. */
static const struct bytes unsure[] = {
    TEXT("9223372036854775808"),
    TEXT("-9223372036854775809"),
    TEXT("[123456789012345678901234567890]"),
    TEXT("1e100"),
    TEXT("1e999"),
    TEXT("-1e999"),
    TEXT("1e0001"),
    TEXT("\"\\ud83d\""),
    TEXT("\"\\ud83d\\u0041\""),
    TEXT("\"\\ud83dx\""),
    TEXT("\"\\ude00\""),
    TEXT("{\"\\u0061\":1}"),
    TEXT("{\"a\\n\":1}"),
};

/* In memory of exactly its size, so that a read beyond it is seen. */
static enum json_scanned look_exactly(struct bytes text)
{
    char *copy = gr_alloc(text.n);
    enum json_scanned scanned;

    memcpy(copy, text.p, text.n);
    scanned = look((struct bytes){copy, text.n}, "");
    free(copy);
    return scanned;
}

static bool jansson_accepts(struct bytes text)
{
    json_t *doc = json_loadb(text.p, text.n, FLAGS, NULL);

    json_decref(doc);
    return doc != NULL;
}

static void the_scanner_accepts_what_jansson_accepts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        assert_int_equal(look_exactly(accepted[i]), JSON_SCAN_FOUND);
        assert_true(jansson_accepts(accepted[i]));
    }
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_int_equal(look_exactly(refused[i]), JSON_SCAN_UNSURE);
        assert_false(jansson_accepts(refused[i]));
    }
    for (size_t i = 0; i < COUNT_OF(unsure); i++)
        assert_int_equal(look_exactly(unsure[i]), JSON_SCAN_UNSURE);
    assert_int_equal(look((struct bytes){NULL, 0}, "/a"), JSON_SCAN_UNSURE);
}

/* "" when there is none; "?" when only Jansson can say. */
static const char *data_of(const char *text)
{
    static char out[400];
    struct bytes value = {"", 0};
    enum json_scanned scanned = json_scan_member(
        (struct bytes){text, strlen(text)}, "data", &value);

    if (scanned == JSON_SCAN_UNSURE)
        return "?";
    snprintf(out, sizeof out, "%.*s", (int)value.n, (const char *)value.p);
    return scanned == JSON_SCAN_FOUND ? out : "";
}

static void equal_names_are_left_to_jansson(void **state)
{
    struct buf names;

    (void)state;
    assert_string_equal(data_of(" {\"a\":{\"data\":1},\"data\" : [1, {}] }"),
                        "[1, {}]");
    assert_string_equal(data_of("{\"a\":1}"), "");
    assert_string_equal(data_of("[{\"data\":1}]"), "");
    assert_string_equal(data_of("{\"data\":1,\"data\":1}"), "?");
    assert_string_equal(data_of("{\"data\":{\"b\":1,\"c\":2,\"b\":1}}"), "?");
    assert_string_equal(data_of("{\"data\":[{\"b\":{\"x\":1,\"x\":2}}]}"), "?");
    assert_string_equal(data_of("{\"data\":[{\"b\":1},{\"b\":1}]}"),
                        "[{\"b\":1},{\"b\":1}]");
    assert_string_equal(data_of("{\"d\\u0061ta\":1,\"data\":2}"), "?");
    assert_string_equal(data_of("{\"data\":1} {"), "?");
    assert_string_equal(data_of(""), "?");
    buf_init(&names, 1000);
    buf_puts(&names, "{\"data\":7");
    for (int i = 1; i < 32; i++)
        buf_printf(&names, ",\"%d\":0", i);
    buf_puts(&names, "}");
    assert_string_equal(data_of(names.data), "7");
    names.len--;
    buf_puts(&names, ",\"more\":0}");
    assert_string_equal(data_of(names.data), "?");
    buf_fini(&names);
}

/* Each byte of a string at each place of the eight that are read at once. */
static void every_invalid_byte_is_found(void **state)
{
    char text[32];

    (void)state;
    for (size_t at = 1; at <= 24; at++)
        for (int c = 0; c < 256; c++) {
            struct bytes all = {text, 26};

            memset(text, 'x', sizeof text);
            text[0] = text[25] = '"';
            text[at] = (char)c;
            assert_int_equal(look(all, "") == JSON_SCAN_FOUND,
                             jansson_accepts(all));
        }
}

/* What expr_value() says, from the text and from a tree. */
static void agree(struct bytes body, const char *pointer)
{
    json_t *doc = json_read(body, FLAGS, NULL);
    struct expr e = {.kind = EXPR_JSON, .text = (char *)(uintptr_t)pointer};
    struct subject by_text = {.body = body};
    struct subject by_tree = {.json = doc, .json_tried = true};
    const char *why_text = NULL, *why_tree = NULL;
    struct buf headers, a, b;
    gr_rc rc;

    buf_init(&headers, 100);
    headers_put(&headers, "content-type", (struct bytes){"text/json", 9});
    by_text.headers = whole(&headers);
    buf_init(&a, 1000);
    buf_init(&b, 1000);
    rc = expr_value(&e, &by_text, &a, &why_text);
    if (doc) {
        assert_int_equal(rc, expr_value(&e, &by_tree, &b, &why_tree));
        assert_ptr_equal(rc == GR_OK ? NULL : why_text,
                         rc == GR_OK ? NULL : why_tree);
    } else {
        assert_int_equal(rc, GR_REFUSE);
        assert_ptr_equal(why_text, by_text.json_error);
    }
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.len ? a.data : "", b.len ? b.data : "", a.len);
    subject_fini(&by_text);
    json_decref(doc);
    buf_fini(&a);
    buf_fini(&b);
    buf_fini(&headers);
}

static void scanned_values_equal_parsed_ones(void **state)
{
    static const char *const pointers[] = {"", "/0", "/a", "/a/b", "/a/0/b"};
    static const char *const shapes[][2] = {
        {"", ""},
        {"[", "]"},
        {"{\"a\":", "}"},
        {"{\"a\":{\"b\":", ",\"c\":[]}}"},
        {"{\"a\":7,\"a\":[{\"b\":", "}]}"},
    };
    static const struct {
        const struct bytes *items;
        size_t count;
    } tables[] = {{accepted, COUNT_OF(accepted)}, {unsure, COUNT_OF(unsure)}};

    (void)state;
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (size_t i = 0; i < tables[t].count; i++)
            for (size_t k = 0; k < COUNT_OF(shapes); k++) {
                struct buf body;

                /* A number beyond int64 has a rule of its own. */
                if (tables[t].items == unsure && i < 7)
                    continue;
                buf_init(&body, MIB);
                buf_puts(&body, shapes[k][0]);
                buf_put(&body, tables[t].items[i].p, tables[t].items[i].n);
                buf_puts(&body, shapes[k][1]);
                for (size_t p = 0; p < COUNT_OF(pointers); p++)
                    agree(whole(&body), pointers[p]);
                buf_fini(&body);
            }
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        agree(refused[i], "/a");
}

static void deep_nesting_is_left_to_jansson(void **state)
{
    (void)state;
    for (size_t depth = 60; depth < 70; depth++) {
        struct buf text;

        buf_init(&text, MIB);
        repeat(&text, depth, "[");
        repeat(&text, depth, "]");
        assert_int_equal(look(whole(&text), ""),
                         depth <= 64 ? JSON_SCAN_FOUND : JSON_SCAN_UNSURE);
        agree(whole(&text), "/0");
        buf_fini(&text);
    }
    for (size_t depth = 2047; depth < 2051; depth++) {
        struct buf text;

        buf_init(&text, MIB);
        repeat(&text, depth, "{\"a\":");
        buf_puts(&text, "1");
        repeat(&text, depth, "}");
        agree(whole(&text), "/a/a");
        buf_fini(&text);
    }
}

/* However many expressions are asked of a body, it is read about ten times at most. */
static void many_expressions_cost_little_more_than_one(void **state)
{
    static const char *const members[] = {
        "\"id\":1,",
        "\"k\":{\"a\":[1,2,{}]},",
        "\"\xc3\xa9\":\"\\n\\n\",",
        "\"id\":\"x y\",",
        "\"n\":-1.5e3,",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        struct expr e = {.kind = EXPR_JSON, .text = (char[]){"/id"}};
        struct subject s = {0};
        struct buf body, out;
        const char *why;

        buf_init(&body, 2 * MIB);
        buf_puts(&body, "{");
        while (body.len < MIB)
            buf_puts(&body, members[i]);
        buf_puts(&body, "\"id\":\"last\"}");
        s.body = whole(&body);
        buf_init(&out, 100);
        for (int k = 0; k < 1000; k++) {
            buf_reset(&out);
            assert_int_equal(expr_value(&e, &s, &out, &why), GR_OK);
            assert_string_equal(out.data, "last");
        }
        assert_non_null(s.json);
        assert_true(s.scanned_bytes <= 10 * body.len);
        buf_fini(&out);
        subject_fini(&s);
        buf_fini(&body);
    }
}

/* A value of one step is inside that of the step before. */
static void a_long_pointer_reads_each_byte_once_a_step(void **state)
{
    struct buf text, pointer;
    struct bytes value;
    size_t read_bytes = 0;

    (void)state;
    buf_init(&text, 2 * MIB);
    buf_init(&pointer, 1000);
    repeat(&text, 50, "{\"a\":1,\"a\":");
    buf_puts(&text, "\"");
    repeat(&text, MIB / 8, "12345678");
    buf_puts(&text, "\"");
    repeat(&text, 50, "}");
    repeat(&pointer, 50, "/a");
    assert_int_equal(json_scan(whole(&text), pointer.data, &value, &read_bytes),
                     JSON_SCAN_FOUND);
    assert_int_equal(value.n, MIB + 2);
    assert_true(read_bytes <= 50 * text.len);
    buf_fini(&text);
    buf_fini(&pointer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_lead_to_strings_of_values),
        cmocka_unit_test(of_equal_names_the_last_counts),
        cmocka_unit_test(the_scanner_accepts_what_jansson_accepts),
        cmocka_unit_test(equal_names_are_left_to_jansson),
        cmocka_unit_test(every_invalid_byte_is_found),
        cmocka_unit_test(scanned_values_equal_parsed_ones),
        cmocka_unit_test(deep_nesting_is_left_to_jansson),
        cmocka_unit_test(many_expressions_cost_little_more_than_one),
        cmocka_unit_test(a_long_pointer_reads_each_byte_once_a_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
