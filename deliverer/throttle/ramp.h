/* ramp: how fast waiting deliveries are sent after an outage of an endpoint, or of this
 * process. Pure; throttle.h calls it.
 *
 * The rate begins at RAMP_FIRST a second and doubles each time that two fifths of the
 * outage's length have passed, within bounds: after a short outage the ramp ends in a
 * moment, after a long one in about a minute. At RAMP_LAST a second it ends. It does not
 * depend on how many deliveries wait. Times are of a monotonic clock, in microseconds. */
#ifndef DELIVERER_RAMP_H
#define DELIVERER_RAMP_H

#include "rc.h"

enum {
    RAMP_FIRST = 100,  /* attempts a second */
    RAMP_LAST = 25600, /* after eight doublings */
    RAMP_PERCENT = 40, /* of the outage's length: until the rate doubles */
    RAMP_MIN_MS = 50,  /* that is at least this … */
    RAMP_MAX_MS = 12 * 1000, /* … and at most this */
};

struct ramp {
    bool on;
    int64_t began_us, double_us;
};

/* An outage of `lost_ms` is over. */
void ramp_begin(struct ramp *r, int64_t lost_ms, int64_t now_us);
/* The time from one attempt to the next; 0: the ramp has ended, and is off now. */
int64_t ramp_interval_us(struct ramp *r, int64_t now_us);

#endif
