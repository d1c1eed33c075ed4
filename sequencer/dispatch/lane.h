/* lane: the lane of a delivery: deliveries of one lane are made in order. Pure.
 *
 * A lane is a number, kept with the delivery:
 *   0     all of an endpoint that is `ordered: all`
 *   > 0   those of one workspace, of one that is `ordered: workspace`
 *   < 0   those of one workspace, of one that is not ordered: only a queue that
 *         takes turns with the others; its deliveries do not wait for each
 *         other's end
 * Lanes take their turns in the order of these numbers, and the index of what waits is
 * in that order. So a workspace's number is made when its first event is routed, and
 * ascends: the deliveries of new workspaces are added at the end of the index, and a
 * backlog is read in the order in which it came (docs/decisions/0051). */
#ifndef SEQUENCER_LANE_H
#define SEQUENCER_LANE_H

#include "rc.h"
#include "settings.h"

/* The lane of a delivery to an endpoint that is ordered like this; `workspace` is the
 * number of its workspace, above 0. */
int64_t lane_of(enum order_lanes ordered, int64_t workspace);
/* Its deliveries wait for each other's end. */
bool lane_is_ordered(int64_t lane);
/* Lanes that no delivery of such an endpoint is in, each from..to. Returns how
 * many. */
enum { LANE_RANGES_MAX = 5 };
struct lane_range {
    int64_t from, to;
};
int lane_strange(enum order_lanes ordered,
                 struct lane_range ranges[LANE_RANGES_MAX]);

#endif
