/* busy_lanes: which order lanes have a request in flight. The sequencer never
 * sends two unfinished deliveries of a lane; this makes sure that two are never on the
 * wire, whatever was received (P5). Lanes are 64-bit keys: two lanes with the same key
 * would only wait for each other. */
#ifndef DELIVERER_BUSY_LANES_H
#define DELIVERER_BUSY_LANES_H

#include "lookup.h"
#include "rc.h"

struct busy_lanes {
    struct lookup keys;
};

/* The key of the lane `text` of a grant; never 0. */
uint64_t busy_lanes_key(uint64_t grant, struct bytes text);

void busy_lanes_fini(struct busy_lanes *l);
bool busy_lanes_has(const struct busy_lanes *l, uint64_t key);
void busy_lanes_add(struct busy_lanes *l, uint64_t key); /* it was not busy */
void busy_lanes_remove(struct busy_lanes *l, uint64_t key);

#endif
