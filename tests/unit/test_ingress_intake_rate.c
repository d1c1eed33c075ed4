/* The intake rate of ingress: full speed for a burst, then the rate at which the sequencer takes
 * events, in short pauses; none while the sequencer does not respond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "intake_rate.h"

enum { TARGET_MS = 1000, RATE = 10000 };

struct scene {
    struct intake_rate intake_rate;
    int64_t now_ms;
    uint64_t accepted, taken;
};

/* A tenth of a second in which so many are accepted and taken. */
static void tenth(struct scene *s, uint64_t accepted, uint64_t taken,
                  bool responds)
{
    s->now_ms += 100;
    s->accepted += accepted;
    s->taken += taken;
    intake_rate_look(&s->intake_rate, &(struct intake_rate_facts){
                                          .now_ms = s->now_ms,
                                          .cursor = s->taken,
                                          .backlog = s->accepted - s->taken,
                                          .responds = responds,
                                          .target_ms = TARGET_MS});
}

static struct scene begin(void)
{
    struct scene s = {.now_ms = 1000};

    tenth(&s, 0, 0, true);
    return s;
}

/* Twice as many as are taken, until it is on. */
static struct scene overloaded(void)
{
    struct scene s = begin();

    for (int i = 0; i < 100 && !s.intake_rate.on; i++)
        tenth(&s, RATE / 5, RATE / 10, true);
    assert_true(s.intake_rate.on);
    return s;
}

static void a_burst_is_accepted_at_full_speed(void **state)
{
    struct scene s = begin();

    (void)state;
    for (int i = 0; i < 9; i++) {
        tenth(&s, RATE / 5, RATE / 10, true);
        assert_false(s.intake_rate.on);
        intake_rate_stored(&s.intake_rate, s.now_ms * 1000, 256, 64);
        assert_int_equal(intake_rate_pause_ms(&s.intake_rate, s.now_ms * 1000),
                         0);
    }
}

static void
beyond_the_target_events_are_taken_as_fast_as_they_leave(void **state)
{
    struct scene s = overloaded();
    int64_t now_us = s.now_ms * 1000, stored = 0;

    (void)state;
    assert_in_range(s.intake_rate.wait_ms, TARGET_MS, TARGET_MS * 12 / 10);
    for (int64_t end_us = now_us + 1000 * 1000; now_us < end_us;) {
        intake_rate_stored(&s.intake_rate, now_us, 64, 64);
        stored += 64;
        now_us += 1000 * intake_rate_pause_ms(&s.intake_rate, now_us) + 100;
    }
    assert_in_range(stored, RATE * 8 / 10, RATE * 11 / 10);
}

static void pauses_end_with_the_backlog(void **state)
{
    struct scene s = overloaded();

    (void)state;
    for (int i = 0; i < 30 && s.intake_rate.on; i++)
        tenth(&s, RATE / 20, RATE / 10, true);
    assert_false(s.intake_rate.on);
    assert_int_equal(intake_rate_pause_ms(&s.intake_rate, s.now_ms * 1000), 0);
}

static void without_a_sequencer_there_is_no_pause(void **state)
{
    struct scene s = overloaded();

    (void)state;
    intake_rate_stored(&s.intake_rate, s.now_ms * 1000, 1000, 64);
    assert_true(intake_rate_pause_ms(&s.intake_rate, s.now_ms * 1000) > 0);
    tenth(&s, RATE / 10, 0, false);
    assert_false(s.intake_rate.on);
    assert_int_equal(intake_rate_pause_ms(&s.intake_rate, s.now_ms * 1000), 0);
}

/* However many wait, and however slow the sequencer is. */
static void a_pause_is_short(void **state)
{
    struct scene s = overloaded();
    int64_t now_us = s.now_ms * 1000;

    (void)state;
    for (int i = 0; i < 100; i++)
        tenth(&s, 1000, 1, true);
    for (int i = 0; i < 10; i++)
        intake_rate_stored(&s.intake_rate, now_us, 1000000, 64);
    assert_in_range(intake_rate_pause_ms(&s.intake_rate, now_us), 1, 100);
    s.intake_rate.next_us = 0;
    intake_rate_stored(&s.intake_rate, now_us, 1000000, 10240); /* 40 groups */
    assert_in_range(intake_rate_pause_ms(&s.intake_rate, now_us), 1, 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_is_accepted_at_full_speed),
        cmocka_unit_test(
            beyond_the_target_events_are_taken_as_fast_as_they_leave),
        cmocka_unit_test(pauses_end_with_the_backlog),
        cmocka_unit_test(without_a_sequencer_there_is_no_pause),
        cmocka_unit_test(a_pause_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
