/* Tests of event_cache: events with their bodies, in memory. */
#include "alloc.h"
#include "event_cache.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct event_cache *cache;

static int begin(void **state)
{
    (void)state;
    cache = event_cache_open();
    return 0;
}

static int end(void **state)
{
    (void)state;
    event_cache_close(cache);
    return 0;
}

static void put(int64_t n, size_t body_bytes)
{
    char *body = gr_alloc(body_bytes + 1);
    struct event_content content = {{"headers", 7}, {body, body_bytes}};
    struct event_row row = {.n = n, .strings = gr_strdup("evt_1")};
    const struct whole_event *e;

    row.id = row.strings;
    memset(body, 'x', body_bytes);
    e = event_cache_put(cache, &row, &content);
    assert_ptr_equal(e, event_cache_get(cache, n));
    assert_null(row.strings);
    free(body);
}

static bool has(int64_t n)
{
    return event_cache_get(cache, n) != NULL;
}

static void an_event_is_there_as_it_was(void **state)
{
    const struct whole_event *e;

    (void)state;
    put(5, 3);
    e = event_cache_get(cache, 5);
    assert_non_null(e);
    assert_string_equal(e->row.id, "evt_1");
    assert_int_equal(e->content.headers.n, 7);
    assert_memory_equal(e->content.headers.p, "headers", 7);
    assert_int_equal(e->content.body.n, 3);
    assert_memory_equal(e->content.body.p, "xxx", 3);
    assert_false(has(4));
    assert_false(has(5 + 2048));
    assert_false(has(0));
}

static void an_event_without_a_body_is_there(void **state)
{
    (void)state;
    put(5, 0);
    assert_int_equal(event_cache_get(cache, 5)->content.body.n, 0);
}

static void a_dropped_event_is_not_there(void **state)
{
    (void)state;
    put(5, 3);
    put(6, 3);
    event_cache_drop(cache, 7);
    event_cache_drop(cache, 5);
    event_cache_drop(cache, 5);
    assert_false(has(5));
    assert_true(has(6));
    event_cache_clear(cache);
    assert_false(has(6));
}

static void a_later_event_takes_the_place(void **state)
{
    (void)state;
    put(5, 3);
    put(5 + 2048, 4);
    assert_false(has(5));
    assert_true(has(5 + 2048));
    event_cache_drop(cache, 5);
    assert_true(has(5 + 2048));
}

static void large_bodies_do_not_pile_up(void **state)
{
    int kept = 0;

    (void)state;
    for (int64_t n = 1; n <= 40; n++)
        put(n, CACHED_MAX_BYTES / 4);
    for (int64_t n = 1; n <= 40; n++)
        kept += has(n);
    assert_in_range(kept, 1, 5);
    assert_true(has(40));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_event_is_there_as_it_was, begin,
                                        end),
        cmocka_unit_test_setup_teardown(an_event_without_a_body_is_there, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_dropped_event_is_not_there, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_later_event_takes_the_place, begin,
                                        end),
        cmocka_unit_test_setup_teardown(large_bodies_do_not_pile_up, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
