/* lanes: which order lanes have a request in flight. The sequencer never has
 * two unfinished deliveries of a lane out; here it is made sure that two are
 * never on the wire, whatever came (P5). Kept by 64-bit keys: two lanes with the
 * same one would only wait for each other. */
#ifndef DELIVERER_LANES_H
#define DELIVERER_LANES_H

#include "rc.h"

struct lanes {
    uint64_t *keys; /* a hash table; 0: free */
    size_t count, room;
};

/* Of what is ordered by `text` within `grant`; never 0. */
uint64_t lane_key(uint64_t grant, struct bytes text);

void lanes_fini(struct lanes *l);
bool lanes_busy(const struct lanes *l, uint64_t key);
void lanes_take(struct lanes *l, uint64_t key); /* it was not busy */
void lanes_give(struct lanes *l, uint64_t key);

#endif
