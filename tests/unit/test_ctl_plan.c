/* Tests of `grapnel retry-plan`: it predicts what a deliverer does. P9. */
#include "clock.h"
#include "plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct retry_policy strict = {.backoff = BACKOFF_EXPONENTIAL,
                                           .first_wait_ms = SECOND_MS,
                                           .max_wait_ms = 60 * SECOND_MS,
                                           .factor = 2,
                                           .jitter.full = true,
                                           .max_attempts = 12,
                                           .max_duration_ms = DAY_MS};

static void a_plan_has_each_wait_and_its_bounds(void **state)
{
    struct plan p;

    (void)state;
    plan_make(&p, &strict, PLAN_ATTEMPTS_MAX);
    assert_int_equal(p.count, 12);
    assert_int_equal(p.end, BACKOFF_ATTEMPTS_USED);
    assert_false(p.cut);
    assert_int_equal(p.attempts[0].at_ms, 0);
    for (size_t i = 1; i < p.count; i++) {
        assert_int_equal(p.attempts[i].wait_ms, backoff_wait_ms(&strict, i));
        assert_int_equal(p.attempts[i].min_ms, 0);
        assert_int_equal(p.attempts[i].max_ms, p.attempts[i].wait_ms);
        assert_int_equal(p.attempts[i].at_ms,
                         p.attempts[i - 1].at_ms + p.attempts[i].wait_ms);
    }
    plan_fini(&p);
}

static void a_plan_ends_with_its_time(void **state)
{
    struct retry_policy p = {.backoff = BACKOFF_FIXED,
                             .first_wait_ms = 10 * MINUTE_MS,
                             .jitter.part = 0.15,
                             .max_duration_ms = HOUR_MS};
    struct plan plan;

    (void)state;
    plan_make(&plan, &p, PLAN_ATTEMPTS_MAX);
    assert_int_equal(plan.count, 7); /* at 0, 10 … 60 minutes */
    assert_int_equal(plan.end, BACKOFF_TIME_USED);
    assert_int_equal(plan.attempts[1].min_ms, 510 * SECOND_MS);
    assert_in_range(plan.attempts[1].max_ms, 690 * SECOND_MS - 1,
                    690 * SECOND_MS);
    plan_fini(&plan);
    p.first_wait_ms = 1; /* for a day: more than anyone reads */
    p.max_duration_ms = DAY_MS;
    plan_make(&plan, &p, PLAN_ATTEMPTS_MAX);
    assert_true(plan.cut);
    assert_int_equal(plan.count, PLAN_ATTEMPTS_MAX);
    plan_fini(&plan);
}

/* The design's figure: by timers alone 5,000 events of a 30 s outage take 59 s;
 * without jitter they all come back at the same moment. */
static void jitter_spreads_the_retries(void **state)
{
    struct retry_policy even = strict;
    struct load with, without;

    (void)state;
    even.jitter.full = false;
    load_make(&with, &strict, 5000, 30 * SECOND_MS);
    load_make(&without, &even, 5000, 30 * SECOND_MS);
    assert_int_equal(with.delivered, 5000);
    assert_int_equal(without.peak_per_s, 5000);
    assert_int_equal(without.last_ms, SECOND_MS);
    assert_true(with.peak_per_s * 6 < without.peak_per_s);
    assert_in_range(with.last_ms, 55 * SECOND_MS, 60 * SECOND_MS);
    assert_true(with.p50_ms < with.p95_ms && with.p95_ms <= with.last_ms);
    load_fini(&with);
    load_fini(&without);
}

static void every_event_of_a_plan_is_counted(void **state)
{
    struct retry_policy p = strict;
    int64_t parts[7], sum = 0;
    struct load l;

    (void)state;
    p.max_attempts = 5;
    load_make(&l, &p, 1000, 10 * SECOND_MS);
    assert_true(l.dead > 0 && l.delivered > 0);
    assert_int_equal(l.dead + l.delivered, 1000);
    load_parts(&l, parts, 7);
    for (int i = 0; i < 7; i++)
        sum += parts[i];
    assert_int_equal(sum, l.delivered);
    load_fini(&l);
    load_make(&l, &p, 10, DAY_MS); /* none gets through */
    assert_int_equal(l.dead, 10);
    assert_int_equal(load_parts(&l, parts, 7), 1);
    load_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_each_wait_and_its_bounds),
        cmocka_unit_test(a_plan_ends_with_its_time),
        cmocka_unit_test(jitter_spreads_the_retries),
        cmocka_unit_test(every_event_of_a_plan_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
