/* retention: decides how long a process keeps finished rows: requests, events and
 * deliveries, attempts, dead letters, idempotency keys.
 *
 * Rows are kept for the configured time, counted while the process ran: a deletion cannot
 * be undone, and at a start the clock may be wrong. So each database stores the spans of
 * time in which its process ran (spans.h), and if the system's clock and now_ms() differ,
 * only rows that are old by both are deleted.
 *
 * A database that has used its share of the disk deletes its oldest rows at once: accepting
 * events is worth more than a long history, and ingress stops accepting when the disk is
 * nearly full (lib/archive/archive_space.h). */
#ifndef DAEMON_RETENTION_H
#define DAEMON_RETENTION_H

#include "db.h"
#include "settings.h"
#include "spans.h"

struct retention {
    struct spans spans;
    stmt *clear, *add;
    bool unsaved;     /* a new span that is not yet on disk */
    int64_t saved_ms; /* wall */
    int64_t said_ms;  /* wall: when retention_history() last logged; 0: never */
};

/* Reads the spans and the clock. Call it once, at the start. */
void retention_open(struct retention *r, struct db *db, int64_t now_ms);
/* Call it in each turn, inside the transaction: notes that the process runs. `last`: stores
 * it now. */
void retention_work(struct retention *r, struct db *db, int64_t now_ms,
                    bool last);
/* Call it after a rollback. */
void retention_undo(struct retention *r);

/* The moment before which rows have been kept for `keep_ms`. */
int64_t retention_before(const struct retention *r, int64_t now_ms,
                         int64_t keep_ms);
/* The moment after which rows were written with a clock that was ahead. */
int64_t retention_after(const struct retention *r, int64_t now_ms,
                        int64_t keep_ms);

/* The moment before which finished rows go, for history.keep. INT64_MAX: the database has
 * more than its share of the disk, so the oldest finished rows go, whatever their date; ask
 * again soon. It logs that once an hour. */
int64_t retention_history(struct retention *r, struct db *db,
                          const struct settings *s, int64_t now_ms);

#endif
