/* retention: how long a process keeps finished rows: requests, events and deliveries,
 * attempts, dead letters, idempotency keys.
 *
 * They are kept for the configured time, counted while the process ran: a deletion cannot
 * be undone, and at a start the clock may be wrong. So each database notes the stretches
 * of time in which its process ran (spans.h), and where the system's clock and ours
 * differ, only rows that are old by both are deleted.
 *
 * A database that has more than its share of the disk deletes its oldest rows at once:
 * accepting events is worth more than a long history, and ingress stops accepting when
 * the disk is nearly full (ingress/archive/archive_space.h). */
#ifndef DAEMON_RETENTION_H
#define DAEMON_RETENTION_H

#include "db.h"
#include "settings.h"
#include "spans.h"

struct retention {
    struct spans spans;
    stmt *clear, *add;
    bool unsaved;     /* a new span that is not on disk yet */
    int64_t saved_ms; /* wall */
    int64_t said_ms;  /* wall: when the log was last told; 0: never */
};

/* Reads the spans and the clock. Once, at a start. */
void retention_open(struct retention *r, struct db *db, int64_t now_ms);
/* Each turn, inside the transaction: notes that the process runs. `last`: store it now. */
void retention_work(struct retention *r, struct db *db, int64_t now_ms,
                    bool last);
/* After a rollback. */
void retention_undo(struct retention *r);

/* Rows dated before this moment have been kept for `keep_ms`. */
int64_t retention_before(const struct retention *r, int64_t now_ms,
                         int64_t keep_ms);
/* Rows dated after this moment were written with a clock that was ahead. */
int64_t retention_after(const struct retention *r, int64_t now_ms,
                        int64_t keep_ms);

/* What is dated before this moment goes, for history.keep. INT64_MAX: all that is
 * over, oldest first, whatever its date; ask again soon. Says so once an hour. */
int64_t retention_history(struct retention *r, struct db *db,
                          const struct settings *s, int64_t now_ms);

#endif
