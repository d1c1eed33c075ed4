/* Windows and histograms: what is kept of the past, and the quantiles of what was counted in
 * between. Tracks and rates, which use them, are tested with the console and with top. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "histogram.h"
#include "window.h"
#include <math.h>
#include <stdlib.h>

static void a_window_keeps_the_newest_samples(void **state)
{
    struct window *w = window_new(3, 2);

    (void)state;
    assert_null(window_first(w, 0).values);
    assert_null(window_last(w, 100).values);
    for (int i = 1; i <= 5; i++) {
        double *values = window_add(w, 10 * i);

        values[0] = i;
        values[1] = -i;
        assert_int_equal(window_full(w), i >= 3);
    }
    assert_int_equal(window_first(w, 0).time_ms, 30);
    assert_float_equal(window_first(w, 0).values[1], -3, 0);
    assert_int_equal(window_last(w, INT64_MAX).time_ms, 50);
    window_clear(w);
    assert_null(window_first(w, 0).values);
    free(w);
}

static void a_sample_is_found_by_its_time(void **state)
{
    struct window *w = window_new(4, 1);

    (void)state;
    for (int i = 1; i <= 4; i++)
        *window_add(w, 10 * i) = i;
    assert_int_equal(window_first(w, 20).time_ms, 20);
    assert_int_equal(window_first(w, 21).time_ms, 30);
    assert_null(window_first(w, 41).values);
    assert_int_equal(window_last(w, 20).time_ms, 20);
    assert_int_equal(window_last(w, 19).time_ms, 10);
    assert_null(window_last(w, 9).values);
    free(w);
}

static void a_quantile_is_linear_within_a_bucket(void **state)
{
    static const double le[] = {1, 3}, counts[] = {10, 10, 5},
                        before[] = {5, 0, 5};
    struct histogram h = {0};

    (void)state;
    assert_true(isnan(histogram_quantile(&h, 0.5)));
    histogram_add(&h, 2, le, counts, before); /* 5, 10, 0 */
    assert_float_equal(h.total, 15, 0);
    assert_float_equal(histogram_quantile(&h, 1.0 / 3), 1, 1e-9);
    assert_float_equal(histogram_quantile(&h, 2.0 / 3), 2, 1e-9);
    histogram_add(&h, 2, le, counts, NULL);                 /* 15, 20, 5 */
    assert_float_equal(histogram_quantile(&h, 0.99), 3, 0); /* the last bound */
}

static void counts_with_other_bounds_are_left_out(void **state)
{
    static const double le[] = {1, 3}, counts[] = {1, 1, 1};
    struct histogram h = {0};

    (void)state;
    histogram_add(&h, 2, le, counts, NULL);
    histogram_add(&h, 1, le, counts, NULL);
    assert_int_equal(h.bounds, 2);
    assert_float_equal(h.total, 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_keeps_the_newest_samples),
        cmocka_unit_test(a_sample_is_found_by_its_time),
        cmocka_unit_test(a_quantile_is_linear_within_a_bucket),
        cmocka_unit_test(counts_with_other_bounds_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
