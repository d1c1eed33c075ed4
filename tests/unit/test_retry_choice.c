/* How hard to try a delivery: what a choice becomes, by the endpoint's `retry_choice`, and which
 * route it is taken from. */
#include "alloc.h"
#include "clock.h"
#include "endpoint_config.h"
#include "retry_choice.h"
#include "route.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char own_name[] = "own", long_name[] = "long", short_name[] = "short",
            listed_name[] = "listed", gone_name[] = "gone";
static int64_t two_waits[] = {1000, 2000};

static struct retry_policy policies[] = {
    {.name = own_name,
     .backoff = BACKOFF_FIXED,
     .first_wait_ms = 1000,
     .max_attempts = 5,
     .max_duration_ms = HOUR_MS},
    {.name = long_name,
     .backoff = BACKOFF_FIXED,
     .first_wait_ms = 9000,
     .max_duration_ms = DAY_MS,
     .attempt_ms = MINUTE_MS},
    {.name = short_name,
     .backoff = BACKOFF_FIXED,
     .first_wait_ms = 10,
     .max_attempts = 2,
     .attempt_ms = 100},
    {.name = listed_name,
     .backoff = BACKOFF_SCHEDULE,
     .schedule = {two_waits, 2},
     .max_duration_ms = DAY_MS},
};
static const struct settings settings = {.policies = policies,
                                         .policy_count = COUNT_OF(policies)};

static struct endpoint_settings endpoint(int rule, int policy)
{
    return (struct endpoint_settings){
        .retry_choice = rule, .policy = &policies[policy], .timeout_ms = 15000};
}

static void any_choice_applies_as_it_is(void **state)
{
    struct endpoint_settings e = endpoint(RETRY_CHOICE_ANY, 0);
    struct retry_policy p;
    bool unknown;

    (void)state;
    assert_int_equal(
        retry_choice_apply(&settings, &e,
                           &(struct retry_choice){.policy = long_name}, &p,
                           &unknown),
        CHOICE_TAKEN);
    assert_false(unknown);
    assert_int_equal(p.first_wait_ms, 9000);
    assert_int_equal(p.max_duration_ms, DAY_MS);
    assert_int_equal(p.attempt_ms, MINUTE_MS);
    assert_int_equal(
        retry_choice_apply(&settings, &e,
                           &(struct retry_choice){.max_attempts = 70}, &p,
                           &unknown),
        CHOICE_TAKEN);
    assert_int_equal(p.max_attempts, 70);
    assert_int_equal(p.first_wait_ms, 1000);
    assert_int_equal(
        retry_choice_apply(
            &settings, &e,
            &(struct retry_choice){.policy = short_name, .max_attempts = 9}, &p,
            NULL),
        CHOICE_TAKEN);
    assert_int_equal(p.max_attempts, 9);
    assert_int_equal(p.first_wait_ms, 10);
}

static void fewer_is_never_more_than_the_endpoints_own(void **state)
{
    struct endpoint_settings e = endpoint(RETRY_CHOICE_FEWER, 0);
    struct retry_policy p;

    (void)state;
    assert_int_equal(
        retry_choice_apply(
            &settings, &e,
            &(struct retry_choice){.policy = long_name, .max_attempts = 70}, &p,
            NULL),
        CHOICE_TAKEN);
    assert_int_equal(p.first_wait_ms, 9000);
    assert_int_equal(p.max_attempts, 5);
    assert_int_equal(p.max_duration_ms, HOUR_MS);
    assert_int_equal(settings_timeout_ms(&e, &p), 15000);
    assert_int_equal(
        retry_choice_apply(&settings, &e,
                           &(struct retry_choice){.policy = short_name}, &p,
                           NULL),
        CHOICE_TAKEN);
    assert_int_equal(p.max_attempts, 2);
    assert_int_equal(p.max_duration_ms, HOUR_MS);
    assert_int_equal(settings_timeout_ms(&e, &p), 100);
    assert_int_equal(retry_choice_apply(
                         &settings, &e,
                         &(struct retry_choice){.max_attempts = 70}, &p, NULL),
                     CHOICE_OWN);
    /* The endpoint's schedule has two waits, so three attempts. */
    e = endpoint(RETRY_CHOICE_FEWER, 3);
    assert_int_equal(retry_choice_apply(
                         &settings, &e,
                         &(struct retry_choice){.policy = long_name}, &p, NULL),
                     CHOICE_TAKEN);
    assert_int_equal(p.max_attempts, 3);
}

static void none_is_the_endpoints_own(void **state)
{
    struct endpoint_settings e = endpoint(RETRY_CHOICE_NONE, 0);
    struct retry_policy p;

    (void)state;
    assert_int_equal(
        retry_choice_apply(
            &settings, &e,
            &(struct retry_choice){.policy = short_name, .max_attempts = 1}, &p,
            NULL),
        CHOICE_OWN);
    assert_int_equal(p.max_attempts, 5);
}

static void a_policy_that_is_gone_is_replaced_by_the_endpoints(void **state)
{
    struct endpoint_settings e = endpoint(RETRY_CHOICE_ANY, 0);
    struct retry_policy p;
    bool unknown = false;

    (void)state;
    assert_int_equal(
        retry_choice_apply(&settings, &e,
                           &(struct retry_choice){.policy = gone_name}, &p,
                           &unknown),
        CHOICE_OWN);
    assert_true(unknown);
    assert_int_equal(p.first_wait_ms, 1000);
    assert_int_equal(
        retry_choice_apply(
            &settings, &e,
            &(struct retry_choice){.policy = gone_name, .max_attempts = 2}, &p,
            &unknown),
        CHOICE_TAKEN);
    assert_true(unknown);
    assert_int_equal(p.max_attempts, 2);
    assert_int_equal(p.first_wait_ms, 1000);
}

static void the_first_route_with_a_key_decides_about_it(void **state)
{
    struct route r[3] = {{.choice = {.max_attempts = 3}},
                         {.choice = {.policy = long_name,
                                     .max_attempts = 4,
                                     .priority = PRIORITY_NORMAL}},
                         {.choice = {.policy = short_name,
                                     .expires_in_ms = 5,
                                     .priority = PRIORITY_HIGH}}};
    struct chosen_by by = {0};
    struct retry_choice c;

    (void)state;
    c = route_choice(&by);
    assert_true(retry_choice_is_empty(&c));
    /* In any order of the calls. */
    route_choose(&by, &r[2]);
    route_choose(&by, &r[0]);
    route_choose(&by, &r[1]);
    c = route_choice(&by);
    assert_string_equal(c.policy, "long");
    assert_int_equal(c.max_attempts, 3);
    assert_int_equal(c.expires_in_ms, 5);
    assert_int_equal(c.priority, PRIORITY_NORMAL);
    assert_false(retry_choice_is_empty(
        &(struct retry_choice){.priority = PRIORITY_LOW}));
}

static void a_policy_is_packed_and_read(void **state)
{
    struct retry_policy p = {0};
    struct buf packed;

    (void)state;
    buf_init(&packed, RETRY_POLICY_MAX_BYTES);
    retry_policy_encode(&policies[3], &packed);
    assert_int_equal(
        retry_policy_read((struct bytes){packed.data, packed.len}, &p), GR_OK);
    assert_int_equal(p.backoff, BACKOFF_SCHEDULE);
    assert_int_equal(p.schedule.count, 2);
    assert_memory_equal(p.schedule.ms, two_waits, sizeof two_waits);
    assert_int_equal(p.max_duration_ms, DAY_MS);
    retry_policy_free(&p);
    packed.data[packed.len - 1] ^= 1; /* not whole */
    p = (struct retry_policy){0};
    assert_int_equal(
        retry_policy_read((struct bytes){packed.data, packed.len - 1}, &p),
        GR_REFUSE);
    retry_policy_free(&p);
    p = (struct retry_policy){0};
    buf_reset(&packed);
    retry_policy_encode(&(struct retry_policy){.backoff = BACKOFF_FIXED},
                        &packed);
    assert_int_equal(/* it would never end */
                     retry_policy_read((struct bytes){packed.data, packed.len},
                                       &p),
                     GR_REFUSE);
    retry_policy_free(&p);
    buf_fini(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_choice_applies_as_it_is),
        cmocka_unit_test(fewer_is_never_more_than_the_endpoints_own),
        cmocka_unit_test(none_is_the_endpoints_own),
        cmocka_unit_test(a_policy_that_is_gone_is_replaced_by_the_endpoints),
        cmocka_unit_test(the_first_route_with_a_key_decides_about_it),
        cmocka_unit_test(a_policy_is_packed_and_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
