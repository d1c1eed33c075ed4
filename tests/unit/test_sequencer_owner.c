/* Tests of owner: the same result at every start, an even share, and no unnecessary
 * move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "owner.h"
#include <stdio.h>

enum { ENDPOINTS = 4000, DELIVERERS_MAX = 5 };

static int owner_of(int endpoint, int deliverers)
{
    char name[32], deliverer[32];
    uint64_t max = 0;
    int best = -1;

    snprintf(name, sizeof name, "endpoint-%d", endpoint);
    for (int i = 0; i < deliverers; i++) {
        snprintf(deliverer, sizeof deliverer, "deliverer-%d", i + 1);
        if (best < 0 || owner_score(name, deliverer) > max) {
            best = i;
            max = owner_score(name, deliverer);
        }
    }
    return best;
}

static void a_score_is_the_same_in_every_release(void **state)
{
    (void)state;
    assert_int_equal(owner_score("crm", "deliverer-1"), 0xeb9bdd6a8e767068ULL);
    assert_int_equal(owner_score("crm", "deliverer-2"), 0xb66c2da9dfa06f05ULL);
    assert_int_equal(owner_score("", ""), 0x37e2aaefca88ac51ULL);
}

static void where_one_name_ends_and_the_other_begins_counts(void **state)
{
    (void)state;
    assert_int_not_equal(owner_score("ab", "c"), owner_score("a", "bc"));
}

static void each_deliverer_gets_its_share(void **state)
{
    int share = ENDPOINTS / DELIVERERS_MAX, count[DELIVERERS_MAX] = {0};

    (void)state;
    for (int e = 0; e < ENDPOINTS; e++)
        count[owner_of(e, DELIVERERS_MAX)]++;
    for (int d = 0; d < DELIVERERS_MAX; d++)
        assert_in_range(count[d], share * 9 / 10, share * 11 / 10);
}

static void one_that_joins_takes_only_for_itself(void **state)
{
    int moved = 0;

    (void)state;
    for (int e = 0; e < ENDPOINTS; e++) {
        int before = owner_of(e, DELIVERERS_MAX - 1);
        int after = owner_of(e, DELIVERERS_MAX);

        if (before == after)
            continue;
        assert_int_equal(after, DELIVERERS_MAX - 1);
        moved++;
    }
    assert_true(moved > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_score_is_the_same_in_every_release),
        cmocka_unit_test(where_one_name_ends_and_the_other_begins_counts),
        cmocka_unit_test(each_deliverer_gets_its_share),
        cmocka_unit_test(one_that_joins_takes_only_for_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
