/* take_rows: the tables `takes` and `taken`: what consumers of pull endpoints have taken, and how
 * each delivery of it ended. Statements only; takes.h decides. Writers are called inside the
 * turn's transaction. Rows given to callbacks borrow from a statement. */
#ifndef DELIVERER_TAKE_ROWS_H
#define DELIVERER_TAKE_ROWS_H

#include "row.h"

/* `next_ms` of the row of a task that a consumer has: it is not due. */
#define TASK_TAKEN_MS INT64_MAX

/* How a delivery of a take ended. These numbers are on disk: they never change. */
enum taken_state {
    TAKEN_OPEN = 0,
    TAKEN_ACKED = 1,
    TAKEN_RETRIED = 2,
    TAKEN_DEAD = 3,
    TAKEN_EXPIRED = 4,    /* the lease ended */
    TAKEN_ACKED_LATE = 5, /* after that */
};

#define TAKE_COLUMNS(F, X) \
    F(i64, n)              \
    X(text, id)            \
    X(u64, grant_id)       \
    X(text, endpoint)      \
    X(i64, at_ms)          \
    X(i64, lease_ms)       \
    X(i64, open)           \
    X(i64, ended_ms)       \
    X(text, owner)         \
    X(text, key)           \
    X(text, digest)
struct take_row {
    ROW_FIELDS(TAKE_COLUMNS)
};

#define TAKEN_COLUMNS(F, X) \
    F(i64, take)            \
    X(text, event_id)       \
    X(u64, grant_id)        \
    X(i64, task)            \
    X(text, lane)           \
    X(u64, attempt)         \
    X(number, state)        \
    X(flag, late)           \
    X(flag, dropped)
struct taken_row {
    ROW_FIELDS(TAKEN_COLUMNS)
};

struct take_rows {
    struct db *db;
    stmt *add, *by_id, *by_key, *open, *count, *gone, *oldest, *last;
    stmt *taken_add, *taken_get, *taken_of, *taken_end, *taken_late,
        *taken_dropped, *taken_lane, *taken_gone, *taken_erase;
    stmt *task_next;
};

void take_rows_open(struct take_rows *t, struct db *db);
/* Inside the transaction, if the database is a copy: the consumers' leases are over. */
void take_rows_forget(struct take_rows *t);

/* ---- takes ---- */

/* A new row; row->n is ignored. Returns its number. */
int64_t take_add(struct take_rows *t, const struct take_row *row);
typedef void take_row_fn(void *self, const struct take_row *row);
/* false: there is no such take. */
bool take_by_id(struct take_rows *t, const char *id, take_row_fn *each,
                void *self);
bool take_by_key(struct take_rows *t, const char *owner, const char *key,
                 take_row_fn *each, void *self);
/* Those of which a delivery has not ended. */
void takes_still_open(struct take_rows *t, take_row_fn *each, void *self);
/* So many of its deliveries have not ended; ended_ms 0: some have not. */
void take_set_open(struct take_rows *t, int64_t n, int64_t open,
                   int64_t ended_ms);
/* With its deliveries. */
void take_gone(struct take_rows *t, int64_t n);
/* The oldest take that has ended; 0: there is none. */
int64_t take_oldest_ended(struct take_rows *t, int64_t *ended_ms);
int64_t take_last(struct take_rows *t); /* the highest number */

/* ---- their deliveries ---- */

void taken_add(struct take_rows *t, const struct taken_row *row);
typedef void taken_row_fn(void *self, const struct taken_row *row);
bool taken_get(struct take_rows *t, int64_t take, const char *event_id,
               taken_row_fn *each, void *self);
void taken_of(struct take_rows *t, int64_t take, taken_row_fn *each,
              void *self);
void taken_end(struct take_rows *t, int64_t take, const char *event_id,
               enum taken_state state);
/* An earlier take's consumer has acknowledged it, after its lease; or it is final elsewhere. */
void taken_set_late(struct take_rows *t, int64_t task);
void taken_set_dropped(struct take_rows *t, int64_t task);
/* Delete what is known of this event; returns how many rows. */
int taken_erase(struct take_rows *t, const char *event_id);
/* Whether a delivery of this lane is taken. */
bool taken_has_lane(struct take_rows *t, uint64_t grant, const char *lane);
/* When the task of this row is due; TASK_TAKEN_MS: it is taken. */
void take_task_next(struct take_rows *t, int64_t task, int64_t next_ms);

#endif
