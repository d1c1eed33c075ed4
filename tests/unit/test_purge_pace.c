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

/* However many are added, and however long turns are, what is old gets less. */
static void more_is_deleted_than_is_added(void **state)
{
    (void)state;
    for (int turn_ms = 1; turn_ms <= 200; turn_ms += 7)
        for (int64_t each_ms = 0; each_ms <= 20; each_ms++) {
            struct purge_pace p = {0};
            int64_t added = 0, deleted = 0;

            purge_pace_step(&p, 1, added);
            for (int64_t ms = 1; ms < 10000; ms += turn_ms) {
                added += each_ms * turn_ms;
                deleted += purge_pace_step(&p, ms + turn_ms, added);
            }
            assert_true(deleted > added - 2 * each_ms * turn_ms -
                                      2 * each_ms * PURGE_PACE_MS);
        }
}

/* One look each second: what was added since the last one is not deleted at once. */
static void a_step_after_a_pause_is_as_small_as_the_others(void **state)
{
    struct purge_pace p = {0};

    (void)state;
    purge_pace_step(&p, 1000, 1000);
    assert_int_equal(purge_pace_step(&p, 2000, 2000),
                     PURGE_PACE_ROWS + PURGE_PACE_MS);
}

/* At a start the first step sees all that was ever added; a rolled back turn takes numbers back. */
static void a_jump_of_the_number_is_not_a_large_step(void **state)
{
    struct purge_pace p = {0};

    (void)state;
    assert_int_equal(purge_pace_step(&p, 60000, 100 * 1000 * 1000),
                     PURGE_PACE_ROWS);
    assert_int_equal(purge_pace_step(&p, 60008, 5), PURGE_PACE_ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_small_and_the_next_one_waits),
        cmocka_unit_test(more_is_deleted_than_is_added),
        cmocka_unit_test(a_step_after_a_pause_is_as_small_as_the_others),
        cmocka_unit_test(a_jump_of_the_number_is_not_a_large_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
