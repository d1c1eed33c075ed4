/* lane: which deliveries stand in one line. */
#include "lane.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void a_lane_tells_by_its_sign_what_it_is(void **state)
{
    char name[32];

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t hash;

        snprintf(name, sizeof name, "ws-%d", i);
        hash = lane_hash(name);
        assert_true(hash > 0);
        assert_int_equal(hash, lane_hash(name));
        assert_true(lane_of(LANES_WORKSPACE, hash) > 0);
        assert_true(lane_of(LANES_NONE, hash) < 0);
        assert_int_equal(lane_of(LANES_ALL, hash), 0);
    }
    assert_true(lane_hash("") > 0);
    assert_true(lane_hash("a") != lane_hash("b"));
    assert_true(lane_is_ordered(0));
    assert_true(lane_is_ordered(7));
    assert_false(lane_is_ordered(-7));
}

static bool is_strange(enum order_lanes ordered, int64_t lane)
{
    struct lane_range r[2];
    int n = lane_strange(ordered, r);

    for (int i = 0; i < n; i++)
        if (lane >= r[i].from && lane <= r[i].to)
            return true;
    return false;
}

static void lanes_of_another_kind_are_strange(void **state)
{
    static const enum order_lanes kinds[] = {LANES_NONE, LANES_WORKSPACE,
                                             LANES_ALL};
    int64_t hash = lane_hash("acme");

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            assert_int_equal(is_strange(kinds[i], lane_of(kinds[k], hash)),
                             i != k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_tells_by_its_sign_what_it_is),
        cmocka_unit_test(lanes_of_another_kind_are_strange),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
