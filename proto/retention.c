#include "retention.h"
#include "clock.h"
#include "log.h"

/* A quarter: with the archive's half (room_share_bytes() in ingress/room.h) and a
 * few deliverers on one disk a tenth of it is still free. */
enum { HISTORY_PART = 4 };

int64_t retention_keep_ms(struct retention *r, struct db *db,
                          const struct settings *s, int64_t now_ms)
{
    if (!db_over_share(db, HISTORY_PART))
        return s->history_keep_ms;
    if (!r->said_ms || now_ms - r->said_ms > HOUR_MS) {
        r->said_ms = now_ms;
        log_warn(NULL,
                 "what is over is kept for less than history.keep: it has its "
                 "share of the disk",
                 LI("used_bytes", db_used_bytes(db)),
                 LI("room_bytes", db_room_bytes(db)));
    }
    return 0;
}
