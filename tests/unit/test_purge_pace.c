/* How many old rows are deleted, and when: few beside a request, and never fewer than are added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "purge_pace.h"

static void a_step_is_small_and_the_next_one_waits(void **state)
{
    struct purge_pace p = {0};

    (void)state;
    assert_int_equal(purge_pace_step(&p, 5000, 0), PURGE_PACE_ROWS);
    assert_int_equal(purge_pace_wait_ms(&p, 5000), PURGE_PACE_MS);
    assert_int_equal(purge_pace_step(&p, 5000 + PURGE_PACE_MS - 1, 0), 0);
    assert_int_equal(purge_pace_wait_ms(&p, 5000 + PURGE_PACE_MS - 1), 1);
    assert_int_equal(purge_pace_step(&p, 5000 + PURGE_PACE_MS, 0),
                     PURGE_PACE_ROWS);
    assert_int_equal(purge_pace_wait_ms(&p, 9000), 0);
}

/* However long turns are, what is old gets less, unless each turn adds more than a step may delete. */
static void more_is_deleted_than_is_added(void **state)
{
    (void)state;
    for (int turn_ms = 1; turn_ms <= 2000; turn_ms += turn_ms < 20 ? 1 : 133)
        for (int64_t each_ms = 0; each_ms <= 20; each_ms++) {
            struct purge_pace p = {0};
            int64_t added = 1000000, deleted = 0, first = added;

            for (int64_t ms = 5000; ms < 100000; ms += turn_ms) {
                added += each_ms * turn_ms;
                deleted += purge_pace_step(&p, ms, added);
                purge_pace_stepped(&p, true);
            }
            if (each_ms * turn_ms <= PURGE_PACE_MAX - PURGE_PACE_ROWS)
                assert_true(deleted >
                            added - first -
                                2 * each_ms * (turn_ms + PURGE_PACE_MS));
        }
}

/* A request may bring ten thousand rows. */
static void what_a_step_cannot_delete_is_carried_to_the_next_ones(void **state)
{
    struct purge_pace p = {0};
    int64_t deleted;
    int64_t ms = 1000;

    (void)state;
    purge_pace_step(&p, ms, 5);
    purge_pace_stepped(&p, true);
    ms += PURGE_PACE_MS;
    deleted = purge_pace_step(&p, ms, 10005);
    assert_int_equal(deleted, PURGE_PACE_MAX);
    for (int i = 0; i < 12; i++) {
        purge_pace_stepped(&p, true);
        ms += 1000;
        deleted += purge_pace_step(&p, ms, 10005);
    }
    assert_int_equal(deleted, 10000 + 13 * PURGE_PACE_ROWS);
}

/* There is one look each second: what was added since the last one is not deleted at once. */
static void a_step_after_one_that_left_nothing_is_small(void **state)
{
    struct purge_pace p = {0};

    (void)state;
    assert_int_equal(purge_pace_step(&p, 1000, 7000), PURGE_PACE_ROWS);
    purge_pace_stepped(&p, false);
    assert_int_equal(purge_pace_step(&p, 2000, 27000), PURGE_PACE_ROWS);
    purge_pace_stepped(&p, true);
    assert_int_equal(purge_pace_step(&p, 2010, 27100), PURGE_PACE_ROWS + 100);
}

/* A rolled back turn takes numbers back. */
static void a_number_that_goes_back_counts_as_none(void **state)
{
    struct purge_pace p = {0};

    (void)state;
    purge_pace_step(&p, 1000, 7000);
    purge_pace_stepped(&p, true);
    assert_int_equal(purge_pace_step(&p, 1008, 5), PURGE_PACE_ROWS);
    purge_pace_stepped(&p, true);
    assert_int_equal(purge_pace_step(&p, 1016, 7), PURGE_PACE_ROWS + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_small_and_the_next_one_waits),
        cmocka_unit_test(more_is_deleted_than_is_added),
        cmocka_unit_test(what_a_step_cannot_delete_is_carried_to_the_next_ones),
        cmocka_unit_test(a_step_after_one_that_left_nothing_is_small),
        cmocka_unit_test(a_number_that_goes_back_counts_as_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
