/* How old a time is when the clock was wrong for a while: ahead, behind, or set while
 * nothing ran. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "spans.h"

static const int64_t start = 20000 * DAY_MS, keep = 30 * DAY_MS;

/* It runs for so long from this moment, and is seen every ten minutes. */
static int64_t run(struct spans *s, int64_t from_ms, int64_t for_ms)
{
    for (int64_t t = 0; t < for_ms; t += 10 * MINUTE_MS)
        spans_see(s, from_ms + t);
    spans_see(s, from_ms + for_ms);
    return from_ms + for_ms;
}

static void a_clock_without_steps_is_believed(void **state)
{
    struct spans s = {0};
    int64_t now;

    (void)state;
    assert_int_equal(spans_before(&s, start, keep), start - keep);
    now = run(&s, start, 100 * DAY_MS);
    assert_int_equal(s.count, 1);
    assert_int_equal(spans_before(&s, now, keep), now - keep);
    now = run(&s, now + 59 * MINUTE_MS, DAY_MS); /* a restart */
    assert_int_equal(s.count, 1);
    assert_int_equal(spans_before(&s, now, keep), now - keep);
    assert_int_equal(spans_before(&s, now, 0), now);
}

static void time_between_two_spans_counts_toward_no_age(void **state)
{
    struct spans s = {0};
    int64_t last = run(&s, start, 5 * DAY_MS);
    int64_t now = run(&s, last + 40 * DAY_MS, 10 * DAY_MS);

    (void)state;
    /* 10 days of now; of the 30 the rest was before. */
    assert_int_equal(spans_before(&s, now, keep), last - 20 * DAY_MS);
    assert_int_equal(spans_before(&s, now, 9 * DAY_MS), now - 9 * DAY_MS);
    now = run(&s, now, 20 * DAY_MS);
    assert_int_equal(spans_before(&s, now, keep), now - keep);
}

static void a_clock_that_was_ahead_makes_no_row_old(void **state)
{
    struct spans s = {0};
    int64_t right = run(&s, start, DAY_MS), now;

    (void)state;
    now = run(&s, right + 40 * DAY_MS, HOUR_MS);
    assert_int_equal(spans_before(&s, now, keep), right + HOUR_MS - keep);
    now = run(&s, right + 2 * HOUR_MS, HOUR_MS); /* right again */
    assert_int_equal(s.count, 3);
    /* What is dated in the span that was ahead lies in time to come. */
    assert_true(spans_before(&s, now, keep) <= now - keep);
    assert_int_equal(spans_before(&s, now, keep), right + 2 * HOUR_MS - keep);
    assert_int_equal(spans_after(&s, now, keep), INT64_MAX);
    now = run(&s, now, keep);
    assert_int_equal(spans_before(&s, now, keep), now - keep);
    assert_int_equal(spans_after(&s, now, keep), now + HOUR_MS);
}

static void rows_dated_by_a_slow_clock_are_not_old(void **state)
{
    struct spans s = {0};
    int64_t right = run(&s, start, DAY_MS), behind = right - 400 * DAY_MS, now;

    (void)state;
    run(&s, behind, 2 * DAY_MS);
    now = run(&s, right + 2 * DAY_MS, DAY_MS);
    assert_int_equal(spans_before(&s, now, keep), behind);
    now = run(&s, now, keep - 2 * DAY_MS);
    assert_int_equal(spans_before(&s, now, keep), behind + DAY_MS);
    now = run(&s, now, DAY_MS - MINUTE_MS);
    assert_int_equal(spans_before(&s, now, keep),
                     behind + 2 * DAY_MS - MINUTE_MS);
    now = run(&s, now, 2 * MINUTE_MS);
    assert_int_equal(spans_before(&s, now, keep), now - keep);
}

/* The wrong clock is there again at the next start, and the one after. */
static void a_restart_does_not_believe_a_wrong_clock(void **state)
{
    struct spans s = {0};
    int64_t right = run(&s, start, DAY_MS), now = right + 40 * DAY_MS;

    (void)state;
    for (int i = 0; i < 100; i++)
        now = run(&s, now + 10 * MINUTE_MS, HOUR_MS);
    assert_int_equal(s.count, 2);
    assert_true(spans_before(&s, now, keep) < right - 20 * DAY_MS);
}

/* A clock that says something else at each start: what is kept is kept longer. */
static void of_many_spans_the_shortest_are_dropped(void **state)
{
    struct spans s = {0};
    int64_t right = run(&s, start, DAY_MS), now = right;

    (void)state;
    for (int i = 0; i < 3000; i++)
        now = run(&s, now + 2 * HOUR_MS + i % 7 * DAY_MS, i % 5 * MINUTE_MS);
    assert_int_equal(s.count, SPANS_MAX);
    assert_true(spans_before(&s, now, keep) < right);
    assert_int_equal(s.at[0].last_ms, right);
}

/* What a machine that is off every night keeps does not grow for ever. */
static void many_spans_have_a_bound(void **state)
{
    struct spans s = {0};
    int64_t now = start;

    (void)state;
    for (int i = 0; i < 90; i++)
        now = run(&s, start + i * DAY_MS, 10 * HOUR_MS);
    /* 30 days are 72 days of 10 hours each. */
    assert_int_equal(spans_before(&s, now, keep), start + 18 * DAY_MS);
    for (int i = 90; i < 3000; i++)
        now = run(&s, start + i * DAY_MS, 10 * HOUR_MS);
    assert_int_equal(spans_before(&s, now, keep), start + 2928 * DAY_MS);
    assert_true(spans_before(&s, now, 900 * DAY_MS) > start + 1500 * DAY_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_without_steps_is_believed),
        cmocka_unit_test(time_between_two_spans_counts_toward_no_age),
        cmocka_unit_test(a_clock_that_was_ahead_makes_no_row_old),
        cmocka_unit_test(rows_dated_by_a_slow_clock_are_not_old),
        cmocka_unit_test(a_restart_does_not_believe_a_wrong_clock),
        cmocka_unit_test(of_many_spans_the_shortest_are_dropped),
        cmocka_unit_test(many_spans_have_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
