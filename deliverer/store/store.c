/* store: prepares and runs every statement on deliverer.db. */
#include "store.h"
#include "clock.h"
#include "daemon.h"
#include "stores.h"
#include "sums.h"
#include "take_rows.h"
#include <stdio.h>
#include <string.h>

extern const char deliverer_store_sql[];
extern const char *const deliverer_upgrades[];
const struct db_schema deliverer_schema = {.create = deliverer_store_sql,
                                           .steps = deliverer_upgrades,
                                           .count = DELIVERER_SCHEMA,
                                           .cache_kib = 4 * 1024,
                                           .program = "grapnel-deliverer",
                                           .table = "tasks"};

/* TASK_TAKEN_MS: no clock makes such a row due. */
#define TAKEN_TEXT "9223372036854775807"

static stmt *prepare(struct store *s, const char *sql)
{
    return db_prepare(s->db, sql);
}

static int64_t one_number(struct store *s, const char *sql)
{
    stmt *q = prepare(s, sql);
    int64_t v = db_step(s->db, q) ? col_i64(q, 0) : 0;

    db_done(q);
    return v;
}

/* Write the id of this file in a transaction of its own, because the first heartbeat names
 * it. Tasks that were never tried are due now, even if a clock that was ahead wrote a later
 * time. */
static void begin(struct store *s)
{
    stmt *put = prepare(s, "INSERT OR IGNORE INTO meta (one, id) "
                           "VALUES (1, ?1)");
    stmt *hasten = prepare(
        s, "UPDATE tasks SET next_ms = ?1 WHERE n IN (SELECT "
           "n FROM tasks INDEXED BY tasks_untried WHERE "
           "retrying = 0) AND next_ms > ?1 AND next_ms < " TAKEN_TEXT);

    db_begin(s->db);
    bind_i64(put, 1, (int64_t)random_id());
    db_run(s->db, put);
    bind_i64(hasten, 1, now_ms());
    db_run(s->db, hasten);
    if (db_commit(s->db) != GR_OK)
        die(EXIT_STORAGE,
            "%s: the disk is full, so the deliverer cannot start: free disk "
            "space, then start again",
            db_path(s->db));
    s->id = (uint64_t)one_number(s, "SELECT id FROM meta");
}

static void prepare_tasks(struct store *s)
{
    s->sql.task_put = prepare(
        s, ROW_INSERT_WITH("tasks", TASK_COLUMNS, ", sum",
                           ", content_sum(:event_id, :message)"));
    s->sql.task_retry = prepare(
        s, "UPDATE tasks SET attempts = ?2, first_ms = ?3, "
           "next_ms = ?4, retrying = 1, early_ms = ?5, "
           "held_ms = ?6 WHERE n = ?1");
    s->sql.task_due_now = prepare(
        s, "UPDATE tasks SET next_ms = ?2 WHERE n = ?1 AND next_ms > ?2 "
           "AND next_ms < " TAKEN_TEXT);
    s->sql.task_gone = prepare(s, "DELETE FROM tasks WHERE n = ?1");
#define TASK \
    "SELECT " ROW_NAMES(TASK_COLUMNS) ", " DB_INTACT(SUM_TASKS) " FROM tasks "
    s->sql.task_find = prepare(
        s, TASK "INDEXED BY tasks_event WHERE event_id = ?1 AND grant_id = ?2");
    s->sql.task_due = prepare(s, TASK "INDEXED BY tasks_due "
                                      "WHERE grant_id = ?1 AND next_ms <= ?2 "
                                      "ORDER BY next_ms, retrying, n LIMIT ?3");
    s->sql.task_early = prepare(
        s, TASK "INDEXED BY tasks_early "
                "WHERE grant_id = ?1 AND early_ms <= ?2 "
                "AND retrying = 1 ORDER BY early_ms, n LIMIT ?3");
    s->sql.task_next_due = prepare(
        s, "SELECT next_ms FROM tasks INDEXED BY tasks_due "
           "WHERE grant_id = ?1 AND next_ms > ?2 "
           "ORDER BY next_ms LIMIT 1");
    s->sql.tasks_hasten = prepare(
        s, "UPDATE tasks SET next_ms = ?3 WHERE n IN (SELECT n FROM tasks "
           "INDEXED BY tasks_due WHERE grant_id = ?1 AND next_ms > ?2 "
           "LIMIT ?4)");
    s->sql.tasks_purge = prepare(
        s, "DELETE FROM tasks WHERE n IN (SELECT n FROM tasks "
           "INDEXED BY tasks_due WHERE grant_id = ?1 LIMIT ?2)");
    s->sql.tasks_of_event = prepare(s, TASK "WHERE event_id = ?1");
    s->sql.tasks_counts = prepare(s, "SELECT grant_id, count(*) FROM tasks "
                                     "INDEXED BY tasks_due GROUP BY grant_id");
    s->sql.tasks_untried = prepare(s, "SELECT count(*) FROM tasks "
                                      "INDEXED BY tasks_untried "
                                      "WHERE grant_id = ?1 AND retrying = 0");
}

static void prepare_attempts(struct store *s)
{
    s->sql.attempt_put = prepare(s, ROW_INSERT("attempts", ATTEMPT_COLUMNS));
    s->sql.attempt_get = prepare(
        s, "SELECT " ROW_NAMES(RESULT_COLUMNS) " FROM attempts WHERE n = ?1");
    s->sql.attempts_erase = prepare(
        s, "UPDATE attempts SET error = '', response = x'', headers = x'', "
           "request = x'', template = 0 WHERE event_id = ?");
    s->sql.attempts_of_event = prepare(
        s,
        "SELECT " ROW_NAMES(
            ATTEMPT_COLUMNS) " FROM attempts WHERE event_id = ?1 AND (?2 = '' "
                             "OR endpoint = ?2) AND (?3 = 0 OR attempts = ?3) "
                             "AND (?4 = 0 OR n IN (SELECT n FROM (SELECT n, "
                             "row_number() OVER (PARTITION BY endpoint ORDER "
                             "BY n DESC) AS place FROM attempts WHERE event_id "
                             "= ?1) WHERE place <= ?4)) ORDER BY n");
    s->sql.attempt_last = prepare(s, "SELECT max(n) FROM attempts");
    s->sql.attempts_after = prepare(
        s, "SELECT " ROW_NAMES(
               RECENT_COLUMNS) " FROM attempts WHERE n > ?1 ORDER BY n DESC");
    s->sql.attempts_ages = prepare(
        s, "SELECT n, at_ms FROM attempts WHERE n > ?1 ORDER BY n LIMIT ?2");
    s->sql.attempts_purge = prepare(
        s, "DELETE FROM attempts WHERE n IN (SELECT n FROM attempts WHERE "
           "n <= ?1 ORDER BY n LIMIT ?2) RETURNING n");
}

static void prepare_rest(struct store *s)
{
    s->sql.grant_put = prepare(
        s, "INSERT INTO grants (id, endpoint, state, released_n) "
           "VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET "
           "state = excluded.state, released_n = excluded.released_n");
    s->sql.grant_gone = prepare(s, "DELETE FROM grants WHERE id = ?1");
    s->sql.grants_all = prepare(
        s, "SELECT id, endpoint, state, released_n FROM grants");
    s->sql.template_add = prepare(s, "INSERT INTO templates (request, used_ms) "
                                     "VALUES (?1, ?2) RETURNING id");
    s->sql.template_used = prepare(
        s, "UPDATE templates SET used_ms = ?2 WHERE id = ?1");
    s->sql.templates_all = prepare(
        s, "SELECT id, request, used_ms FROM templates");
    s->sql.templates_purge = prepare(
        s, "DELETE FROM templates WHERE used_ms < ?1");
    s->sql.numbers_put = prepare(
        s, "INSERT INTO settled (one, ahead) VALUES (1, ?1) "
           "ON CONFLICT (one) DO UPDATE SET ahead = excluded.ahead");
    s->sql.numbers_get = prepare(s, "SELECT ahead FROM settled");
}

static void note_event(struct store *s, const char *event_id)
{
    if (strcmp(event_id, s->last_event) > 0)
        snprintf(s->last_event, sizeof s->last_event, "%s", event_id);
}

void store_open(struct store *s, struct db *db)
{
    stmt *q;

    s->db = db;
    begin(s);
    prepare_tasks(s);
    prepare_attempts(s);
    prepare_rest(s);
    s->next_task = one_number(s, "SELECT max(n) FROM tasks") + 1;
    q = prepare(s, "SELECT max(event_id) FROM tasks");
    if (db_step(s->db, q))
        note_event(s, col_text(q, 0));
    db_done(q);
}

void store_restored(struct store *s)
{
    stmt *q = prepare(s, "UPDATE meta SET id = ?1");

    s->id = random_id();
    bind_i64(q, 1, (int64_t)s->id);
    db_run(s->db, q);
}

/* ---- tasks ---- */

int64_t store_task_put(struct store *s, const struct task_row *row)
{
    stmt *q = s->sql.task_put;
    int i = 0;

    ROW_BIND(TASK_COLUMNS, q, i, row);
    bind_i64(q, 1, s->next_task);
    db_run(s->db, q);
    note_event(s, row->event_id);
    return s->next_task++;
}

void store_task_retry(struct store *s, const struct task_row *row)
{
    stmt *q = s->sql.task_retry;

    bind_i64(q, 1, row->n);
    bind_i64(q, 2, (int64_t)row->attempts);
    bind_i64(q, 3, row->first_ms);
    bind_i64(q, 4, row->next_ms);
    bind_i64(q, 5, row->early_ms);
    bind_i64(q, 6, row->held_ms);
    db_run(s->db, q);
}

void store_task_due_now(struct store *s, int64_t n, int64_t now_ms)
{
    bind_i64(s->sql.task_due_now, 1, n);
    bind_i64(s->sql.task_due_now, 2, now_ms);
    db_run(s->db, s->sql.task_due_now);
}

void store_task_gone(struct store *s, int64_t n)
{
    bind_i64(s->sql.task_gone, 1, n);
    db_run(s->db, s->sql.task_gone);
}

/* The row borrows from the statement until that is stepped or done. */
static struct task_row read_task(stmt *q)
{
    struct task_row row = {0};
    int i = 0;

    ROW_READ(TASK_COLUMNS, q, i, &row);
    row.damaged = !col_flag(q, i);
    return row;
}

bool store_task_find(struct store *s, uint64_t grant, const char *event_id,
                     struct task_row *row)
{
    stmt *q = s->sql.task_find;
    bool found;

    if (strcmp(event_id, s->last_event) > 0)
        return false;
    bind_text(q, 1, event_id);
    bind_i64(q, 2, (int64_t)grant);
    found = db_step(s->db, q);
    if (found) {
        *row = read_task(q);
        row->event_id = event_id;
        row->message = (struct bytes){0}; /* it is freed with the statement */
    }
    db_done(q);
    return found;
}

/* In the order of the index: rows of grant ?1 up to ?2, at most ?3. */
static bool some_rows(struct store *s, stmt *q, uint64_t grant, int64_t upto_ms,
                      int limit, due_row_fn *each, void *self)
{
    struct task_row row;
    bool more = true;
    int count = 0;

    bind_i64(q, 1, (int64_t)grant);
    bind_i64(q, 2, upto_ms);
    bind_i64(q, 3, limit);
    for (; more && db_step(s->db, q); count++) {
        row = read_task(q);
        more = each(self, &row);
    }
    db_done(q);
    return more && count < limit;
}

bool store_tasks_due(struct store *s, uint64_t grant, int64_t now_ms, int limit,
                     due_row_fn *each, void *self)
{
    return some_rows(s, s->sql.task_due, grant, now_ms, limit, each, self);
}

bool store_tasks_early(struct store *s, uint64_t grant, int64_t early_ms,
                       int limit, due_row_fn *each, void *self)
{
    return some_rows(s, s->sql.task_early, grant, early_ms, limit, each, self);
}

int64_t store_next_due(struct store *s, uint64_t grant, int64_t now_ms)
{
    stmt *q = s->sql.task_next_due;
    int64_t due;

    bind_i64(q, 1, (int64_t)grant);
    bind_i64(q, 2, now_ms);
    due = db_step(s->db, q) ? col_i64(q, 0) : INT64_MAX;
    db_done(q);
    return due;
}

int store_tasks_hasten(struct store *s, uint64_t grant, int64_t max_ms,
                       int64_t now_ms, int limit)
{
    bind_i64(s->sql.tasks_hasten, 1, (int64_t)grant);
    bind_i64(s->sql.tasks_hasten, 2, max_ms);
    bind_i64(s->sql.tasks_hasten, 3, now_ms);
    bind_i64(s->sql.tasks_hasten, 4, limit);
    db_run(s->db, s->sql.tasks_hasten);
    return db_changes(s->db);
}

int store_tasks_purge(struct store *s, uint64_t grant, int limit)
{
    bind_i64(s->sql.tasks_purge, 1, (int64_t)grant);
    bind_i64(s->sql.tasks_purge, 2, limit);
    db_run(s->db, s->sql.tasks_purge);
    return db_changes(s->db);
}

void store_tasks_of_event(struct store *s, const char *event_id,
                          task_row_fn *each, void *self)
{
    stmt *q = s->sql.tasks_of_event;
    struct task_row row;

    bind_text(q, 1, event_id);
    while (db_step(s->db, q)) {
        row = read_task(q);
        each(self, &row);
    }
    db_done(q);
}

void store_task_counts(struct store *s, task_count_fn *each, void *self)
{
    stmt *q = s->sql.tasks_counts, *untried = s->sql.tasks_untried;

    while (db_step(s->db, q)) {
        uint64_t grant = (uint64_t)col_i64(q, 0);
        int64_t count = col_i64(q, 1), fresh;

        bind_i64(untried, 1, (int64_t)grant);
        fresh = db_step(s->db, untried) ? col_i64(untried, 0) : 0;
        db_done(untried);
        each(self, grant, count, count - fresh,
             store_next_due(s, grant, INT64_MIN));
    }
    db_done(q);
}

/* ---- grants ---- */

void store_grant_put(struct store *s, uint64_t id, const char *endpoint,
                     int state, uint64_t released_n)
{
    stmt *q = s->sql.grant_put;

    bind_i64(q, 1, (int64_t)id);
    bind_text(q, 2, endpoint);
    bind_i64(q, 3, state);
    bind_i64(q, 4, (int64_t)released_n);
    db_run(s->db, q);
}

void store_grant_gone(struct store *s, uint64_t id)
{
    bind_i64(s->sql.grant_gone, 1, (int64_t)id);
    db_run(s->db, s->sql.grant_gone);
}

void store_grants(struct store *s, grant_row_fn *each, void *self)
{
    stmt *q = s->sql.grants_all;

    while (db_step(s->db, q))
        each(self, (uint64_t)col_i64(q, 0), col_text(q, 1), (int)col_i64(q, 2),
             (uint64_t)col_i64(q, 3));
    db_done(q);
}

/* ---- attempts ---- */

void store_attempt_put(struct store *s, const struct attempt_row *row)
{
    stmt *q = s->sql.attempt_put;
    int i = 0;

    ROW_BIND(RESULT_COLUMNS, q, i, row);
    ROW_BIND(DETAIL_COLUMNS, q, i, row);
    ROW_BIND(TIMING_COLUMNS, q, i, &row->timings);
    db_run(s->db, q);
}

bool store_attempt_get(struct store *s, uint64_t n, attempt_row_fn *each,
                       void *self)
{
    stmt *q = s->sql.attempt_get;
    struct attempt_row row = {0};
    bool found;
    int i = 0;

    bind_i64(q, 1, (int64_t)n);
    found = db_step(s->db, q);
    if (found) {
        ROW_READ(RESULT_COLUMNS, q, i, &row);
        each(self, &row);
    }
    db_done(q);
    return found;
}

void store_attempts_of_event(struct store *s, const char *event_id,
                             const char *endpoint, int64_t attempts,
                             int64_t newest, attempt_row_fn *each, void *self)
{
    stmt *q = s->sql.attempts_of_event;
    struct attempt_row row;

    bind_text(q, 1, event_id);
    bind_text(q, 2, endpoint);
    bind_i64(q, 3, attempts);
    bind_i64(q, 4, newest);
    while (db_step(s->db, q)) {
        int i = 0;

        ROW_READ(RESULT_COLUMNS, q, i, &row);
        ROW_READ(DETAIL_COLUMNS, q, i, &row);
        ROW_READ(TIMING_COLUMNS, q, i, &row.timings);
        each(self, &row);
    }
    db_done(q);
}

int64_t store_attempt_last(struct store *s)
{
    stmt *q = s->sql.attempt_last;
    int64_t n = db_step(s->db, q) ? col_i64(q, 0) : 0;

    db_done(q);
    return n;
}

void store_attempts_after(struct store *s, int64_t n, attempt_row_fn *each,
                          void *self)
{
    stmt *q = s->sql.attempts_after;
    struct attempt_row row = {0};

    bind_i64(q, 1, n);
    while (db_step(s->db, q)) {
        int i = 0;

        ROW_READ(RECENT_COLUMNS, q, i, &row);
        each(self, &row);
    }
    db_done(q);
}

int store_attempts_purge(struct store *s, int64_t before_ms, int64_t now_ms,
                         uint64_t acked, int limit, uint64_t *last)
{
    stmt *q = s->sql.attempts_ages;
    int64_t max_n = (int64_t)acked, n;
    int count = 0;

    ages_begin(&s->ages, before_ms);
    bind_i64(q, 1, s->ages.seen_n);
    bind_i64(q, 2, limit);
    while (db_step(s->db, q) &&
           ages_see(&s->ages, col_i64(q, 0), col_i64(q, 1), now_ms))
        ;
    db_done(q);
    if (max_n > s->ages.old_n)
        max_n = s->ages.old_n;
    *last = 0;
    q = s->sql.attempts_purge;
    bind_i64(q, 1, max_n);
    bind_i64(q, 2, limit);
    for (; db_step(s->db, q); count++) {
        n = col_i64(q, 0);
        if ((uint64_t)n > *last)
            *last = (uint64_t)n;
    }
    db_done(q);
    return db_full(s->db) ? 0 : count;
}

/* ---- templates ---- */

int64_t store_template_add(struct store *s, struct bytes request,
                           int64_t used_ms)
{
    bind_blob(s->sql.template_add, 1, request);
    bind_i64(s->sql.template_add, 2, used_ms);
    return db_number(s->db, s->sql.template_add, 0);
}

void store_template_used(struct store *s, int64_t id, int64_t used_ms)
{
    bind_i64(s->sql.template_used, 1, id);
    bind_i64(s->sql.template_used, 2, used_ms);
    db_run(s->db, s->sql.template_used);
}

void store_templates(struct store *s, template_row_fn *each, void *self)
{
    stmt *q = s->sql.templates_all;

    while (db_step(s->db, q))
        each(self, col_i64(q, 0), col_blob(q, 1), col_i64(q, 2));
    db_done(q);
}

int store_templates_purge(struct store *s, int64_t before_ms)
{
    bind_i64(s->sql.templates_purge, 1, before_ms);
    db_run(s->db, s->sql.templates_purge);
    return db_changes(s->db);
}

/* ---- stored numbers ---- */

void store_numbers_put(struct store *s, const struct stored_numbers *numbers)
{
    uint8_t saved[STORED_NUMBERS_MAX_BYTES];
    size_t n = stored_numbers_save(numbers, saved);

    bind_blob(s->sql.numbers_put, 1, (struct bytes){saved, n});
    db_run(s->db, s->sql.numbers_put);
}

void store_numbers_get(struct store *s, struct stored_numbers *numbers)
{
    if (db_step(s->db, s->sql.numbers_get))
        stored_numbers_load(numbers, col_blob(s->sql.numbers_get, 0));
    db_done(s->sql.numbers_get);
}

int store_erase_event(struct store *s, const char *event_id)
{
    bind_text(s->sql.attempts_erase, 1, event_id);
    db_run(s->db, s->sql.attempts_erase);
    return db_changes(s->db);
}
