/* Tests of rates and their buckets. P9. */
#include "clock.h"
#include "rate.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void rates_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t count, per_ms;
    } good[] = {{"50/s", 50, SECOND_MS},
                {"1/h", 1, HOUR_MS},
                {"600/m", 600, MINUTE_MS},
                {"1000000/s", 1000000, SECOND_MS}};
    struct rate r;
    const char *why;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(rate_parse(good[i].text, &r, &why), GR_OK);
        assert_int_equal(r.count, good[i].count);
        assert_int_equal(r.per_ms, good[i].per_ms);
    }
}

static void an_invalid_rate_is_refused(void **state)
{
    static const char *const bad[] = {"",      "50",
                                      "/s",    "50/",
                                      "50/d",  "50/sec",
                                      "-1/s",  "0/s",
                                      "1.5/s", "50 /s",
                                      "50/s ", "1000001/s",
                                      "5o/s",  "99999999999999999999/s"};
    struct rate r;
    const char *why;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(rate_parse(bad[i], &r, &why), GR_REFUSE);
}

/* How many went in each of `seconds`, asked each `step_us`. */
static int max_in_a_second(const struct rate *r, int64_t step_us,
                           int64_t rest_us, int *total)
{
    enum { SECONDS = 10 };
    static int64_t went[1000000];
    struct bucket b = {0};
    int64_t start = 5000000, slack = rate_slack_us(r);
    int count = 0, max = 0, first = 0;

    for (int64_t at = start; at < start + SECONDS * 1000000; at += step_us) {
        if (at - start > 3000000 && at - start < 3000000 + rest_us)
            continue;
        while (bucket_has(&b, slack, at)) {
            bucket_take(&b, rate_interval_us(r), at);
            went[count++] = at;
        }
    }
    for (int i = 0; i < count; i++) {
        while (went[i] - went[first] >= 1000000)
            first++;
        if (i - first + 1 > max)
            max = i - first + 1;
    }
    *total = count;
    return max;
}

/* In no second more than the limit and what two per cent, or one, are; and no
 * less than it over ten, though the loop wakes late; no burst after a rest. */
static void the_bucket_keeps_its_rate(void **state)
{
    static const int counts[] = {1, 7, 50, 999, 12000};
    static const int64_t steps[] = {100, 1000, 7000};
    int total, max;

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            struct rate r = {counts[i], SECOND_MS};

            max = max_in_a_second(&r, steps[k], 0, &total);
            assert_in_range(max, counts[i], counts[i] + 2 + counts[i] / 50);
            assert_in_range(total, counts[i] * 99 / 10,
                            counts[i] * 10 + 2 + counts[i] / 50);
            max = max_in_a_second(&r, steps[k], 4000000, &total);
            assert_in_range(max, counts[i], counts[i] + 2 + counts[i] / 50);
        }
}

static void rates_below_one_a_second_work(void **state)
{
    struct rate r = {6, MINUTE_MS};
    struct bucket b = {0};
    int64_t now = 1000000000;

    (void)state;
    bucket_take(&b, rate_interval_us(&r), now);
    bucket_take(&b, rate_interval_us(&r), now);
    assert_false(bucket_has(&b, rate_slack_us(&r), now + 9999999));
    assert_true(bucket_has(&b, rate_slack_us(&r), now + 10000000));
    assert_int_equal(bucket_ready_us(&b, rate_slack_us(&r)), now + 10000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_read),
        cmocka_unit_test(an_invalid_rate_is_refused),
        cmocka_unit_test(the_bucket_keeps_its_rate),
        cmocka_unit_test(rates_below_one_a_second_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
