/* turn_pace: how long a loop waits before its next turn while its thread has to wait for a processor.
 *
 * Each turn with rows has a cost of its own: a commit, a wake-up of each peer, acknowledgements. Fewer turns with more
 * events in each leave processors to the other processes, so that all of them wait less (docs/decisions/0133). */
#ifndef DAEMON_TURN_PACE_H
#define DAEMON_TURN_PACE_H

#include "processor.h"

enum { TURN_PACE_STEPS = 8 };

/* Of one thread. Zeroed at first. */
struct turn_pace {
    struct processor processor;
    int64_t judged_ms; /* the look that `steps` already counts */
    int steps; /* so many TURN_PACE_STEPS-ths of the longest wait are used */
};

/* The part that decides: how many steps after a look at which the thread had waited for a processor for this part of the time. More if
 * it is more than a fifth, quickly from 30 % on, as a backlog grows meanwhile; one less if it is less than a tenth. So a thread
 * with little to do does not wait here, however busy others are. */
int turn_pace_judge(int steps, int waited_percent);
/* Call it in each turn: looks and judges ten times a second. */
void turn_pace_look(struct turn_pace *p, int64_t mono_ms);

/* How long to wait now, in µs, if the last turn began at `turn_us` and the next may begin up to `may_wait_us` later. */
int64_t turn_pace_wait_us(const struct turn_pace *p, int64_t turn_us,
                          int64_t may_wait_us, int64_t now_us);

#endif
