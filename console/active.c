/* active: chooses among the instances of a process. */
#include "active.h"

int active_choose(const struct candidate *all, int count, int present)
{
    int best = -1;

    for (int i = 0; i < count; i++)
        if (all[i].open && (best < 0 || all[i].answered > all[best].answered))
            best = i;
    if (present >= 0 && all[present].open &&
        all[best].answered - all[present].answered < ACTIVE_MISSED)
        return present;
    return best;
}
