/* store: every statement on deliverer.db, and nothing else. Writers are called
 * inside a turn's transaction; like all of db.h they succeed, or the turn is
 * rolled back, or the process ends. Rows given to callbacks borrow from a statement. */
#ifndef DELIVERER_STORE_H
#define DELIVERER_STORE_H

#include "ages.h"
#include "bounds.h"
#include "row.h"
#include "stored_numbers.h"
#include "transfer.h"

extern const struct db_schema deliverer_schema;

struct store {
    struct db *db;
    uint64_t id;       /* 64 random bits, made with the file */
    int64_t next_task; /* row number; grows within an epoch */
    /* The latest event that has a row. Ids ascend in time, so a later event need not be
     * looked up. */
    char last_event[EVENT_ID_BYTES + 1];
    struct ages ages; /* of attempts */
    struct {
        stmt *task_put, *task_retry, *task_due_now, *task_gone, *task_find,
            *task_due, *task_next_due, *task_early, *tasks_hasten, *tasks_purge,
            *tasks_of_event, *tasks_counts, *tasks_untried;
        stmt *grant_put, *grant_gone, *grants_all;
        stmt *attempt_put, *attempt_get, *attempts_of_event, *attempt_last,
            *attempts_after, *attempts_ages, *attempts_purge, *attempts_erase;
        stmt *template_add, *template_used, *templates_all, *templates_purge;
        stmt *numbers_put, *numbers_get;
    } sql;
};

void store_open(struct store *s, struct db *db);
/* Inside the transaction, if the database is a copy: it gets another id, so that the
 * sequencer ends all older grants and sends their deliveries under new ones. */
void store_restored(struct store *s);

/* ---- tasks ---- */

/* A row of `tasks`. */
#define TASK_COLUMNS(F, X) \
    F(i64, n)              \
    X(u64, grant_id)       \
    X(text, event_id)      \
    X(u64, attempts)       \
    X(i64, first_ms)       \
    X(i64, next_ms)        \
    X(flag, retrying)      \
    X(blob, message)       \
    X(i64, early_ms)       \
    X(i64_known, held_ms)
struct task_row {
    ROW_FIELDS(TASK_COLUMNS)
    bool damaged; /* as read: its checksum is wrong */
};

/* A new row; returns its number. */
int64_t store_task_put(struct store *s, const struct task_row *row);
/* Its attempt failed and a retry is scheduled: count and times change. */
void store_task_retry(struct store *s, const struct task_row *row);
/* Its retry is due at `now_ms`; nothing else changes. */
void store_task_due_now(struct store *s, int64_t n, int64_t now_ms);
void store_task_gone(struct store *s, int64_t n);
/* The row of this event under this grant, without its message; borrows `event_id`. */
bool store_task_find(struct store *s, uint64_t grant, const char *event_id,
                     struct task_row *row);

/* At most `limit` rows of the grant that are due, the longest due first; `each`
 * must not write, and returns false when it has no space for this one.
 * Returns false when there may be more. */
typedef bool due_row_fn(void *self, const struct task_row *row);
bool store_tasks_due(struct store *s, uint64_t grant, int64_t now_ms, int limit,
                     due_row_fn *each, void *self);
/* The same of those that are not due yet and may be tried early by `early_ms`;
 * the longest scheduled first. */
bool store_tasks_early(struct store *s, uint64_t grant, int64_t early_ms,
                       int limit, due_row_fn *each, void *self);
/* When the next after `now_ms` is due; INT64_MAX: none. */
int64_t store_next_due(struct store *s, uint64_t grant, int64_t now_ms);
/* Make at most `limit` rows due now that are due later than `max_ms`; returns how many. */
int store_tasks_hasten(struct store *s, uint64_t grant, int64_t max_ms,
                       int64_t now_ms, int limit);
/* Delete some of a grant's rows; returns how many. */
int store_tasks_purge(struct store *s, uint64_t grant, int limit);
typedef void task_row_fn(void *self, const struct task_row *row);
void store_tasks_of_event(struct store *s, const char *event_id,
                          task_row_fn *each, void *self);
/* Of each grant that has rows: how many, how many of them are scheduled retries, and when the
 * first is due. */
typedef void task_count_fn(void *self, uint64_t grant, int64_t count,
                           int64_t retrying, int64_t due_ms);
void store_task_counts(struct store *s, task_count_fn *each, void *self);

/* ---- grants ---- */

/* Insert the grant, or change its state. */
void store_grant_put(struct store *s, uint64_t id, const char *endpoint,
                     int state, uint64_t released_n);
void store_grant_gone(struct store *s, uint64_t id);
typedef void grant_row_fn(void *self, uint64_t id, const char *endpoint,
                          int state, uint64_t released_n);
void store_grants(struct store *s, grant_row_fn *each, void *self);

/* ---- attempts ---- */

/* Beside those of enum outcome: the row is a `released` message; the row is a `missing`
 * message, whose `attempts` is the number of the task. */
enum { OUTCOME_GRANT_RELEASED = 0, OUTCOME_MISSING = -1 };

/* A row of `attempts`: columns that the sequencer receives, … */
#define RESULT_COLUMNS(F, X) \
    F(u64, n)                \
    X(u64, attempt_id)       \
    X(u64, grant_id)         \
    X(text, endpoint)        \
    X(text, event_id)        \
    X(number, outcome)       \
    X(i64, http_status)      \
    X(text, error)           \
    X(text, reason)          \
    X(i64, at_ms)            \
    X(i64, duration_ms)      \
    X(u64, attempts)         \
    X(i64, first_ms)         \
    X(i64, next_ms)          \
    X(blob, response)        \
    X(number, sends)
/* … and columns for `grapnel trace`. */
#define DETAIL_COLUMNS(F, X) \
    F(blob, headers)         \
    X(number, http_version)  \
    X(blob, request)         \
    X(i64, template)         \
    X(i64, stamp_s)
#define TIMING_COLUMNS(F, X) \
    F(i64, dns_us)           \
    X(i64, connect_us)       \
    X(i64, tls_us)           \
    X(i64, first_byte_us)    \
    X(i64, total_us)
/* Those that a list of attempts needs. */
#define RECENT_COLUMNS(F, X) \
    F(u64, attempt_id)       \
    X(text, endpoint)        \
    X(text, event_id)        \
    X(number, outcome)       \
    X(i64, http_status)      \
    X(text, error)           \
    X(text, reason)          \
    X(i64, at_ms)            \
    X(i64, duration_ms)      \
    X(u64, attempts)         \
    X(i64, next_ms)
#define ATTEMPT_COLUMNS(F, X) \
    RESULT_COLUMNS(F, X) DETAIL_COLUMNS(X, X) TIMING_COLUMNS(X, X)
struct attempt_row {
    ROW_FIELDS(RESULT_COLUMNS)
    ROW_FIELDS(DETAIL_COLUMNS)
    struct timings timings;
};

void store_attempt_put(struct store *s, const struct attempt_row *row);
/* Calls `each` for row n with RESULT_COLUMNS only. false: the row is gone. */
typedef void attempt_row_fn(void *self, const struct attempt_row *row);
bool store_attempt_get(struct store *s, uint64_t n, attempt_row_fn *each,
                       void *self);
/* Oldest first. `endpoint`: only those at it; "": all. `attempts`: only those with this number; 0: all.
 * `newest`: only the newest so many of each endpoint; 0: all. */
void store_attempts_of_event(struct store *s, const char *event_id,
                             const char *endpoint, int64_t attempts,
                             int64_t newest, attempt_row_fn *each, void *self);
/* The last row; 0: there is none. */
int64_t store_attempt_last(struct store *s);
/* Newest first, those after row n, without response, request and timings. */
void store_attempts_after(struct store *s, int64_t n, attempt_row_fn *each,
                          void *self);
/* Delete up to `limit` of the oldest attempts that are from before `before_ms` and whose
 * results up to number `acked` are acknowledged; it looks at `limit` more. Returns how many;
 * *last is the highest number among them. */
int store_attempts_purge(struct store *s, int64_t before_ms, int64_t now_ms,
                         uint64_t acked, int limit, uint64_t *last);

/* ---- templates (templates.h) ---- */

/* Returns its id. */
int64_t store_template_add(struct store *s, struct bytes request,
                           int64_t used_ms);
void store_template_used(struct store *s, int64_t id, int64_t used_ms);
typedef void template_row_fn(void *self, int64_t id, struct bytes request,
                             int64_t used_ms);
void store_templates(struct store *s, template_row_fn *each, void *self);
/* Delete templates that were last used before that; returns how many. */
int store_templates_purge(struct store *s, int64_t before_ms);

/* ---- stored numbers (stored_numbers.h) ---- */

void store_numbers_put(struct store *s, const struct stored_numbers *numbers);
/* Without a row `numbers` does not change. */
void store_numbers_get(struct store *s, struct stored_numbers *numbers);

/* Empties what an event's attempts sent and got. Returns how many. */
int store_erase_event(struct store *s, const char *event_id);

#endif
