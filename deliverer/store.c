#include "store.h"
#include "clock.h"
#include "daemon.h"
#include "sums.h"
#include <stdio.h>
#include <string.h>

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

/* The file's own id: in a transaction of its own, as it must be there before
 * the first beat names it. And what did not wait for a retry does not wait because
 * the clock was ahead when its row was written. */
static void begin(struct store *s)
{
    stmt *put = prepare(s, "INSERT OR IGNORE INTO meta (one, id) "
                           "VALUES (1, ?1)");
    stmt *hasten = prepare(s,
                           "UPDATE tasks SET next_ms = ?1 WHERE n IN (SELECT "
                           "n FROM tasks INDEXED BY tasks_fresh WHERE "
                           "parked = 0) AND next_ms > ?1");

    db_begin(s->db);
    bind_i64(put, 1, (int64_t)random_id());
    db_run(s->db, put);
    bind_i64(hasten, 1, now_ms());
    db_run(s->db, hasten);
    if (db_commit(s->db) != GR_OK)
        die(EXIT_STORAGE, "%s: the disk is full: a deliverer can't even begin",
            db_path(s->db));
    s->id = (uint64_t)one_number(s, "SELECT id FROM meta");
}

static void prepare_tasks(struct store *s)
{
    s->sql.task_put = prepare(
        s, "INSERT INTO tasks (n, grant_id, event_id, attempts, first_ms, "
           "next_ms, parked, message, early_ms, held_ms, sum) "
           "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
           "content_sum(?3, ?8))");
    s->sql.task_park = prepare(s,
                               "UPDATE tasks SET attempts = ?2, first_ms = ?3, "
                               "next_ms = ?4, parked = 1, early_ms = ?5, "
                               "held_ms = ?6 WHERE n = ?1");
    s->sql.task_due_now = prepare(
        s, "UPDATE tasks SET next_ms = ?2 WHERE n = ?1 AND next_ms > ?2");
    s->sql.task_gone = prepare(s, "DELETE FROM tasks WHERE n = ?1");
#define TASK_COLUMNS                                                        \
    "n, grant_id, event_id, attempts, first_ms, next_ms, parked, message, " \
    "ifnull(held_ms, -1), " DB_INTACT(SUM_TASKS)
    s->sql.task_find = prepare(
        s, "SELECT " TASK_COLUMNS " FROM tasks "
           "INDEXED BY tasks_event WHERE event_id = ?1 AND grant_id = ?2");
    s->sql.task_due = prepare(s, "SELECT " TASK_COLUMNS
                                 " FROM tasks INDEXED BY tasks_due "
                                 "WHERE grant_id = ?1 AND next_ms <= ?2 "
                                 "ORDER BY next_ms, parked, n LIMIT ?3");
    s->sql.task_early = prepare(
        s, "SELECT " TASK_COLUMNS " FROM tasks INDEXED BY tasks_early "
           "WHERE grant_id = ?1 AND early_ms <= ?2 "
           "AND parked = 1 ORDER BY early_ms, n LIMIT ?3");
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
    s->sql.tasks_of_event = prepare(s, "SELECT " TASK_COLUMNS
                                       " FROM tasks WHERE event_id = ?1");
    s->sql.tasks_counts = prepare(s, "SELECT grant_id, count(*) FROM tasks "
                                     "INDEXED BY tasks_due GROUP BY grant_id");
    s->sql.tasks_fresh = prepare(s, "SELECT count(*) FROM tasks "
                                    "INDEXED BY tasks_fresh "
                                    "WHERE grant_id = ?1 AND parked = 0");
}

static void prepare_attempts(struct store *s)
{
    s->sql.attempt_put = prepare(
        s, "INSERT INTO attempts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
           "?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, "
           "?23, ?24, ?25, ?26)");
    s->sql.attempt_get = prepare(
        s, "SELECT n, attempt_id, grant_id, endpoint, event_id, outcome, "
           "http_status, error, reason, at_ms, duration_ms, attempts, "
           "first_ms, next_ms, response, sends FROM attempts WHERE n = ?1");
    s->sql.attempts_of_event = prepare(
        s, "SELECT * FROM attempts WHERE event_id = ?1 ORDER BY n");
    s->sql.attempts_ages = prepare(
        s, "SELECT n, at_ms FROM attempts WHERE n > ?1 ORDER BY n LIMIT ?2");
    s->sql.attempts_purge = prepare(
        s, "DELETE FROM attempts WHERE n IN (SELECT n FROM attempts WHERE "
           "n <= ?1 ORDER BY n LIMIT ?2) RETURNING n");
}

static void prepare_rest(struct store *s)
{
    s->sql.grant_put = prepare(
        s, "INSERT INTO grants (id, endpoint, state, drained_n) "
           "VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET "
           "state = excluded.state, drained_n = excluded.drained_n");
    s->sql.grant_gone = prepare(s, "DELETE FROM grants WHERE id = ?1");
    s->sql.grants_all = prepare(
        s, "SELECT id, endpoint, state, drained_n FROM grants");
    s->sql.template_add = prepare(s, "INSERT INTO templates (request, used_ms) "
                                     "VALUES (?1, ?2) RETURNING id");
    s->sql.template_used = prepare(
        s, "UPDATE templates SET used_ms = ?2 WHERE id = ?1");
    s->sql.templates_all = prepare(
        s, "SELECT id, request, used_ms FROM templates");
    s->sql.templates_purge = prepare(
        s, "DELETE FROM templates WHERE used_ms < ?1");
    s->sql.settled_set = prepare(
        s, "INSERT INTO settled (one, ahead) VALUES (1, ?1) "
           "ON CONFLICT (one) DO UPDATE SET ahead = excluded.ahead");
    s->sql.settled_get = prepare(s, "SELECT ahead FROM settled");
}

static void note_event(struct store *s, const char *event_id)
{
    if (strcmp(event_id, s->last_event) > 0)
        snprintf(s->last_event, sizeof s->last_event, "%s", event_id);
}

static void read_last_event(struct store *s)
{
    stmt *q = prepare(s, "SELECT max(event_id) FROM tasks");

    if (db_step(s->db, q))
        note_event(s, col_text(q, 0));
    db_done(q);
}

void store_open(struct store *s, struct db *db)
{
    s->db = db;
    begin(s);
    prepare_tasks(s);
    prepare_attempts(s);
    prepare_rest(s);
    s->next_task = one_number(s, "SELECT max(n) FROM tasks") + 1;
    read_last_event(s);
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

    bind_i64(q, 1, s->next_task);
    bind_i64(q, 2, (int64_t)row->grant);
    bind_text(q, 3, row->event_id);
    bind_i64(q, 4, (int64_t)row->attempts);
    bind_i64(q, 5, row->first_ms);
    bind_i64(q, 6, row->next_ms);
    bind_i64(q, 7, row->parked);
    bind_blob(q, 8, row->message);
    bind_i64(q, 9, row->early_ms);
    bind_i64(q, 10, row->held_ms);
    db_run(s->db, q);
    note_event(s, row->event_id);
    return s->next_task++;
}

void store_task_park(struct store *s, const struct task_row *row)
{
    stmt *q = s->sql.task_park;

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

/* Borrows from the statement: until it is stepped or done. */
static struct task_row read_task(stmt *q)
{
    return (struct task_row){.n = col_i64(q, 0),
                             .grant = (uint64_t)col_i64(q, 1),
                             .event_id = col_text(q, 2),
                             .attempts = (uint64_t)col_i64(q, 3),
                             .first_ms = col_i64(q, 4),
                             .next_ms = col_i64(q, 5),
                             .parked = col_i64(q, 6) != 0,
                             .message = col_blob(q, 7),
                             .held_ms = col_i64(q, 8),
                             .damaged = col_i64(q, 9) == 0};
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
        row->message = (struct bytes){0}; /* gone with the statement */
    }
    db_done(q);
    return found;
}

/* By index order: of grant ?1 up to ?2, at most ?3. */
static bool some_rows(struct store *s, stmt *q, uint64_t grant, int64_t upto_ms,
                      int limit, due_row_fn *each, void *self)
{
    struct task_row row;
    bool room = true;
    int count = 0;

    bind_i64(q, 1, (int64_t)grant);
    bind_i64(q, 2, upto_ms);
    bind_i64(q, 3, limit);
    for (; room && db_step(s->db, q); count++) {
        row = read_task(q);
        room = each(self, &row);
    }
    db_done(q);
    return room && count < limit;
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

int store_tasks_hasten(struct store *s, uint64_t grant, int64_t most_ms,
                       int64_t now_ms, int limit)
{
    bind_i64(s->sql.tasks_hasten, 1, (int64_t)grant);
    bind_i64(s->sql.tasks_hasten, 2, most_ms);
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

static int64_t fresh(struct store *s, uint64_t grant)
{
    stmt *q = s->sql.tasks_fresh;
    int64_t count;

    bind_i64(q, 1, (int64_t)grant);
    count = db_step(s->db, q) ? col_i64(q, 0) : 0;
    db_done(q);
    return count;
}

void store_task_counts(struct store *s, task_count_fn *each, void *self)
{
    stmt *q = s->sql.tasks_counts;

    while (db_step(s->db, q)) {
        uint64_t grant = (uint64_t)col_i64(q, 0);

        each(self, grant, col_i64(q, 1), col_i64(q, 1) - fresh(s, grant),
             store_next_due(s, grant, INT64_MIN));
    }
    db_done(q);
}

/* ---- grants ---- */

void store_grant_put(struct store *s, uint64_t id, const char *endpoint,
                     int state, uint64_t drained_n)
{
    stmt *q = s->sql.grant_put;

    bind_i64(q, 1, (int64_t)id);
    bind_text(q, 2, endpoint);
    bind_i64(q, 3, state);
    bind_i64(q, 4, (int64_t)drained_n);
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

    bind_i64(q, 1, (int64_t)row->n);
    bind_i64(q, 2, (int64_t)row->attempt_id);
    bind_i64(q, 3, (int64_t)row->grant);
    bind_text(q, 4, row->endpoint);
    bind_text(q, 5, row->event_id);
    bind_i64(q, 6, row->outcome);
    bind_i64(q, 7, row->http_status);
    bind_text(q, 8, row->error);
    bind_text(q, 9, row->reason);
    bind_i64(q, 10, row->at_ms);
    bind_i64(q, 11, row->duration_ms);
    bind_i64(q, 12, (int64_t)row->attempts);
    bind_i64(q, 13, row->first_ms);
    bind_i64(q, 14, row->next_ms);
    bind_blob(q, 15, row->response);
    bind_blob(q, 16, row->headers);
    bind_i64(q, 17, row->timings.dns_us);
    bind_i64(q, 18, row->timings.connect_us);
    bind_i64(q, 19, row->timings.tls_us);
    bind_i64(q, 20, row->timings.first_byte_us);
    bind_i64(q, 21, row->timings.total_us);
    bind_i64(q, 22, row->http_version);
    bind_i64(q, 23, row->sends);
    bind_blob(q, 24, row->request);
    bind_i64(q, 25, row->template);
    bind_i64(q, 26, row->stamp_s);
    db_run(s->db, q);
}

/* The columns that attempt_get and attempts_of_event begin with. */
static struct attempt_row read_result(stmt *q)
{
    return (struct attempt_row){.n = (uint64_t)col_i64(q, 0),
                                .attempt_id = (uint64_t)col_i64(q, 1),
                                .grant = (uint64_t)col_i64(q, 2),
                                .endpoint = col_text(q, 3),
                                .event_id = col_text(q, 4),
                                .outcome = (int)col_i64(q, 5),
                                .http_status = col_i64(q, 6),
                                .error = col_text(q, 7),
                                .reason = col_text(q, 8),
                                .at_ms = col_i64(q, 9),
                                .duration_ms = col_i64(q, 10),
                                .attempts = (uint64_t)col_i64(q, 11),
                                .first_ms = col_i64(q, 12),
                                .next_ms = col_i64(q, 13),
                                .response = col_blob(q, 14)};
}

static struct attempt_row read_attempt(stmt *q)
{
    struct attempt_row row = read_result(q);

    row.headers = col_blob(q, 15);
    row.timings = (struct timings){.dns_us = col_i64(q, 16),
                                   .connect_us = col_i64(q, 17),
                                   .tls_us = col_i64(q, 18),
                                   .first_byte_us = col_i64(q, 19),
                                   .total_us = col_i64(q, 20)};
    row.http_version = (int)col_i64(q, 21);
    row.sends = (int)col_i64(q, 22);
    row.request = col_blob(q, 23);
    row.template = col_i64(q, 24);
    row.stamp_s = col_i64(q, 25);
    return row;
}

bool store_attempt_get(struct store *s, uint64_t n, attempt_row_fn *each,
                       void *self)
{
    stmt *q = s->sql.attempt_get;
    struct attempt_row row;
    bool found;

    bind_i64(q, 1, (int64_t)n);
    found = db_step(s->db, q);
    if (found) {
        row = read_result(q);
        row.sends = (int)col_i64(q, 15);
        each(self, &row);
    }
    db_done(q);
    return found;
}

void store_attempts_of_event(struct store *s, const char *event_id,
                             attempt_row_fn *each, void *self)
{
    stmt *q = s->sql.attempts_of_event;
    struct attempt_row row;

    bind_text(q, 1, event_id);
    while (db_step(s->db, q)) {
        row = read_attempt(q);
        each(self, &row);
    }
    db_done(q);
}

int store_attempts_purge(struct store *s, int64_t before_ms, int64_t now_ms,
                         uint64_t acked, int limit, uint64_t *last)
{
    stmt *q = s->sql.attempts_ages;
    int64_t most_n = (int64_t)acked, n;
    int count = 0;

    ages_begin(&s->ages, before_ms);
    bind_i64(q, 1, s->ages.seen_n);
    bind_i64(q, 2, limit);
    while (db_step(s->db, q) &&
           ages_see(&s->ages, col_i64(q, 0), col_i64(q, 1), now_ms))
        ;
    db_done(q);
    if (most_n > s->ages.old_n)
        most_n = s->ages.old_n;
    *last = 0;
    q = s->sql.attempts_purge;
    bind_i64(q, 1, most_n);
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

/* ---- settled numbers ---- */

void store_settled_set(struct store *s, const struct settle *settle)
{
    uint8_t saved[SETTLE_SAVED_MAX_BYTES];
    size_t n = settle_save(settle, saved);

    bind_blob(s->sql.settled_set, 1, (struct bytes){saved, n});
    db_run(s->db, s->sql.settled_set);
}

void store_settled_get(struct store *s, struct settle *settle)
{
    if (db_step(s->db, s->sql.settled_get))
        settle_load(settle, col_blob(s->sql.settled_get, 0));
    db_done(s->sql.settled_get);
}
