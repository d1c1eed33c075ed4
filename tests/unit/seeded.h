/* seeded: random numbers of the unit tests, the same in every run. */
#ifndef UNIT_SEEDED_H
#define UNIT_SEEDED_H

#include <stdbool.h>
#include <stdint.h>

static uint64_t rig_seed = 1;

static inline uint64_t rig_random(void)
{
    rig_seed ^= rig_seed << 13;
    rig_seed ^= rig_seed >> 7;
    rig_seed ^= rig_seed << 17;
    return rig_seed;
}

static inline bool chance_pm(unsigned pm)
{
    return rig_random() % 1000 < pm;
}

#endif
