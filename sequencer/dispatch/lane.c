/* lane: computes the number of a delivery's lane. */
#include "lane.h"
#include "sha256.h"
#include <string.h>

/* Earlier versions computed lanes as 62 bits of a hash of the workspace's name, or the negative of
 * that. They are nearer to 0 than this, and are moved at the first start
 * (upgrade/16-workspace_lanes.sql). */
#define LANES_BASE (INT64_C(1) << 62)

int64_t lane_of(enum order_lanes ordered, int64_t workspace)
{
    if (ordered == LANES_ALL)
        return 0;
    return (ordered == LANES_WORKSPACE ? LANES_BASE : INT64_MIN) + workspace;
}

/* ---- queues ---- */

#define QUEUE_LANES (INT64_C(1) << 60)

static const int queue_numbers[PRIORITIES] = {
    [PRIORITY_NORMAL] = 0, [PRIORITY_HIGH] = 1, [PRIORITY_LOW] = 2};

int queue_number(enum priority priority)
{
    return queue_numbers[priority];
}

enum priority queue_numbered(uint64_t number)
{
    for (int p = PRIORITY_HIGH; p < PRIORITIES; p++)
        if ((uint64_t)queue_numbers[p] == number)
            return (enum priority)p;
    return PRIORITY_UNCHOSEN;
}

int64_t queue_before(enum priority priority)
{
    return INT64_MIN + queue_numbers[priority] * QUEUE_LANES;
}

int64_t queue_last(enum priority priority)
{
    return priority == PRIORITY_LOW ? -1 : queue_before(priority) + QUEUE_LANES;
}

enum priority queue_priority(int64_t lane)
{
    if (lane <= queue_last(PRIORITY_NORMAL))
        return PRIORITY_NORMAL;
    return lane <= queue_last(PRIORITY_HIGH) ? PRIORITY_HIGH : PRIORITY_LOW;
}

int64_t queue_lane(enum priority priority, int64_t round, bool first)
{
    return queue_before(priority) + 1 + 2 * round + !first;
}

int64_t queue_round(int64_t lane)
{
    int64_t round = (lane - queue_lane(queue_priority(lane), 0, true)) / 2;

    return round < ROUND_MAX ? round : ROUND_MAX;
}

int64_t queue_add(enum priority priority, int64_t round, int64_t *position)
{
    int64_t from = round * ROUND_SHARE;
    int64_t at = *position > from ? *position : from;

    if (at >= ROUND_MAX * ROUND_SHARE)
        at = from;
    *position = at + 1;
    return queue_lane(priority, at / ROUND_SHARE, at - from < ROUND_FIRST);
}

int64_t lane_key(const char *ordering_key)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t key = 0;

    if (!ordering_key || !*ordering_key)
        return 0;
    sha256((struct bytes){ordering_key, strlen(ordering_key)}, digest);
    for (size_t i = 0; i < sizeof key; i++)
        key = key << 8 | digest[i];
    key &= INT64_MAX;
    return key ? (int64_t)key : 1;
}

bool lane_is_ordered(int64_t lane)
{
    return lane >= 0;
}

int lane_other_kinds(enum order_lanes ordered,
                     struct lane_range ranges[LANE_RANGES_MAX])
{
    const struct lane_range unordered = {INT64_MIN, -LANES_BASE - 1},
                            old_unordered = {-LANES_BASE, -1}, zero = {0, 0},
                            old_ordered = {1, LANES_BASE},
                            of_workspaces = {LANES_BASE + 1, INT64_MAX};
    int n = 0;

    ranges[n++] = old_unordered;
    ranges[n++] = old_ordered;
    if (ordered != LANES_NONE)
        ranges[n++] = unordered;
    if (ordered != LANES_ALL)
        ranges[n++] = zero;
    if (ordered != LANES_WORKSPACE)
        ranges[n++] = of_workspaces;
    return n;
}
