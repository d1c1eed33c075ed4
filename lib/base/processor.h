/* processor: whether a thread has to wait for a processor, because others use all of them. */
#ifndef BASE_PROCESSOR_H
#define BASE_PROCESSOR_H

#include "rc.h"

/* Of one thread. Zeroed at first. */
struct processor {
    int64_t ran_ns, waited_ns; /* at the last look, since the thread began */
    int64_t looked_ms;         /* mono; 0: not yet */
    int64_t told_ms;    /* mono: the last look at which the kernel said it */
    int waited_percent; /* for so much of the time between the last two looks it wanted to run and could not */
    bool contended;
};

/* The part of processor_look() that decides: what the kernel says about a thread, in ns since it began, and the time since
 * the last such look. */
void processor_judge(struct processor *p, int64_t ran_ns, int64_t waited_ns,
                     int64_t passed_ms);

/* Asks the kernel about the calling thread, at most ten times a second. true: since the look before, it
 * waited for a processor for at least a third of the time for which it ran. A kernel that does not
 * say it: false, and 0 %. */
bool processor_look(struct processor *p, int64_t mono_ms);

#endif
