/* lane: the number of a delivery's lane: deliveries of one lane are made in order. Pure.
 *
 * The number is stored with the delivery:
 *   0     all deliveries to an endpoint with `ordered: all`
 *   > 0   those of one workspace, to an endpoint with `ordered: workspace`
 *   < 0   those of one workspace, to an endpoint that is not ordered: a queue that takes
 *         turns with the others; its deliveries do not wait for each other's end
 * Lanes take their turns in the order of these numbers, and the index of waiting deliveries
 * is in that order. A workspace gets its number when its first event is routed, and the
 * numbers ascend: deliveries of new workspaces are added at the end of the index, and a
 * backlog is read in the order in which it arose (docs/decisions/0051).
 *
 * With `ordered: workspace`, events of one workspace with different ordering keys are in
 * different lanes: these have the number of the workspace, and a key. So they have their turns
 * together, as one workspace, and the oldest head is the first (docs/decisions/0108). */
#ifndef SEQUENCER_LANE_H
#define SEQUENCER_LANE_H

#include "rc.h"
#include "settings.h"

struct lane {
    int64_t n;
    int64_t key; /* a hash of the ordering key; 0: its events have none */
};

/* The hash of an ordering key, above 0; NULL or "": 0. The same for ever: it is stored. */
int64_t lane_key(const char *ordering_key);
/* The number of the lane of a delivery to an endpoint with this order; `workspace` is the number of its
 * workspace, above 0. */
int64_t lane_of(enum order_lanes ordered, int64_t workspace);
/* Its deliveries wait for each other's end. */
bool lane_is_ordered(int64_t lane);
/* The ranges of lanes that an endpoint with this order does not have. Returns how many. */
enum { LANE_RANGES_MAX = 5 };
struct lane_range {
    int64_t from, to;
};
int lane_other_kinds(enum order_lanes ordered,
                     struct lane_range ranges[LANE_RANGES_MAX]);

#endif
