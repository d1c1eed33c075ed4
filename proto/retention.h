/* retention: how long a process keeps what is over: requests, events and deliveries,
 * attempts, dead letters, idempotency keys.
 *
 * For as long as is configured, in time in which it ran: what is removed by mistake
 * is gone, and at a start the clock may be wrong. So each database notes in which
 * stretches of time its process ran (spans.h), and where the system's clock and ours
 * differ, what is removed is old by both.
 *
 * But where a database holds more than its share of what the disk has room for, the
 * oldest goes at once. A long history is worth less than a door that is open, which
 * the disk shuts when it is nearly full (ingress/room.h). */
#ifndef PROTO_RETENTION_H
#define PROTO_RETENTION_H

#include "db.h"
#include "settings.h"
#include "spans.h"

struct retention {
    struct spans spans;
    stmt *clear, *add;
    bool unsaved;     /* a new span, which is not on disk */
    int64_t saved_ms; /* wall */
    int64_t said_ms;  /* wall: when the log was last told; 0: never */
};

/* Reads what the database knows, and looks at the clock. Once, at a start. */
void retention_open(struct retention *r, struct db *db, int64_t now_ms);
/* Each turn, inside the transaction: notes that we ran. `last`: now, in any case. */
void retention_work(struct retention *r, struct db *db, int64_t now_ms,
                    bool last);
/* After a rolled back turn. */
void retention_undo(struct retention *r);

/* What is dated before this moment has been kept for `keep_ms`. */
int64_t retention_before(const struct retention *r, int64_t now_ms,
                         int64_t keep_ms);
/* And what is dated behind this one: a clock that was ahead wrote it. */
int64_t retention_after(const struct retention *r, int64_t now_ms,
                        int64_t keep_ms);

/* What is dated before this moment goes, for history.keep. INT64_MAX: all that is
 * over, oldest first, whatever its date; ask again soon. Says so once an hour. */
int64_t retention_history(struct retention *r, struct db *db,
                          const struct settings *s, int64_t now_ms);

#endif
