/* Tests of order: which events are released and which wait, gaps, transitions, and
 * times. P6. */
#include "order.h"
#include "parsed_event.h"
#include "transitions.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_next_number_is_released_and_later_ones_wait(void **state)
{
    (void)state;
    assert_int_equal(order_arrives(5, 5, 0, false), ORDER_RELEASE);
    assert_int_equal(order_arrives(5, 6, 0, false), ORDER_BUFFER);
    assert_int_equal(order_arrives(5, 4, 0, false), ORDER_LATE);
    assert_int_equal(order_arrives(5, INT64_MAX, 0, false), ORDER_BUFFER);
    /* A gap that is tolerated. */
    assert_int_equal(order_arrives(5, 7, 2, false), ORDER_RELEASE);
    assert_int_equal(order_arrives(5, 8, 2, false), ORDER_BUFFER);
    /* Behind those that are about to go. */
    assert_int_equal(order_arrives(5, 5, 0, true), ORDER_BUFFER);
    assert_int_equal(order_arrives(5, 4, 0, true), ORDER_LATE);
}

static void a_number_shows_what_is_missing_before_it(void **state)
{
    struct span s = order_missing(4, 8);

    (void)state;
    assert_int_equal(s.first, 5);
    assert_int_equal(s.last, 7);
    assert_true(span_is_empty(order_missing(4, 5)));
    assert_true(span_is_empty(order_missing(4, 3)));
}

static void the_first_buffered_event_is_released_when_its_gap_ends(void **state)
{
    (void)state;
    assert_int_equal(order_head(5, 5, 0, GAP_FILLED, false), HEAD_RELEASE);
    assert_int_equal(order_head(5, 7, 0, GAP_OPEN, false), HEAD_WAITS);
    assert_int_equal(order_head(5, 7, 2, GAP_OPEN, false), HEAD_RELEASE);
    assert_int_equal(order_head(5, 7, 0, GAP_SKIPPED, false), HEAD_RELEASE);
    assert_int_equal(order_head(5, 7, 0, GAP_CLOSED, false), HEAD_RELEASE);
    assert_int_equal(order_head(5, 7, 0, GAP_OPEN, true), HEAD_SKIPS);
    /* The same number twice. */
    assert_int_equal(order_head(5, 4, 0, GAP_OPEN, false), HEAD_RELEASE);
}

static void a_gap_splits_around_a_number_that_arrives(void **state)
{
    struct split_gap g = gap_split((struct span){3, 5}, 4);
    char text[SPAN_BYTES];

    (void)state;
    assert_int_equal(g.before.first, 3);
    assert_int_equal(g.before.last, 3);
    assert_int_equal(g.behind.first, 5);
    assert_int_equal(g.behind.last, 5);
    g = gap_split((struct span){3, 5}, 3);
    assert_true(span_is_empty(g.before));
    assert_int_equal(g.behind.first, 4);
    g = gap_split((struct span){3, 3}, 3);
    assert_true(span_is_empty(g.before) && span_is_empty(g.behind));
    span_print(text, (struct span){3, 5});
    assert_string_equal(text, "3-5");
}

static void an_object_follows_the_rules(void **state)
{
    char *initial[] = {"open"},
         *transitions[] = {"open>paid", "open>failed", "paid>refunded", "o>x"};
    const struct state_rules r = {.initial = {initial, 1},
                                  .transitions = {transitions, 4}};

    (void)state;
    assert_true(transition_is_valid(&r, NULL, "open"));
    assert_false(transition_is_valid(&r, NULL, "paid"));
    assert_true(transition_is_valid(&r, "open", "paid"));
    assert_false(transition_is_valid(&r, "open", "refunded"));
    assert_false(transition_is_valid(&r, "open", "open"));
    assert_false(transition_is_valid(&r, "paid", "open"));
    assert_false(transition_is_valid(&r, "op", "en>paid"));
    assert_false(transition_is_valid(&r, "open", "pai"));
    assert_true(state_is_last(&r, "refunded"));
    assert_false(state_is_last(&r, "paid"));
}

static void times_of_every_spelling(void **state)
{
    static const struct {
        const char *text;
        int64_t us; /* -1: not a time */
    } table[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2000-02-29T12:00:00Z", 951825600000000},
        {"2026-11-21T10:00:00.5Z", 1795255200500000},
        {"2026-11-21T12:00:00.123456789+02:00", 1795255200123456},
        {"2026-11-21 10:00:00-00:30", 1795257000000000},
        {"1795255200", 1795255200000000},
        {"1795255200.25", 1795255200250000},
        {"1795255200123", 1795255200123000},
        {"1795255200123456", 1795255200123456},
        {"", -1},
        {"yesterday", -1},
        {"-5", -1},
        {"1795255200x", -1},
        {"12345678901234567", -1},
        {"2026-13-21T10:00:00Z", -1},
        {"2026-02-31T10:00:00Z", -1}, /* was taken for the 3rd of March */
        {"2026-11-21T25:00:00Z", -1},
        {"2026-11-21T10:00:00", -1},
        {"2026-11-21T10:00:00+2:00", -1},
        {"2026-11-21T10:00:00Zx", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int64_t us = -1;
        gr_rc rc = parsed_event_time(table[i].text, &us);

        if (table[i].us < 0 ? rc == GR_OK : rc != GR_OK || us != table[i].us)
            fail_msg("%s: %lld", table[i].text, (long long)us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_number_is_released_and_later_ones_wait),
        cmocka_unit_test(a_number_shows_what_is_missing_before_it),
        cmocka_unit_test(
            the_first_buffered_event_is_released_when_its_gap_ends),
        cmocka_unit_test(a_gap_splits_around_a_number_that_arrives),
        cmocka_unit_test(an_object_follows_the_rules),
        cmocka_unit_test(times_of_every_spelling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
