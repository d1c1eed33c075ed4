/* Tests of active: which instance of a process is asked, when a former one may hang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "active.h"

static void test_none_is_chosen_when_none_can_be_reached(void **state)
{
    struct candidate all[] = {{false, 7}, {false, 9}};

    (void)state;
    assert_int_equal(active_choose(all, 0, -1), -1);
    assert_int_equal(active_choose(all, 2, -1), -1);
    assert_int_equal(active_choose(all, 2, 1), -1);
}

static void test_the_only_one_is_chosen_at_once(void **state)
{
    struct candidate all[] = {{false, 9}, {true, 0}};

    (void)state;
    assert_int_equal(active_choose(all, 2, -1), 1);
    assert_int_equal(active_choose(all, 2, 0), 1);
}

static void test_the_present_one_stays_while_it_answers(void **state)
{
    struct candidate all[] = {{true, 10}, {true, 10}, {true, 11}};

    (void)state;
    assert_int_equal(active_choose(all, 3, 0), 0);
    assert_int_equal(active_choose(all, 3, 1), 1);
}

static void test_one_that_answers_replaces_one_that_does_not(void **state)
{
    struct candidate all[] = {{true, 10}, {true, 10}};

    (void)state;
    for (int round = 0; round < ACTIVE_MISSED; round++) {
        assert_int_equal(active_choose(all, 2, 0), 0);
        all[1].answered++;
    }
    assert_int_equal(active_choose(all, 2, 0), 1);
    /* And it stays when the former one answers again. */
    all[0].answered = all[1].answered + 1;
    assert_int_equal(active_choose(all, 2, 1), 1);
}

static void test_nobody_answers_so_the_present_one_stays(void **state)
{
    struct candidate all[] = {{true, 10}, {true, 10}};

    (void)state;
    assert_int_equal(active_choose(all, 2, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none_is_chosen_when_none_can_be_reached),
        cmocka_unit_test(test_the_only_one_is_chosen_at_once),
        cmocka_unit_test(test_the_present_one_stays_while_it_answers),
        cmocka_unit_test(test_one_that_answers_replaces_one_that_does_not),
        cmocka_unit_test(test_nobody_answers_so_the_present_one_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
