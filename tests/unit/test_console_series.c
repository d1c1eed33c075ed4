/* The values for charts: rates, gauges and quantiles of frames; what a restart keeps; a file that is
 * damaged, lost, full or not writable. */
#include "clock.h"
#include "console_rig.h"
#include "series_file.h"
#include "series_store.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* WALL is not at the begin of a chunk: begin at the next full hour. */
enum { BEGIN = 3600 * 1000 - WALL % (3600 * 1000) };
static char folder[] = "/tmp/test_series_XXXXXX";
static char path[64];

static struct series_store *opened(const struct rig *r)
{
    return series_store_open(path, WALL + r->now);
}

static int setup_file(void **state)
{
    setup(state);
    ((struct rig *)*state)->now = BEGIN;
    unlink(path);
    return 0;
}

/* A turn of the console, each second until `for_ms` have passed. */
static void run(struct rig *r, struct series_store *s, int64_t for_ms)
{
    for (int64_t end = r->now + for_ms; r->now < end;) {
        r->now += SECOND;
        series_store_work(s, r->g, WALL + r->now, r->now);
    }
}

static json_t *ask(struct rig *r, struct series_store *s, const char *names,
                   int64_t from_ms, int64_t step)
{
    char why[200] = "";
    json_t *args = json_pack("{s:s,s:I}", "names", names, "from_ms",
                             (json_int_t)(WALL + from_ms));
    json_t *reply;

    if (step)
        json_object_set_new(args, "step", json_integer(step));
    reply = series_store_ask(s, args, WALL + r->now, why);
    json_decref(args);
    if (!reply)
        fail_msg("%s", why);
    return reply;
}

static void refused(struct rig *r, struct series_store *s, const char *names,
                    int64_t from_ms, int64_t to_ms, int64_t step,
                    const char *expected)
{
    char why[400] = "";
    json_t *args = json_pack("{s:s,s:I,s:I,s:I}", "names", names, "from_ms",
                             (json_int_t)(WALL + from_ms), "to_ms",
                             (json_int_t)(WALL + to_ms), "step",
                             (json_int_t)step);

    assert_null(series_store_ask(s, args, WALL + r->now, why));
    if (!strstr(why + strlen(why) + 1, expected) && !strstr(why, expected))
        fail_msg("%s does not say %s", why, expected);
    json_decref(args);
}

/* The n-th value of the only series; NAN: null. */
static double value_at(struct rig *r, struct series_store *s, const char *name,
                       int64_t from_ms, int64_t step, size_t n)
{
    json_t *reply = ask(r, s, name, from_ms, step), *v;
    double out;

    v = json_array_get(
        json_object_get(json_array_get(json_object_get(reply, "series"), 0),
                        "values"),
        n);
    out = json_is_real(v) ? json_real_value(v) : NAN;
    json_decref(reply);
    return out;
}

/* The newest sample that is complete. */
static double newest(struct rig *r, struct series_store *s, const char *name)
{
    int64_t from = r->now - r->now % (10 * SECOND) - 10 * SECOND;

    return value_at(r, s, name, from - WALL % (10 * SECOND), 10, 0);
}

static void counters_are_rates_over_restarts_and_processes(void **state)
{
    static const char accepted[] = "grapnel_ingress_accepted_total";
    struct rig *r = *state;
    struct series_store *s = opened(r);

    say(r, "ingress", accepted, "counter", 1000);
    run(r, s, 10 * SECOND);
    assert_true(isnan(newest(r, s, "accepted"))); /* since when is unknown */
    say(r, "ingress", accepted, "counter", 1050);
    run(r, s, 10 * SECOND);
    assert_true(newest(r, s, "accepted") == 5);
    run(r, s, 10 * SECOND); /* no frame has come: the rate stays */
    assert_true(newest(r, s, "accepted") == 5);
    r->epoch = 2; /* the process starts anew, and has counted 40 */
    r->started_ms = WALL + r->now;
    say(r, "ingress", accepted, "counter", 40);
    run(r, s, 10 * SECOND);
    assert_true(newest(r, s, "accepted") ==
                2); /* in the 20 s since its frame */
    r->started_ms = WALL + r->now;
    say(r, "ingress-2", accepted, "counter", 0);
    say(r, "ingress", accepted, "counter", 40);
    run(r, s, 10 * SECOND);
    say(r, "ingress-2", accepted, "counter", 30);
    say(r, "ingress", accepted, "counter", 50);
    run(r, s, 10 * SECOND);
    assert_true(newest(r, s, "accepted") == 4);
    run(r, s, STALE + 20 * SECOND); /* both are silent */
    assert_true(isnan(newest(r, s, "accepted")));
    series_store_close(s);
}

static void a_new_label_is_counted_from_its_first_frame(void **state)
{
    static const char *const crm[][2] = {{"endpoint", "crm"},
                                         {"outcome", "delivered"}},
                             *const bad[][2] = {{"endpoint", "crm"},
                                                {"outcome", "dead"}};
    static const char attempts[] = "grapnel_endpoint_attempts_total";
    struct rig *r = *state;
    struct series_store *s = opened(r);
    json_t *all;

    say(r, "deliverer-1", "grapnel_attempts_total", "counter", 0);
    run(r, s, 10 * SECOND);
    publish_series(r, "deliverer-1", attempts, "counter", crm, 2, 20);
    run(r, s, 10 * SECOND);
    assert_true(newest(r, s, "endpoint_delivered:crm") == 2);
    assert_true(isnan(newest(r, s, "endpoint_failed:crm")));
    publish_series(r, "deliverer-1", attempts, "counter", bad, 2, 10);
    run(r, s, 10 * SECOND);
    assert_true(newest(r, s, "endpoint_failed:crm") == 1);
    all = ask(r, s, "endpoint_*,endpoint_failed:crm", r->now - MINUTE, 10);
    assert_int_equal(json_array_size(json_object_get(all, "series")), 2);
    json_decref(all);
    series_store_close(s);
}

static void gauges_are_sums_and_long_steps_are_means(void **state)
{
    struct rig *r = *state;
    struct series_store *s = opened(r);

    for (int i = 0; i < 60; i++) { /* 10 minutes */
        say(r, "ingress", "grapnel_ingress_backlog", "gauge", i < 30 ? 2 : 8);
        say(r, "ingress-2", "grapnel_ingress_backlog", "gauge", 1);
        run(r, s, 10 * SECOND);
    }
    run(r, s, SECOND);
    assert_true(newest(r, s, "backlog") == 9);
    assert_true(value_at(r, s, "backlog", BEGIN, 600, 0) == 6);
    assert_true(value_at(r, s, "backlog", BEGIN, 300, 0) == 3);
    assert_true(value_at(r, s, "backlog", BEGIN, 300, 1) == 9);
    assert_true(value_at(r, s, "backlog", BEGIN, 20, 29) == 9);
    series_store_close(s);
    /* A day later only the 5 minutes are there. */
    r->now += DAY_MS + HOUR;
    s = opened(r);
    assert_true(value_at(r, s, "backlog", BEGIN, 10, 0) == 3);
    assert_true(value_at(r, s, "backlog", BEGIN, 10, 1) == 9);
    r->now += 31 * DAY_MS;
    assert_true(isnan(value_at(r, s, "backlog", BEGIN, 3600, 0)));
    series_store_close(s);
}

static void a_restart_keeps_what_was_flushed(void **state)
{
    struct rig *r = *state;
    struct series_store *s = opened(r), *again;

    for (int i = 0; i < 33; i++) {
        say(r, "dlqd", "grapnel_dlqd_dead_letters_dead", "gauge", i);
        run(r, s, 10 * SECOND);
    }
    again = opened(r); /* as after kill -9: nothing is flushed */
    assert_true(value_at(r, again, "dead_letters", BEGIN, 10, 28) == 28);
    assert_true(isnan(value_at(r, again, "dead_letters", BEGIN, 10, 31)));
    assert_true(value_at(r, again, "dead_letters", BEGIN, 300, 0) == 14.5);
    series_store_close(again);
    series_store_close(s); /* an orderly stop flushes */
    s = opened(r);
    assert_true(value_at(r, s, "dead_letters", BEGIN, 10, 31) == 31);
    series_store_close(s);
}

static void damage_is_lost_history_and_nothing_more(void **state)
{
    struct rig *r = *state;
    struct series_store *s;
    struct stat st;
    unsigned seed = 1;
    char byte;
    int fd;

    for (int round = 0; round < 60; round++) {
        s = opened(r);
        say(r, "dlqd", "grapnel_dlqd_dead_letters_dead", "gauge", 7);
        run(r, s, 2 * MINUTE);
        say(r, "dlqd", "grapnel_dlqd_dead_letters_dead", "gauge", 7);
        run(r, s, 10 * SECOND);
        assert_true(newest(r, s, "dead_letters") == 7);
        json_decref(ask(r, s, "*", r->now - 3 * HOUR, 60));
        series_store_close(s);
        fd = open(path, O_RDWR);
        assert_true(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 8192);
        for (int i = 0; i < 200; i++) {
            off_t at = rand_r(&seed) % 3 ? rand_r(&seed) % 9000
                                         : rand_r(&seed) % st.st_size;

            byte = (char)rand_r(&seed);
            if (round % 7) /* else the header keeps its form */
                at = at < 4096 ? at + 4096 : at;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        if (round % 5 == 4)
            assert_int_equal(ftruncate(fd, rand_r(&seed) % st.st_size), 0);
        close(fd);
    }
    unlink(path);
    s = opened(r);
    assert_true(isnan(newest(r, s, "dead_letters")));
    series_store_close(s);
}

static void a_file_that_cannot_be_written_ends_nothing(void **state)
{
    struct rig *r = *state;
    struct series_store *s;

    assert_int_equal(mkdir(path, 0700), 0);
    s = opened(r);
    say(r, "dlqd", "grapnel_dlqd_dead_letters_dead", "gauge", 7);
    run(r, s, 5 * MINUTE + 10 * SECOND);
    say(r, "dlqd", "grapnel_dlqd_dead_letters_dead", "gauge", 7);
    run(r, s, 10 * SECOND);
    assert_true(newest(r, s, "dead_letters") == 7); /* from memory */
    series_store_close(s);
    assert_int_equal(rmdir(path), 0);
}

static void names_are_bounded_and_their_slots_are_used_again(void **state)
{
    struct series_file *f = series_file_open(path);
    int64_t since, step = series_step_ms(SERIES_FINE),
                   t = now_ms() / step * step;
    char name[40];
    int slot = -1;

    (void)state;
    for (int i = 0; i < SERIES_SLOTS; i++) {
        snprintf(name, sizeof name, "endpoint_p95:e%d", i);
        slot = series_file_slot(f, name, t);
        assert_true(slot >= 0);
        series_file_set(f, SERIES_FINE, slot, t, (float)i);
    }
    assert_int_equal(series_file_slot(f, "endpoint_p95:more", t), -1);
    assert_int_equal(series_file_slot(f, name, t), slot);
    t += DAY_MS + 2 * step;
    for (int i = 1; i < SERIES_SLOTS; i++)
        series_file_set(f, SERIES_FINE, i, t, 1);
    slot = series_file_slot(f, "endpoint_p95:more", t);
    assert_int_equal(slot, 0); /* it had no value for a day */
    assert_string_equal(series_file_name(f, slot, &since), "endpoint_p95:more");
    assert_int_equal(since, t);
    series_file_close(f);
}

static void requests_are_bounded(void **state)
{
    struct rig *r = *state;
    struct series_store *s = opened(r);
    char many[2000] = "accepted";
    int64_t now = r->now;

    for (int i = 0; i < 50; i++)
        strcat(many, ",accepted");
    refused(r, s, many, 0, now, 60, "at most 50");
    refused(r, s, "nothing", 0, now, 60, "\"nothing\" is not a series");
    refused(r, s, "accepted:x", 0, now, 60, "it has no subject");
    refused(r, s, "endpoint_p95", 0, now, 60, "add its subject");
    refused(r, s, "endpoint_p95:", 0, now, 60, "add its subject");
    refused(r, s, "", 0, now, 60, "from 1 to");
    refused(r, s, "accepted,,dead", 0, now, 60, "from 1 to");
    refused(r, s, "accepted", now, now, 60, "must be before `to`");
    refused(r, s, "accepted", now + HOUR, now + 2 * HOUR, 60, "before `to`");
    refused(r, s, "accepted", now - 20 * HOUR, now, 10, "at most 2000");
    refused(r, s, "accepted", -WALL - 1, 1 - WALL, 60, "before `to`");
    assert_true(isnan(value_at(r, s, "accepted", now - 10 * DAY_MS, 0, 600)));
    series_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup_file, teardown)
        T(counters_are_rates_over_restarts_and_processes),
        T(a_new_label_is_counted_from_its_first_frame),
        T(gauges_are_sums_and_long_steps_are_means),
        T(a_restart_keeps_what_was_flushed),
        T(damage_is_lost_history_and_nothing_more),
        T(a_file_that_cannot_be_written_ends_nothing),
        T(names_are_bounded_and_their_slots_are_used_again),
        T(requests_are_bounded),
#undef T
    };
    int failed;

    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/s", folder);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
