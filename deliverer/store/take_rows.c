/* take_rows: prepares and runs the statements on `takes` and `taken`. */
#include "take_rows.h"

void take_rows_open(struct take_rows *t, struct db *db)
{
    t->db = db;
#define TAKE "SELECT " ROW_NAMES(TAKE_COLUMNS) " FROM takes "
    t->add = db_prepare(db, ROW_INSERT("takes", TAKE_COLUMNS) " RETURNING n");
    t->by_id = db_prepare(db, TAKE "WHERE id = ?1");
    t->by_key = db_prepare(db, TAKE "INDEXED BY takes_key WHERE owner = ?1 "
                                    "AND key = ?2 AND key <> ''");
    t->open = db_prepare(db, TAKE "INDEXED BY takes_open WHERE open > 0");
    t->count = db_prepare(
        db, "UPDATE takes SET open = ?2, ended_ms = ?3 WHERE n = ?1");
    t->gone = db_prepare(db, "DELETE FROM takes WHERE n = ?1");
    t->oldest = db_prepare(db, "SELECT n, ended_ms FROM takes INDEXED BY "
                               "takes_ended WHERE open = 0 ORDER BY n LIMIT 1");
    t->last = db_prepare(db, "SELECT max(n) FROM takes");
#define TAKEN "SELECT " ROW_NAMES(TAKEN_COLUMNS) " FROM taken "
    t->taken_add = db_prepare(db, ROW_INSERT("taken", TAKEN_COLUMNS));
    t->taken_get = db_prepare(db, TAKEN "WHERE take = ?1 AND event_id = ?2");
    t->taken_of = db_prepare(db, TAKEN "WHERE take = ?1");
    t->taken_end = db_prepare(
        db, "UPDATE taken SET state = ?3 WHERE take = ?1 AND event_id = ?2");
    t->taken_late = db_prepare(db, "UPDATE taken INDEXED BY taken_task SET "
                                   "late = 1 WHERE task = ?1 AND state = 0");
    t->taken_dropped = db_prepare(db,
                                  "UPDATE taken INDEXED BY taken_task SET "
                                  "dropped = 1 WHERE task = ?1 AND state = 0");
    t->taken_lane = db_prepare(
        db, "SELECT 1 FROM taken INDEXED BY taken_lane WHERE grant_id = ?1 AND "
            "lane = ?2 AND state = 0");
    t->taken_gone = db_prepare(db, "DELETE FROM taken WHERE take = ?1");
    t->taken_erase = db_prepare(
        db, "DELETE FROM taken INDEXED BY taken_event WHERE event_id = ?1");
    t->task_next = db_prepare(db, "UPDATE tasks SET next_ms = ?2 WHERE n = ?1");
}

void take_rows_forget(struct take_rows *t)
{
    db_run(t->db, db_prepare(t->db, "DELETE FROM taken"));
    db_run(t->db, db_prepare(t->db, "DELETE FROM takes"));
}

/* ---- takes ---- */

int64_t take_add(struct take_rows *t, const struct take_row *row)
{
    int i = 0;

    ROW_BIND(TAKE_COLUMNS, t->add, i, row);
    bind_text(t->add, 1, NULL); /* the next number */
    return db_number(t->db, t->add, 0);
}

static bool one_take(struct take_rows *t, stmt *q, take_row_fn *each,
                     void *self)
{
    bool found = db_step(t->db, q);
    struct take_row row;
    int i = 0;

    if (found) {
        ROW_READ(TAKE_COLUMNS, q, i, &row);
        each(self, &row);
    }
    db_done(q);
    return found;
}

bool take_by_id(struct take_rows *t, const char *id, take_row_fn *each,
                void *self)
{
    bind_text(t->by_id, 1, id);
    return one_take(t, t->by_id, each, self);
}

bool take_by_key(struct take_rows *t, const char *owner, const char *key,
                 take_row_fn *each, void *self)
{
    bind_text(t->by_key, 1, owner);
    bind_text(t->by_key, 2, key);
    return one_take(t, t->by_key, each, self);
}

void takes_still_open(struct take_rows *t, take_row_fn *each, void *self)
{
    struct take_row row;

    while (db_step(t->db, t->open)) {
        int i = 0;

        ROW_READ(TAKE_COLUMNS, t->open, i, &row);
        each(self, &row);
    }
    db_done(t->open);
}

void take_set_open(struct take_rows *t, int64_t n, int64_t open,
                   int64_t ended_ms)
{
    bind_i64(t->count, 1, n);
    bind_i64(t->count, 2, open);
    bind_i64(t->count, 3, ended_ms);
    db_run(t->db, t->count);
}

void take_gone(struct take_rows *t, int64_t n)
{
    bind_i64(t->taken_gone, 1, n);
    db_run(t->db, t->taken_gone);
    bind_i64(t->gone, 1, n);
    db_run(t->db, t->gone);
}

int64_t take_oldest_ended(struct take_rows *t, int64_t *ended_ms)
{
    int64_t n = 0;

    if (db_step(t->db, t->oldest)) {
        n = col_i64(t->oldest, 0);
        *ended_ms = col_i64(t->oldest, 1);
    }
    db_done(t->oldest);
    return n;
}

int64_t take_last(struct take_rows *t)
{
    return db_number(t->db, t->last, 0);
}

/* ---- their deliveries ---- */

void taken_add(struct take_rows *t, const struct taken_row *row)
{
    int i = 0;

    ROW_BIND(TAKEN_COLUMNS, t->taken_add, i, row);
    db_run(t->db, t->taken_add);
}

/* `lane` reads as "" if there is none: only statements ask for it. */
static bool each_taken(struct take_rows *t, stmt *q, taken_row_fn *each,
                       void *self)
{
    struct taken_row row;
    bool found = false;

    while (db_step(t->db, q)) {
        int i = 0;

        ROW_READ(TAKEN_COLUMNS, q, i, &row);
        each(self, &row);
        found = true;
    }
    db_done(q);
    return found;
}

bool taken_get(struct take_rows *t, int64_t take, const char *event_id,
               taken_row_fn *each, void *self)
{
    bind_i64(t->taken_get, 1, take);
    bind_text(t->taken_get, 2, event_id);
    return each_taken(t, t->taken_get, each, self);
}

void taken_of(struct take_rows *t, int64_t take, taken_row_fn *each, void *self)
{
    bind_i64(t->taken_of, 1, take);
    (void)each_taken(t, t->taken_of, each, self);
}

void taken_end(struct take_rows *t, int64_t take, const char *event_id,
               enum taken_state state)
{
    bind_i64(t->taken_end, 1, take);
    bind_text(t->taken_end, 2, event_id);
    bind_i64(t->taken_end, 3, (int64_t)state);
    db_run(t->db, t->taken_end);
}

void taken_set_late(struct take_rows *t, int64_t task)
{
    bind_i64(t->taken_late, 1, task);
    db_run(t->db, t->taken_late);
}

void taken_set_dropped(struct take_rows *t, int64_t task)
{
    bind_i64(t->taken_dropped, 1, task);
    db_run(t->db, t->taken_dropped);
}

bool taken_has_lane(struct take_rows *t, uint64_t grant, const char *lane)
{
    bind_i64(t->taken_lane, 1, (int64_t)grant);
    bind_text(t->taken_lane, 2, lane);
    return db_number(t->db, t->taken_lane, 0) != 0;
}

int taken_erase(struct take_rows *t, const char *event_id)
{
    bind_text(t->taken_erase, 1, event_id);
    db_run(t->db, t->taken_erase);
    return db_changes(t->db);
}

void take_task_next(struct take_rows *t, int64_t task, int64_t next_ms)
{
    bind_i64(t->task_next, 1, task);
    bind_i64(t->task_next, 2, next_ms);
    db_run(t->db, t->task_next);
}
