/* Tests of backoff: whole schedules, retry budgets, and the distribution of the jitter.
 * P9. */
#include "backoff.h"
#include "clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* The built-in policies `default` and `strict` (docs/CONFIGURATION.md). */
static const struct retry_policy by_default = {.backoff = BACKOFF_EXPONENTIAL,
                                               .first_wait_ms = 5 * SECOND_MS,
                                               .max_wait_ms = 6 * HOUR_MS,
                                               .factor = 3,
                                               .jitter.full = true,
                                               .max_attempts = 12,
                                               .max_duration_ms = 24 * HOUR_MS,
                                               .respect_retry_after = true};
static const struct retry_policy strict = {.backoff = BACKOFF_EXPONENTIAL,
                                           .first_wait_ms = SECOND_MS,
                                           .max_wait_ms = 60 * SECOND_MS,
                                           .factor = 2,
                                           .jitter.full = true,
                                           .max_attempts = 12,
                                           .max_duration_ms = 24 * HOUR_MS,
                                           .respect_retry_after = true};

/* splitmix64: the same numbers in every run. */
static uint64_t seed = 1;
static uint64_t next_random(void)
{
    uint64_t z = (seed += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* An endpoint that always fails at once: how often is it tried, and when last?
 */
static enum backoff_end live(const struct retry_policy *p, uint64_t *attempts,
                             int64_t *last_ms)
{
    int64_t now = 1000000, next = now;
    enum backoff_end end = BACKOFF_WAIT;

    for (*attempts = 0; end == BACKOFF_WAIT; now = next) {
        ++*attempts;
        *last_ms = now - 1000000;
        end = backoff_next(&(struct backoff){.policy = p,
                                             .attempts = *attempts,
                                             .first_ms = 1000000,
                                             .now_ms = now,
                                             .random = next_random()},
                           &next);
        assert_true(next >= now);
        if (*attempts > 100000)
            fail_msg("no end");
    }
    return end;
}

static void exponential_waits_grow_to_their_most(void **state)
{
    static const int64_t want_s[] = {5,    15,   45,    135,   405,
                                     1215, 3645, 10935, 21600, 21600};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(want_s); i++)
        assert_int_equal(backoff_wait_ms(&by_default, i + 1),
                         want_s[i] * SECOND_MS);
    assert_int_equal(backoff_wait_ms(&by_default, UINT64_MAX), 6 * HOUR_MS);
}

static void factors_that_do_not_grow_are_fixed_waits(void **state)
{
    struct retry_policy p = {
        .backoff = BACKOFF_EXPONENTIAL, .first_wait_ms = 700, .factor = 1};

    (void)state;
    assert_int_equal(backoff_wait_ms(&p, UINT64_MAX), 700);
    p.factor = 10;
    assert_int_equal(backoff_wait_ms(&p, UINT64_MAX), 366 * DAY_MS);
    p.backoff = BACKOFF_FIXED;
    assert_int_equal(backoff_wait_ms(&p, 99), 700);
}

static void a_schedule_ends_or_repeats_its_last_wait(void **state)
{
    int64_t waits[] = {60000, 300000, 900000};
    struct retry_policy p = {
        .backoff = BACKOFF_SCHEDULE, .schedule.ms = waits, .schedule.count = 3};
    uint64_t attempts;
    int64_t last_ms;

    (void)state;
    assert_int_equal(live(&p, &attempts, &last_ms), BACKOFF_ATTEMPTS_USED);
    assert_int_equal(attempts, 4);
    assert_int_equal(last_ms, 1260000);
    p.repeat_last = true;
    p.max_duration_ms = DAY_MS;
    assert_int_equal(live(&p, &attempts, &last_ms), BACKOFF_TIME_USED);
    /* 1, 6, 21, 36 … minutes; the last one inside of 1440. */
    assert_int_equal(attempts, 3 + 1 + (1440 - 21) / 15);
    assert_true(last_ms <= DAY_MS && last_ms + 900000 > DAY_MS);
    p.schedule.count = 0;
    assert_int_equal(live(&p, &attempts, &last_ms), BACKOFF_ATTEMPTS_USED);
    assert_int_equal(attempts, 1);
}

static void retries_of_a_generation_keep_both_budgets(void **state)
{
    struct retry_policy p = by_default;
    uint64_t attempts;
    int64_t last_ms;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        if (live(&by_default, &attempts, &last_ms) == BACKOFF_ATTEMPTS_USED)
            assert_int_equal(attempts, 12);
        else
            assert_true(attempts < 12);
        assert_true(last_ms <= 24 * HOUR_MS);
        assert_int_equal(live(&strict, &attempts, &last_ms),
                         BACKOFF_ATTEMPTS_USED);
        assert_int_equal(attempts, 12);
    }
    /* Without jitter: 5 s + 15 s + … + 3 × 6 h; a 13th would be past 24 h. */
    p.jitter.full = false;
    assert_int_equal(live(&p, &attempts, &last_ms), BACKOFF_ATTEMPTS_USED);
    assert_int_equal(attempts, 12);
    assert_int_equal(last_ms, (16400 + 3 * 21600) * SECOND_MS);
    p.max_attempts = 0;
    assert_int_equal(live(&p, &attempts, &last_ms), BACKOFF_TIME_USED);
    assert_int_equal(attempts, 12);
    p.max_duration_ms = 0;
    p.max_attempts = 1;
    assert_int_equal(live(&p, &attempts, &last_ms), BACKOFF_ATTEMPTS_USED);
    assert_int_equal(attempts, 1);
}

/* Uniform over the whole wait: each tenth of it gets its tenth. */
static void full_jitter_is_spread_evenly(void **state)
{
    enum { N = 100000 };
    int tenths[10] = {0};
    int64_t next, sum = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        assert_int_equal(
            backoff_next(&(struct backoff){.policy = &strict,
                                           .attempts = 5,
                                           .random = next_random()},
                         &next),
            BACKOFF_WAIT);
        assert_in_range(next, 0, 16000);
        tenths[next == 16000 ? 9 : next / 1600]++;
        sum += next;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(tenths[i], N / 10 - N / 100, N / 10 + N / 100);
    assert_in_range(sum / N, 7900, 8100);
}

static void proportional_jitter_stays_within_its_bounds(void **state)
{
    struct retry_policy p = {
        .backoff = BACKOFF_FIXED, .first_wait_ms = 100000, .jitter.part = 0.15};
    int64_t next, min = INT64_MAX, max = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(
            backoff_next(&(struct backoff){.policy = &p,
                                           .attempts = 1,
                                           .random = next_random()},
                         &next),
            BACKOFF_WAIT);
        min = next < min ? next : min;
        max = next > max ? next : max;
    }
    assert_in_range(min, 85000, 85100);
    assert_in_range(max, 114900, 115000);
}

static int64_t asked(const struct retry_policy *p, int64_t retry_after_ms,
                     int64_t now_ms)
{
    int64_t next = -1;

    if (backoff_next(&(struct backoff){.policy = p,
                                       .attempts = 1,
                                       .first_ms = 0,
                                       .now_ms = now_ms,
                                       .retry_after_ms = retry_after_ms,
                                       .random = next_random()},
                     &next) != BACKOFF_WAIT)
        return -1;
    return next - now_ms;
}

static void retry_after_only_lengthens(void **state)
{
    struct retry_policy p = {.backoff = BACKOFF_FIXED,
                             .first_wait_ms = 10000,
                             .respect_retry_after = true};

    (void)state;
    assert_int_equal(asked(&p, 120000, 0), 120000);
    assert_int_equal(asked(&p, 3000, 0), 10000);
    assert_int_equal(asked(&p, 0, 0), 10000);
    assert_int_equal(asked(&p, -349835270000, 0), 10000); /* libcurl 7.88 */
    assert_int_equal(asked(&p, INT64_MAX, 0), RETRY_AFTER_MAX_MS);
    p.respect_retry_after = false;
    assert_int_equal(asked(&p, 120000, 0), 10000);
    p.respect_retry_after = p.jitter.full = true;
    for (int i = 0; i < 1000; i++)
        assert_in_range(asked(&p, 120000, 0), 120000, 132000);
}

static void retry_after_never_leaves_the_budget(void **state)
{
    struct retry_policy p = {.backoff = BACKOFF_FIXED,
                             .first_wait_ms = 10000,
                             .max_duration_ms = 60000,
                             .respect_retry_after = true};

    (void)state;
    assert_int_equal(asked(&p, 3600000, 0), 60000);
    assert_int_equal(asked(&p, 3600000, 45000), 15000);
    assert_int_equal(asked(&p, 3600000, 50000), 10000);
    assert_int_equal(asked(&p, 3600000, 50001), -1);
}

/* P2: what is due later was not made by this policy (deliverer/tasks/due.c). */
static void no_wait_is_longer_than_the_longest(void **state)
{
    static const int64_t steps[] = {MINUTE_MS, 48 * HOUR_MS, HOUR_MS};
    const struct retry_policy plain = {.backoff = BACKOFF_EXPONENTIAL,
                                       .first_wait_ms = SECOND_MS,
                                       .max_wait_ms = MINUTE_MS,
                                       .factor = 2,
                                       .jitter.part = .5,
                                       .max_attempts = 9},
                              table = {
                                  .backoff = BACKOFF_SCHEDULE,
                                  .schedule.ms = (int64_t *)(uintptr_t)steps,
                                  .schedule.count = 3,
                                  .repeat_last = true};
    const struct retry_policy *all[] = {&by_default, &strict, &plain, &table};

    (void)state;
    for (size_t p = 0; p < 4; p++)
        for (uint64_t n = 1; n < 9; n++) {
            struct backoff b = {.policy = all[p],
                                .attempts = n,
                                .retry_after_ms = n % 2 ? INT64_MAX : 0,
                                .random = UINT64_MAX};
            int64_t next = 0;

            backoff_next(&b, &next);
            assert_true(next <= backoff_longest_ms(all[p]));
        }
    assert_true(backoff_longest_ms(&by_default) < 27 * HOUR_MS);
    assert_true(backoff_longest_ms(&plain) < 2 * MINUTE_MS);
    assert_true(backoff_longest_ms(&table) < 49 * HOUR_MS);
}

static void a_span_is_the_sum_of_waits_within_the_time_budget(void **state)
{
    struct retry_policy p = {
        .backoff = BACKOFF_FIXED, .first_wait_ms = 100, .max_attempts = 5};

    (void)state;
    assert_int_equal(backoff_span_ms(&p, false), 400);
    p.jitter.part = 0.1;
    assert_int_equal(backoff_span_ms(&p, false), 400);
    assert_int_equal(backoff_span_ms(&p, true), 440);
    p.max_duration_ms = 250;
    assert_int_equal(backoff_span_ms(&p, true), 250);
    p = (struct retry_policy){
        .backoff = BACKOFF_SCHEDULE,
        .schedule = {.ms = (int64_t[]){100, 200, 300}, .count = 3}};
    assert_int_equal(backoff_span_ms(&p, false), 600);
    p.max_attempts = 3;
    assert_int_equal(backoff_span_ms(&p, false), 300);
    p.schedule.count = 0;
    assert_int_equal(backoff_span_ms(&p, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_waits_grow_to_their_most),
        cmocka_unit_test(factors_that_do_not_grow_are_fixed_waits),
        cmocka_unit_test(a_schedule_ends_or_repeats_its_last_wait),
        cmocka_unit_test(retries_of_a_generation_keep_both_budgets),
        cmocka_unit_test(full_jitter_is_spread_evenly),
        cmocka_unit_test(proportional_jitter_stays_within_its_bounds),
        cmocka_unit_test(retry_after_only_lengthens),
        cmocka_unit_test(retry_after_never_leaves_the_budget),
        cmocka_unit_test(a_span_is_the_sum_of_waits_within_the_time_budget),
        cmocka_unit_test(no_wait_is_longer_than_the_longest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
