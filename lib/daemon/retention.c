/* retention: stores the spans of time in which a process ran, and computes from them what may
 * be deleted. */
#include "retention.h"
#include "clock.h"
#include "log.h"

enum {
    /* A quarter: with the archive's half (archive_space_share_bytes() in lib/archive/archive_space.h) and a
     * few deliverers on one disk a tenth of it is still free. */
    HISTORY_PART = 4,
    SAVE_MS = 60 * 1000,      /* in a transaction that is written anyway */
    SAVE_IDLE_MS = 600 * 1000 /* in any transaction */
};

static const char table_sql[] =
    "CREATE TABLE IF NOT EXISTS clock_spans (n INTEGER PRIMARY KEY, "
    "first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL) STRICT";

static void read_spans(struct spans *s, struct db *db)
{
    stmt *q = db_prepare(db, "SELECT first_ms, last_ms FROM clock_spans "
                             "ORDER BY n");

    while (s->count < SPANS_MAX && db_step(db, q)) {
        s->at[s->count].first_ms = col_i64(q, 0);
        s->at[s->count].last_ms = col_i64(q, 1);
        s->count++;
    }
    db_done(q);
}

/* A database that is older than spans has only the time when it was last written. */
static void begin_spans(struct spans *s, struct db *db)
{
    stmt *q = db_prepare(db, "SELECT written_ms FROM file_origin");
    int64_t written_ms = db_number(db, q, 0);

    if (written_ms)
        spans_see(s, written_ms);
}

static void log_step(int64_t last_ms, int64_t now_ms)
{
    int64_t by_ms = now_ms - last_ms;

    if (by_ms > 0 && by_ms < DAY_MS)
        return;
    log_warn(NULL,
             by_ms > 0
                 ? "this process was down for long, or the clock was changed; "
                   "the time since it last ran does not count for retention"
                 : "the clock is behind the time when this process last ran; "
                   "stored data ages only while the process runs",
             LT("ran_last_at", last_ms), LI("step_ms", by_ms));
}

void retention_open(struct retention *r, struct db *db, int64_t now_ms)
{
    int64_t last_ms;

    *r = (struct retention){.saved_ms = now_ms};
    db_exec(db, table_sql);
    r->clear = db_prepare(db, "DELETE FROM clock_spans");
    r->add = db_prepare(
        db, "INSERT INTO clock_spans(n, first_ms, last_ms) VALUES (?, ?, ?)");
    read_spans(&r->spans, db);
    if (!r->spans.count)
        begin_spans(&r->spans, db);
    last_ms = r->spans.count ? r->spans.at[r->spans.count - 1].last_ms : 0;
    r->unsaved = spans_see(&r->spans, now_ms);
    if (r->unsaved && last_ms)
        log_step(last_ms, now_ms);
}

void retention_work(struct retention *r, struct db *db, int64_t now_ms,
                    bool last)
{
    int64_t ago_ms = now_ms - r->saved_ms;

    r->unsaved = spans_see(&r->spans, now_ms) || r->unsaved;
    if (!last && !r->unsaved &&
        ago_ms < (db_dirty(db) ? SAVE_MS : SAVE_IDLE_MS))
        return;
    db_run(db, r->clear);
    for (int i = 0; i < r->spans.count; i++) {
        bind_i64(r->add, 1, i);
        bind_i64(r->add, 2, r->spans.at[i].first_ms);
        bind_i64(r->add, 3, r->spans.at[i].last_ms);
        db_run(db, r->add);
    }
    r->unsaved = false;
    r->saved_ms = now_ms;
}

void retention_undo(struct retention *r)
{
    r->unsaved = true;
}

int64_t retention_before(const struct retention *r, int64_t now_ms,
                         int64_t keep_ms)
{
    int64_t system = system_ms();

    return spans_before(&r->spans, system < now_ms ? system : now_ms, keep_ms);
}

int64_t retention_after(const struct retention *r, int64_t now_ms,
                        int64_t keep_ms)
{
    return spans_after(&r->spans, now_ms, keep_ms);
}

int64_t retention_history(struct retention *r, struct db *db,
                          const struct settings *s, int64_t now_ms)
{
    if (!db_over_share(db, HISTORY_PART))
        return retention_before(r, now_ms, s->history_keep_ms);
    if (!r->said_ms || now_ms - r->said_ms > HOUR_MS) {
        r->said_ms = now_ms;
        log_warn(NULL,
                 "history is kept for less than history.keep, because it has "
                 "used its share of the disk",
                 LI("used_bytes", db_used_bytes(db)),
                 LI("free_bytes", db_free_bytes(db)));
    }
    return INT64_MAX;
}
