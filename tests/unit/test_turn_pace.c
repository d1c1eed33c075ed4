/* How long a loop waits before its next turn: longer while its thread waits for a processor, and not at all when it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "turn_pace.h"

enum { MAY_WAIT_US = 4000 };

static int judged(struct turn_pace *p, int waited_percent)
{
    p->steps = turn_pace_judge(p->steps, waited_percent);
    return p->steps;
}

static void a_thread_that_seldom_waits_begins_at_once(void **state)
{
    struct turn_pace p = {0};

    (void)state;
    for (int percent = 0; percent <= 20; percent++)
        assert_int_equal(judged(&p, percent), 0);
    assert_int_equal(turn_pace_wait_us(&p, 1000, MAY_WAIT_US, 1100), 0);
}

static void
a_thread_that_waits_much_uses_all_of_it_after_two_looks(void **state)
{
    struct turn_pace p = {0};

    (void)state;
    assert_int_equal(judged(&p, 45), TURN_PACE_STEPS / 2);
    assert_int_equal(turn_pace_wait_us(&p, 1000, MAY_WAIT_US, 1100),
                     MAY_WAIT_US / 2 - 100);
    assert_int_equal(judged(&p, 45), TURN_PACE_STEPS);
    assert_int_equal(judged(&p, 100), TURN_PACE_STEPS);
    assert_int_equal(turn_pace_wait_us(&p, 1000, MAY_WAIT_US, 1100),
                     MAY_WAIT_US - 100);
}

static void
it_stays_where_waits_are_short_and_goes_back_after_them(void **state)
{
    struct turn_pace p = {0};

    (void)state;
    assert_int_equal(judged(&p, 25), 1);
    assert_int_equal(judged(&p, 15), 1);
    assert_int_equal(judged(&p, 25), 2);
    assert_int_equal(judged(&p, 5), 1);
    assert_int_equal(judged(&p, 5), 0);
    assert_int_equal(judged(&p, 5), 0);
}

static void a_turn_that_took_longer_is_followed_at_once(void **state)
{
    struct turn_pace p = {.steps = TURN_PACE_STEPS};

    (void)state;
    assert_int_equal(turn_pace_wait_us(&p, 1000, MAY_WAIT_US, 5000), 0);
    assert_int_equal(turn_pace_wait_us(&p, 1000, MAY_WAIT_US, 9000), 0);
    assert_int_equal(turn_pace_wait_us(&p, 1000, 0, 1000), 0);
}

/* The thread of this test sleeps: it waits for nobody, whatever others do. */
static void looks_take_steps_back_ten_times_a_second_at_most(void **state)
{
    struct turn_pace p = {.steps = TURN_PACE_STEPS};

    (void)state;
    turn_pace_look(&p, DAY_MS);
    assert_int_equal(p.steps, TURN_PACE_STEPS - 1);
    for (int64_t ms = 1; ms < 100; ms++)
        turn_pace_look(&p, DAY_MS + ms);
    assert_int_equal(p.steps, TURN_PACE_STEPS - 1);
    turn_pace_look(&p, 2 * DAY_MS);
    assert_int_equal(p.steps, TURN_PACE_STEPS - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_seldom_waits_begins_at_once),
        cmocka_unit_test(
            a_thread_that_waits_much_uses_all_of_it_after_two_looks),
        cmocka_unit_test(
            it_stays_where_waits_are_short_and_goes_back_after_them),
        cmocka_unit_test(a_turn_that_took_longer_is_followed_at_once),
        cmocka_unit_test(looks_take_steps_back_ten_times_a_second_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
