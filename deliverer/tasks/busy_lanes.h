/* busy_lanes: which order lanes have a request in flight. The sequencer never sends two
 * unfinished deliveries of a lane; this makes sure that two requests of a lane are never in
 * flight, whatever was received (P5).
 *
 * A lane is a 64-bit key: two lanes with the same key would only wait for each other. A lane
 * is added when its attempt begins and removed when the outcome is committed. Memory only;
 * a zeroed table is empty. */
#ifndef DELIVERER_BUSY_LANES_H
#define DELIVERER_BUSY_LANES_H

#include "lookup.h"
#include "rc.h"

struct busy_lanes {
    struct lookup keys;
};

/* The key of a grant's lane, by the workspace ("": the lane has all) and the ordering key of its
 * events ("": they have none); never 0. */
uint64_t busy_lanes_key(uint64_t grant, struct bytes workspace,
                        struct bytes ordering_key);

void busy_lanes_fini(struct busy_lanes *l);
bool busy_lanes_has(const struct busy_lanes *l, uint64_t key);
void busy_lanes_add(struct busy_lanes *l, uint64_t key); /* must not be busy */
void busy_lanes_remove(struct busy_lanes *l, uint64_t key);

#endif
