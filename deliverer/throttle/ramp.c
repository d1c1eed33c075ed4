/* ramp: the growing rate after an outage. */
#include "ramp.h"

enum { US_PER_MS = 1000, US_PER_S = 1000000, DOUBLINGS = 8 };

void ramp_begin(struct ramp *r, int64_t lost_ms, int64_t now_us)
{
    int64_t ms = lost_ms * RAMP_PERCENT / 100;

    ms = ms < RAMP_MIN_MS ? RAMP_MIN_MS : ms > RAMP_MAX_MS ? RAMP_MAX_MS : ms;
    *r = (struct ramp){
        .on = true, .began_us = now_us, .double_us = ms * US_PER_MS};
}

int64_t ramp_interval_us(struct ramp *r, int64_t now_us)
{
    int64_t passed = now_us - r->began_us, whole, part, rate;

    if (!r->on)
        return 0;
    if (passed < 0)
        passed = 0;
    whole = passed / r->double_us;
    if (whole >= DOUBLINGS) {
        r->on = false;
        return 0;
    }
    /* Linear from one power of two to the next. */
    part = passed % r->double_us;
    rate = (int64_t)RAMP_FIRST << whole;
    rate += rate * part / r->double_us;
    return US_PER_S / rate;
}
