/* Tests of the built-in alert rules: each fires once above its threshold and resolves,
 * on a simulated clock. */
#include "config.h"
#include "console_rig.h"
#include <unistd.h>

/* What makes a rule fire, as its process says it. */
enum source_of {
    GAUGE,   /* `at` and one more */
    PER_CRM, /* the same of endpoint crm */
    GROWTH,  /* a counter that grows by `at` and one more within the window */
    RATE,    /* `at` of a thousand attempts, and more */
    DUPLICATES,   /* of a thousand events */
    LATENCY,      /* all of them in a second, then in ten and more */
    SILENCE,      /* of dlqd */
    WAITS,        /* for the replication database */
    APPENDS,      /* all of them within a fifth of `hold`, then half of it */
    UNAUTHORIZED, /* requests at plane */
    ELSEWHERE /* test_console_usual, test_console_status_mix, flow/test_silent */
};

static const struct built_in {
    const char *name, *severity, *when;
    double threshold;
    int64_t window_ms, for_ms;
    enum source_of how;
    const char *process, *metric;
} built_in[] = {
    {"dlq-warning", "warning", "dead_letters", 10, 0, 0, GAUGE, "dlqd",
     "grapnel_dlqd_dead_letters_dead"},
    {"dlq-critical", "critical", "dead_letters", 100, 0, 0, GAUGE, "dlqd",
     "grapnel_dlqd_dead_letters_dead"},
    {"dlq_growth_rate", "critical", "dead_letter_growth", 10, HOUR, 0, GROWTH,
     "dlqd", "grapnel_dlqd_received_total"},
    {"dlq_expiring", "warning", "dead_letters_expiring", 0, 0, 0, GAUGE, "dlqd",
     "grapnel_dlqd_dead_letters_expiring"},
    {"webhook_backlog", "warning", "backlog", 1000, 0, 0, GAUGE, "sequencer",
     "grapnel_deliveries_open"},
    {"webhook_delivery_failure_rate", "warning", "delivery_failure_rate", 0.05,
     5 * MINUTE, 0, RATE, "deliverer", "grapnel_endpoint_attempts_total"},
    {"webhook_retry_failure_rate", "warning", "retry_failure_rate", 0.5,
     5 * MINUTE, 0, RATE, "deliverer", "grapnel_endpoint_retries_total"},
    {"high_e2e_latency", "warning", "e2e_latency_p95", 10, 5 * MINUTE, 0,
     LATENCY, "sequencer", "grapnel_end_to_end_seconds"},
    {"sequence_gaps", "warning", "open_gaps", 0, 0, MINUTE, GAUGE, "sequencer",
     "grapnel_gaps_open"},
    {"lanes_halted", "critical", "halted_lanes", 0, 0, 0, GAUGE, "sequencer",
     "grapnel_lanes_halted"},
    {"endpoint_disabled", "critical", "endpoint_disabled", 0, 0, 0, PER_CRM,
     "sequencer", "grapnel_endpoint_disabled"},
    {"endpoint_held", "critical", "endpoint_held", 0, 0, 0, PER_CRM,
     "sequencer", "grapnel_endpoint_held"},
    {"endpoint_failing", "warning", "endpoint_failing", 3600, 0, 0, PER_CRM,
     "sequencer", "grapnel_endpoint_failing_seconds"},
    {"endpoint_waiting", "warning", "endpoint_waiting", 24 * 3600, 0, 0,
     PER_CRM, "sequencer", "grapnel_endpoint_waiting_seconds"},
    {"high_duplicate_rate", "warning", "duplicate_rate", 0.01, HOUR, 0,
     DUPLICATES, "sequencer", "grapnel_events_duplicate_total"},
    {"signature_failures", "warning", "signature_failures", 10, 5 * MINUTE, 0,
     UNAUTHORIZED, "ingress", "grapnel_ingress_rejected_total"},
    {"unusual_silence", "warning", "unusual_silence", 20, 0, 0, ELSEWHERE, NULL,
     NULL},
    {"dead_letter", "warning", "dead_letter", 0, 0, 0, ELSEWHERE, NULL, NULL},
    {"new_refusal", "warning", "new_refusal", 0, 0, 0, ELSEWHERE, NULL, NULL},
    {"status_mix", "warning", "status_mix", 0.05, 0, 0, ELSEWHERE, NULL, NULL},
    {"process_silent", "critical", "process_silent", 30, 0, 0, SILENCE, "dlqd",
     NULL},
    {"disk_low", "critical", "disk_low", 2.0 * 1024 * 1024 * 1024, 0, 0, GAUGE,
     "dlqd", "grapnel_store_free_bytes"},
    {"damaged_data", "critical", "damaged", 0, 0, 0, GAUGE, "dlqd",
     "grapnel_damaged_total"},
    {"standby_not_ready", "critical", "standbys_ready", 1, 0, MINUTE, GAUGE,
     "sequencer", "grapnel_replication_standbys_ready"},
    {"standby_behind", "warning", "standby_behind", 1000, 0, MINUTE, GAUGE,
     "sequencer", "grapnel_replication_behind_turns"},
    {"active_alone", "warning", "replication_peers", 1, 0, MINUTE, GAUGE,
     "sequencer", "grapnel_replication_peers"},
    {"log_unreachable", "critical", "replication_waits", 10, 0, 0, WAITS,
     "sequencer", NULL},
    {"engine_slow", "warning", "replication_p99", 0.25, 5 * MINUTE, 0, APPENDS,
     "sequencer", "grapnel_replication_append_seconds"},
};

/* Fires below its threshold. */
static bool is_low(const struct built_in *b)
{
    return strcmp(b->name, "disk_low") == 0 ||
           strcmp(b->name, "standby_not_ready") == 0 ||
           strcmp(b->name, "active_alone") == 0;
}

/* ---- the configuration of one who configures nothing ---- */

static struct settings *settings;

static int read_settings(void **state)
{
    char path[] = "/tmp/grapnel-test-XXXXXX";
    struct buf errors;
    int fd = mkstemp(path);

    (void)state;
    buf_init(&errors, 10000);
    assert_true(fd >= 0 && write(fd, "state_dir: s\n", 13) == 13);
    close(fd);
    settings = settings_load(path, &errors);
    unlink(path);
    assert_non_null(settings);
    buf_fini(&errors);
    return 0;
}

static int drop_settings(void **state)
{
    (void)state;
    settings_free(settings);
    return 0;
}

static const struct alert_rule *rule_named(const char *name)
{
    for (size_t i = 0; i < settings->alert_count; i++)
        if (strcmp(settings->alerts[i].name, name) == 0)
            return &settings->alerts[i];
    fail_msg("there is no rule %s", name);
    return NULL;
}

static void built_in_alerts_are_as_documented(void **state)
{
    (void)state;
    assert_int_equal(settings->alert_count, COUNT_OF(built_in));
    assert_int_equal(settings->console.evaluate_ms, MINUTE);
    for (size_t i = 0; i < COUNT_OF(built_in); i++) {
        const struct built_in *b = &built_in[i];
        const struct alert_rule *r = rule_named(b->name);

        assert_string_equal(rule_severity(r->severity), b->severity);
        assert_string_equal(alert_kinds[r->when].word, b->when);
        assert_int_equal(r->for_ms, b->for_ms);
        assert_int_equal(r->window_ms, b->window_ms);
        assert_true(r->enabled);
        if (r->silent_for_ms)
            assert_int_equal(r->silent_for_ms, b->threshold * SECOND);
        else if (is_low(b))
            assert_true(fabs(r->below - b->threshold) < 1);
        else if (alert_kinds[r->when].unit != ALERT_UNIT_NONE)
            assert_true(fabs(r->above - b->threshold) < 1e-9);
    }
}

/* ---- what processes say ---- */

static const char *subject_of(const struct built_in *b)
{
    return b->how == PER_CRM || b->how == RATE    ? "crm"
           : b->how == UNAUTHORIZED               ? "plane"
           : b->how == SILENCE                    ? "dlqd"
           : b->how == WAITS                      ? b->process
           : strcmp(b->name, "disk_low") == 0     ? b->process
           : strcmp(b->when, "damaged") == 0      ? b->process
           : strncmp(b->when, "standby", 7) == 0  ? b->process
           : strcmp(b->name, "active_alone") == 0 ? b->process
                                                  : "";
}

static void publish_outcomes(struct rig *r, const char *metric, int64_t good,
                             int64_t bad)
{
    const char *const delivered[][2] = {{"endpoint", "crm"},
                                        {"outcome", "delivered"}};
    const char *const retrying[][2] = {{"endpoint", "crm"},
                                       {"outcome", "retrying"}};

    /* Two processes, so that one's frame does not take back the other's. */
    publish_series(r, "deliverer-1", metric, "counter", delivered, 2, good);
    publish_series(r, "deliverer-2", metric, "counter", retrying, 2, bad);
}

/* So many within `le[0]`, and so many above `le[1]`. */
static void publish_histogram(struct rig *r, const char *metric,
                              const int64_t le[2], int64_t quick, int64_t slow)
{
    const int64_t counts[] = {quick, 0, slow};
    struct frame f;

    begin(&f, "sequencer", r->epoch, r->started_ms, WALL + r->now);
    text(&f, "metrics");
    msgpack_pack_map(&f.pk, 0);
    text(&f, "series");
    msgpack_pack_array(&f.pk, 1);
    msgpack_pack_map(&f.pk, 5);
    text(&f, "name");
    text(&f, metric);
    text(&f, "labels");
    msgpack_pack_map(&f.pk, 0);
    text(&f, "le");
    msgpack_pack_array(&f.pk, 2);
    msgpack_pack_int64(&f.pk, le[0]);
    msgpack_pack_int64(&f.pk, le[1]);
    text(&f, "counts");
    msgpack_pack_array(&f.pk, 3);
    for (int i = 0; i < 3; i++)
        msgpack_pack_int64(&f.pk, counts[i]);
    text(&f, "sum");
    msgpack_pack_double(&f.pk, 1.5);
    about(&f, metric, "histogram");
    give(r, &f);
}

/* `over` 0: all is well; 1: as much as is still well; 2: more. `base` is what has
 * been counted before. Returns what has been counted then. */
static int64_t publish_how(struct rig *r, const struct built_in *b, int over,
                           int64_t base)
{
    const char *const crm[][2] = {{"endpoint", "crm"}};
    const char *const refused[][2] = {{"source", "plane"},
                                      {"reason", "signature_mismatch"}};
    const int64_t *le = b->how == APPENDS ? (const int64_t[]){1, 3}
                                          : (const int64_t[]){10, 60};
    bool low = is_low(b);
    double part = over == 0 ? 0 : over == 1 ? b->threshold : 1.5 * b->threshold;
    int64_t n = over == 0 ? 0 : (int64_t)b->threshold + (over == 2);

    if (low)
        n = (int64_t)b->threshold - (over == 2);
    switch (b->how) {
    case GAUGE:
        say(r, "ingress", "grapnel_ingress_backlog", "gauge", 0);
        say(r, b->process, b->metric, "gauge", n);
        return 0;
    case PER_CRM:
        publish_series(r, b->process, b->metric, "gauge", crm, 1, n);
        return 0;
    case GROWTH:
        say(r, b->process, b->metric, "counter", base + n);
        return base + n;
    case RATE:
        publish_outcomes(r, b->metric, base + 1000 - (int64_t)(1000 * part),
                         base + (int64_t)(1000 * part));
        return base + 1000;
    case DUPLICATES:
        say(r, "sequencer", "grapnel_events_taken_total", "counter",
            base + 1000);
        say(r, "sequencer-2", b->metric, "counter",
            base / 100 + (int64_t)(1000 * part));
        return base + 1000;
    case WAITS:
        if (over)
            say_waiting(r, b->process, r->epoch, n * SECOND);
        else
            say(r, b->process, "grapnel_x", "gauge", 1);
        return 0;
    case LATENCY:
    case APPENDS:
        publish_histogram(r, b->metric, le, base + (over < 2 ? 1000 : 0),
                          base + (over < 2 ? 0 : 1000));
        return base + 1000;
    case UNAUTHORIZED:
        publish_series(r, b->process, b->metric, "counter", refused, 2,
                       base + n);
        return base + n;
    case SILENCE:
    case ELSEWHERE:
        break;
    }
    return 0;
}

static enum lifecycle_change judge(struct rig *r, const struct built_in *b,
                                   struct lifecycle *lifecycle)
{
    const struct alert_rule *rule = rule_named(b->name);

    return rule_step(rule, lifecycle,
                     rule_judge(rule, measurement_of(r, rule, subject_of(b))),
                     WALL + r->now);
}

/* Silence is the one that comes of nothing being said. */
static void judge_silence(struct rig *r, const struct built_in *b)
{
    struct lifecycle lifecycle = {0};

    say(r, "dlqd", "grapnel_x", "gauge", 1);
    r->now += 30 * SECOND;
    assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_SAME);
    r->now += SECOND;
    assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_FIRES);
    r->now += MINUTE;
    assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_SAME);
    say(r, "dlqd", "grapnel_x", "gauge", 1);
    assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_RESOLVES);
}

/* Well, for longer than any window; at the threshold; above it; well again. */
static void judge_all(struct rig *r, const struct built_in *b)
{
    int64_t window = b->window_ms ? b->window_ms : MINUTE, base = 0;
    struct lifecycle lifecycle = {0};

    for (int64_t end = r->now + window + MINUTE; r->now < end;
         r->now += MINUTE) {
        publish_how(r, b, 0, base);
        assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_SAME);
    }
    base = publish_how(r, b, 1, base);
    assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_SAME);
    for (int64_t end = r->now + window + MINUTE; r->now < end;
         r->now += MINUTE) /* so that it is out of the window */
        measurement_of(r, rule_named(b->name), subject_of(b));
    publish_how(r, b, 2, base);
    if (b->for_ms) {
        assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_BEGINS);
        r->now += b->for_ms;
        publish_how(r, b, 2, base);
    }
    assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_FIRES);
    r->now += SECOND;
    assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_SAME);
    r->now += window + MINUTE;
    if (b->how == GAUGE || b->how == PER_CRM || b->how == WAITS)
        publish_how(r, b, 0, base);
    assert_int_equal(judge(r, b, &lifecycle), LIFECYCLE_RESOLVES);
}

static void each_alert_fires_once_above_its_threshold_and_resolves(void **state)
{
    for (size_t i = 0; i < COUNT_OF(built_in); i++) {
        if (built_in[i].how == ELSEWHERE)
            continue;
        setup(state);
        ((struct rig *)*state)->s.replicate = settings->replicate;
        if (built_in[i].how == SILENCE)
            judge_silence(*state, &built_in[i]);
        else
            judge_all(*state, &built_in[i]);
        teardown(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_alerts_are_as_documented),
        cmocka_unit_test(
            each_alert_fires_once_above_its_threshold_and_resolves),
    };

    return cmocka_run_group_tests(tests, read_settings, drop_settings);
}
