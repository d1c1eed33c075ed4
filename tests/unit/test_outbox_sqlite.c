/* Test of the driver of SQLite files: what the application's file does to a relay, and a relay to it. */
#include "alloc.h"
#include "clock.h"
#include "driver.h"
#include "settings.h"
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/grapnel-test-sqlite-XXXXXX";
static struct relay relay;
static struct driver *driver;
static const struct driver_ops *const ops = &sqlite_driver;
static char why[DRIVER_WHY_BYTES];

/* The first value that the statement returns, as text; "" if there is none. */
static const char *app(const char *sql)
{
    static char value[200];
    sqlite3 *db;
    sqlite3_stmt *s;
    const char *rest = sql;

    value[0] = 0;
    assert_int_equal(sqlite3_open("app.db", &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 0);
    while (*rest) {
        if (sqlite3_prepare_v2(db, rest, -1, &s, &rest) != SQLITE_OK)
            fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        while (s && sqlite3_step(s) == SQLITE_ROW)
            snprintf(value, sizeof value, "%s",
                     (const char *)sqlite3_column_text(s, 0));
        if (sqlite3_finalize(s) != SQLITE_OK)
            fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

static void make_table(void)
{
    app("PRAGMA journal_mode = WAL; CREATE TABLE webhook_outbox (id TEXT NOT "
        "NULL PRIMARY KEY, payload TEXT, status TEXT NOT NULL DEFAULT "
        "'NOT_CALLED', created_at TEXT DEFAULT (datetime('now')), "
        "last_attempt_at TEXT, error_message TEXT);"
        "CREATE INDEX fresh ON webhook_outbox (created_at, id) WHERE status = "
        "'NOT_CALLED'");
}

static int make_file(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (!mkdtemp(folder) || chdir(folder))
        return -1;
    make_table();
    relay = (struct relay){.name = "orders",
                           .database = gr_printf("sqlite://%s/app.db", folder),
                           .table = "webhook_outbox",
                           .statuses = {"NOT_CALLED", "PENDING_RETRY",
                                        "SUCCESS", "FAILED_PERMANENTLY"}};
    driver = ops->open(&relay, "outbox", 1000);
    return 0;
}

static int remove_file(void **state)
{
    char *command = gr_printf("rm -rf %s", folder);
    int rc;

    (void)state;
    ops->close(driver);
    free(relay.database);
    rc = chdir("/") || system(command);
    free(command);
    return rc;
}

static gr_rc step(enum driver_end end, int max)
{
    struct driver_work work = {.end = end, .max = max};

    return ops->step(driver, &work, why);
}

static void expect_rows(size_t count)
{
    if (step(DRIVER_NOTHING, 10) != GR_OK)
        fail_msg("%s", why);
    assert_int_equal(ops->count(driver), count);
}

static void rows_are_marked_when_they_are_stored(void **state)
{
    struct driver_row row;

    (void)state;
    app("INSERT INTO webhook_outbox (id, payload) VALUES ('a', '1'), ('b', "
        "NULL)");
    expect_rows(2);
    ops->row(driver, 0, &row);
    assert_string_equal(row.id, "a");
    assert_true(row.has_payload && row.payload.n == 1 && !row.attempted);
    assert_in_range(row.age_ms, 0, 60000);
    ops->row(driver, 1, &row);
    assert_false(row.has_payload);
    assert_string_equal(app("SELECT count(*) FROM webhook_outbox WHERE status "
                            "= 'NOT_CALLED'"),
                        "2");
    /* The application takes one back meanwhile: it keeps its status. */
    app("UPDATE webhook_outbox SET status = 'CANCELLED' WHERE id = 'b'");
    assert_int_equal(step(DRIVER_COMMIT, 0), GR_OK);
    assert_string_equal(app("SELECT group_concat(status) FROM (SELECT status "
                            "FROM webhook_outbox ORDER BY id)"),
                        "PENDING_RETRY,CANCELLED");
    app("INSERT INTO webhook_outbox (id, payload) VALUES ('c', '1')");
    expect_rows(1);
    assert_int_equal(step(DRIVER_ROLLBACK, 0), GR_OK);
    expect_rows(1);
}

static void payloads_of_a_batch_have_a_limit(void **state)
{
    struct driver_row row;

    (void)state;
    ops->close(driver);
    driver = ops->open(&relay, "outbox", DRIVER_BATCH_BYTES - 10);
    app("INSERT INTO webhook_outbox (id, payload) VALUES ('a', '1'), "
        "('b', zeroblob(4194304)), ('c', zeroblob(4194290)), ('d', "
        "zeroblob(20)), ('e', '2')");
    expect_rows(4);
    ops->row(driver, 1, &row);
    assert_int_equal(row.payload_bytes, DRIVER_BATCH_BYTES);
    assert_int_equal(row.payload.n, 0);
    ops->row(driver, 2, &row);
    assert_int_equal(row.payload.n, DRIVER_BATCH_BYTES - 14);
    assert_int_equal(step(DRIVER_COMMIT, 10), GR_OK);
    assert_int_equal(ops->count(driver), 1);
}

/* A constraint or a trigger of the application. */
static void a_mark_that_is_refused_is_not_taken(void **state)
{
    const char *except = "b";
    struct driver_work work = {.end = DRIVER_COMMIT, .max = 10};
    struct driver_row row;

    (void)state;
    app("CREATE TRIGGER no BEFORE UPDATE ON webhook_outbox WHEN old.id = 'b' "
        "BEGIN SELECT RAISE(ABORT, 'not this one'); END;"
        "INSERT INTO webhook_outbox (id, payload) VALUES ('a', '1'), ('b', "
        "'2'), ('c', '3')");
    expect_rows(3);
    assert_int_equal(ops->step(driver, &work, why), GR_REFUSE);
    assert_int_equal(work.refused, DRIVER_END_REFUSED);
    assert_non_null(strstr(why, "not this one"));
    assert_string_equal(app("SELECT count(*) FROM webhook_outbox WHERE status "
                            "= 'NOT_CALLED'"),
                        "3");
    work = (struct driver_work){.max = 2, .except = &except, .except_count = 1};
    assert_int_equal(ops->step(driver, &work, why), GR_OK);
    assert_int_equal(ops->count(driver), 2);
    ops->row(driver, 1, &row);
    assert_string_equal(row.id, "c");
    assert_int_equal(step(DRIVER_COMMIT, 0), GR_OK);
    assert_string_equal(app("SELECT count(*) FROM webhook_outbox WHERE status "
                            "= 'NOT_CALLED'"),
                        "1");
}

static void an_outcome_that_is_refused_does_not_stop_the_others(void **state)
{
    struct driver_write writes[] = {
        {.row_id = "a", .error = "", .status = DRIVER_DELIVERED, .last_ms = 5},
        {.row_id = "b", .error = "e", .status = DRIVER_DELIVERED},
        {.row_id = "c", .error = "", .status = DRIVER_FAILED},
        {.row_id = "none", .error = "", .status = DRIVER_FAILED}};
    struct driver_work work = {.end = DRIVER_COMMIT,
                               .writes = writes,
                               .write_count = COUNT_OF(writes)};

    (void)state;
    app("CREATE TRIGGER no BEFORE UPDATE ON webhook_outbox WHEN old.id = 'b' "
        "BEGIN SELECT RAISE(ABORT, 'not this one'); END;"
        "INSERT INTO webhook_outbox (id, payload, status) VALUES ('a', '1', "
        "'PENDING_RETRY'), ('b', '2', 'PENDING_RETRY'), ('c', '3', "
        "'NOT_CALLED')");
    expect_rows(1);
    assert_int_equal(ops->step(driver, &work, why), GR_REFUSE);
    assert_int_equal(work.refused, DRIVER_WRITES_REFUSED);
    assert_non_null(strstr(why, "not this one"));
    /* What was taken is marked nevertheless. */
    assert_string_equal(app("SELECT group_concat(status) FROM (SELECT status "
                            "FROM webhook_outbox ORDER BY id)"),
                        "PENDING_RETRY,PENDING_RETRY,PENDING_RETRY");
    app("UPDATE webhook_outbox SET status = 'NOT_CALLED' WHERE id = 'c'");
    work.alone = true;
    work.end = DRIVER_NOTHING;
    assert_int_equal(ops->step(driver, &work, why), GR_OK);
    assert_int_equal(writes[0].written, DRIVER_APPLIED);
    assert_int_equal(writes[1].written, DRIVER_WRITE_REFUSED);
    assert_non_null(strstr(writes[1].why, "not this one"));
    free(writes[1].why);
    assert_int_equal(writes[2].written, DRIVER_IS_NEW);
    assert_int_equal(writes[3].written, DRIVER_NOT_WRITTEN);
    assert_string_equal(app("SELECT last_attempt_at FROM webhook_outbox WHERE "
                            "id = 'a' AND error_message IS NULL"),
                        "1970-01-01 00:00:00.005");
}

/* RAISE(ROLLBACK) undoes all that was done in the transaction. */
static void
a_refusal_that_ends_the_transaction_does_not_stop_the_others(void **state)
{
    struct driver_write writes[] = {
        {.row_id = "a", .error = "", .status = DRIVER_DELIVERED},
        {.row_id = "b", .error = "", .status = DRIVER_DELIVERED},
        {.row_id = "c", .error = "", .status = DRIVER_FAILED},
        {.row_id = "d", .error = "", .status = DRIVER_FAILED}};
    struct driver_work work = {.end = DRIVER_COMMIT,
                               .writes = writes,
                               .write_count = COUNT_OF(writes)};

    (void)state;
    app("CREATE TRIGGER no BEFORE UPDATE ON webhook_outbox WHEN old.id IN "
        "('b', 'd') BEGIN SELECT RAISE(ROLLBACK, 'not this one'); END;"
        "INSERT INTO webhook_outbox (id, payload, status) VALUES ('a', '1', "
        "'PENDING_RETRY'), ('b', '2', 'PENDING_RETRY'), ('c', '3', "
        "'PENDING_RETRY'), ('d', '4', 'PENDING_RETRY'), ('e', '5', "
        "'NOT_CALLED')");
    expect_rows(1);
    assert_int_equal(ops->step(driver, &work, why), GR_REFUSE);
    assert_int_equal(work.refused, DRIVER_WRITES_REFUSED);
    assert_non_null(strstr(why, "not this one"));
    assert_string_equal(app("SELECT status FROM webhook_outbox WHERE id = 'e'"),
                        "PENDING_RETRY");
    app("UPDATE webhook_outbox SET status = 'NOT_CALLED' WHERE id = 'e'");
    expect_rows(1);
    work.alone = true;
    assert_int_equal(ops->step(driver, &work, why), GR_OK);
    assert_int_equal(writes[0].written, DRIVER_APPLIED);
    assert_int_equal(writes[1].written, DRIVER_WRITE_REFUSED);
    assert_int_equal(writes[2].written, DRIVER_APPLIED);
    assert_int_equal(writes[3].written, DRIVER_WRITE_REFUSED);
    free(writes[1].why);
    free(writes[3].why);
    assert_string_equal(app("SELECT group_concat(status) FROM (SELECT status "
                            "FROM webhook_outbox ORDER BY id)"),
                        "SUCCESS,PENDING_RETRY,FAILED_PERMANENTLY,"
                        "PENDING_RETRY,PENDING_RETRY");
}

static void a_mark_that_is_ignored_is_refused(void **state)
{
    struct driver_work work = {.end = DRIVER_COMMIT};

    (void)state;
    app("CREATE TRIGGER no BEFORE UPDATE ON webhook_outbox "
        "BEGIN SELECT RAISE(IGNORE); END;"
        "INSERT INTO webhook_outbox (id, payload) VALUES ('a', '1')");
    expect_rows(1);
    assert_int_equal(ops->step(driver, &work, why), GR_REFUSE);
    assert_int_equal(work.refused, DRIVER_END_REFUSED);
    assert_non_null(strstr(why, "RAISE(IGNORE)"));
}

/* So slow that one row is changed in time, and many are not. */
static void slow_triggers_get_fewer_rows(void **state)
{
    enum { ROWS = 200 };
    static struct driver_write writes[ROWS];
    static char ids[ROWS][8];
    struct driver_work work = {.end = DRIVER_COMMIT};
    int applied = 0;

    (void)state;
    app("CREATE TRIGGER slow BEFORE UPDATE ON webhook_outbox BEGIN SELECT "
        "count(*) FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + "
        "1 FROM n WHERE i < 500000) SELECT i FROM n); END;"
        "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n "
        "WHERE i < 299) INSERT INTO webhook_outbox (id, payload) SELECT i, '1' "
        "FROM n");
    assert_int_equal(step(DRIVER_NOTHING, ROWS), GR_OK);
    assert_int_equal(ops->step(driver, &work, why), GR_REFUSE);
    assert_int_equal(work.refused, DRIVER_END_REFUSED);
    assert_non_null(strstr(why, "slow triggers"));
    assert_int_equal(step(DRIVER_NOTHING, 1), GR_OK);
    assert_int_equal(step(DRIVER_COMMIT, 0), GR_OK);
    for (int i = 0; i < ROWS; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", 100 + i);
        writes[i] = (struct driver_write){
            .row_id = ids[i], .error = "", .status = DRIVER_DELIVERED};
    }
    app("DROP TRIGGER slow; UPDATE webhook_outbox SET status = "
        "'PENDING_RETRY'; CREATE TRIGGER slow BEFORE UPDATE ON webhook_outbox "
        "BEGIN SELECT count(*) FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION "
        "ALL SELECT i + 1 FROM n WHERE i < 500000) SELECT i FROM n); END");
    work = (struct driver_work){.writes = writes, .write_count = ROWS};
    assert_int_equal(ops->step(driver, &work, why), GR_REFUSE);
    assert_int_equal(work.refused, DRIVER_WRITES_REFUSED);
    work.alone = true;
    assert_int_equal(ops->step(driver, &work, why), GR_OK);
    for (int i = 0; i < ROWS; i++)
        applied += writes[i].written == DRIVER_APPLIED;
    assert_in_range(applied, 1, ROWS - 1);
    assert_int_equal(atoi(app("SELECT count(*) FROM webhook_outbox WHERE "
                              "status = 'SUCCESS'")),
                     applied);
}

static void texts_are_read_up_to_a_limit(void **state)
{
    struct driver_row row;

    (void)state;
    app("ALTER TABLE webhook_outbox ADD COLUMN event_type TEXT;"
        "ALTER TABLE webhook_outbox ADD COLUMN target_url TEXT;"
        "INSERT INTO webhook_outbox (id, payload, event_type, target_url) "
        "VALUES "
        "('a' || char(0) || 'b', '1', printf('%.*c', 100000, 'x'), "
        "printf('%.*c', 100000, 'x'))");
    expect_rows(1);
    ops->row(driver, 0, &row);
    assert_string_equal(row.id, "a\1b"); /* refused as an id */
    assert_int_equal(strlen(row.type), 256);
    assert_int_equal(strlen(row.url), 2049);
}

static void another_file_in_its_place_is_not_marked(void **state)
{
    (void)state;
    app("INSERT INTO webhook_outbox (id, payload) VALUES ('a', '1')");
    expect_rows(1);
    assert_int_equal(rename("app.db", "old.db"), 0);
    unlink("app.db-wal");
    unlink("app.db-shm");
    make_table();
    app("INSERT INTO webhook_outbox (id, payload) VALUES ('a', 'other')");
    assert_int_equal(step(DRIVER_COMMIT, 0), GR_OK);
    assert_string_equal(app("SELECT status FROM webhook_outbox"), "NOT_CALLED");
    assert_string_equal(app("PRAGMA integrity_check"), "ok");
    expect_rows(1);
    assert_int_equal(rename("app.db", "new.db"), 0);
    assert_int_equal(step(DRIVER_COMMIT, 1), GR_REFUSE);
    assert_non_null(strstr(why, "No such file or directory"));
}

static void a_change_is_noticed(void **state)
{
    int wake_fd = eventfd(0, 0);
    int64_t begin_ms;

    (void)state;
    expect_rows(0);
    assert_false(ops->wait(driver, wake_fd, 20));
    app("INSERT INTO webhook_outbox (id, payload) VALUES ('a', '1')");
    begin_ms = mono_ms();
    assert_true(ops->wait(driver, wake_fd, 100 * 1000));
    assert_true(mono_ms() - begin_ms < 50 * 1000);
    expect_rows(1);
    assert_int_equal(step(DRIVER_COMMIT, 10), GR_OK);
    assert_false(ops->wait(driver, wake_fd, 20)); /* our own change */
    assert_int_equal(eventfd_write(wake_fd, 1), 0);
    assert_false(ops->wait(driver, wake_fd, 100 * 1000));
    assert_true(mono_ms() - begin_ms < 50 * 1000);
    close(wake_fd);
}

static void delivered_rows_are_deleted_by_their_age(void **state)
{
    int64_t deleted;

    (void)state;
    ops->close(driver);
    relay.delete_after_ms = 1;
    driver = ops->open(&relay, "outbox", 1000);
    app("INSERT INTO webhook_outbox (id, status, last_attempt_at) VALUES "
        "('old', 'SUCCESS', strftime('%Y-%m-%d %H:%M:%f', 'now', '-2 days')), "
        "('older', 'SUCCESS', '2020-01-01 00:00:00'), "
        "('young', 'SUCCESS', strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 "
        "hours')), "
        "('failed', 'FAILED_PERMANENTLY', '2020-01-01 00:00:00'), "
        "('never', 'SUCCESS', NULL), ('blob', 'SUCCESS', x'00')");
    assert_int_equal(ops->purge(driver, 24 * 3600 * 1000, 1, &deleted, why),
                     GR_OK);
    assert_int_equal(deleted, 1);
    assert_int_equal(ops->purge(driver, 24 * 3600 * 1000, 10, &deleted, why),
                     GR_OK);
    assert_int_equal(deleted, 1);
    assert_string_equal(app("SELECT group_concat(id) FROM (SELECT id FROM "
                            "webhook_outbox ORDER BY id)"),
                        "blob,failed,never,young");
}

/* Another worker has its rows in the same table. */
static void only_rows_of_the_relay_are_deleted(void **state)
{
    char where[] = "kind = 'webhook' OR kind IS NULL";
    int64_t deleted;

    (void)state;
    ops->close(driver);
    relay.delete_after_ms = 1;
    relay.where = where;
    driver = ops->open(&relay, "outbox", 1000);
    app("ALTER TABLE webhook_outbox ADD COLUMN kind TEXT;"
        "INSERT INTO webhook_outbox (id, kind, status, last_attempt_at) VALUES "
        "('mail', 'mail', 'SUCCESS', '2020-01-01 00:00:00'), "
        "('ours', 'webhook', 'SUCCESS', '2020-01-01 00:00:00')");
    assert_int_equal(ops->purge(driver, 1000, 10, &deleted, why), GR_OK);
    assert_int_equal(deleted, 1);
    assert_string_equal(app("SELECT group_concat(id) FROM webhook_outbox"),
                        "mail");
}

static char findings[2000];

static void note(void *self, bool needed, const char *what, const char *fix)
{
    size_t n = strlen(findings);

    (void)self;
    snprintf(findings + n, sizeof findings - n, "%s%s: %s\n",
             needed ? "" : "advice: ", what, fix);
}

static const char *check(void)
{
    findings[0] = 0;
    ops->check(&relay, note, NULL);
    return findings;
}

static void check_says_what_is_missing(void **state)
{
    (void)state;
    assert_string_equal(check(), "");
    app("DROP INDEX fresh");
    assert_non_null(strstr(check(), "advice: no index finds new rows"));
    app("PRAGMA journal_mode = DELETE");
    assert_non_null(strstr(check(), "not in WAL mode"));
    relay.where = "no such thing";
    assert_non_null(strstr(check(), "correct `where`"));
    relay.where = NULL;
    app("DROP TABLE webhook_outbox; CREATE TABLE webhook_outbox (id INTEGER "
        "PRIMARY KEY, payload, status)");
    assert_non_null(strstr(check(), "without AUTOINCREMENT"));
    relay.delete_after_ms = 1;
    assert_int_equal(step(DRIVER_NOTHING, 1), GR_OK);
    ops->close(driver);
    driver = ops->open(&relay, "outbox", 1000);
    assert_int_equal(step(DRIVER_NOTHING, 1), GR_REFUSE);
    assert_non_null(strstr(why, "AUTOINCREMENT"));
    app("DROP TABLE webhook_outbox; CREATE TABLE webhook_outbox (id TEXT, "
        "payload, status)");
    assert_int_equal(step(DRIVER_NOTHING, 1), GR_REFUSE);
    assert_non_null(strstr(why, "has no index"));
    app("DROP TABLE webhook_outbox; CREATE TABLE webhook_outbox (id PRIMARY "
        "KEY, payload, status); INSERT INTO webhook_outbox (status) VALUES "
        "('NOT_CALLED')");
    assert_non_null(strstr(check(), "the column of ids has no type"));
    assert_non_null(strstr(findings, "a new row has no id"));
    app("DROP TABLE webhook_outbox");
    assert_int_equal(step(DRIVER_NOTHING, 1), GR_REFUSE);
    assert_non_null(strstr(why, "has no table webhook_outbox"));
}

static void the_file_is_read_only(void **state)
{
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(chmod(folder, 0555), 0);
    assert_int_equal(chmod("app.db", 0444), 0);
    child = fork();
    if (!child) {
        if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
            _exit(2);
        _exit(step(DRIVER_NOTHING, 1) == GR_REFUSE &&
                      strstr(why, "needs write permission for the file and "
                                  "for its folder")
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(status, 0);
}

static void a_lock_that_is_held_for_long_is_named(void **state)
{
    struct driver_write write = {.row_id = "a", .error = ""};
    struct driver_work work = {.writes = &write, .write_count = 1};
    sqlite3 *db;

    (void)state;
    write.status = DRIVER_DELIVERED;
    app("PRAGMA journal_mode = DELETE; INSERT INTO webhook_outbox (id, "
        "payload, "
        "status) VALUES ('a', '1', 'PENDING_RETRY')");
    expect_rows(0);
    assert_int_equal(sqlite3_open("app.db", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(ops->step(driver, &work, why), GR_REFUSE);
    assert_int_equal(work.refused, DRIVER_NOTHING_REFUSED);
    assert_non_null(strstr(why, "is locked: another connection has held its "
                                "lock for 1 s"));
    expect_rows(0); /* it can be read */
    sqlite3_close(db);
    assert_int_equal(ops->step(driver, &work, why), GR_OK);
    assert_int_equal(write.written, DRIVER_APPLIED);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, make_file, remove_file)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(rows_are_marked_when_they_are_stored),
        EACH(payloads_of_a_batch_have_a_limit),
        EACH(a_mark_that_is_refused_is_not_taken),
        EACH(an_outcome_that_is_refused_does_not_stop_the_others),
        EACH(a_refusal_that_ends_the_transaction_does_not_stop_the_others),
        EACH(a_mark_that_is_ignored_is_refused),
        EACH(slow_triggers_get_fewer_rows),
        EACH(texts_are_read_up_to_a_limit),
        EACH(another_file_in_its_place_is_not_marked),
        EACH(a_change_is_noticed),
        EACH(delivered_rows_are_deleted_by_their_age),
        EACH(only_rows_of_the_relay_are_deleted),
        EACH(check_says_what_is_missing),
        EACH(the_file_is_read_only),
        EACH(a_lock_that_is_held_for_long_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
