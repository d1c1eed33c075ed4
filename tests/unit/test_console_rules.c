/* Tests of alert rules on a simulated clock: durations, windows, and restarts of a
 * process. */
#include "console_rig.h"

/* Attempts at crm so far. */
static void attempts(struct rig *r, int64_t delivered, int64_t retrying)
{
    static const char name[] = "grapnel_endpoint_attempts_total";
    const int64_t values[] = {delivered, retrying};
    static const char *const outcomes[] = {"delivered", "retrying"};
    struct frame f;

    begin(&f, "deliverer", r->epoch, r->started_ms, WALL + r->now);
    text(&f, "metrics");
    msgpack_pack_map(&f.pk, 0);
    text(&f, "series");
    msgpack_pack_array(&f.pk, 2);
    for (int i = 0; i < 2; i++) {
        msgpack_pack_map(&f.pk, 3);
        text(&f, "name");
        text(&f, name);
        text(&f, "labels");
        msgpack_pack_map(&f.pk, 2);
        text(&f, "endpoint");
        text(&f, "crm");
        text(&f, "outcome");
        text(&f, outcomes[i]);
        text(&f, "value");
        msgpack_pack_int64(&f.pk, values[i]);
    }
    about(&f, name, "counter");
    give(r, &f);
}

/* End to end: counts of up to 1 s, up to 10 s, beyond. */
static void latency(struct rig *r, int64_t a, int64_t b, int64_t c)
{
    static const char name[] = "grapnel_end_to_end_seconds";
    const int64_t counts[] = {a, b, c};
    struct frame f;

    begin(&f, "sequencer", r->epoch, r->started_ms, WALL + r->now);
    text(&f, "metrics");
    msgpack_pack_map(&f.pk, 0);
    text(&f, "series");
    msgpack_pack_array(&f.pk, 1);
    msgpack_pack_map(&f.pk, 5);
    text(&f, "name");
    text(&f, name);
    text(&f, "labels");
    msgpack_pack_map(&f.pk, 0);
    text(&f, "le");
    msgpack_pack_array(&f.pk, 2);
    msgpack_pack_int(&f.pk, 1);
    msgpack_pack_int(&f.pk, 10);
    text(&f, "counts");
    msgpack_pack_array(&f.pk, 3);
    for (int i = 0; i < 3; i++)
        msgpack_pack_int64(&f.pk, counts[i]);
    text(&f, "sum");
    msgpack_pack_double(&f.pk, 1.5);
    about(&f, name, "histogram");
    give(r, &f);
}

static struct alert_rule rule_of(int when, double above)
{
    return (struct alert_rule){.name = (char *)"r",
                               .when = when,
                               .above = above,
                               .below = NAN,
                               .window_ms = 5 * MINUTE,
                               .at_least = 5};
}

/* ---- rules ---- */

static void an_alert_fires_after_its_duration(void **state)
{
    struct alert_rule rule = rule_of(ALERT_BACKLOG, 10);
    struct lifecycle lifecycle = {0};

    (void)state;
    rule.for_ms = MINUTE;
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_NO, 0),
                     LIFECYCLE_SAME);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_YES, 1000),
                     LIFECYCLE_BEGINS);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_YES, 60999),
                     LIFECYCLE_SAME);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_YES, 61000),
                     LIFECYCLE_FIRES);
    assert_int_equal(lifecycle.since_ms, 1000);
    assert_int_equal(lifecycle.fired_ms, 61000);
    /* No duplicates while nothing changes, nor when nothing is known. */
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_YES, 99000),
                     LIFECYCLE_SAME);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_UNKNOWN, HOUR),
                     LIFECYCLE_SAME);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_NO, HOUR),
                     LIFECYCLE_RESOLVES);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_NO, HOUR),
                     LIFECYCLE_SAME);
}

static void a_condition_that_ends_early_does_not_fire(void **state)
{
    struct alert_rule rule = rule_of(ALERT_BACKLOG, 10);
    struct lifecycle lifecycle = {0};

    (void)state;
    rule.for_ms = MINUTE;
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_YES, 0),
                     LIFECYCLE_BEGINS);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_NO, 30000),
                     LIFECYCLE_PASSES);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_YES, 59000),
                     LIFECYCLE_BEGINS);
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_YES, 61000),
                     LIFECYCLE_SAME);
    rule.for_ms = 0;
    lifecycle = (struct lifecycle){0};
    assert_int_equal(rule_step(&rule, &lifecycle, VERDICT_YES, 0),
                     LIFECYCLE_FIRES);
}

static void a_threshold_is_above_or_below(void **state)
{
    struct alert_rule rule = rule_of(ALERT_DISK_LOW, NAN);
    struct measurement measurement = {.value = 10, .known = true};

    (void)state;
    rule.below = 10;
    assert_int_equal(rule_judge(&rule, &measurement), VERDICT_NO);
    measurement.value = 9.5;
    assert_int_equal(rule_judge(&rule, &measurement), VERDICT_YES);
    rule = rule_of(ALERT_BACKLOG, 10);
    measurement.value = 10;
    assert_int_equal(rule_judge(&rule, &measurement), VERDICT_NO);
    measurement.value = 11;
    assert_int_equal(rule_judge(&rule, &measurement), VERDICT_YES);
    measurement.known = false;
    assert_int_equal(rule_judge(&rule, &measurement), VERDICT_UNKNOWN);
    measurement.grows =
        true; /* it is at least 11, whatever else is not known */
    assert_int_equal(rule_judge(&rule, &measurement), VERDICT_YES);
    assert_int_equal(rule_judge(&rule, NULL), VERDICT_NO);
}

/* ---- facts ---- */

static void a_rate_is_of_its_window_and_of_enough(void **state)
{
    struct rig *r = *state;
    struct alert_rule rule = rule_of(ALERT_DELIVERY_FAILURE_RATE, 0.05);

    r->now = MINUTE;
    attempts(r, 3, 1);
    /* 4 are too few, and we have not watched for long. */
    assert_int_equal(judged(r, &rule, "crm"), VERDICT_UNKNOWN);
    r->now += MINUTE;
    attempts(r, 90, 10);
    assert_int_equal(judged(r, &rule, "crm"), VERDICT_YES);
    assert_true(fabs(measurement_of(r, &rule, "crm")->value - 0.1) < 1e-9);
    /* Five minutes on, and all that was good. */
    for (int i = 1; i <= 6; i++) {
        r->now += MINUTE;
        attempts(r, 90 + 10 * i, 10);
        tracks_take(r->tracks, r->g, HOUR, r->now);
    }
    assert_int_equal(judged(r, &rule, "crm"), VERDICT_NO);
    assert_true(measurement_of(r, &rule, "crm")->value == 0);
    /* Nothing at all for a window: nothing fails. */
    r->now += 10 * MINUTE;
    assert_int_equal(judged(r, &rule, "crm"), VERDICT_NO);
    assert_null(measurement_of(r, &rule, "erp"));
}

static void a_counter_continues_over_a_restart(void **state)
{
    struct rig *r = *state;
    struct alert_rule rule = rule_of(ALERT_DEAD_LETTER_GROWTH, 10);

    rule.window_ms = HOUR;
    r->now = MINUTE;
    say(r, "dlqd", "grapnel_dlqd_received_total", "counter", 8);
    r->epoch = 2;
    r->now += MINUTE;
    say(r, "dlqd", "grapnel_dlqd_received_total", "counter", 2);
    assert_true(measurement_of(r, &rule, "")->value == 10);
    assert_int_equal(judged(r, &rule, ""), VERDICT_UNKNOWN);
    r->now += MINUTE;
    say(r, "dlqd", "grapnel_dlqd_received_total", "counter", 3);
    assert_int_equal(judged(r, &rule, ""), VERDICT_YES);
    r->now += 2 * HOUR;
    assert_int_equal(judged(r, &rule, ""), VERDICT_NO);
}

static void counts_from_before_the_console_started_are_ignored(void **state)
{
    struct rig *r = *state;
    struct alert_rule rule = rule_of(ALERT_DEAD_LETTER_GROWTH, 10);

    r->started_ms = WALL - HOUR;
    r->now = SECOND;
    say(r, "dlqd", "grapnel_dlqd_received_total", "counter", 5000);
    assert_true(measurement_of(r, &rule, "")->value == 0);
    r->now += SECOND;
    say(r, "dlqd", "grapnel_dlqd_received_total", "counter", 5011);
    assert_int_equal(judged(r, &rule, ""), VERDICT_YES);
}

static void a_gauge_of_a_silent_process_is_ignored(void **state)
{
    struct rig *r = *state;
    struct alert_rule rule = rule_of(ALERT_DEAD_LETTERS, 10);

    assert_int_equal(judged(r, &rule, ""), VERDICT_UNKNOWN);
    say(r, "dlqd", "grapnel_dlqd_dead_letters_dead", "gauge", 11);
    assert_int_equal(judged(r, &rule, ""), VERDICT_YES);
    r->now += STALE + 1;
    assert_int_equal(judged(r, &rule, ""), VERDICT_UNKNOWN);
    say(r, "dlqd", "grapnel_dlqd_dead_letters_dead", "gauge", 9);
    assert_int_equal(judged(r, &rule, ""), VERDICT_NO);
}

static void a_quantile_is_of_its_window(void **state)
{
    struct rig *r = *state;
    struct alert_rule rule = rule_of(ALERT_E2E_P95, 5);

    r->now = MINUTE;
    latency(r, 100, 0, 0);
    assert_int_equal(judged(r, &rule, ""), VERDICT_NO);
    assert_true(fabs(measurement_of(r, &rule, "")->value - 0.95) < 1e-9);
    r->now += MINUTE;
    latency(r, 100, 100, 0);
    assert_int_equal(judged(r, &rule, ""), VERDICT_YES); /* 9.1 s */
    assert_true(fabs(measurement_of(r, &rule, "")->value - 9.1) < 1e-9);
    latency(r, 100, 100, 1000);
    assert_true(measurement_of(r, &rule, "")->value == 10); /* the last bound */
}

static void
processes_are_missed_and_those_that_ended_in_order_are_not(void **state)
{
    struct rig *r = *state;
    struct alert_rule rule = rule_of(ALERT_PROCESS_SILENT, NAN);

    rule.silent_for_ms = 10 * SECOND;
    say(r, "ingress", "grapnel_x", "gauge", 1);
    say(r, "console", "grapnel_x", "gauge", 1);
    r->now = 9 * SECOND;
    assert_int_equal(judged(r, &rule, "ingress"), VERDICT_NO);
    r->now = 11 * SECOND;
    assert_int_equal(judged(r, &rule, "ingress"), VERDICT_YES);
    assert_int_equal(judged(r, &rule, "dlqd"), VERDICT_YES); /* never heard */
    collector_forget(r->g, "console");
    assert_null(measurement_of(r, &rule, "console"));
    collector_forget(r->g, "ingress"); /* there must be one */
    assert_int_equal(judged(r, &rule, "ingress"), VERDICT_YES);
    say(r, "ingress", "grapnel_x", "gauge", 1);
    assert_int_equal(judged(r, &rule, "ingress"), VERDICT_NO);
}

static void a_process_is_silent_since_its_last_frame(void **state)
{
    struct rig *r = *state;
    struct alert_rule rule = rule_of(ALERT_SOURCE_SILENT, NAN);
    struct source plane = {.name = (char *)"plane"};
    struct producer billing = {.name = (char *)"billing"};

    r->s.sources = &plane;
    r->s.source_count = 1;
    r->s.producers = &billing;
    r->s.producer_count = 1;
    rule.silent_for_ms = HOUR;
    say(r, "ingress", "grapnel_x", "gauge", 1);
    assert_int_equal(judged(r, &rule, "plane"), VERDICT_NO);
    r->now = HOUR + SECOND;
    assert_int_equal(judged(r, &rule, "plane"), VERDICT_UNKNOWN);
    say(r, "ingress", "grapnel_x", "gauge", 1);
    assert_int_equal(judged(r, &rule, "plane"), VERDICT_YES);
    assert_int_equal(judged(r, &rule, "billing"), VERDICT_YES);
}

static void
one_that_waits_for_the_database_says_so_and_is_not_silent(void **state)
{
    struct rig *r = *state;
    struct alert_rule silent = rule_of(ALERT_PROCESS_SILENT, NAN);
    struct alert_rule waits = rule_of(ALERT_REPLICATION_WAITS, 10);

    silent.silent_for_ms = 10 * SECOND;
    say(r, "dlqd", "grapnel_x_total", "counter", 7);
    r->now = 20 * SECOND;
    say_waiting(r, "dlqd", r->epoch, 19 * SECOND);
    assert_int_equal(judged(r, &silent, "dlqd"), VERDICT_NO);
    assert_int_equal(judged(r, &waits, "dlqd"), VERDICT_YES);
    /* Another host has it now. What the former active says changes nothing, its epoch included: else the counters would begin again with each frame. */
    r->epoch = 2;
    r->started_ms = WALL + r->now;
    say(r, "dlqd", "grapnel_x_total", "counter", 3);
    say_waiting(r, "dlqd", 1, 21 * SECOND);
    assert_int_equal(judged(r, &waits, "dlqd"), VERDICT_NO);
    say(r, "dlqd", "grapnel_x_total", "counter", 3);
    assert_true(collected_total(collector_next(r->g, SERIES("grapnel_x_total"),
                                               NULL, r->now)) == 10);
    /* It waits no more, and says nothing at all. */
    say_waiting(r, "dlqd", 2, 30 * SECOND);
    assert_int_equal(judged(r, &waits, "dlqd"), VERDICT_YES);
    r->now += STALE + SECOND;
    assert_int_equal(judged(r, &waits, "dlqd"), VERDICT_NO);
    assert_int_equal(judged(r, &silent, "dlqd"), VERDICT_YES);
}

/* The console was started during the wait. */
static void one_that_has_only_waited_is_not_silent(void **state)
{
    struct rig *r = *state;
    struct alert_rule silent = rule_of(ALERT_PROCESS_SILENT, NAN);

    silent.silent_for_ms = 10 * SECOND;
    r->now = 20 * SECOND;
    assert_int_equal(judged(r, &silent, "sequencer"), VERDICT_YES);
    say_waiting(r, "sequencer", r->epoch, 19 * SECOND);
    assert_int_equal(judged(r, &silent, "sequencer"), VERDICT_NO);
    r->now += STALE + SECOND;
    assert_int_equal(judged(r, &silent, "sequencer"), VERDICT_YES);
}

static void malformed_frames_do_no_harm(void **state)
{
    struct rig *r = *state;
    struct frame f;
    unsigned seed = 7;

    begin(&f, "dlqd", 1, WALL, WALL);
    text(&f, "metrics");
    msgpack_pack_map(&f.pk, 1);
    text(&f, "grapnel_x_total");
    msgpack_pack_int64(&f.pk, 1);
    text(&f, "series");
    msgpack_pack_array(&f.pk, 0);
    about(&f, "grapnel_x_total", "counter");
    for (size_t n = 0; n < f.bytes.size; n++)
        assert_int_equal(
            collector_frame(r->g, (struct bytes){f.bytes.data, n}, 0),
            GR_REFUSE);
    for (int i = 0; i < 20000; i++) {
        char copy[512];

        assert_in_range(f.bytes.size, 1, sizeof copy);
        memcpy(copy, f.bytes.data, f.bytes.size);
        for (int k = 0; k < 3; k++) {
            seed = seed * 1103515245 + 12345;
            copy[(seed >> 8) % f.bytes.size] = (char)(seed >> 16);
        }
        if (collector_frame(r->g, (struct bytes){copy, f.bytes.size}, 0) ==
            GR_OK)
            tracks_take(r->tracks, r->g, HOUR, 0);
    }
    msgpack_sbuffer_destroy(&f.bytes);
}

static void an_impossible_time_is_refused(void **state)
{
    static const int64_t bad[] = {-1, INT64_MIN, INT64_MAX};
    struct rig *r = *state;

    for (size_t i = 0; i < 2 * COUNT_OF(bad); i++) {
        int64_t ms = bad[i / 2];
        struct frame f;

        begin(&f, "dlqd", 1, i % 2 ? ms : WALL, i % 2 ? WALL : ms);
        text(&f, "metrics");
        msgpack_pack_map(&f.pk, 0);
        text(&f, "series");
        msgpack_pack_array(&f.pk, 0);
        text(&f, "about");
        msgpack_pack_map(&f.pk, 0);
        assert_int_equal(
            collector_frame(r->g, (struct bytes){f.bytes.data, f.bytes.size},
                            0),
            GR_REFUSE);
        msgpack_sbuffer_destroy(&f.bytes);
    }
}

static void a_summary_has_subject_and_value(void **state)
{
    struct alert_rule rule = rule_of(ALERT_DELIVERY_FAILURE_RATE, 0.05);
    struct buf b;

    (void)state;
    buf_init(&b, 1000);
    rule_summary(&rule, "crm", &(struct measurement){.value = 0.37}, true, &b);
    assert_string_equal(b.data, "endpoint crm: the share of attempts within 5m "
                                "that failed: 37 % (above 5 %)");
    buf_reset(&b);
    rule_summary(&rule, "crm", &(struct measurement){.value = 0.0136}, false,
                 &b);
    assert_string_equal(b.data,
                        "endpoint crm: the share of attempts within 5m that "
                        "failed: 1.36 % (no longer above 5 %)");
    buf_reset(&b);
    rule_summary(&rule, "crm", NULL, false, &b);
    assert_string_equal(
        b.data, "endpoint crm: no longer configured, or no longer reported");
    buf_reset(&b);
    rule = rule_of(ALERT_PROCESS_SILENT, NAN);
    rule.silent_for_ms = 30 * SECOND;
    rule_summary(&rule, "dlqd", &(struct measurement){.value = 31}, true, &b);
    assert_string_equal(
        b.data, "process dlqd: a process has published no metrics for 30s");
    buf_reset(&b);
    rule_summary(&rule, "dlqd", &(struct measurement){.value = 1}, false, &b);
    assert_string_equal(b.data, "process dlqd: no longer true: a process has "
                                "published no metrics for 30s");
    buf_fini(&b);
}

static void foreign_text_cannot_format_chat_messages(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 100);
    chat_text(&b, "<!channel> a & <http://x|crm>");
    assert_string_equal(b.data,
                        "&lt;!channel&gt; a &amp; &lt;http://x|crm&gt;");
    buf_fini(&b);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_alert_fires_after_its_duration),
        T(a_condition_that_ends_early_does_not_fire),
        T(a_threshold_is_above_or_below),
        T(a_rate_is_of_its_window_and_of_enough),
        T(a_counter_continues_over_a_restart),
        T(counts_from_before_the_console_started_are_ignored),
        T(a_gauge_of_a_silent_process_is_ignored),
        T(a_quantile_is_of_its_window),
        T(processes_are_missed_and_those_that_ended_in_order_are_not),
        T(a_process_is_silent_since_its_last_frame),
        T(one_that_waits_for_the_database_says_so_and_is_not_silent),
        T(one_that_has_only_waited_is_not_silent),
        T(malformed_frames_do_no_harm),
        T(an_impossible_time_is_refused),
        T(a_summary_has_subject_and_value),
        T(foreign_text_cannot_format_chat_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
