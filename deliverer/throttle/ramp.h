/* ramp: how fast waiting deliveries are sent after an outage of an endpoint, or of this
 * process. Pure.
 *
 * It begins at RAMP_FIRST a second and doubles each two fifths of the time that
 * was lost, within bounds: after a blip it is gone in a moment, after a long outage
 * it takes a minute. Past RAMP_LAST a second it has ended. It does not depend on
 * how many deliveries wait. Times are of any clock that never goes back, in
 * microseconds. */
#ifndef DELIVERER_RAMP_H
#define DELIVERER_RAMP_H

#include "rc.h"

enum {
    RAMP_FIRST = 100,  /* attempts a second */
    RAMP_LAST = 25600, /* after eight doublings */
    RAMP_PERCENT = 40, /* of what was lost doubles it */
    RAMP_MIN_MS = 50,  /* a doubling, at the least … */
    RAMP_MAX_MS = 12 * 1000,
};

struct ramp {
    bool on;
    int64_t began_us, double_us;
};

void ramp_begin(struct ramp *r, int64_t lost_ms, int64_t now_us);
/* From one attempt to the next; 0: it has ended, and off now. */
int64_t ramp_interval_us(struct ramp *r, int64_t now_us);

#endif
