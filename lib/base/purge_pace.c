/* purge_pace: how many old rows may be deleted now. */
#include "purge_pace.h"

enum {
    /* Steps that follow each other are not further apart, however long a turn is. After a longer pause, only the
     * part of the added rows counts that belongs to one step: there is one look for old rows each second. */
    PAUSE_MS = 250,
};

int64_t purge_pace_step(struct purge_pace *p, int64_t mono_ms, int64_t added)
{
    int64_t since_ms = mono_ms - p->step_ms, more = added - p->added;

    if (mono_ms < p->next_ms)
        return 0;
    if (more < 0 || !p->step_ms) /* the first step: not known */
        more = 0;
    if (since_ms > PAUSE_MS)
        more = more * PURGE_PACE_MS / since_ms;
    p->step_ms = mono_ms;
    p->next_ms = mono_ms + PURGE_PACE_MS;
    p->added = added;
    return PURGE_PACE_ROWS + more;
}

int purge_pace_wait_ms(const struct purge_pace *p, int64_t mono_ms)
{
    return mono_ms < p->next_ms ? (int)(p->next_ms - mono_ms) : 0;
}
