/* Tests of headers: the packed list keeps order and repeated names, and is read
 * strictly. */
#include "headers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct bytes text(const char *s)
{
    return (struct bytes){s, strlen(s)};
}

static struct bytes packed(const struct buf *b)
{
    return (struct bytes){b->data, b->len};
}

static void fill(struct buf *b)
{
    buf_init(b, 1024);
    headers_put(b, "Content-Type", text("application/json"));
    headers_put(b, "X-Twice", text("one"));
    headers_put(b, "x-twice", text("two"));
    headers_put(b, "X-Empty", text(""));
}

static void order_and_repeated_names_are_kept(void **state)
{
    static const char *const names[] = {"Content-Type", "X-Twice", "x-twice",
                                        "X-Empty"};
    struct bytes name, value;
    struct buf b;
    size_t at = 0, i = 0;

    (void)state;
    fill(&b);
    while (headers_next(packed(&b), &at, &name, &value)) {
        assert_int_equal(name.n, strlen(names[i]));
        assert_memory_equal(name.p, names[i++], name.n);
    }
    assert_int_equal(i, COUNT_OF(names));
    assert_true(headers_valid(packed(&b)));
    buf_fini(&b);
}

static void a_name_is_found_in_any_case_and_counted(void **state)
{
    struct bytes value = {0};
    struct buf b;
    int count;

    (void)state;
    fill(&b);
    assert_true(headers_get(packed(&b), "X-TWICE", &value, &count));
    assert_int_equal(count, 2);
    assert_memory_equal(value.p, "one", 3);
    assert_true(headers_get(packed(&b), "x-empty", &value, NULL));
    assert_int_equal(value.n, 0);
    assert_false(headers_get(packed(&b), "X-Twic", &value, &count));
    assert_int_equal(count, 0);
    buf_fini(&b);
}

static void every_cut_and_every_wrong_length_is_refused(void **state)
{
    struct bytes name, value;
    struct buf b;

    (void)state;
    buf_init(&b, 1024);
    headers_put(&b, "A", text("bc"));
    for (size_t n = 1; n < b.len; n++) {
        char *cut = gr_alloc(n);
        size_t at = 0;

        memcpy(cut, b.data, n);
        assert_false(headers_valid((struct bytes){cut, n}));
        assert_false(headers_next((struct bytes){cut, n}, &at, &name, &value));
        free(cut);
    }
    b.data[3] = (char)0xff; /* a name of 4 GiB */
    assert_false(headers_valid(packed(&b)));
    b.data[3] = 0;
    b.data[7] = (char)0xff;
    assert_false(headers_valid(packed(&b)));
    buf_fini(&b);
}

static void no_bytes_are_an_empty_list(void **state)
{
    struct bytes value;

    (void)state;
    assert_true(headers_valid((struct bytes){NULL, 0}));
    assert_false(headers_get((struct bytes){NULL, 0}, "A", &value, NULL));
}

static void a_name_is_a_token(void **state)
{
    (void)state;
    assert_true(headers_name_valid("X-Plane_1.~!"));
    assert_false(headers_name_valid(""));
    assert_false(headers_name_valid("X Y"));
    assert_false(headers_name_valid("X:"));
    assert_false(headers_name_valid("X\r\n"));
    assert_false(headers_name_valid("\xc3\xa9"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_repeated_names_are_kept),
        cmocka_unit_test(a_name_is_found_in_any_case_and_counted),
        cmocka_unit_test(every_cut_and_every_wrong_length_is_refused),
        cmocka_unit_test(no_bytes_are_an_empty_list),
        cmocka_unit_test(a_name_is_a_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
