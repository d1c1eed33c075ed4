/* waiters: a list of waiting connections, the one that has waited longest first. */
#include "waiters.h"
#include "clock.h"

void waiters_init(struct waiters *all)
{
    TAILQ_INIT(all);
}

void waiters_begin(struct waiters *all, struct waiter *w, int64_t mono_ms)
{
    waiters_end(all, w);
    w->since_ms = mono_ms;
    w->waits = true;
    TAILQ_INSERT_TAIL(all, w, link);
}

void waiters_end(struct waiters *all, struct waiter *w)
{
    if (w->waits)
        TAILQ_REMOVE(all, w, link);
    w->waits = false;
}

struct waiter *waiters_overdue(const struct waiters *all, int64_t mono_ms,
                               int64_t limit_ms, int *left_ms)
{
    struct waiter *first = TAILQ_FIRST(all);
    int64_t left = first ? first->since_ms + limit_ms - mono_ms : -1;

    *left_ms = -1;
    if (!first)
        return NULL;
    if (left <= 0)
        return first;
    *left_ms = (int)(left < MINUTE_MS ? left : MINUTE_MS);
    return NULL;
}

struct waiter *waiters_crowded(const struct waiters *all, int64_t open,
                               int64_t max)
{
    return max >= 16 && open > max - max / 16 ? TAILQ_FIRST(all) : NULL;
}
