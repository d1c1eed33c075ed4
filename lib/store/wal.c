/* wal: the rules for copying and restarting a write-ahead log. */
#include "wal.h"

static int64_t limit_bytes(const struct wal *w)
{
    int64_t part = w->free_bytes / WAL_FREE_PART;

    return part < WAL_LIMIT_BYTES ? part : WAL_LIMIT_BYTES;
}

static bool begins_anew(const struct wal *w)
{
    int64_t limit = limit_bytes(w);
    bool brief = w->rest_bytes >= 0 && w->rest_bytes <= WAL_REST_BYTES;

    if (w->wanted && brief)
        return true;
    if (w->bytes < limit || w->bytes - w->held_bytes < WAL_REST_BYTES)
        return false;
    return brief || limit < WAL_LIMIT_BYTES || w->bytes >= 2 * limit;
}

enum wal_step wal_step(const struct wal *w)
{
    int64_t piece = w->piece_bytes;

    if ((w->bytes >= WAL_LIMIT_BYTES || w->wanted) && piece > WAL_REST_BYTES)
        piece = WAL_REST_BYTES; /* so that the rest soon becomes short */
    if (begins_anew(w))
        return WAL_BEGIN_ANEW;
    return w->rest_bytes >= piece ? WAL_COPY : WAL_LEAVE;
}

bool wal_presses(const struct wal *w)
{
    return w->bytes >= WAL_MAX_BYTES || limit_bytes(w) < WAL_LIMIT_BYTES;
}
