/* Tests of an endpoint's window: it grows with rate and round trip, shrinks with the
 * rate, and is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "dispatch_window.h"

enum { IN_FLIGHT = 32 };

/* `looks` looks, between which deliveries end at a rate. Returns the size. */
static int64_t run(struct dispatch_window *w, int64_t *now_ms, int looks,
                   int64_t per_s, int64_t round_trip_ms)
{
    for (int i = 0; i < looks; i++) {
        *now_ms += WINDOW_LOOK_MS;
        w->ended += per_s * WINDOW_LOOK_MS / 1000;
        window_look(w, *now_ms, round_trip_ms, IN_FLIGHT);
    }
    return w->size;
}

static void a_quiet_endpoint_has_the_smallest_window(void **state)
{
    struct dispatch_window w = {0};
    int64_t now_ms = 1;

    (void)state;
    window_look(&w, now_ms, 0, IN_FLIGHT);
    assert_int_equal(w.size, IN_FLIGHT + WINDOW_MIN);
    assert_int_equal(run(&w, &now_ms, 10, 5, 1000), IN_FLIGHT + WINDOW_MIN);
}

static void a_window_grows_with_rate_and_round_trip(void **state)
{
    struct dispatch_window fast = {0}, far = {0};
    int64_t now_ms = 1, later_ms = 1;

    (void)state;
    assert_int_equal(run(&fast, &now_ms, 3, 10000, 20), IN_FLIGHT + 800);
    assert_int_equal(run(&far, &later_ms, 3, 10000, 40), IN_FLIGHT + 1600);
    assert_int_equal(run(&far, &later_ms, 1, 15000, 40), IN_FLIGHT + 2400);
}

/* The window is the limit: so many are out, and each takes the round trip. */
static void a_window_grows_while_it_is_the_limit(void **state)
{
    struct dispatch_window w = {0};
    int64_t now_ms = 1, size = run(&w, &now_ms, 1, 0, 20);

    (void)state;
    for (int i = 0; i < 6; i++)
        size = run(&w, &now_ms, 1, size * 1000 / 20, 20);
    assert_int_equal(size, IN_FLIGHT + WINDOW_MAX);
}

static void a_window_shrinks_when_the_rate_falls(void **state)
{
    struct dispatch_window w = {0};
    int64_t now_ms = 1, high = run(&w, &now_ms, 3, 10000, 40), next;

    (void)state;
    next = run(&w, &now_ms, 1, 0, 40);
    assert_true(next < high && next > high / 2); /* one idle look is not much */
    assert_int_equal(run(&w, &now_ms, 50, 0, 40), IN_FLIGHT + WINDOW_MIN);
}

static void a_window_does_not_depend_on_max_in_flight(void **state)
{
    struct dispatch_window few = {0}, many = {0};

    (void)state;
    for (int64_t now_ms = 1; now_ms < 1000; now_ms += WINDOW_LOOK_MS) {
        few.ended = many.ended = 800;
        window_look(&few, now_ms, 30, 1);
        window_look(&many, now_ms, 30, 512);
    }
    assert_int_equal(many.size - few.size, 511);
    assert_true(few.size > 900);
}

static void a_stall_does_not_lengthen_the_round_trip(void **state)
{
    struct dispatch_window w = {0};
    int64_t now_ms = 1;

    (void)state;
    assert_int_equal(run(&w, &now_ms, 3, 1000, 60000), IN_FLIGHT + 1000);
}

static void large_tasks_make_the_window_small(void **state)
{
    struct dispatch_window w = {0};
    int64_t now_ms = 1;

    (void)state;
    window_measure_task(&w, 1, 100 * 1000);
    assert_int_equal(run(&w, &now_ms, 3, 20000, 100),
                     WINDOW_TASKS_MAX_BYTES / (100 * 1000));
    for (uint64_t n = 2; n < 102; n++)
        window_measure_task(&w, n, 50 * 1000 * 1000);
    assert_int_equal(run(&w, &now_ms, 1, 20000, 100), WINDOW_MIN_TASKS);
}

static void a_task_is_measured_once_on_each_link(void **state)
{
    struct dispatch_window w = {0};

    (void)state;
    window_measure_task(&w, 7, 8000);
    window_measure_task(&w, 8, 800);
    assert_int_equal(w.bytes, 7100);
    window_measure_task(&w, 7, 8000);
    window_measure_task(&w, 8, 800);
    assert_int_equal(w.bytes, 7100);
    w.measured = 0; /* another link, with numbers of its own */
    window_measure_task(&w, 1, 7900);
    assert_int_equal(w.bytes, 7200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_endpoint_has_the_smallest_window),
        cmocka_unit_test(a_window_grows_with_rate_and_round_trip),
        cmocka_unit_test(a_window_grows_while_it_is_the_limit),
        cmocka_unit_test(a_window_shrinks_when_the_rate_falls),
        cmocka_unit_test(a_window_does_not_depend_on_max_in_flight),
        cmocka_unit_test(a_stall_does_not_lengthen_the_round_trip),
        cmocka_unit_test(large_tasks_make_the_window_small),
        cmocka_unit_test(a_task_is_measured_once_on_each_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
