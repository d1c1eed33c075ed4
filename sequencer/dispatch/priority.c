/* priority: the turns of an endpoint's queues. */
#include "priority.h"

static const enum priority turns[PRIORITY_TURNS] = {
    PRIORITY_HIGH, PRIORITY_HIGH,   PRIORITY_HIGH, PRIORITY_NORMAL,
    PRIORITY_HIGH, PRIORITY_HIGH,   PRIORITY_LOW,  PRIORITY_HIGH,
    PRIORITY_HIGH, PRIORITY_NORMAL,
};

enum priority priority_next(unsigned taken, unsigned waiting)
{
    enum priority p = turns[taken % PRIORITY_TURNS];

    if (waiting & 1U << p)
        return p;
    for (int k = PRIORITY_HIGH; k < PRIORITIES; k++)
        if (waiting & 1U << k)
            return (enum priority)k;
    return PRIORITY_UNCHOSEN;
}
