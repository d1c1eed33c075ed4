/* store: the statements of console.db, a function for each. */
#ifndef CONSOLE_STORE_H
#define CONSOLE_STORE_H

#include "row.h"

extern const struct db_schema console_schema;

/* A row of `alerts`. */
#define ALERT_COLUMNS(F, X) \
    F(text, rule)           \
    X(text, subject)        \
    X(text, state)          \
    X(text, severity)       \
    X(i64, since_ms)        \
    X(i64, fired_ms)        \
    X(i64, ended_ms)        \
    X(real, value)          \
    X(text, summary)
struct alert_row {
    int64_t n;
    ROW_FIELDS(ALERT_COLUMNS)
};

/* A row of `notifications`. */
#define NOTIFICATION_COLUMNS(F, X) \
    F(text, id)                    \
    X(text, notifier)              \
    X(i64, made_ms)                \
    X(i64, next_ms)                \
    X(i64, attempts)               \
    X(text, severity)              \
    X(text, state)                 \
    X(text, alerts)                \
    X(text, subject)               \
    X(text, text)                  \
    X(text, body)
struct notification_row {
    int64_t n;
    ROW_FIELDS(NOTIFICATION_COLUMNS)
};

/* A row of `learned_sources`. */
#define LEARNED_SOURCE_COLUMNS(F, X) \
    F(text, source)                  \
    X(i64, seen_ms)                  \
    X(i64, event_ms)                 \
    X(i64, hour)                     \
    X(real, count)                   \
    X(real, observed_ms)             \
    X(real, learned_ms)              \
    X(real, expected)                \
    X(real, missing)                 \
    X(real, pause_ms)                \
    X(real, overdue)                 \
    X(real, longest)                 \
    X(real, longest_overdue)
struct learned_source_row {
    ROW_FIELDS(LEARNED_SOURCE_COLUMNS)
};

/* A row of `dead_letter_holds`. */
#define HOLD_COLUMNS(F, X) \
    F(text, rule)          \
    X(text, endpoint)      \
    X(i64, until_ms)       \
    X(i64, count)          \
    X(text, first)
struct hold_row {
    ROW_FIELDS(HOLD_COLUMNS)
};

/* A row of `silences`. */
#define SILENCE_COLUMNS(F, X) \
    F(text, rule)             \
    X(i64, since_ms)          \
    X(i64, until_ms)          \
    X(text, note)             \
    X(text, who)
struct silence_row {
    ROW_FIELDS(SILENCE_COLUMNS)
};

struct store {
    struct db *db;
    stmt *alert_add, *alert_set, *alerts_active, *alerts_recent, *alerts_cut,
        *notification_add, *notification_next, *notification_again,
        *notification_drop, *notifications_left, *cursor_get, *cursor_set,
        *silences, *silence_put, *silence_drop, *hold_get, *hold_put,
        *hold_ended, *hold_drop;
};

void store_open(struct store *s, struct db *db);

/* Returns its n. */
int64_t store_alert_add(struct store *s, const struct alert_row *a);
void store_alert_set(struct store *s, const struct alert_row *a);
/* All that have not ended; the texts of a row are valid until `each` returns. */
typedef void alert_each(void *self, const struct alert_row *a);
void store_alerts_active(struct store *s, alert_each *each, void *self);
/* Newest first. */
void store_alerts_recent(struct store *s, int64_t limit, alert_each *each,
                         void *self);
/* Delete those that have ended, except the newest `kept`. */
void store_alerts_cut(struct store *s, int64_t kept);

int64_t store_notification_add(struct store *s,
                               const struct notification_row *r);
/* The oldest of this notifier's, if it is due; valid until store_done(). */
bool store_notification_next(struct store *s, const char *notifier,
                             int64_t now_ms, struct notification_row *out,
                             int64_t *due_ms);
void store_done(struct store *s);
void store_notification_again(struct store *s, int64_t n, int64_t attempts,
                              int64_t next_ms);
void store_notification_drop(struct store *s, int64_t n);
int64_t store_notifications_left(struct store *s);

typedef void silence_each(void *self, const struct silence_row *r);
void store_silences(struct store *s, silence_each *each, void *self);
void store_silence_put(struct store *s, const struct silence_row *r);
void store_silence_drop(struct store *s, const char *rule);

/* false: there is none. The texts are valid until store_hold_done(), or the next call. */
bool store_hold(struct store *s, const char *rule, const char *endpoint,
                struct hold_row *out);
/* One that ends by `now_ms`, or whose end is after `latest_ms`: the clock was ahead. */
bool store_hold_ended(struct store *s, int64_t now_ms, int64_t latest_ms,
                      struct hold_row *out);
void store_hold_done(struct store *s);
void store_hold_put(struct store *s, const struct hold_row *r);
void store_hold_drop(struct store *s, const char *rule, const char *endpoint);

/* false: the row does not exist. */
bool store_cursor(struct store *s, const char *name, int64_t *value);
void store_cursor_set(struct store *s, const char *name, int64_t value);

#endif
