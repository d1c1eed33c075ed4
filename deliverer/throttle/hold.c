/* hold: counts refusals in a row, and the time for which an endpoint was held. */
#include "hold.h"

void hold_restore(struct hold *h, bool healthy, int64_t status,
                  int64_t since_ms, int64_t past_ms)
{
    h->healthy = h->healthy || healthy;
    h->past_ms = past_ms;
    if (!since_ms)
        return;
    h->on = true;
    h->refusals = HOLD_REFUSALS;
    h->status = status;
    h->since_ms = since_ms;
}

bool hold_refused(struct hold *h, int64_t status, int64_t now_ms)
{
    if (h->on || !h->healthy)
        return false;
    if (status != h->status)
        h->refusals = 0;
    h->status = status;
    if (++h->refusals < HOLD_REFUSALS)
        return false;
    h->on = true;
    h->since_ms = now_ms;
    return true;
}

void hold_end(struct hold *h, bool delivered, int64_t now_ms)
{
    h->past_ms = hold_total_ms(h, now_ms);
    h->healthy = h->healthy || delivered;
    h->on = false;
    h->refusals = 0;
}

int64_t hold_total_ms(const struct hold *h, int64_t now_ms)
{
    return h->past_ms +
           (h->on && now_ms > h->since_ms ? now_ms - h->since_ms : 0);
}
