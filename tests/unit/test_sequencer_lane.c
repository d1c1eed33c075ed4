/* Tests of lane: which deliveries wait for each other. */
#include "lane.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MILLION = 1000000 };

static const enum order_lanes kinds[] = {LANES_NONE, LANES_WORKSPACE,
                                         LANES_ALL};

static void the_sign_of_a_lane_is_its_kind(void **state)
{
    (void)state;
    for (int64_t workspace = 1; workspace <= MILLION; workspace *= 10) {
        assert_true(lane_of(LANES_WORKSPACE, workspace) > 0);
        assert_true(lane_of(LANES_NONE, workspace) < 0);
        assert_int_equal(lane_of(LANES_ALL, workspace), 0);
    }
    assert_true(lane_is_ordered(0));
    assert_true(lane_is_ordered(7));
    assert_false(lane_is_ordered(-7));
}

static void newer_workspaces_take_their_turns_later(void **state)
{
    (void)state;
    for (int64_t workspace = 1; workspace <= MILLION; workspace *= 10) {
        assert_true(lane_of(LANES_WORKSPACE, workspace) <
                    lane_of(LANES_WORKSPACE, workspace + 1));
        assert_true(lane_of(LANES_NONE, workspace) <
                    lane_of(LANES_NONE, workspace + 1));
    }
    assert_true(lane_of(LANES_NONE, 1) > INT64_MIN); /* which begins a round */
}

static bool is_of_another_kind(enum order_lanes ordered, int64_t lane)
{
    struct lane_range r[LANE_RANGES_MAX];
    int n = lane_other_kinds(ordered, r);

    for (int i = 0; i < n; i++)
        if (lane >= r[i].from && lane <= r[i].to)
            return true;
    return false;
}

static void lanes_of_another_kind_are_recognised(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            for (int64_t ws = 1; ws <= MILLION; ws *= 10)
                assert_int_equal(
                    is_of_another_kind(kinds[i], lane_of(kinds[k], ws)),
                    i != k);
}

/* They were 62 bits of a hash and 1, or less than 0 by as much. */
static void lanes_of_an_older_program_are_recognised(void **state)
{
    static const int64_t hashes[] = {1, 4711, INT64_C(1) << 61,
                                     INT64_C(1) << 62};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t k = 0; k < COUNT_OF(hashes); k++) {
            assert_true(is_of_another_kind(kinds[i], hashes[k]));
            assert_true(is_of_another_kind(kinds[i], -hashes[k]));
        }
}

/* The lanes that a workspace gets, one after the other, are in the order of their rounds. */
static void a_workspace_has_its_share_of_each_round(void **state)
{
    int64_t position = 0, before = INT64_MIN;

    (void)state;
    for (int64_t i = 0; i < INT64_C(3) * ROUND_SHARE; i++) {
        int64_t lane = queue_add(PRIORITY_NORMAL, 7, &position);

        assert_int_equal(lane, queue_lane(PRIORITY_NORMAL, 7 + i / ROUND_SHARE,
                                          i < ROUND_FIRST));
        assert_int_equal(queue_round(lane), 7 + i / ROUND_SHARE);
        assert_false(lane_is_ordered(lane));
        assert_true(lane >= before);
        assert_false(is_of_another_kind(LANES_NONE, lane));
        before = lane;
    }
}

static void a_quiet_workspace_is_before_the_rest_of_a_round(void **state)
{
    int64_t busy = 0, quiet = 0, last = 0;

    (void)state;
    for (int i = 0; i < 5 * ROUND_SHARE; i++)
        last = queue_add(PRIORITY_NORMAL, 0, &busy);
    assert_true(queue_add(PRIORITY_NORMAL, 2, &quiet) <
                queue_lane(PRIORITY_NORMAL, 2, false));
    assert_true(queue_add(PRIORITY_NORMAL, 2, &quiet) < last);
    /* What it did not use in earlier rounds is not saved up. */
    for (int i = 2; i < ROUND_FIRST; i++)
        assert_int_equal(queue_add(PRIORITY_NORMAL, 2, &quiet),
                         queue_lane(PRIORITY_NORMAL, 2, true));
    assert_int_equal(queue_add(PRIORITY_NORMAL, 2, &quiet),
                     queue_lane(PRIORITY_NORMAL, 2, false));
    /* A busy one is not first in rounds that it has used already. */
    assert_int_equal(queue_add(PRIORITY_NORMAL, 2, &busy),
                     queue_lane(PRIORITY_NORMAL, 5, false));
}

/* Each lane of a queue is found by asking for that queue, and for no other; all are unordered lanes. */
static void queues_are_ranges_of_lanes(void **state)
{
    static const int64_t rounds[] = {0, 1, 4711, ROUND_MAX};

    (void)state;
    for (int p = PRIORITY_HIGH; p < PRIORITIES; p++) {
        enum priority is = (enum priority)p;

        assert_int_equal(queue_numbered((uint64_t)queue_number(is)), is);
        for (size_t i = 0; i < 2 * COUNT_OF(rounds); i++) {
            int64_t round = rounds[i / 2];
            int64_t lane = queue_lane(is, round, i % 2);

            assert_int_equal(queue_priority(lane), is);
            assert_int_equal(queue_round(lane), round);
            assert_false(is_of_another_kind(LANES_NONE, lane));
            for (int k = PRIORITY_HIGH; k < PRIORITIES; k++)
                assert_int_equal(lane > queue_before((enum priority)k) &&
                                     lane <= queue_last((enum priority)k),
                                 k == p);
        }
    }
    assert_int_equal(queue_numbered(3), PRIORITY_UNCHOSEN);
}

/* What waited in an earlier version is `normal`. */
static void lanes_from_before_priorities_are_normal(void **state)
{
    (void)state;
    assert_int_equal(queue_lane(PRIORITY_NORMAL, 7, true),
                     lane_of(LANES_NONE, 15));
    assert_int_equal(queue_lane(PRIORITY_NORMAL, 7, false),
                     lane_of(LANES_NONE, 16));
    assert_int_equal(queue_number(PRIORITY_NORMAL), 0);
}

/* No unordered lane, however damaged, is in no queue. */
static void every_unordered_lane_is_in_a_queue(void **state)
{
    static const int64_t lanes[] = {INT64_MIN + 1,
                                    INT64_MIN + (INT64_C(1) << 50),
                                    -(INT64_C(1) << 62), -4711, -1};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lanes); i++) {
        enum priority p = queue_priority(lanes[i]);

        assert_true(lanes[i] > queue_before(p) && lanes[i] <= queue_last(p));
    }
}

/* Numbers of a damaged row overflow nothing, and cost no other workspace its turn. */
static void a_damaged_position_is_bounded(void **state)
{
    int64_t position = INT64_MAX;

    (void)state;
    assert_int_equal(queue_add(PRIORITY_NORMAL, 3, &position),
                     queue_lane(PRIORITY_NORMAL, 3, true));
    assert_int_equal(queue_add(PRIORITY_NORMAL, 3, &position),
                     queue_lane(PRIORITY_NORMAL, 3, true));
    position = INT64_MIN;
    assert_int_equal(queue_add(PRIORITY_NORMAL, 3, &position),
                     queue_lane(PRIORITY_NORMAL, 3, true));
    assert_int_equal(queue_round(-1), ROUND_MAX);
    assert_int_equal(queue_round(INT64_MIN), 0);
    position = 0;
    assert_int_equal(
        queue_round(queue_add(PRIORITY_NORMAL, ROUND_MAX, &position)),
        ROUND_MAX);
}

/* It is stored with deliveries, so it never changes. */
static void an_ordering_key_has_one_number(void **state)
{
    (void)state;
    assert_int_equal(lane_key(NULL), 0);
    assert_int_equal(lane_key(""), 0);
    assert_true(lane_key("order-7") == INT64_C(0x5f8cf80227ec3237));
    assert_true(lane_key("order-8") > 0);
    assert_true(lane_key("order-8") != lane_key("order-7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sign_of_a_lane_is_its_kind),
        cmocka_unit_test(newer_workspaces_take_their_turns_later),
        cmocka_unit_test(lanes_of_another_kind_are_recognised),
        cmocka_unit_test(lanes_of_an_older_program_are_recognised),
        cmocka_unit_test(a_workspace_has_its_share_of_each_round),
        cmocka_unit_test(a_quiet_workspace_is_before_the_rest_of_a_round),
        cmocka_unit_test(queues_are_ranges_of_lanes),
        cmocka_unit_test(lanes_from_before_priorities_are_normal),
        cmocka_unit_test(every_unordered_lane_is_in_a_queue),
        cmocka_unit_test(a_damaged_position_is_bounded),
        cmocka_unit_test(an_ordering_key_has_one_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
