/* Tests of a workspace's numbers: sequence, clock, and the last one routed to each
 * endpoint. */
#include "hash.h"
#include "workspace.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct workspaces all;

static int set_up(void **state)
{
    (void)state;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    workspaces_clear(&all);
    return 0;
}

static const char *clock_of(const struct workspace *ws, const char *type,
                            size_t max)
{
    static char text[8192];
    struct buf b;

    buf_init(&b, sizeof text);
    workspace_clock(ws, type, max, &b);
    assert_false(b.failed);
    snprintf(text, sizeof text, "%s", b.data ? b.data : "");
    buf_fini(&b);
    return text;
}

static void sequences_begin_at_one_without_a_gap(void **state)
{
    struct workspace *ws = workspaces_add(&all, "acme");

    (void)state;
    for (uint64_t n = 1; n <= 1000; n++)
        assert_int_equal(workspace_number(&all, ws, "issue.created"), n);
    assert_ptr_equal(workspaces_find(&all, "acme"), ws);
    assert_null(workspaces_find(&all, "acm"));
}

static void the_clock_counts_by_type_in_order_of_names(void **state)
{
    struct workspace *ws = workspaces_add(&all, "acme");

    (void)state;
    assert_string_equal(clock_of(ws, "x", 100), "");
    workspace_number(&all, ws, "issue.updated");
    workspace_number(&all, ws, "issue.created");
    workspace_number(&all, ws, "issue.updated");
    workspace_number(&all, ws, "issue");
    assert_string_equal(clock_of(ws, "issue", 100),
                        "issue=1,issue.created=1,issue.updated=2");
}

static void a_too_large_clock_has_only_the_event_s_type(void **state)
{
    struct workspace *ws = workspaces_add(&all, "acme");

    (void)state;
    workspace_number(&all, ws, "aaaaaaaaaa");
    workspace_number(&all, ws, "bbbbbbbbbb");
    workspace_number(&all, ws, "bbbbbbbbbb");
    assert_string_equal(clock_of(ws, "bbbbbbbbbb", 20), "bbbbbbbbbb=2");
}

/* What is written is what is read, whatever a stranger calls a type. */
static void a_workspace_is_read_as_it_was_written(void **state)
{
    static const char *const types[] = {"a,b", "a=b", "100%", ",",
                                        "=",   "ü",   "a",    "a%2Cb"};
    struct workspace *ws = workspaces_add(&all, "acme");
    struct workspace *again = workspaces_add(&all, "again");
    struct buf clock, routed, positions;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(types); i++)
        for (size_t k = 0; k <= i; k++)
            workspace_number(&all, ws, types[i]);
    assert_int_equal(workspace_routed(ws, 7, 3), 0);
    assert_int_equal(workspace_routed(ws, 7, 5), 3);
    assert_int_equal(workspace_routed(ws, 9, 6), 0);
    assert_null(workspace_position(ws, 11, PRIORITY_NORMAL, false));
    *workspace_position(ws, 9, PRIORITY_NORMAL, true) = 4711;
    *workspace_position(ws, 11, PRIORITY_NORMAL, true) = 12;
    *workspace_position(ws, 11, PRIORITY_HIGH, true) = 13;
    *workspace_position(ws, 11, PRIORITY_LOW, true) = 14;
    buf_init(&clock, 4096);
    buf_init(&routed, 4096);
    buf_init(&positions, 4096);
    workspace_clock(ws, "", 4096, &clock);
    workspace_routed_blob(ws, &routed);
    workspace_positions_blob(ws, &positions);
    assert_int_equal(positions.len, 4 * 16); /* none that is 0 */
    workspace_read(again, ws->sequence, clock.data,
                   (struct bytes){routed.data, routed.len},
                   (struct bytes){positions.data, positions.len});
    assert_int_equal(again->tally_count, COUNT_OF(types));
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        size_t k = 0;

        while (strcmp(again->tallies[k].type, types[i]) != 0)
            k++;
        assert_int_equal(again->tallies[k].count, i + 1);
    }
    assert_string_equal(clock_of(again, "", 4096), clock.data);
    assert_int_equal(workspace_routed(again, 7, 8), 5);
    assert_int_equal(workspace_routed(again, 9, 8), 6);
    assert_int_equal(*workspace_position(again, 7, PRIORITY_NORMAL, false), 0);
    assert_int_equal(*workspace_position(again, 9, PRIORITY_NORMAL, false),
                     4711);
    assert_int_equal(*workspace_position(again, 11, PRIORITY_NORMAL, false),
                     12);
    assert_int_equal(*workspace_position(again, 11, PRIORITY_HIGH, false), 13);
    assert_int_equal(*workspace_position(again, 11, PRIORITY_LOW, false), 14);
    assert_int_equal(*workspace_position(again, 9, PRIORITY_HIGH, false), 0);
    assert_int_equal(workspace_number(&all, again, "a"), ws->sequence + 1);
    buf_fini(&clock);
    buf_fini(&routed);
    buf_fini(&positions);
}

static void types_without_end_are_counted_together(void **state)
{
    struct workspace *ws = workspaces_add(&all, "acme");
    char type[32];

    (void)state;
    for (int i = 0; i < 2 * TYPES_MAX; i++) {
        snprintf(type, sizeof type, "t%d", i);
        workspace_number(&all, ws, type);
    }
    assert_int_equal(ws->sequence, 2 * TYPES_MAX);
    assert_int_equal(ws->tally_count, TYPES_MAX + 1);
    assert_string_equal(ws->tallies[0].type, "*");
    assert_int_equal(ws->tallies[0].count, TYPES_MAX);
}

static void ten_thousand_workspaces_are_found_again(void **state)
{
    char name[32];

    (void)state;
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "ws-%d", i);
        workspace_number(&all, workspaces_add(&all, name), "t");
    }
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "ws-%d", i);
        assert_int_equal(workspaces_find(&all, name)->sequence, 1);
    }
    workspaces_clear(&all);
    assert_null(workspaces_find(&all, "ws-1"));
    assert_true(SLIST_EMPTY(&all.dirty));
}

/* Names whose FNV-1a is the same in as many bits as a table of 1024 uses. */
static void names_made_to_collide_do_not_collide(void **state)
{
    enum { NAMES = 1000, BUCKETS = 1024, RUN_MAX = 100 };
    char name[32];
    int made = 0, run = 0;

    (void)state;
    for (int i = 0; made < NAMES; i++) {
        uint64_t h;

        snprintf(name, sizeof name, "ws-%d", i);
        h = hash_name(HASH_BEGIN, name);
        if ((h ^ h >> 32) % BUCKETS != 7)
            continue;
        workspaces_add(&all, name);
        made++;
    }
    for (size_t i = 0; i < all.names.capacity; i++) { /* taken side by side */
        run = all.names.slots[i].after ? run + 1 : 0;
        assert_true(run <= RUN_MAX);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(sequences_begin_at_one_without_a_gap),
        T(the_clock_counts_by_type_in_order_of_names),
        T(a_too_large_clock_has_only_the_event_s_type),
        T(a_workspace_is_read_as_it_was_written),
        T(types_without_end_are_counted_together),
        T(ten_thousand_workspaces_are_found_again),
        T(names_made_to_collide_do_not_collide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
