/* store: console.db, every statement by its name. */
#ifndef CONSOLE_STORE_H
#define CONSOLE_STORE_H

#include "db.h"

struct alert_row {
    int64_t n;
    const char *rule, *subject, *state, *severity, *summary;
    int64_t since_ms, fired_ms, ended_ms;
    double value;
};

struct notification_row {
    int64_t n;
    const char *id, *notifier, *severity, *state, *alerts, *subject, *text,
        *body;
    int64_t made_ms, next_ms, attempts;
};

struct store {
    struct db *db;
    stmt *alert_add, *alert_set, *alerts_active, *alerts_recent, *alerts_cut,
        *told_add, *told_next, *told_again, *told_drop, *told_left, *cursor_get,
        *cursor_set;
};

void store_open(struct store *s, struct db *db);

/* Gives its n. */
int64_t store_alert_add(struct store *s, const struct alert_row *a);
void store_alert_set(struct store *s, const struct alert_row *a);
/* All that have not ended; what a row points at is good inside of `each`. */
typedef void alert_each(void *self, const struct alert_row *a);
void store_alerts_active(struct store *s, alert_each *each, void *self);
/* Newest first. */
void store_alerts_recent(struct store *s, int64_t limit, alert_each *each,
                         void *self);
/* Only this many that have ended are kept. */
void store_alerts_cut(struct store *s, int64_t kept);

int64_t store_notification_add(struct store *s,
                               const struct notification_row *r);
/* The first of this notifier's, if it is due; read until store_done(). */
bool store_notification_next(struct store *s, const char *notifier,
                             int64_t now_ms, struct notification_row *out,
                             int64_t *due_ms);
void store_done(struct store *s);
void store_notification_again(struct store *s, int64_t n, int64_t attempts,
                              int64_t next_ms);
void store_notification_drop(struct store *s, int64_t n);
int64_t store_notifications_left(struct store *s);

/* false: there is none. */
bool store_cursor(struct store *s, const char *name, int64_t *value);
void store_cursor_set(struct store *s, const char *name, int64_t value);

#endif
