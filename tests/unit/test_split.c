/* split: a request of several events is taken apart byte for byte, and again
 * in the same way (P2, P4). */
#include "split.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REQUEST "evt_01JDZ8Q2M3N4P5R6S7T8V9W0X1"

static struct split parts;
static const char *why;

static gr_rc split(const char *body)
{
    /* Exactly as long as it is, so that ASan sees a step too far. */
    size_t n = strlen(body);
    char *exact = malloc(n ? n : 1);
    gr_rc rc;

    memcpy(exact, body, n);
    rc = split_body((struct bytes){exact, n}, &parts, &why);
    for (size_t i = 0; i < parts.count; i++) /* back into the literal */
        parts.parts[i].p = body + ((const char *)parts.parts[i].p - exact);
    free(exact);
    return rc;
}

static void expect(const char *body, const char *const *strings)
{
    size_t n = 0;

    assert_int_equal(split(body), GR_OK);
    for (; strings[n]; n++) {
        assert_true(n < parts.count);
        assert_int_equal(parts.parts[n].n, strlen(strings[n]));
        assert_memory_equal(parts.parts[n].p, strings[n], strlen(strings[n]));
    }
    assert_int_equal(parts.count, n);
    split_fini(&parts);
}

static void each_element_is_byte_for_byte(void **state)
{
    (void)state;
    expect("[{\"a\":1}]", (const char *[]){"{\"a\":1}", NULL});
    expect(" [ {\"a\" : 1.0} ,\r\n\t{\"a\":2e0}\n]\r\n",
           (const char *[]){"{\"a\" : 1.0}", "{\"a\":2e0}", NULL});
    expect("[1,\"x\",null,[1,2],{\"b\":[{},{}]}]",
           (const char *[]){"1", "\"x\"", "null", "[1,2]", "{\"b\":[{},{}]}",
                            NULL});
    expect("[123456789012345678901234567890,2]",
           (const char *[]){"123456789012345678901234567890", "2", NULL});
    expect("[\"\\ud83d\",2]", (const char *[]){"\"\\ud83d\"", "2", NULL});
}

static void brackets_and_commas_inside_strings_do_not_count(void **state)
{
    (void)state;
    expect("[{\"a\":\"],[\"},\"\\\"],\\\\\",{\"]\":\"\\\\\\\"\"}]",
           (const char *[]){"{\"a\":\"],[\"}", "\"\\\"],\\\\\"",
                            "{\"]\":\"\\\\\\\"\"}", NULL});
}

static void a_body_that_is_not_a_list_is_one_event(void **state)
{
    static const char *const bodies[] = {"{}", "{\"a\":[1,2]}", "1", "\"[]\"",
                                         "null"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        assert_int_equal(split(bodies[i]), GR_OK);
        assert_int_equal(parts.count, 0);
    }
}

static void a_body_that_cannot_be_split_has_a_reason(void **state)
{
    static const char *const broken[] = {
        "",      "[",    "[1",   "[1,",  "[1,]",   "[,]",
        "[1 2]", "[\"]", "[{]}", "[1]x", "[\"\\]", "]",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        assert_int_equal(split(broken[i]), GR_REFUSE);
        assert_string_equal(why, "the body is not JSON");
    }
    assert_int_equal(split(" [ ] "), GR_REFUSE);
    assert_string_equal(why, "the list of its events is empty");
}

static void a_list_of_too_many_is_refused(void **state)
{
    size_t n = 2 * PARTS_MAX_COUNT + 2;
    char *body = malloc(n + 2);

    (void)state;
    for (size_t i = 0; i < n; i++)
        body[i] = i % 2 ? '1' : ',';
    body[0] = '[';
    body[n] = ']';
    body[n + 1] = 0;
    assert_int_equal(split(body), GR_REFUSE); /* one more than allowed */
    assert_string_equal(why, "it has more than 10000 events");
    body[n - 2] = ']';
    body[n - 1] = body[n] = ' ';
    assert_int_equal(split(body), GR_OK);
    assert_int_equal(parts.count, PARTS_MAX_COUNT);
    split_fini(&parts);
    free(body);
}

static void ids_are_made_from_the_request_alone(void **state)
{
    char a[EVENT_ID_BYTES + 1], b[EVENT_ID_BYTES + 1];

    (void)state;
    split_id(a, REQUEST, 0);
    split_id(b, REQUEST, 0);
    assert_string_equal(a, b);
    assert_string_equal(a, "evt_01JDZ8Q2M3364EJ00DYAHCTMP7");
}

static void no_two_events_have_one_id(void **state)
{
    char a[EVENT_ID_BYTES + 1], b[EVENT_ID_BYTES + 1];

    (void)state;
    for (size_t i = 0; i < 100; i++) {
        split_id(a, REQUEST, i);
        split_id(b, REQUEST, i + 1);
        assert_int_equal(strlen(a), EVENT_ID_BYTES);
        assert_memory_equal(a, REQUEST, 14); /* of the same time */
        assert_int_equal(strspn(a + 4, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), 26);
        assert_string_not_equal(a, b);
        assert_string_not_equal(a, REQUEST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_element_is_byte_for_byte),
        cmocka_unit_test(brackets_and_commas_inside_strings_do_not_count),
        cmocka_unit_test(a_body_that_is_not_a_list_is_one_event),
        cmocka_unit_test(a_body_that_cannot_be_split_has_a_reason),
        cmocka_unit_test(a_list_of_too_many_is_refused),
        cmocka_unit_test(ids_are_made_from_the_request_alone),
        cmocka_unit_test(no_two_events_have_one_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
