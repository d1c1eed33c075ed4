/* Tests of the file of attempts in flight over crashes, and of the lanes that have a
 * request in flight. P3, P5. */
#include "busy_lanes.h"
#include "inflight.h"
#include "quarantine.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/grapnel-inflight-XXXXXX";

static const struct inflight_slot *quarantined(const struct inflight *f,
                                               const char *event_id)
{
    const struct inflight_slot *s = inflight_slots(f);

    for (int i = 0; i < INFLIGHT_SLOTS; i++)
        if (s[i].state == INFLIGHT_QUARANTINED &&
            strcmp(s[i].event_id, event_id) == 0)
            return &s[i];
    return NULL;
}

static void tasks_in_flight_are_known_after_a_crash(void **state)
{
    struct inflight f;
    int a, b, c;

    (void)state;
    inflight_open(&f, path);
    assert_int_equal(inflight_crashes(&f), 0);
    a = inflight_add(&f, 7, "evt_a");
    b = inflight_add(&f, 7, "evt_b");
    c = inflight_add(&f, 8, "evt_c");
    inflight_begin(&f, a, false);
    inflight_begin(&f, b, false);
    inflight_begin(&f, c, true);
    inflight_end(&f, b);
    inflight_close(&f); /* as a kill leaves it */

    inflight_open(&f, path);
    assert_int_equal(inflight_crashes(&f), 1);
    assert_int_equal(quarantined(&f, "evt_a")->crashes, 0);
    assert_null(quarantined(&f, "evt_b"));
    assert_int_equal(quarantined(&f, "evt_c")->crashes, 1);
    assert_int_equal(quarantined(&f, "evt_c")->grant, 8);
    assert_true(quarantined(&f, "evt_c")->begun >
                quarantined(&f, "evt_a")->begun);
    assert_int_equal(f.free_count, INFLIGHT_SLOTS - 2);
    inflight_close(&f); /* and before any was tried again */

    inflight_open(&f, path);
    assert_int_equal(inflight_crashes(&f), 2);
    c = (int)(quarantined(&f, "evt_c") - inflight_slots(&f));
    assert_int_equal(quarantined(&f, "evt_c")->crashes, 1);
    inflight_end(&f, (int)(quarantined(&f, "evt_a") - inflight_slots(&f)));
    inflight_begin(&f, c, true);
    inflight_not_alone(&f, c); /* not alone any more */
    inflight_close(&f);

    inflight_open(&f, path);
    assert_int_equal(quarantined(&f, "evt_c")->crashes, 1);
    inflight_begin(&f, c, true);
    inflight_close(&f);

    inflight_open(&f, path);
    assert_int_equal(quarantined(&f, "evt_c")->crashes, 2);
    inflight_end(&f, c);
    inflight_reset_crashes(&f);
    inflight_close(&f);

    inflight_open(&f, path);
    assert_int_equal(inflight_crashes(&f), 0);
    assert_int_equal(f.free_count, INFLIGHT_SLOTS);
    inflight_close(&f);
}

static void a_malformed_file_of_attempts_is_empty(void **state)
{
    static char noise[64 * 1024];
    struct inflight f;
    int fd = open(path, O_WRONLY);

    (void)state;
    memset(noise, 0xa5, sizeof noise);
    assert_true(pwrite(fd, noise, sizeof noise, 24) == sizeof noise);
    inflight_open(&f, path);
    assert_int_equal(f.free_count, INFLIGHT_SLOTS);
    inflight_close(&f);
    assert_true(pwrite(fd, noise, sizeof noise, 0) == sizeof noise);
    close(fd);
    inflight_open(&f, path);
    assert_int_equal(f.free_count, INFLIGHT_SLOTS);
    inflight_close(&f);
}

static void without_a_file_no_attempt_is_noted(void **state)
{
    struct inflight f;
    int slot;

    (void)state;
    inflight_open(&f, "/nowhere/at/all");
    assert_null(inflight_slots(&f));
    slot = inflight_add(&f, 1, "evt_a");
    assert_int_equal(slot, INFLIGHT_NONE);
    inflight_begin(&f, slot, true);
    inflight_not_alone(&f, slot);
    inflight_end(&f, slot);
    inflight_reset_crashes(&f);
    inflight_close(&f);
}

static void more_attempts_than_slots_are_counted(void **state)
{
    struct inflight f;
    char id[32];

    (void)state;
    inflight_open(&f, path);
    for (int i = 0; i < INFLIGHT_SLOTS; i++) {
        snprintf(id, sizeof id, "evt_%026d", i);
        assert_int_not_equal(inflight_add(&f, 1, id), INFLIGHT_NONE);
    }
    assert_int_equal(inflight_add(&f, 1, "evt_x"), INFLIGHT_NONE);
    inflight_close(&f);
}

static void lanes_are_busy_until_they_are_given_back(void **state)
{
    enum { KEYS = 500, STEPS = 100000 };
    struct busy_lanes l = {0};
    uint64_t keys[KEYS];
    bool busy[KEYS] = {0};
    char text[16];

    (void)state;
    for (int i = 0; i < KEYS; i++) {
        snprintf(text, sizeof text, "ws-%d", i);
        keys[i] = i < KEYS / 2
                      ? busy_lanes_key(1, (struct bytes){"ws", i % 2 ? 2 : 0},
                                       (struct bytes){text, strlen(text)})
                      : (uint64_t)i; /* neighbours in the table */
    }
    srandom(3);
    for (int n = 0; n < STEPS; n++) {
        int i = (int)(random() % KEYS);

        assert_int_equal(busy_lanes_has(&l, keys[i]), busy[i]);
        if (busy[i])
            busy_lanes_remove(&l, keys[i]);
        else
            busy_lanes_add(&l, keys[i]);
        busy[i] = !busy[i];
    }
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(busy_lanes_has(&l, keys[i]), busy[i]);
    busy_lanes_fini(&l);
    assert_false(busy_lanes_has(&l, 1));
}

/* Who kills us again and again, at any time, must not meet the same one twice. */
static void a_task_alone_in_a_crash_waits_longer_each_time(void **state)
{
    (void)state;
    assert_int_equal(quarantine_quiet_ms(1), QUARANTINE_QUIET_MS);
    assert_int_equal(quarantine_quiet_ms(2), 2 * QUARANTINE_QUIET_MS);
    assert_int_equal(quarantine_quiet_ms(3), 4 * QUARANTINE_QUIET_MS);
    assert_int_equal(quarantine_quiet_ms(4), 8 * QUARANTINE_QUIET_MS);
    assert_int_equal(quarantine_quiet_ms(UINT32_MAX), 8 * QUARANTINE_QUIET_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_in_flight_are_known_after_a_crash),
        cmocka_unit_test(a_malformed_file_of_attempts_is_empty),
        cmocka_unit_test(without_a_file_no_attempt_is_noted),
        cmocka_unit_test(more_attempts_than_slots_are_counted),
        cmocka_unit_test(a_task_alone_in_a_crash_waits_longer_each_time),
        cmocka_unit_test(lanes_are_busy_until_they_are_given_back),
    };
    int fd = mkstemp(path), failed;

    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
