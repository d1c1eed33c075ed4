/* Tests of usual: traffic of a simulated month. No alarm for Poisson traffic with nights, weekends and a
 * holiday; silence is found within a stated time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "usual.h"
#include <math.h>
#include <string.h>

enum { LEARNED_DAYS = 21, MONTH_DAYS = 30, SEEDS = 6 };

/* 2026-01-05, a Monday, 00:00 UTC */
#define MONDAY_MS 1767571200000LL

/* ---- traffic ---- */

static uint64_t random_state;

static double random_part(void) /* in (0, 1) */
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static void seed(int n)
{
    random_state = 88172645463325252ULL * (uint64_t)(2 * n + 1);
    for (int i = 0; i < 20; i++)
        random_part();
}

static double poisson(double mean)
{
    double limit = exp(-mean), product = 1;
    int n = -1;

    if (mean > 50) { /* near enough to a normal distribution */
        double z = sqrt(-2 * log(random_part())) *
                   cos(6.283185307 * random_part());
        double v = floor(mean + z * sqrt(mean) + 0.5);

        return v > 0 ? v : 0;
    }
    do {
        product *= random_part();
        n++;
    } while (product > limit);
    return n;
}

/* How busy each kind of day and hour is, as parts of the busiest. */
struct pattern {
    const char *name;
    double night, weekend, holiday;
    int summer_day; /* from here on everything is an hour earlier in UTC; 0: never */
};

static const struct pattern patterns[] = {
    {"steady", 1, 1, 1, 0},
    {"shop", 0.05, 0.6, 0.5, 0},
    {"business", 0.02, 0.15, 0.12, 35},
    {"office hours only", 0, 0, 0, 30},
};

/* Wednesday in the second week of the month. */
enum { HOLIDAY = LEARNED_DAYS + 9 };

static double part_at(const struct pattern *p, int64_t minute)
{
    int day, hour;
    double part;

    if (p->summer_day && minute / 1440 >= p->summer_day)
        minute += 60;
    day = (int)(minute / 1440);
    hour = (int)(minute / 60 % 24);
    part = hour < 7 || hour >= 20 ? p->night : 1;
    if (day == HOLIDAY)
        return part * p->holiday;
    return day % 7 >= 5 ? part * p->weekend : part;
}

/* One minute of traffic; `rate`: events per busy hour. */
static void minute_of(struct usual *u, const struct pattern *p, double rate,
                      int64_t minute)
{
    usual_take(u, MONDAY_MS + minute * MINUTE_MS, MINUTE_MS,
               poisson(rate / 60 * part_at(p, minute)));
}

/* ---- no false alarm ---- */

static void a_month_of_usual_traffic_is_no_alarm(void **state)
{
    static const double rates[] = {1, 4, 20, 100, 1000, 50000};
    static struct usual u;

    (void)state;
    for (size_t p = 0; p < COUNT_OF(patterns); p++)
        for (size_t r = 0; r < COUNT_OF(rates); r++)
            for (int s = 0; s < SEEDS; s++) {
                double most = 0;

                seed(s);
                usual_init(&u);
                for (int64_t m = 0; m < (LEARNED_DAYS + MONTH_DAYS) * 1440LL;
                     m++) {
                    minute_of(&u, &patterns[p], rates[r], m);
                    if (usual_missing(&u) > most)
                        most = usual_missing(&u);
                }
                if (most > USUAL_EVENTS)
                    fail_msg("%s, %g events an hour, seed %d: %g are missing",
                             patterns[p].name, rates[r], s, most);
            }
}

/* A job sends 500 events at once, every six hours. Silences of that length are usual then, whatever a
 * rate says. */
static void bursts_are_no_alarm(void **state)
{
    static struct usual u;

    (void)state;
    usual_init(&u);
    for (int64_t m = 0; m < (LEARNED_DAYS + MONTH_DAYS) * 1440LL; m++) {
        usual_take(&u, MONDAY_MS + m * MINUTE_MS, MINUTE_MS,
                   m % 360 == 30 ? 500 : 0);
        assert_true(usual_missing(&u) <= USUAL_EVENTS);
    }
}

/* ---- silence is found ---- */

static void learn(struct usual *u, const struct pattern *p, double rate,
                  int64_t minutes)
{
    usual_init(u);
    for (int64_t m = 0; m < minutes; m++)
        minute_of(u, p, rate, m);
}

/* Minutes until it is found; -1: not within 5 days. */
static int64_t found_after(struct usual *u, int64_t minute)
{
    for (int64_t m = 0; m < 5 * 1440; m++) {
        usual_take(u, MONDAY_MS + (minute + m) * MINUTE_MS, MINUTE_MS, 0);
        if (usual_missing(u) > USUAL_EVENTS)
            return m + 1;
    }
    return -1;
}

static void silence_is_found_in_the_stated_time(void **state)
{
    /* On the Tuesday of the fourth week, at 11:00. */
    const int64_t then = (LEARNED_DAYS + 1) * 1440LL + 660;
    static const struct {
        int pattern;
        double rate; /* so that the quietest day has … */
        int64_t minutes;
    } cases[] = {
        {0, 20, 3 * 60},     /* … 20 events an hour */
        {0, 200, 20},        /* … 200 */
        {1, 40, 3 * 60},     /* 24 at weekends */
        {2, 150, 3 * 60},    /* 22 at weekends */
        {2, 2000, 20},       /* 300 at weekends */
        {3, 20, 29 * 60},    /* nothing at weekends: the next working day */
        {0, 2, 3 * 24 * 60}, /* a quiet source: after three days */
    };
    static struct usual u;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int s = 0; s < SEEDS; s++) {
            int64_t after;

            seed(s);
            learn(&u, &patterns[cases[i].pattern], cases[i].rate, then);
            after = found_after(&u, then);
            if (after < 0 || after > cases[i].minutes)
                fail_msg("case %zu, seed %d: found after %lld minutes", i, s,
                         (long long)after);
        }
}

static void a_second_silence_is_found_too(void **state)
{
    const int64_t then = (LEARNED_DAYS + 1) * 1440LL;
    static struct usual u;
    int64_t m = then;

    (void)state;
    seed(1);
    learn(&u, &patterns[0], 100, then);
    for (int i = 0; i < 2; i++) {
        int64_t after = found_after(&u, m);

        assert_in_range(after, 1, 60);
        m += after;
        for (int64_t end = m + 600; m < end; m++) {
            usual_take(&u, MONDAY_MS + m * MINUTE_MS, MINUTE_MS, 0);
            assert_true(usual_missing(&u) > USUAL_EVENTS);
        }
        minute_of(&u, &patterns[0], 6000, m);
        assert_true(usual_missing(&u) == 0);
        for (int64_t end = m + 1440; m < end; m++)
            minute_of(&u, &patterns[0], 100, m);
    }
}

/* ---- what is foretold ---- */

/* usual_until() says when a silence will be found, in each hour of a day and of the weekend. */
static void an_alarm_is_foretold(void **state)
{
    static const struct {
        int pattern;
        double rate;
    } cases[] = {{0, 2}, {0, 20}, {1, 300}, {2, 150}, {3, 100}};
    static struct usual u, copy;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int hour = 0; hour < 48; hour += 7) {
            int64_t then = (LEARNED_DAYS + 4) * 1440LL + hour * 60, at, found;

            seed(3);
            learn(&u, &patterns[cases[i].pattern], cases[i].rate, then);
            copy = u;
            at = usual_until(&u, MONDAY_MS + then * MINUTE_MS, false,
                             USUAL_EVENTS);
            assert_memory_equal(&u, &copy, sizeof u);
            found = found_after(&copy, then) * MINUTE_MS;
            /* Looks are a minute apart there, and up to five here. */
            if (found < 0
                    ? at < 5 * DAY_MS
                    : at < found - 6 * MINUTE_MS || at > found + 6 * MINUTE_MS)
                fail_msg("case %zu, hour %d: foretold %lld s, found %lld s", i,
                         hour, (long long)at / 1000, (long long)found / 1000);
        }
}

static void
what_is_permitted_from_now_on_does_not_count_what_is_missing(void **state)
{
    static struct usual u;
    const int64_t then = (LEARNED_DAYS + 1) * 1440LL + 660;
    int64_t now = MONDAY_MS + (then + 3) * MINUTE_MS, whole, rest;

    (void)state;
    seed(2);
    learn(&u, &patterns[0], 100, then);
    minute_of(&u, &patterns[0], 6000, then);
    for (int64_t m = 1; m <= 3; m++)
        usual_take(&u, MONDAY_MS + (then + m) * MINUTE_MS, MINUTE_MS, 0);
    whole = usual_until(&u, now, true, USUAL_EVENTS);
    rest = usual_until(&u, now, false, USUAL_EVENTS);
    assert_in_range(whole - rest, 2 * MINUTE_MS, 4 * MINUTE_MS);
    assert_int_equal(usual_until(&u, now, false, -1), 0);
    /* One that hardly ever sends is never found. */
    learn(&u, &patterns[0], 0.01, then);
    assert_int_equal(usual_until(&u, now, true, USUAL_EVENTS), -1);
    assert_true(usual_rate(&u, 0) >= 0);
    usual_init(&u);
    assert_true(usual_rate(&u, 0) < 0);
    assert_true(usual_quiet_rate(&u, now) == 0);
}

/* ---- what nobody observed ---- */

static void time_that_nobody_observed_is_no_silence(void **state)
{
    const int64_t then = (LEARNED_DAYS + 1) * 1440LL + 660;
    static struct usual u;

    (void)state;
    seed(2);
    learn(&u, &patterns[0], 1000, then);
    for (int64_t m = then; m < then + 4 * 1440; m++) {
        usual_take(&u, MONDAY_MS + m * MINUTE_MS, 0, 0);
        assert_true(usual_missing(&u) == 0);
    }
    /* Nor is it learned: the same hours a week later. */
    for (int64_t m = then + 4 * 1440; m < then + 8 * 1440; m++)
        minute_of(&u, &patterns[0], 1000, m);
    assert_in_range(found_after(&u, then + 8 * 1440), 1, 10);
}

static void a_new_source_is_left_alone(void **state)
{
    static struct usual u;

    (void)state;
    seed(3);
    learn(&u, &patterns[0], 1000, (USUAL_DAYS - 2) * 1440LL);
    for (int64_t m = 0; m < 1440; m++) {
        usual_take(&u, MONDAY_MS + ((USUAL_DAYS - 2) * 1440LL + m) * MINUTE_MS,
                   MINUTE_MS, 0);
        assert_true(usual_missing(&u) == 0);
    }
}

static void rates_survive_as_bytes_and_others_are_refused(void **state)
{
    static struct usual u, again;
    static uint8_t bytes[USUAL_HOURS_BYTES];
    const float wild[] = {NAN, INFINITY, -2, 1e30F};

    (void)state;
    seed(4);
    learn(&u, &patterns[2], 100, LEARNED_DAYS * 1440LL);
    usual_hours_write(&u, bytes);
    usual_init(&again);
    assert_int_equal(
        usual_hours_read(&again, (struct bytes){bytes, sizeof bytes}), GR_OK);
    assert_memory_equal(&again.hours, &u.hours, sizeof u.hours);
    assert_int_equal(
        usual_hours_read(&again, (struct bytes){bytes, sizeof bytes - 1}),
        GR_REFUSE);
    for (size_t i = 0; i < COUNT_OF(wild); i++) {
        memcpy(bytes, &wild[i], sizeof wild[i]);
        assert_int_equal(
            usual_hours_read(&again, (struct bytes){bytes, sizeof bytes}),
            GR_REFUSE);
    }
    assert_memory_equal(&again.hours, &u.hours, sizeof u.hours);
}

static void a_clock_that_jumps_does_no_harm(void **state)
{
    static struct usual u;

    (void)state;
    seed(5);
    learn(&u, &patterns[0], 100, LEARNED_DAYS * 1440LL);
    for (int i = 0; i < 1000; i++) {
        usual_take(&u, (int64_t)(random_part() * 4e12) - 1000, MINUTE_MS, 1);
        assert_true(usual_missing(&u) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_month_of_usual_traffic_is_no_alarm),
        cmocka_unit_test(bursts_are_no_alarm),
        cmocka_unit_test(silence_is_found_in_the_stated_time),
        cmocka_unit_test(a_second_silence_is_found_too),
        cmocka_unit_test(an_alarm_is_foretold),
        cmocka_unit_test(
            what_is_permitted_from_now_on_does_not_count_what_is_missing),
        cmocka_unit_test(time_that_nobody_observed_is_no_silence),
        cmocka_unit_test(a_new_source_is_left_alone),
        cmocka_unit_test(rates_survive_as_bytes_and_others_are_refused),
        cmocka_unit_test(a_clock_that_jumps_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
