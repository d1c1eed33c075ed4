/* lane: which of an endpoint's deliveries stand in one line. Pure.
 *
 * A lane is a number, kept with the delivery:
 *   0     all of an endpoint that is `ordered: all`
 *   > 0   those of one workspace, of one that is `ordered: workspace`
 *   < 0   those of one workspace, of one that is not ordered: only a queue that
 *         takes turns with the others; its deliveries do not wait for each
 *         other's end
 * The number is 62 bits of the SHA-256 of the workspace's name. Two names that
 * fall together would share a lane: more order than asked for, never less; and
 * nobody can find a name that falls upon a given one. */
#ifndef SEQUENCER_LANE_H
#define SEQUENCER_LANE_H

#include "rc.h"
#include "settings.h"

/* Of a workspace, above 0. */
int64_t lane_hash(const char *workspace);
/* The lane of a delivery to an endpoint that is ordered like this. */
int64_t lane_of(enum order_lanes ordered, int64_t hash);
/* Its deliveries wait for each other's end. */
bool lane_is_ordered(int64_t lane);
/* Lanes that no delivery of such an endpoint stands in: up to two ranges, each
 * from..to. Returns how many. */
struct lane_range {
    int64_t from, to;
};
int lane_strange(enum order_lanes ordered, struct lane_range ranges[2]);

#endif
