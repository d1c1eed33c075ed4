/* permission: the clock rules for when the active may send. */
#include "permission.h"

int64_t hold_of_ms(int64_t takeover_after_ms)
{
    return takeover_after_ms / 3;
}

void permission_init(struct permission *p, int64_t takeover_after_ms)
{
    p->hold_ms = hold_of_ms(takeover_after_ms);
    atomic_init(&p->until_mono_ms, 0);
    atomic_init(&p->ahead_ms, 0);
}

/* A reader between the two stores sees the earlier end with the later difference of the clocks. That is right: the later statement is
 * acknowledged, and the earlier end is stricter. */
void permission_extend(struct permission *p, int64_t began_mono_ms,
                       int64_t began_wall_ms)
{
    int64_t until_ms = began_mono_ms + p->hold_ms;

    if (until_ms <= atomic_load(&p->until_mono_ms))
        return;
    atomic_store(&p->ahead_ms, began_wall_ms - began_mono_ms);
    atomic_store(&p->until_mono_ms, until_ms);
}

void permission_end(struct permission *p)
{
    atomic_store(&p->until_mono_ms, 0);
}

bool permission_holds(const struct permission *p, int64_t mono_ms,
                      int64_t wall_ms)
{
    return permission_left_ms(p, mono_ms, wall_ms) > 0;
}

int64_t permission_left_ms(const struct permission *p, int64_t mono_ms,
                           int64_t wall_ms)
{
    int64_t left_ms = atomic_load(&p->until_mono_ms) - mono_ms;
    int64_t jumped_ms = wall_ms - mono_ms - atomic_load(&p->ahead_ms);

    return left_ms > 0 && jumped_ms <= p->hold_ms ? left_ms : 0;
}
