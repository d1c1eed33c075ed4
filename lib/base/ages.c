/* ages: a search for the newest row that is old enough. */
#include "ages.h"
#include "clock.h"

void ages_begin(struct ages *a, int64_t before_ms)
{
    if (before_ms < a->before_ms)
        a->seen_n = a->old_n = 0;
    a->before_ms = before_ms;
}

bool ages_see(struct ages *a, int64_t n, int64_t at_ms, int64_t now_ms)
{
    if (at_ms >= a->before_ms && at_ms <= now_ms + DAY_MS)
        return false;
    a->seen_n = n;
    if (at_ms < a->before_ms)
        a->old_n = n;
    return true;
}
