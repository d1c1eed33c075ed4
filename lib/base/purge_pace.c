/* purge_pace: how many old rows may be deleted now. */
#include "purge_pace.h"

int purge_pace_step(struct purge_pace *p, int64_t mono_ms, int64_t added)
{
    int64_t rows = PURGE_PACE_ROWS;

    if (mono_ms < p->next_ms)
        return 0;
    if (!p->left || p->counted > added)
        p->counted = added;
    rows += added - p->counted;
    p->counted = added;
    if (rows > PURGE_PACE_MAX) {
        p->counted -= rows - PURGE_PACE_MAX;
        rows = PURGE_PACE_MAX;
    }
    p->next_ms = mono_ms + PURGE_PACE_MS;
    return (int)rows;
}

void purge_pace_stepped(struct purge_pace *p, bool left)
{
    p->left = left;
}

int purge_pace_wait_ms(const struct purge_pace *p, int64_t mono_ms)
{
    return mono_ms < p->next_ms ? (int)(p->next_ms - mono_ms) : 0;
}
