/* Tests of hops: the number in the header `grapnel-hops`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "headers.h"
#include "hops.h"
#include <string.h>

static int hops_with(const char *name, const char *first, const char *second)
{
    struct buf packed;
    int hops;

    buf_init(&packed, 400);
    headers_put(&packed, "content-type", (struct bytes){"text/plain", 10});
    if (first)
        headers_put(&packed, name, (struct bytes){first, strlen(first)});
    if (second)
        headers_put(&packed, name, (struct bytes){second, strlen(second)});
    hops = hops_of((struct bytes){packed.data, packed.len});
    buf_fini(&packed);
    return hops;
}

static void the_header_names_the_hops(void **state)
{
    (void)state;
    assert_int_equal(hops_with("grapnel-hops", NULL, NULL), 0);
    assert_int_equal(hops_with("grapnel-hop", "3", NULL), 0);
    assert_int_equal(hops_with("grapnel-hops", "0", NULL), 0);
    assert_int_equal(hops_with("Grapnel-Hops", "2", NULL), 2);
    assert_int_equal(hops_with("grapnel-hops", "3", "1"), 3);
    assert_int_equal(hops_with("grapnel-hops", "1", "3"), 3);
}

static void what_grapnel_does_not_send_is_too_much(void **state)
{
    static const char *const values[] = {"",  "4",  "9",   "10", "03",
                                         "x", "-1", "1,1", " 1"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(values); i++)
        assert_int_equal(hops_with("grapnel-hops", values[i], NULL),
                         HOPS_MAX + 1);
    assert_int_equal(hops_with("grapnel-hops", "1", "x"), HOPS_MAX + 1);
}

static void what_is_put_can_be_read(void **state)
{
    (void)state;
    for (int hops = 0; hops <= HOPS_MAX; hops++) {
        struct buf packed;

        buf_init(&packed, 100);
        hops_put(&packed, hops);
        assert_int_equal(hops_of((struct bytes){packed.data, packed.len}),
                         hops);
        buf_fini(&packed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_names_the_hops),
        cmocka_unit_test(what_grapnel_does_not_send_is_too_much),
        cmocka_unit_test(what_is_put_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
