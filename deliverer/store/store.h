/* store: every statement on deliverer.db, and nothing else. Writers are called
 * inside of a turn's transaction; like all of db.h they succeed, or the turn is
 * rolled back, or the process ends. */
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
    /* No row is of a later event than this. Ids ascend in time, so that of a
     * new event nothing need be looked up. */
    char last_event[EVENT_ID_BYTES + 1];
    struct ages ages; /* of attempts */
    struct {
        stmt *task_put, *task_retry, *task_due_now, *task_gone, *task_find,
            *task_due, *task_next_due, *task_early, *tasks_hasten, *tasks_purge,
            *tasks_of_event, *tasks_counts, *tasks_untried;
        stmt *grant_put, *grant_gone, *grants_all;
        stmt *attempt_put, *attempt_get, *attempts_of_event, *attempts_ages,
            *attempts_purge;
        stmt *template_add, *template_used, *templates_all, *templates_purge;
        stmt *numbers_put, *numbers_get;
    } sql;
};

void store_open(struct store *s, struct db *db);
/* The database is a copy: it gets another id, inside of the transaction, so that
 * the sequencer ends all grants of the time before and gives its work again. */
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
    bool damaged; /* read only: it is not what was written */
};

/* A new row; returns its number. */
int64_t store_task_put(struct store *s, const struct task_row *row);
/* It failed and waits: count, times, scheduled retry. */
void store_task_retry(struct store *s, const struct task_row *row);
/* Due as of `now_ms`; nothing else changes. */
void store_task_due_now(struct store *s, int64_t n, int64_t now_ms);
void store_task_gone(struct store *s, int64_t n);
/* The row of this event under this grant; borrows until the next call. */
bool store_task_find(struct store *s, uint64_t grant, const char *event_id,
                     struct task_row *row);

/* At most `limit` rows of the grant that are due, the longest due first; `each`
 * borrows, must not write, and says false when it has no space for this one.
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
/* Some that are due later than `max_ms` are due now; returns how many. */
int store_tasks_hasten(struct store *s, uint64_t grant, int64_t max_ms,
                       int64_t now_ms, int limit);
/* Delete some of a grant's rows; returns how many. */
int store_tasks_purge(struct store *s, uint64_t grant, int limit);
typedef void task_row_fn(void *self, const struct task_row *row);
void store_tasks_of_event(struct store *s, const char *event_id,
                          task_row_fn *each, void *self);
/* All grants that have rows: count, how many are scheduled retries, and the first due. */
typedef void task_count_fn(void *self, uint64_t grant, int64_t count,
                           int64_t retrying, int64_t due_ms);
void store_task_counts(struct store *s, task_count_fn *each, void *self);

/* ---- grants ---- */

/* Made, or changed. */
void store_grant_put(struct store *s, uint64_t id, const char *endpoint,
                     int state, uint64_t released_n);
void store_grant_gone(struct store *s, uint64_t id);
typedef void grant_row_fn(void *self, uint64_t id, const char *endpoint,
                          int state, uint64_t released_n);
void store_grants(struct store *s, grant_row_fn *each, void *self);

/* ---- attempts ---- */

/* The outcome (beside enum outcome) of a row that is the end of its grant, and of one
 * that says that a delivery is not known; the number of its task stands as its
 * `attempts`. */
enum { OUTCOME_GRANT_RELEASED = 0, OUTCOME_MISSING = -1 };

/* A row of `attempts`: what the result tells the sequencer, … */
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
/* … and what only people ask for. */
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
#define ATTEMPT_COLUMNS(F, X) \
    RESULT_COLUMNS(F, X) DETAIL_COLUMNS(X, X) TIMING_COLUMNS(X, X)
struct attempt_row {
    ROW_FIELDS(RESULT_COLUMNS)
    ROW_FIELDS(DETAIL_COLUMNS)
    struct timings timings;
};

void store_attempt_put(struct store *s, const struct attempt_row *row);
/* Calls `each` (borrowing) for row n, with what its result tells: of the response
 * no headers and timings. false: it is gone. */
typedef void attempt_row_fn(void *self, const struct attempt_row *row);
bool store_attempt_get(struct store *s, uint64_t n, attempt_row_fn *each,
                       void *self);
/* Oldest first. */
void store_attempts_of_event(struct store *s, const char *event_id,
                             attempt_row_fn *each, void *self);
/* Delete up to `limit` of the oldest that are from before `before_ms` and whose
 * result is acknowledged; looks at as many more. Returns how many; *last is the
 * highest number among them. */
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
/* Those that were used last before that; how many went. */
int store_templates_purge(struct store *s, int64_t before_ms);

/* ---- settled numbers ---- */

void store_numbers_put(struct store *s, const struct stored_numbers *settle);
void store_numbers_get(struct store *s, struct stored_numbers *settle);

#endif
