/* Tests of out_rows: rows of deliveries that deliverers have, in memory. */
#include "out_rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 100000 };

static struct out_rows *rows;

static int begin(void **state)
{
    (void)state;
    rows = out_rows_open();
    return 0;
}

static int end(void **state)
{
    (void)state;
    out_rows_close(rows);
    return 0;
}

static void id_of(int64_t event, char id[EVENT_ID_BYTES + 1])
{
    snprintf(id, EVENT_ID_BYTES + 1, "evt_%026lld", (long long)event);
}

static void give(int64_t event, int64_t endpoint, int64_t attempts)
{
    struct delivery d = {.event = event,
                         .endpoint = endpoint,
                         .attempts = attempts,
                         .error = gr_strdup("e"),
                         .reason = gr_strdup(""),
                         .deliverer = gr_strdup("")};

    id_of(event, d.event_id);
    out_rows_give(rows, &d);
    assert_null(d.error);
}

static int64_t event_of(const char *id)
{
    return out_rows_event(rows, (struct bytes){id, strlen(id)});
}

static void a_row_is_taken_once(void **state)
{
    struct delivery d;

    (void)state;
    give(7, 1, 3);
    assert_false(out_rows_take(rows, 7, 2, &d));
    assert_false(out_rows_take(rows, 8, 1, &d));
    assert_true(out_rows_take(rows, 7, 1, &d));
    assert_int_equal(d.attempts, 3);
    assert_string_equal(d.error, "e");
    delivery_fini(&d);
    assert_false(out_rows_take(rows, 7, 1, &d));
}

static void the_last_one_of_a_delivery_counts(void **state)
{
    struct delivery d;

    (void)state;
    give(7, 1, 3);
    give(7, 1, 4);
    assert_true(out_rows_take(rows, 7, 1, &d));
    assert_int_equal(d.attempts, 4);
    delivery_fini(&d);
}

static void a_dropped_row_is_not_there(void **state)
{
    struct delivery d;
    char id[EVENT_ID_BYTES + 1];

    (void)state;
    give(7, 1, 3);
    give(8, 1, 3);
    out_rows_drop(rows, 7, 1);
    assert_false(out_rows_take(rows, 7, 1, &d));
    out_rows_clear(rows);
    assert_false(out_rows_take(rows, 8, 1, &d));
    id_of(8, id);
    assert_int_equal(event_of(id), 0);
}

static void whatever_is_there_is_right(void **state)
{
    char id[EVENT_ID_BYTES + 1];
    int found = 0, named = 0;
    struct delivery d;

    (void)state;
    for (int64_t n = 1; n <= MANY; n++)
        give(n, n % 10 + 1, n);
    for (int64_t n = 1; n <= MANY; n++) {
        id_of(n, id);
        if (event_of(id)) {
            assert_int_equal(event_of(id), n);
            named++;
        }
        if (!out_rows_take(rows, n, n % 10 + 1, &d))
            continue;
        assert_int_equal(d.attempts, n);
        delivery_fini(&d);
        found++;
    }
    /* The hash spreads them: most of the places are in use. */
    assert_in_range(found, 5000, 8192);
    assert_in_range(named, 5000, 8192);
}

static void an_id_of_another_length_is_unknown(void **state)
{
    (void)state;
    give(7, 1, 3);
    assert_int_equal(event_of(""), 0);
    assert_int_equal(event_of("evt_0000000000000000000000000"), 0);
    assert_int_equal(event_of("evt_000000000000000000000000071"), 0);
}

static void open_deliveries_are_counted_down(void **state)
{
    (void)state;
    assert_false(out_rows_others_open(rows, 7));
    out_rows_note_open(rows, 7, 2);
    assert_false(out_rows_others_open(rows, 8));
    assert_true(out_rows_others_open(rows, 7));
    assert_false(out_rows_others_open(rows, 7));
    assert_false(out_rows_others_open(rows, 7));
    out_rows_note_open(rows, 7, 2);
    out_rows_clear(rows);
    assert_false(out_rows_others_open(rows, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_row_is_taken_once, begin, end),
        cmocka_unit_test_setup_teardown(the_last_one_of_a_delivery_counts,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_dropped_row_is_not_there, begin, end),
        cmocka_unit_test_setup_teardown(whatever_is_there_is_right, begin, end),
        cmocka_unit_test_setup_teardown(an_id_of_another_length_is_unknown,
                                        begin, end),
        cmocka_unit_test_setup_teardown(open_deliveries_are_counted_down, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
