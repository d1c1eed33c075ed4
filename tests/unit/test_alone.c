/* Tests of the decision of an active that reaches no other process: when it hands its store over, and when it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "alone.h"
#include "clock.h"
#include <stdlib.h>

static const struct alone_facts alone = {.takeover_after_ms = 15 * SECOND_MS,
                                         .tenure_ms = 10 * MINUTE_MS,
                                         .owned_ms = 10 * MINUTE_MS,
                                         .none_ms = 15 * SECOND_MS,
                                         .heir_ms = 15 * SECOND_MS};

static void it_hands_over_when_a_standby_reaches_some_and_it_none(void **state)
{
    (void)state;
    assert_true(alone_should_hand_over(&alone));
}

static void one_that_was_alone_for_a_moment_stays(void **state)
{
    struct alone_facts f = alone;

    (void)state;
    f.none_ms--;
    assert_false(alone_should_hand_over(&f));
    f.none_ms = 0;
    assert_false(alone_should_hand_over(&f));
}

/* The others were away for each host, and a standby was the first that has seen them again. */
static void a_standby_that_has_just_reached_some_is_no_heir(void **state)
{
    struct alone_facts f = alone;

    (void)state;
    f.none_ms = HOUR_MS;
    f.heir_ms--;
    assert_false(alone_should_hand_over(&f));
    f.heir_ms = 0;
    assert_false(alone_should_hand_over(&f));
}

static void a_store_moves_once_in_ten_minutes(void **state)
{
    struct alone_facts f = alone;

    (void)state;
    f.owned_ms--;
    f.none_ms = f.heir_ms = f.owned_ms;
    assert_false(alone_should_hand_over(&f));
    assert_int_equal(alone_tenure_ms(), 10 * MINUTE_MS);
    setenv("GRAPNEL_TEST_ALONE_MS", "20", 1);
    assert_int_equal(alone_tenure_ms(), 20);
    setenv("GRAPNEL_TEST_ALONE_MS", "soon", 1);
    assert_int_equal(alone_tenure_ms(), 10 * MINUTE_MS);
    unsetenv("GRAPNEL_TEST_ALONE_MS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_hands_over_when_a_standby_reaches_some_and_it_none),
        cmocka_unit_test(one_that_was_alone_for_a_moment_stays),
        cmocka_unit_test(a_standby_that_has_just_reached_some_is_no_heir),
        cmocka_unit_test(a_store_moves_once_in_ten_minutes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
