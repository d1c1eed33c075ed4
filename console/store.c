/* store: the statements of console.db. */
#include "store.h"
#include "clock.h"
#include "stores.h"
#include <string.h>

extern const char console_store_sql[];
extern const char *const console_upgrades[];
const struct db_schema console_schema = {.create = console_store_sql,
                                         .steps = console_upgrades,
                                         .count = CONSOLE_SCHEMA,
                                         .program = "grapnel-console",
                                         .table = "notifications"};

#define ALERT "SELECT n, " ROW_NAMES(ALERT_COLUMNS) " FROM alerts "
#define NOTIFICATION \
    "SELECT n, " ROW_NAMES(NOTIFICATION_COLUMNS) " FROM notifications "

void store_open(struct store *s, struct db *db)
{
    s->db = db;
    s->alert_add = db_prepare(
        db, ROW_INSERT("alerts", ALERT_COLUMNS) " RETURNING n");
    s->alert_set = db_prepare(
        db, "UPDATE alerts SET " ROW_SETS(ALERT_COLUMNS) " WHERE n = :n");
    s->alerts_active = db_prepare(db, ALERT "WHERE ended_ms = 0");
    s->alerts_recent = db_prepare(db, ALERT "ORDER BY ended_ms = 0 DESC, "
                                            "n DESC LIMIT ?");
    s->alerts_cut = db_prepare(
        db, "DELETE FROM alerts WHERE ended_ms > 0 AND n <= (SELECT n FROM "
            "alerts WHERE ended_ms > 0 ORDER BY n DESC LIMIT 1 OFFSET ?)");
    s->notification_add = db_prepare(
        db, ROW_INSERT("notifications", NOTIFICATION_COLUMNS) " RETURNING n");
    s->notification_next = db_prepare(db, NOTIFICATION
                                      "WHERE notifier = ? ORDER BY n LIMIT 1");
    s->notification_again = db_prepare(
        db, "UPDATE notifications SET attempts = ?2, "
            "next_ms = ?3 WHERE n = ?1");
    s->notification_drop = db_prepare(db,
                                      "DELETE FROM notifications WHERE n = ?");
    s->notifications_left = db_prepare(db,
                                       "SELECT count(*) FROM notifications");
    s->silences = db_prepare(
        db, "SELECT " ROW_NAMES(SILENCE_COLUMNS) " FROM silences");
    s->silence_put = db_prepare(
        db, ROW_REPLACE_WITH("silences", SILENCE_COLUMNS, "", ""));
    s->silence_drop = db_prepare(db, "DELETE FROM silences WHERE rule = ?");
    s->hold_get = db_prepare(
        db, "SELECT " ROW_NAMES(HOLD_COLUMNS) " FROM dead_letter_holds "
                                              "WHERE rule = ? AND "
                                              "endpoint = ?");
    s->hold_ended = db_prepare(
        db, "SELECT " ROW_NAMES(
                HOLD_COLUMNS) " FROM dead_letter_holds WHERE until_ms <= ? OR "
                              "until_ms > ? LIMIT 1");
    s->hold_put = db_prepare(
        db, ROW_REPLACE_WITH("dead_letter_holds", HOLD_COLUMNS, "", ""));
    s->hold_drop = db_prepare(db, "DELETE FROM dead_letter_holds WHERE "
                                  "rule = ? AND endpoint = ?");
    s->cursor_get = db_prepare(db, "SELECT value FROM cursors WHERE name = ?");
    s->cursor_set = db_prepare(
        db, "INSERT OR REPLACE INTO cursors(name, value) VALUES(?, ?)");
}

/* ---- alerts ---- */

int64_t store_alert_add(struct store *s, const struct alert_row *a)
{
    int i = 0;

    ROW_BIND(ALERT_COLUMNS, s->alert_add, i, a);
    return db_number(s->db, s->alert_add, 0);
}

void store_alert_set(struct store *s, const struct alert_row *a)
{
    int i = 0;

    ROW_BIND(ALERT_COLUMNS, s->alert_set, i, a);
    bind_i64(s->alert_set, ++i, a->n);
    db_run(s->db, s->alert_set);
}

static void each_alert(struct store *s, stmt *q, alert_each *each, void *self)
{
    while (db_step(s->db, q)) {
        struct alert_row a = {.n = col_i64(q, 0)};
        int i = 1;

        ROW_READ(ALERT_COLUMNS, q, i, &a);
        each(self, &a);
    }
    db_done(q);
}

void store_alerts_active(struct store *s, alert_each *each, void *self)
{
    each_alert(s, s->alerts_active, each, self);
}

void store_alerts_recent(struct store *s, int64_t limit, alert_each *each,
                         void *self)
{
    bind_i64(s->alerts_recent, 1, limit);
    each_alert(s, s->alerts_recent, each, self);
}

void store_alerts_cut(struct store *s, int64_t kept)
{
    bind_i64(s->alerts_cut, 1, kept);
    db_run(s->db, s->alerts_cut);
}

/* ---- notifications ---- */

/* Longer than any wait of notifications.c: a later time was written with a clock that was ahead. */
#define WAIT_MAX_MS (2 * HOUR_MS)

int64_t store_notification_add(struct store *s,
                               const struct notification_row *r)
{
    int i = 0;

    ROW_BIND(NOTIFICATION_COLUMNS, s->notification_add, i, r);
    return db_number(s->db, s->notification_add, 0);
}

bool store_notification_next(struct store *s, const char *notifier,
                             int64_t now_ms, struct notification_row *out,
                             int64_t *due_ms)
{
    stmt *q = s->notification_next;
    int i = 1;

    *due_ms = -1;
    bind_text(q, 1, notifier);
    if (!db_step(s->db, q)) {
        db_done(q);
        return false;
    }
    out->n = col_i64(q, 0);
    ROW_READ(NOTIFICATION_COLUMNS, q, i, out);
    if (out->next_ms <= now_ms || out->next_ms - now_ms > WAIT_MAX_MS)
        return true;
    *due_ms = out->next_ms;
    db_done(q);
    return false;
}

void store_done(struct store *s)
{
    db_done(s->notification_next);
}

void store_notification_again(struct store *s, int64_t n, int64_t attempts,
                              int64_t next_ms)
{
    bind_i64(s->notification_again, 1, n);
    bind_i64(s->notification_again, 2, attempts);
    bind_i64(s->notification_again, 3, next_ms);
    db_run(s->db, s->notification_again);
}

void store_notification_drop(struct store *s, int64_t n)
{
    bind_i64(s->notification_drop, 1, n);
    db_run(s->db, s->notification_drop);
}

int64_t store_notifications_left(struct store *s)
{
    int64_t n = db_step(s->db, s->notifications_left)
                    ? col_i64(s->notifications_left, 0)
                    : 0;

    db_done(s->notifications_left);
    return n;
}

/* ---- silences ---- */

void store_silences(struct store *s, silence_each *each, void *self)
{
    while (db_step(s->db, s->silences)) {
        struct silence_row r;
        int i = 0;

        ROW_READ(SILENCE_COLUMNS, s->silences, i, &r);
        each(self, &r);
    }
    db_done(s->silences);
}

void store_silence_put(struct store *s, const struct silence_row *r)
{
    int i = 0;

    ROW_BIND(SILENCE_COLUMNS, s->silence_put, i, r);
    db_run(s->db, s->silence_put);
}

void store_silence_drop(struct store *s, const char *rule)
{
    bind_text(s->silence_drop, 1, rule);
    db_run(s->db, s->silence_drop);
}

/* ---- cursors ---- */

bool store_cursor(struct store *s, const char *name, int64_t *value)
{
    bool there;

    bind_text(s->cursor_get, 1, name);
    there = db_step(s->db, s->cursor_get);
    if (there)
        *value = col_i64(s->cursor_get, 0);
    db_done(s->cursor_get);
    return there;
}

void store_cursor_set(struct store *s, const char *name, int64_t value)
{
    bind_text(s->cursor_set, 1, name);
    bind_i64(s->cursor_set, 2, value);
    db_run(s->db, s->cursor_set);
}

/* ---- holds of dead letters ---- */

bool store_hold(struct store *s, const char *rule, const char *endpoint,
                struct hold_row *out)
{
    int i = 0;

    store_hold_done(s);
    bind_text(s->hold_get, 1, rule);
    bind_text(s->hold_get, 2, endpoint);
    if (!db_step(s->db, s->hold_get))
        return false;
    ROW_READ(HOLD_COLUMNS, s->hold_get, i, out);
    return true;
}

bool store_hold_ended(struct store *s, int64_t now_ms, int64_t latest_ms,
                      struct hold_row *out)
{
    int i = 0;

    store_hold_done(s);
    bind_i64(s->hold_ended, 1, now_ms);
    bind_i64(s->hold_ended, 2, latest_ms);
    if (!db_step(s->db, s->hold_ended))
        return false;
    ROW_READ(HOLD_COLUMNS, s->hold_ended, i, out);
    return true;
}

void store_hold_done(struct store *s)
{
    db_done(s->hold_get);
    db_done(s->hold_ended);
}

void store_hold_put(struct store *s, const struct hold_row *r)
{
    int i = 0;

    ROW_BIND(HOLD_COLUMNS, s->hold_put, i, r);
    db_run(s->db, s->hold_put);
}

void store_hold_drop(struct store *s, const char *rule, const char *endpoint)
{
    bind_text(s->hold_drop, 1, rule);
    bind_text(s->hold_drop, 2, endpoint);
    db_run(s->db, s->hold_drop);
}
