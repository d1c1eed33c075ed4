/* Tests of clock: the wall clock and the monotonic one, when the system's clock is set.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Ours instead of the C library's, for base too. */
static int64_t wall_us = 1795255200123000, boot_us = 5000000;

int clock_gettime(clockid_t id, struct timespec *out)
{
    int64_t us = id == CLOCK_REALTIME ? wall_us : boot_us;

    out->tv_sec = (time_t)(us / 1000000);
    out->tv_nsec = (long)(us % 1000000) * 1000;
    return 0;
}

static void pass_ms(int64_t ms)
{
    wall_us += ms * 1000;
    boot_us += ms * 1000;
}

static void both_clocks_advance(void **state)
{
    int64_t now = now_ms(), mono = mono_ms();

    (void)state;
    assert_int_equal(now, 1795255200123);
    assert_int_equal(mono, 5000);
    pass_ms(1234);
    assert_int_equal(now_ms(), now + 1234);
    assert_int_equal(mono_ms(), mono + 1234);
    assert_int_equal(mono_us(), (mono + 1234) * 1000);
}

/* At most one part in a hundred, forward and back. */
static void a_step_is_followed_slowly(void **state)
{
    int64_t before, off;

    (void)state;
    clock_follow();
    for (int way = -1; way <= 1; way += 2) {
        wall_us += way * 10 * SECOND_MS * 1000; /* somebody sets the clock */
        before = now_ms();
        clock_follow();
        assert_int_equal(now_ms(), before); /* no time has passed */
        for (int s = 0; s < 500; s++) {
            before = now_ms();
            pass_ms(1000);
            clock_follow();
            assert_in_range(now_ms() - before, 990, 1010);
        }
        off = wall_us / 1000 - now_ms();
        assert_in_range(off * way, 10 * SECOND_MS - 5000 - 20,
                        10 * SECOND_MS - 5000 + 20);
        for (int s = 0; s < 600; s++) {
            pass_ms(1000);
            clock_follow();
        }
        assert_int_equal(now_ms(), wall_us / 1000); /* they agree again */
    }
}

static void suspended_time_counts(void **state)
{
    int64_t now = now_ms();

    (void)state;
    pass_ms(3 * HOUR_MS);
    assert_int_equal(now_ms(), now + 3 * HOUR_MS);
    clock_follow();
    assert_int_equal(now_ms(), now + 3 * HOUR_MS);
}

static void the_test_clock_stands_until_advanced(void **state)
{
    (void)state;
    clock_test_set(1000000);
    assert_int_equal(now_ms(), 1000000);
    pass_ms(500);
    assert_int_equal(now_ms(), 1000000);
    clock_test_advance(250);
    assert_int_equal(now_ms(), 1000250);
    assert_int_equal(mono_ms(), 1000250);
    clock_follow();
    assert_int_equal(now_ms(), 1000250);
    clock_test_off();
    assert_int_equal(now_ms(), wall_us / 1000);
}

static void a_time_is_written_as_rfc_3339(void **state)
{
    char out[RFC3339_BYTES];

    (void)state;
    rfc3339(out, 1795255200123);
    assert_string_equal(out, "2026-11-21T10:00:00.123Z");
    rfc3339(out, 0);
    assert_string_equal(out, "1970-01-01T00:00:00.000Z");
    rfc3339(out, 951782400000 - 1);
    assert_string_equal(out, "2000-02-28T23:59:59.999Z");
    rfc3339(out, -1); /* before the epoch, and strangers' nonsense: */
    assert_string_equal(out, "1969-12-31T23:59:59.999Z");
    rfc3339(out, INT64_MAX);
    assert_string_equal(out, "9999-12-31T23:59:59.999Z");
    rfc3339(out, INT64_MIN);
    assert_string_equal(out, "1000-01-01T00:00:00.000Z");
}

static bool parsed(const char *text, enum rfc3339_form form, int64_t *us)
{
    size_t n = strlen(text);
    char *exact = malloc(n ? n : 1); /* so that ASan sees a step too far */
    bool good;

    memcpy(exact, text, n);
    good = rfc3339_parse(exact, n, form, us);
    free(exact);
    return good;
}

/* Every form that any part of Grapnel reads, and whether each form is allowed. */
static void a_time_of_rfc_3339_is_read(void **state)
{
    enum { NEVER = -1, SHORT, BOTH };
    static const struct {
        const char *text;
        int allowed;
        int64_t us;
    } table[] = {
        {"2023-11-14T22:13:20Z", BOTH, 1700000000000000},
        {"2023-11-14t22:13:20z", BOTH, 1700000000000000},
        {"2023-11-14 22:13:20Z", BOTH, 1700000000000000},
        {"2023-11-14T22:13:20.5Z", BOTH, 1700000000500000},
        {"2023-11-14T22:13:20.123456789Z", BOTH, 1700000000123456},
        {"2023-11-15T00:43:20+02:30", BOTH, 1700000000000000},
        {"2023-11-14T14:13:20-08:00", BOTH, 1700000000000000},
        {"2023-11-14T22:13:20-00:00", BOTH, 1700000000000000},
        {"2024-02-29T00:00:00Z", BOTH, 1709164800000000},
        {"2000-02-29T12:00:00Z", BOTH, 951825600000000},
        {"1970-01-01T00:00:00Z", BOTH, 0},
        {"1969-12-31T23:59:59.75Z", BOTH, -250000},
        {"0000-01-01T00:00:00Z", BOTH, -62167219200000000},
        {"9999-12-31T23:59:59.999999Z", BOTH, 253402300799999999},
        {"2016-12-31T23:59:60Z", BOTH, 1483228800000000}, /* a leap second */
        {"2017-01-01T05:29:60+05:30", BOTH, 1483228800000000},
        {"2023-11-14T22:13:20", SHORT, 1700000000000000},
        {"2023-11-14 22:13", SHORT, 1699999980000000},
        {"2023-11-14T22:13Z", SHORT, 1699999980000000},
        {"2023-11-14", SHORT, 1699920000000000},
        {"2023-11-15T00:13:20+0200", SHORT, 1700000000000000},
        {"", NEVER, 0},
        {"Z", NEVER, 0},
        {"1700000000", NEVER, 0},
        {"2023-11-14T", NEVER, 0},
        {"2023-11-14Z", NEVER, 0},
        {"2023-11-14T22", NEVER, 0},
        {"2023-11-14T22:13:", NEVER, 0},
        {"2023-11-14T22:13:2", NEVER, 0},
        {"2023-11-14T22:13:20.Z", NEVER, 0},
        {"2023-11-14T22:13:20,5Z", NEVER, 0},
        {"2023-11-14T22:13:20ZZ", NEVER, 0},
        {"2023-11-14T22:13:20 Z", NEVER, 0},
        {"2023-11-14T22:13:20+02", NEVER, 0},
        {"2023-11-14T22:13:20+2:00", NEVER, 0},
        {"2023-11-14T22:13:20+02:60", NEVER, 0},
        {"2023-11-14T22:13:20+24:00", NEVER, 0},
        {"2026-02-31T00:00:00Z", NEVER, 0},
        {"2023-02-29T00:00:00Z", NEVER, 0},
        {"1900-02-29T00:00:00Z", NEVER, 0},
        {"2023-04-31T00:00:00Z", NEVER, 0},
        {"2023-13-01T00:00:00Z", NEVER, 0},
        {"2023-00-01T00:00:00Z", NEVER, 0},
        {"2023-01-00T00:00:00Z", NEVER, 0},
        {"2023-11-14T24:00:00Z", NEVER, 0},
        {"2023-11-14T22:60:00Z", NEVER, 0},
        {"2023-11-14T22:13:60Z", NEVER, 0}, /* leap seconds end a day */
        {"2023-11-14T22:13:61Z", NEVER, 0},
        {"23-11-14T22:13:20Z", NEVER, 0},
        {"+2023-11-14T22:13:20Z", NEVER, 0},
        {" 2023-11-14T22:13:20Z", NEVER, 0},
    };
    int64_t us;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++)
        for (int form = RFC3339_FULL; form <= RFC3339_SHORT; form++) {
            bool allowed = table[i].allowed == BOTH ||
                           (table[i].allowed == SHORT && form == RFC3339_SHORT);

            if (parsed(table[i].text, (enum rfc3339_form)form, &us) !=
                    allowed ||
                (allowed && us != table[i].us))
                fail_msg("\"%s\", %s", table[i].text,
                         form == RFC3339_SHORT ? "short" : "full");
        }
    assert_false(
        rfc3339_parse("2023-11-14T22:13:20Z\0", 21, RFC3339_SHORT, &us));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_clocks_advance),
        cmocka_unit_test(a_step_is_followed_slowly),
        cmocka_unit_test(suspended_time_counts),
        cmocka_unit_test(the_test_clock_stands_until_advanced),
        cmocka_unit_test(a_time_is_written_as_rfc_3339),
        cmocka_unit_test(a_time_of_rfc_3339_is_read),
    };

    log_open("test", LEVEL_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
