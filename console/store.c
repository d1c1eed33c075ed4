#include "store.h"
#include "clock.h"
#include <string.h>

#define ALERT_COLUMNS                                                   \
    "n, rule, subject, state, severity, since_ms, fired_ms, ended_ms, " \
    "value, summary "
#define TOLD_COLUMNS                                                         \
    "n, id, notifier, made_ms, next_ms, attempts, severity, state, alerts, " \
    "subject, text, body "

void store_open(struct store *s, struct db *db)
{
    s->db = db;
    s->alert_add = db_prepare(
        db, "INSERT INTO alerts(rule, subject, state, severity, since_ms, "
            "fired_ms, ended_ms, value, summary) VALUES(?2, ?3, ?4, ?5, ?6, "
            "?7, ?8, ?9, ?10) RETURNING n");
    s->alert_set = db_prepare(
        db, "UPDATE alerts SET state = ?4, since_ms = ?6, fired_ms = ?7, "
            "ended_ms = ?8, value = ?9, summary = ?10 WHERE n = ?1");
    s->alerts_active = db_prepare(db, "SELECT " ALERT_COLUMNS
                                      "FROM alerts WHERE ended_ms = 0");
    s->alerts_recent = db_prepare(db, "SELECT " ALERT_COLUMNS
                                      "FROM alerts ORDER BY ended_ms = 0 DESC, "
                                      "n DESC LIMIT ?");
    s->alerts_cut = db_prepare(
        db, "DELETE FROM alerts WHERE ended_ms > 0 AND n <= (SELECT n FROM "
            "alerts WHERE ended_ms > 0 ORDER BY n DESC LIMIT 1 OFFSET ?)");
    s->told_add = db_prepare(
        db, "INSERT INTO notifications(id, notifier, made_ms, next_ms, "
            "attempts, severity, state, alerts, subject, text, body) "
            "VALUES(?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?) RETURNING n");
    s->told_next = db_prepare(db, "SELECT " TOLD_COLUMNS
                                  "FROM notifications WHERE notifier = ? "
                                  "ORDER BY n LIMIT 1");
    s->told_again = db_prepare(db, "UPDATE notifications SET attempts = ?2, "
                                   "next_ms = ?3 WHERE n = ?1");
    s->told_drop = db_prepare(db, "DELETE FROM notifications WHERE n = ?");
    s->told_left = db_prepare(db, "SELECT count(*) FROM notifications");
    s->cursor_get = db_prepare(db, "SELECT value FROM cursors WHERE name = ?");
    s->cursor_set = db_prepare(db,
                               "INSERT OR REPLACE INTO cursors VALUES(?, ?)");
}

/* ---- alerts ---- */

static void bind_alert(stmt *q, const struct alert_row *a)
{
    bind_i64(q, 1, a->n);
    bind_text(q, 2, a->rule);
    bind_text(q, 3, a->subject);
    bind_text(q, 4, a->state);
    bind_text(q, 5, a->severity);
    bind_i64(q, 6, a->since_ms);
    bind_i64(q, 7, a->fired_ms);
    bind_i64(q, 8, a->ended_ms);
    sqlite3_bind_double(q, 9, a->value);
    bind_text(q, 10, a->summary);
}

int64_t store_alert_add(struct store *s, const struct alert_row *a)
{
    int64_t n = 0;

    bind_alert(s->alert_add, a);
    if (db_step(s->db, s->alert_add))
        n = col_i64(s->alert_add, 0);
    db_done(s->alert_add);
    return n;
}

void store_alert_set(struct store *s, const struct alert_row *a)
{
    bind_alert(s->alert_set, a);
    db_run(s->db, s->alert_set);
}

static void each_alert(struct store *s, stmt *q, alert_each *each, void *self)
{
    while (db_step(s->db, q)) {
        struct alert_row a = {.n = col_i64(q, 0),
                              .rule = col_text(q, 1),
                              .subject = col_text(q, 2),
                              .state = col_text(q, 3),
                              .severity = col_text(q, 4),
                              .since_ms = col_i64(q, 5),
                              .fired_ms = col_i64(q, 6),
                              .ended_ms = col_i64(q, 7),
                              .value = sqlite3_column_double(q, 8),
                              .summary = col_text(q, 9)};

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

/* Longer than any wait of tell.c: then the clock was ahead as it was written. */
#define WAIT_MOST_MS (2 * HOUR_MS)

int64_t store_notification_add(struct store *s,
                               const struct notification_row *r)
{
    stmt *q = s->told_add;
    int64_t n = 0;

    bind_text(q, 1, r->id);
    bind_text(q, 2, r->notifier);
    bind_i64(q, 3, r->made_ms);
    bind_i64(q, 4, r->next_ms);
    bind_text(q, 5, r->severity);
    bind_text(q, 6, r->state);
    bind_text(q, 7, r->alerts);
    bind_text(q, 8, r->subject);
    bind_text(q, 9, r->text);
    bind_text(q, 10, r->body);
    if (db_step(s->db, q))
        n = col_i64(q, 0);
    db_done(q);
    return n;
}

bool store_notification_next(struct store *s, const char *notifier,
                             int64_t now_ms, struct notification_row *out,
                             int64_t *due_ms)
{
    stmt *q = s->told_next;

    *due_ms = -1;
    bind_text(q, 1, notifier);
    if (!db_step(s->db, q)) {
        db_done(q);
        return false;
    }
    *out = (struct notification_row){.n = col_i64(q, 0),
                                     .id = col_text(q, 1),
                                     .notifier = col_text(q, 2),
                                     .made_ms = col_i64(q, 3),
                                     .next_ms = col_i64(q, 4),
                                     .attempts = col_i64(q, 5),
                                     .severity = col_text(q, 6),
                                     .state = col_text(q, 7),
                                     .alerts = col_text(q, 8),
                                     .subject = col_text(q, 9),
                                     .text = col_text(q, 10),
                                     .body = col_text(q, 11)};
    if (out->next_ms <= now_ms || out->next_ms - now_ms > WAIT_MOST_MS)
        return true;
    *due_ms = out->next_ms;
    db_done(q);
    return false;
}

void store_done(struct store *s)
{
    db_done(s->told_next);
}

void store_notification_again(struct store *s, int64_t n, int64_t attempts,
                              int64_t next_ms)
{
    bind_i64(s->told_again, 1, n);
    bind_i64(s->told_again, 2, attempts);
    bind_i64(s->told_again, 3, next_ms);
    db_run(s->db, s->told_again);
}

void store_notification_drop(struct store *s, int64_t n)
{
    bind_i64(s->told_drop, 1, n);
    db_run(s->db, s->told_drop);
}

int64_t store_notifications_left(struct store *s)
{
    int64_t n = db_step(s->db, s->told_left) ? col_i64(s->told_left, 0) : 0;

    db_done(s->told_left);
    return n;
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
