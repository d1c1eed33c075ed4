/* Tests of status_mix: an endpoint that fails as it always has is no alarm, another mix is.
 * grapnel-links: ingress */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "learned.h"
#include "response.h"
#include "status_mix.h"
#include <math.h>
#include <string.h>

enum { AT_LEAST = 30, SEEDS = 6 };
static const double RISE = 0.05; /* of the built-in rule */

static uint64_t random_state;

static double random_part(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

/* A minute with `n` responses, by these shares. */
static void minute_of(struct mix *m, int n, const double shares[MIX_COUNT])
{
    double came[MIX_COUNT] = {0};

    for (int i = 0; i < n; i++) {
        double at = random_part();
        int class = 0;

        while (class < MIX_COUNT - 1 && at >= shares[class])
            at -= shares[class ++];
        came[class]++;
    }
    mix_take(m, MINUTE_MS, came);
}

static void learn(struct mix *m, int n, const double shares[MIX_COUNT])
{
    *m = (struct mix){0};
    for (int i = 0; i < 10 * 1440; i++)
        minute_of(m, n, shares);
}

static bool has_changed(const struct mix *m)
{
    struct mix_change c = mix_judge(m, AT_LEAST);

    return c.known && c.by > RISE;
}

static const double good[] = {0.99, 0, 0.004, 0.005, 0.001};
static const double flaky[] = {0.7, 0, 0.1, 0.15, 0.05};

static void a_month_of_the_same_mix_is_no_alarm(void **state)
{
    const double *const mixes[] = {good, flaky};
    struct mix m;

    (void)state;
    for (int s = 0; s < SEEDS; s++)
        for (int k = 0; k < 2; k++) {
            random_state = 88172645463325252ULL + (uint64_t)s;
            learn(&m, 1 + 3 * s, mixes[k]);
            for (int i = 0; i < 30 * 1440; i++) {
                minute_of(&m, 1 + 3 * s, mixes[k]);
                assert_false(has_changed(&m));
            }
        }
}

/* Ten minutes of failures each evening, as long as the endpoint is known. */
static void what_fails_every_day_is_usual(void **state)
{
    static const double bad[] = {0.5, 0, 0, 0.5, 0};
    struct mix m = {0};

    (void)state;
    random_state = 88172645463325252ULL;
    for (int i = 0; i < 40 * 1440; i++) {
        minute_of(&m, 5, i % 1440 >= 1200 && i % 1440 < 1210 ? bad : good);
        assert_false(has_changed(&m));
    }
}

static void another_mix_is_found_and_names_its_class(void **state)
{
    static const double moved[] = {0.7, 0.29, 0.004, 0.005, 0.001};
    static const double broken[] = {0.5, 0, 0.1, 0.35, 0.05};
    struct mix m;
    struct mix_change c;

    (void)state;
    random_state = 88172645463325252ULL;
    learn(&m, 10, good);
    for (int i = 0; i < 20; i++)
        minute_of(&m, 10, moved);
    c = mix_judge(&m, AT_LEAST);
    assert_true(c.by > RISE);
    assert_int_equal(c.risen, MIX_3XX);
    assert_true(c.was < 0.01);
    /* A flaky endpoint whose errors have become others. */
    learn(&m, 10, flaky);
    for (int i = 0; i < 120; i++)
        minute_of(&m, 10, broken);
    c = mix_judge(&m, AT_LEAST);
    assert_true(c.by > RISE);
    assert_int_equal(c.risen, MIX_5XX);
}

static void it_lasts_while_it_lasts_and_then_ends(void **state)
{
    static const double moved[] = {0.7, 0.29, 0.004, 0.005, 0.001};
    struct mix m;

    (void)state;
    random_state = 88172645463325252ULL;
    learn(&m, 10, good);
    for (int i = 0; i < 30; i++)
        minute_of(&m, 10, moved);
    for (int i = 0; i < 5 * 60; i++) {
        minute_of(&m, 10, moved);
        assert_true(has_changed(&m));
    }
    for (int i = 0; i < 120; i++)
        minute_of(&m, 10, good);
    for (int i = 0; i < 1440; i++) {
        minute_of(&m, 10, good);
        assert_false(has_changed(&m));
    }
    /* The same some days later is found as well. */
    for (int i = 0; i < 3 * 1440; i++)
        minute_of(&m, 10, good);
    for (int i = 0; i < 60; i++)
        minute_of(&m, 10, moved);
    assert_true(has_changed(&m));
}

static void better_is_no_alarm_and_little_says_nothing(void **state)
{
    static const double all[] = {1, 0, 0, 0, 0};
    static const double none[] = {0, 0, 0, 1, 0};
    struct mix m;

    (void)state;
    random_state = 88172645463325252ULL;
    learn(&m, 10, flaky);
    for (int i = 0; i < 1440; i++) {
        minute_of(&m, 10, all);
        assert_false(has_changed(&m));
    }
    learn(&m, 10, good);
    for (int i = 0; i < 180; i++)
        minute_of(&m, 0, good);
    minute_of(&m, AT_LEAST - 1, none);
    assert_false(mix_judge(&m, AT_LEAST).known);
    minute_of(&m, 1, none);
    assert_true(has_changed(&m));
    m = (struct mix){0}; /* nothing is known of it yet */
    for (int i = 0; i < (MIX_DAYS - 1) * 1440; i++)
        minute_of(&m, 10, i < 1440 ? good : none);
    assert_false(mix_judge(&m, AT_LEAST).known);
}

static void damaged_rows_are_not_sane(void **state)
{
    struct mix m = {0};

    (void)state;
    assert_true(mix_is_sane(&m));
    m.past[2] = NAN;
    assert_false(mix_is_sane(&m));
    m.past[2] = -1;
    assert_false(mix_is_sane(&m));
}

/* ---- refused requests ---- */

static void refusals_for_want_of_space_are_our_own(void **state)
{
    (void)state;
    for (enum response r = RESPONSE_NONE + 1; r < RESPONSE_COUNT; r++) {
        const struct response_facts *f = response_facts(r);

        if (learned_is_own_reason(f->reason) != (f->status >= 500))
            fail_msg("%s has status %u", f->reason, f->status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_month_of_the_same_mix_is_no_alarm),
        cmocka_unit_test(what_fails_every_day_is_usual),
        cmocka_unit_test(another_mix_is_found_and_names_its_class),
        cmocka_unit_test(it_lasts_while_it_lasts_and_then_ends),
        cmocka_unit_test(better_is_no_alarm_and_little_says_nothing),
        cmocka_unit_test(damaged_rows_are_not_sane),
        cmocka_unit_test(refusals_for_want_of_space_are_our_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
