/* turn_pace: counts the steps. */
#include "turn_pace.h"

enum {
    MUCH_PERCENT = 30,
    MORE_PERCENT = 20,
    LESS_PERCENT = 10,
};

static int limited(int steps)
{
    return steps < 0 ? 0 : steps > TURN_PACE_STEPS ? TURN_PACE_STEPS : steps;
}

int turn_pace_judge(int steps, int waited_percent)
{
    if (waited_percent > MUCH_PERCENT)
        steps += TURN_PACE_STEPS / 2;
    else if (waited_percent > MORE_PERCENT)
        steps++;
    else if (waited_percent < LESS_PERCENT)
        steps--;
    return limited(steps);
}

void turn_pace_look(struct turn_pace *p, int64_t mono_ms)
{
    processor_look(&p->processor, mono_ms);
    if (p->processor.looked_ms == p->judged_ms)
        return;
    p->judged_ms = p->processor.looked_ms;
    p->steps = turn_pace_judge(p->steps, p->processor.waited_percent);
}

int64_t turn_pace_wait_us(const struct turn_pace *p, int64_t turn_us,
                          int64_t may_wait_us, int64_t now_us)
{
    int64_t left = turn_us + may_wait_us * p->steps / TURN_PACE_STEPS - now_us;

    return left > 0 && left <= may_wait_us ? left : 0;
}
