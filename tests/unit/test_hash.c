/* Hashes that stand on disk stay what they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "hash.h"

static void it_is_fnv_1a(void **state)
{
    (void)state;
    assert_int_equal(hash_name(HASH_BEGIN, ""), 0xcbf29ce484222325ULL);
    assert_int_equal(hash_name(HASH_BEGIN, "a"), 0xaf63dc4c8601ec8cULL);
    assert_int_equal(hash_name(HASH_BEGIN, "foobar"), 0x85944171f73967e8ULL);
}

static void a_byte_is_not_signed(void **state)
{
    (void)state;
    assert_int_equal(hash_name(HASH_BEGIN, "\xff"), hash_end(HASH_BEGIN));
}

static void where_a_name_ends_counts(void **state)
{
    uint64_t ab = hash_text(HASH_BEGIN, "ab");
    uint64_t a = hash_text(HASH_BEGIN, "a");

    (void)state;
    assert_int_not_equal(hash_text(ab, "c"), hash_text(a, "bc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_fnv_1a),
        cmocka_unit_test(a_byte_is_not_signed),
        cmocka_unit_test(where_a_name_ends_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
