/* lane: the number of a delivery's lane: deliveries of one lane are made in order. Pure.
 *
 * The number is stored with the delivery:
 *   0     all deliveries to an endpoint with `ordered: all`
 *   > 0   those of one workspace, to an endpoint with `ordered: workspace`
 *   < 0   to an endpoint that is not ordered: where the delivery is in the endpoint's queue.
 *         Deliveries do not wait for each other's end
 * The index of waiting deliveries is in the order of these numbers.
 *
 * Ordered lanes take their turns in that order. A workspace gets its number when its first
 * event is routed, and the numbers ascend: deliveries of new workspaces are added at the end
 * of the index, and a backlog is read in the order in which it arose (docs/decisions/0051).
 *
 * The queue of an endpoint that is not ordered has rounds. A workspace may have ROUND_SHARE
 * deliveries in each; those beyond are in later rounds. Within a round they are in the order
 * of routing, so that neighbours in the queue are neighbours in the tables, too, whichever
 * workspaces have them (docs/decisions/0113). A workspace that has little to send does not
 * wait for the rest of the round: its first ROUND_FIRST deliveries of the present round are
 * before the others.
 *
 * Each priority has a queue of its own; priority.h says from which one the next delivery is taken
 * (docs/decisions/0127). Ordered lanes know no priority.
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
 * workspace, above 0. LANES_NONE: a number in its queue, above 0. */
int64_t lane_of(enum order_lanes ordered, int64_t workspace);
/* Its deliveries wait for each other's end. */
bool lane_is_ordered(int64_t lane);

/* ---- the queue of an endpoint that is not ordered ---- */

enum { ROUND_SHARE = 256, ROUND_FIRST = 16 };
/* Rounds beyond this, and positions beyond its end, are of a damaged row. */
#define ROUND_MAX (INT64_C(1) << 40)

/* The deliveries of a round, or those of the first ones that are before them. */
int64_t queue_lane(enum priority priority, int64_t round, bool first);
/* The round of this lane; at most ROUND_MAX. */
int64_t queue_round(int64_t lane);
/* In whose queue it is: any lane that is not ordered is in one of them. */
enum priority queue_priority(int64_t lane);
/* The last lane that is not ordered and before this queue, and the queue's own last one. */
int64_t queue_before(enum priority priority);
int64_t queue_last(enum priority priority);
/* The lane of a delivery that has to wait. `round` is the present one. `*position` counts rounds and
 * deliveries of its workspace in the last one; 0: it has none that wait. */
int64_t queue_add(enum priority priority, int64_t round, int64_t *position);

/* By these numbers the queues are in the order of lanes, and positions are stored. Files from before there
 * were priorities have 0 only. */
int queue_number(enum priority priority);
/* PRIORITY_UNCHOSEN: a damaged row has this number. */
enum priority queue_numbered(uint64_t number);

/* The ranges of lanes that an endpoint with this order does not have. Returns how many. */
enum { LANE_RANGES_MAX = 5 };
struct lane_range {
    int64_t from, to;
};
int lane_other_kinds(enum order_lanes ordered,
                     struct lane_range ranges[LANE_RANGES_MAX]);

#endif
