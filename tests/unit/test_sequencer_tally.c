/* Tests of the counts of attempts: by period, by endpoint, and how many endpoints are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "tally.h"
#include <math.h>

enum { MIN = 60 * 1000 };
static const int64_t began_ms = 1000 * (int64_t)TALLY_SLOT_MS;

static void attempt(struct tallies *t, int64_t endpoint, uint64_t outcome,
                    uint64_t status, int64_t duration_ms, int64_t now_ms)
{
    struct wire_result r = {.attempt_id = 1,
                            .outcome = outcome,
                            .http_status = status,
                            .duration_ms = duration_ms,
                            .at_ms = now_ms - duration_ms};

    tallies_add(t, endpoint, &r, now_ms);
}

static void attempts_are_counted_by_outcome_status_and_duration(void **state)
{
    struct tallies *t = tallies_open(began_ms);
    struct tally_sum sum;
    int64_t now = began_ms + 3 * MIN;

    (void)state;
    for (int i = 0; i < 98; i++)
        attempt(t, 7, OUTCOME_DELIVERED, 200, 20, now);
    attempt(t, 7, OUTCOME_RETRYING, 503, 400, now + 1);
    attempt(t, 7, OUTCOME_DEAD, 404, 400, now + 2);
    attempt(t, 7, OUTCOME_DEAD, 302, 400, now + 2);
    attempt(t, 7, OUTCOME_RETRYING, 0, 30000, now + 3);
    attempt(t, 8, OUTCOME_DELIVERED, 200, 20, now);
    tallies_sum(t, 7, 5 * MIN, now + 4, &sum);
    assert_int_equal(sum.outcomes[OUTCOME_DELIVERED], 98);
    assert_int_equal(sum.outcomes[OUTCOME_RETRYING], 2);
    assert_int_equal(sum.outcomes[OUTCOME_DEAD], 2);
    assert_int_equal(sum.classes[TALLY_2XX], 98);
    assert_int_equal(sum.classes[TALLY_3XX], 1);
    assert_int_equal(sum.classes[TALLY_4XX], 1);
    assert_int_equal(sum.classes[TALLY_5XX], 1);
    assert_int_equal(sum.classes[TALLY_NO_RESPONSE], 1);
    assert_int_equal(sum.delivered_ms, 98 * 20);
    assert_true(sum.latency_ms[0] > 10 && sum.latency_ms[0] <= 25);
    assert_true(sum.latency_ms[2] > 250 && sum.latency_ms[2] <= 500);
    assert_int_equal(sum.success_ms, now - 20);
    assert_int_equal(sum.failure_ms, now + 3 - 30000);
    assert_int_equal(sum.from_ms, began_ms);
    tallies_sum(t, 9, 5 * MIN, now, &sum);
    assert_int_equal(sum.outcomes[OUTCOME_DELIVERED], 0);
    assert_true(isnan(sum.latency_ms[0]));
    tallies_close(t);
}

static void a_sum_has_its_period_and_nothing_older(void **state)
{
    struct tallies *t = tallies_open(began_ms);
    struct tally_sum sum;
    int64_t now = began_ms;

    (void)state;
    for (int i = 0; i < 300; i++, now += MIN) /* five hours */
        attempt(t, 7, OUTCOME_DELIVERED, 200, 5, now);
    now -= MIN;
    tallies_sum(t, 7, TALLY_PERIOD_MAX_MS, now, &sum);
    assert_int_equal(sum.from_ms, began_ms + 235 * MIN);
    assert_int_equal(sum.outcomes[OUTCOME_DELIVERED], 65);
    tallies_sum(t, 7, 5 * MIN, now, &sum);
    assert_int_equal(sum.from_ms, began_ms + 290 * MIN);
    assert_int_equal(sum.outcomes[OUTCOME_DELIVERED], 10);
    now += 2 * TALLY_PERIOD_MAX_MS;
    tallies_sum(t, 7, TALLY_PERIOD_MAX_MS, now, &sum);
    assert_int_equal(sum.outcomes[OUTCOME_DELIVERED], 0);
    assert_int_equal(sum.success_ms, began_ms + 299 * MIN - 5);
    /* The clock was set back by hours. */
    attempt(t, 7, OUTCOME_DELIVERED, 200, 5, began_ms);
    tallies_sum(t, 7, TALLY_PERIOD_MAX_MS, began_ms, &sum);
    assert_int_equal(sum.outcomes[OUTCOME_DELIVERED], 1);
    tallies_close(t);
}

static void the_endpoint_without_attempts_for_longest_is_dropped(void **state)
{
    struct tallies *t = tallies_open(began_ms);
    struct tally_sum sum;
    int64_t now = began_ms + MIN;

    (void)state;
    for (int64_t e = 1; e <= TALLIES_MAX; e++)
        attempt(t, e, OUTCOME_DELIVERED, 200, 5, now);
    attempt(t, 1, OUTCOME_DELIVERED, 200, 5, now + 1);
    attempt(t, TALLIES_MAX + 1, OUTCOME_DELIVERED, 200, 5, now + 2);
    tallies_sum(t, 1, 5 * MIN, now + 3, &sum);
    assert_int_equal(sum.outcomes[OUTCOME_DELIVERED], 2);
    tallies_sum(t, 2, 5 * MIN, now + 3, &sum);
    assert_int_equal(sum.outcomes[OUTCOME_DELIVERED], 0);
    assert_int_equal(sum.from_ms, now + 1); /* what was before is not known */
    tallies_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_are_counted_by_outcome_status_and_duration),
        cmocka_unit_test(a_sum_has_its_period_and_nothing_older),
        cmocka_unit_test(the_endpoint_without_attempts_for_longest_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
