/* Tests of priority: which queue of an endpoint has the next turn. */
#include "priority.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define HIGH   (1U << PRIORITY_HIGH)
#define NORMAL (1U << PRIORITY_NORMAL)
#define LOW    (1U << PRIORITY_LOW)

/* Who has how many of ten turns, from any turn on, while these queues have deliveries. */
static void assert_shares(unsigned waiting, int high, int normal, int low)
{
    for (unsigned from = 0; from < 3 * PRIORITY_TURNS; from++) {
        int had[PRIORITIES] = {0};

        for (unsigned n = from; n < from + PRIORITY_TURNS; n++)
            had[priority_next(n, waiting)]++;
        assert_int_equal(had[PRIORITY_UNCHOSEN], 0);
        assert_int_equal(had[PRIORITY_HIGH], high);
        assert_int_equal(had[PRIORITY_NORMAL], normal);
        assert_int_equal(had[PRIORITY_LOW], low);
    }
}

static void low_has_a_tenth_whatever_waits(void **state)
{
    (void)state;
    assert_shares(HIGH | NORMAL | LOW, 7, 2, 1);
    assert_shares(HIGH | LOW, 9, 0, 1);
    assert_shares(NORMAL | LOW, 0, 9, 1);
}

static void no_turn_is_lost(void **state)
{
    (void)state;
    assert_shares(HIGH | NORMAL, 8, 2, 0);
    assert_shares(HIGH, 10, 0, 0);
    assert_shares(NORMAL, 0, 10, 0);
    assert_shares(LOW, 0, 0, 10);
    assert_int_equal(priority_next(7, 0), PRIORITY_UNCHOSEN);
}

/* A high delivery that comes now waits for one other at most. */
static void a_high_one_waits_for_one_turn_of_others(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 2 * PRIORITY_TURNS; n++)
        assert_true(priority_next(n, ~0U) == PRIORITY_HIGH ||
                    priority_next(n + 1, ~0U) == PRIORITY_HIGH);
}

static void the_count_may_overflow(void **state)
{
    (void)state;
    assert_int_equal(priority_next(~0U, LOW), PRIORITY_LOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_has_a_tenth_whatever_waits),
        cmocka_unit_test(no_turn_is_lost),
        cmocka_unit_test(a_high_one_waits_for_one_turn_of_others),
        cmocka_unit_test(the_count_may_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
