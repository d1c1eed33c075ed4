/* What is in flight, over crashes; and the lanes that have a request in
 * flight. P3, P5. */
#include "care.h"
#include "flying.h"
#include "lanes.h"
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

static char path[] = "/tmp/grapnel-flying-XXXXXX";

static const struct flying_slot *suspect(const struct flying *f,
                                         const char *event_id)
{
    const struct flying_slot *s = flying_slots(f);

    for (int i = 0; i < FLYING_SLOTS; i++)
        if (s[i].state == FLYING_SUSPECT &&
            strcmp(s[i].event_id, event_id) == 0)
            return &s[i];
    return NULL;
}

static void what_flew_is_known_after_a_crash(void **state)
{
    struct flying f;
    int a, b, c;

    (void)state;
    flying_open(&f, path);
    assert_int_equal(flying_crashes(&f), 0);
    a = flying_put(&f, 7, "evt_a");
    b = flying_put(&f, 7, "evt_b");
    c = flying_put(&f, 8, "evt_c");
    flying_begin(&f, a, false);
    flying_begin(&f, b, false);
    flying_begin(&f, c, true);
    flying_end(&f, b);
    flying_close(&f); /* as a kill leaves it */

    flying_open(&f, path);
    assert_int_equal(flying_crashes(&f), 1);
    assert_int_equal(suspect(&f, "evt_a")->crashes, 0);
    assert_null(suspect(&f, "evt_b"));
    assert_int_equal(suspect(&f, "evt_c")->crashes, 1);
    assert_int_equal(suspect(&f, "evt_c")->grant, 8);
    assert_true(suspect(&f, "evt_c")->begun > suspect(&f, "evt_a")->begun);
    assert_int_equal(f.free_count, FLYING_SLOTS - 2);
    flying_close(&f); /* and before any was tried again */

    flying_open(&f, path);
    assert_int_equal(flying_crashes(&f), 2);
    c = (int)(suspect(&f, "evt_c") - flying_slots(&f));
    assert_int_equal(suspect(&f, "evt_c")->crashes, 1);
    flying_end(&f, (int)(suspect(&f, "evt_a") - flying_slots(&f)));
    flying_begin(&f, c, true);
    flying_company(&f, c); /* not alone any more */
    flying_close(&f);

    flying_open(&f, path);
    assert_int_equal(suspect(&f, "evt_c")->crashes, 1);
    flying_begin(&f, c, true);
    flying_close(&f);

    flying_open(&f, path);
    assert_int_equal(suspect(&f, "evt_c")->crashes, 2);
    flying_end(&f, c);
    flying_calm(&f);
    flying_close(&f);

    flying_open(&f, path);
    assert_int_equal(flying_crashes(&f), 0);
    assert_int_equal(f.free_count, FLYING_SLOTS);
    flying_close(&f);
}

static void nonsense_is_nothing(void **state)
{
    static char noise[64 * 1024];
    struct flying f;
    int fd = open(path, O_WRONLY);

    (void)state;
    memset(noise, 0xa5, sizeof noise);
    assert_true(pwrite(fd, noise, sizeof noise, 24) == sizeof noise);
    flying_open(&f, path);
    assert_int_equal(f.free_count, FLYING_SLOTS);
    flying_close(&f);
    assert_true(pwrite(fd, noise, sizeof noise, 0) == sizeof noise);
    close(fd);
    flying_open(&f, path);
    assert_int_equal(f.free_count, FLYING_SLOTS);
    flying_close(&f);
}

static void without_a_file_it_does_nothing(void **state)
{
    struct flying f;
    int slot;

    (void)state;
    flying_open(&f, "/nowhere/at/all");
    assert_null(flying_slots(&f));
    slot = flying_put(&f, 1, "evt_a");
    assert_int_equal(slot, FLYING_NONE);
    flying_begin(&f, slot, true);
    flying_company(&f, slot);
    flying_end(&f, slot);
    flying_calm(&f);
    flying_close(&f);
}

static void more_than_there_are_slots(void **state)
{
    struct flying f;
    char id[32];

    (void)state;
    flying_open(&f, path);
    for (int i = 0; i < FLYING_SLOTS; i++) {
        snprintf(id, sizeof id, "evt_%026d", i);
        assert_int_not_equal(flying_put(&f, 1, id), FLYING_NONE);
    }
    assert_int_equal(flying_put(&f, 1, "evt_x"), FLYING_NONE);
    flying_close(&f);
}

static void lanes_are_busy_until_they_are_given_back(void **state)
{
    enum { KEYS = 500, STEPS = 100000 };
    struct lanes l = {0};
    uint64_t keys[KEYS];
    bool busy[KEYS] = {0};
    char text[16];

    (void)state;
    for (int i = 0; i < KEYS; i++) {
        snprintf(text, sizeof text, "ws-%d", i);
        keys[i] = i < KEYS / 2 ? lane_key(1, (struct bytes){text, strlen(text)})
                               : (uint64_t)i; /* neighbours in the table */
    }
    srandom(3);
    for (int n = 0; n < STEPS; n++) {
        int i = (int)(random() % KEYS);

        assert_int_equal(lanes_busy(&l, keys[i]), busy[i]);
        if (busy[i])
            lanes_give(&l, keys[i]);
        else
            lanes_take(&l, keys[i]);
        busy[i] = !busy[i];
    }
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(lanes_busy(&l, keys[i]), busy[i]);
    lanes_fini(&l);
    assert_false(lanes_busy(&l, 1));
}

/* Who kills us again and again, at any time, must not meet the same one twice. */
static void who_was_alone_in_a_crash_waits_longer_after_each(void **state)
{
    (void)state;
    assert_int_equal(care_quiet_ms(1), CARE_QUIET_MS);
    assert_int_equal(care_quiet_ms(2), 2 * CARE_QUIET_MS);
    assert_int_equal(care_quiet_ms(3), 4 * CARE_QUIET_MS);
    assert_int_equal(care_quiet_ms(4), 8 * CARE_QUIET_MS);
    assert_int_equal(care_quiet_ms(UINT32_MAX), 8 * CARE_QUIET_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_flew_is_known_after_a_crash),
        cmocka_unit_test(nonsense_is_nothing),
        cmocka_unit_test(without_a_file_it_does_nothing),
        cmocka_unit_test(more_than_there_are_slots),
        cmocka_unit_test(who_was_alone_in_a_crash_waits_longer_after_each),
        cmocka_unit_test(lanes_are_busy_until_they_are_given_back),
    };
    int fd = mkstemp(path), failed;

    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
