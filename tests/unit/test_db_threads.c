/* Tests of the checkpoint thread beside a steady writer, and of commits in a thread.
 * grapnel-labels: threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "db.h"
#include "log.h"
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const steps[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, pad BLOB)"};
static const struct db_schema schema = {.steps = steps, .count = 1};

static void a_steady_writer_keeps_a_short_wal(void **state)
{
    static const char pad[1000];
    char dir[64] = "/tmp/dbt-XXXXXX", file[100], wal[110], rm[100];
    time_t until = time(NULL) + 5;
    int64_t max = 0, rows = 0;
    struct stat st;
    struct db *db;
    stmt *s;

    (void)state;
    assert_non_null(mkdtemp(dir));
    log_open("test", LEVEL_ERROR, false);
    snprintf(file, sizeof file, "%s/x.db", dir);
    snprintf(wal, sizeof wal, "%s-wal", file);
    db = db_open(file, &schema);
    s = db_prepare(db, "INSERT INTO t(pad) VALUES(?)");
    while (time(NULL) < until || rows < 110000) {
        db_begin(db);
        for (int i = 0; i < 500; i++, rows++) {
            bind_blob(s, 1, (struct bytes){pad, sizeof pad});
            db_run(db, s);
        }
        assert_int_equal(db_commit(db), GR_OK);
        db_tidy(db);
        if (stat(wal, &st) == 0 && st.st_size > max)
            max = st.st_size;
    }
    assert_true(rows * (int64_t)sizeof pad > 96 * 1024 * 1024);
    assert_in_range(max, 1024 * 1024, 72 * 1024 * 1024);
    db_close(db);
    assert_int_not_equal(stat(wal, &st), 0); /* all is in the file */
    db = db_open(file, &schema);
    s = db_prepare(db, "SELECT count(*) FROM t");
    assert_true(db_step(db, s));
    assert_int_equal(col_i64(s, 0), rows);
    db_done(s);
    db_close(db);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    assert_int_equal(system(rm), 0);
}

static int64_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : 0;
}

static void write_mib(struct db *db, stmt *s, int mib)
{
    static const char pad[1000];

    for (int i = 0; i < 2 * mib; i++) {
        db_begin(db);
        for (int k = 0; k < 500; k++) {
            bind_blob(s, 1, (struct bytes){pad, sizeof pad});
            db_run(db, s);
        }
        assert_int_equal(db_commit(db), GR_OK);
        db_tidy(db);
    }
}

/* Were it waited for, this would take a quarter of an hour. */
static void a_reader_does_not_delay_writers(void **state)
{
    char dir[64] = "/tmp/dbt-XXXXXX", file[100], wal[110], rm[100];
    sqlite3 *reader;
    struct db *db;
    stmt *s;

    (void)state;
    assert_non_null(mkdtemp(dir));
    log_open("test", LEVEL_ERROR, false);
    snprintf(file, sizeof file, "%s/x.db", dir);
    snprintf(wal, sizeof wal, "%s-wal", file);
    db = db_open(file, &schema);
    s = db_prepare(db, "INSERT INTO t(pad) VALUES(?)");
    write_mib(db, s, 1);
    assert_int_equal(sqlite3_open(file, &reader), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM t", NULL, NULL, NULL),
        SQLITE_OK);
    write_mib(db, s, 160);
    assert_true(size_of(wal) > 150 * 1024 * 1024);
    sqlite3_close(reader);
    write_mib(db, s, 5);
    assert_true(size_of(wal) < 72 * 1024 * 1024);
    db_close(db);
    db = db_open(file, &schema); /* which is looked through now */
    db_close(db);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    assert_int_equal(system(rm), 0);
}

/* Waits on the fact, which needs no more than the thread. */
static void the_wal_is_copied_back_beside_the_writer(void **state)
{
    char dir[64] = "/tmp/dbt-XXXXXX", file[100], rm[100];
    struct stat st;
    struct db *db;
    stmt *s;

    (void)state;
    assert_non_null(mkdtemp(dir));
    log_open("test", LEVEL_ERROR, false);
    snprintf(file, sizeof file, "%s/x.db", dir);
    db = db_open(file, &schema);
    s = db_prepare(db, "INSERT INTO t(pad) VALUES(zeroblob(8000000))");
    db_begin(db);
    db_run(db, s);
    assert_int_equal(db_commit(db), GR_OK);
    assert_int_equal(stat(file, &st), 0);
    assert_true(st.st_size < 1000000);
    db_tidy(db);
    for (int i = 0; i < 6000 && st.st_size < 8000000; i++) {
        usleep(10 * 1000);
        assert_int_equal(stat(file, &st), 0);
    }
    assert_true(st.st_size > 8000000);
    db_close(db);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    assert_int_equal(system(rm), 0);
}

/* Each commit in the thread, while we do something else. */
static void a_commit_in_a_thread_is_whole_at_its_end(void **state)
{
    char dir[64] = "/tmp/dbt-XXXXXX", file[100], rm[100];
    struct db *db;
    stmt *s, *count;
    int64_t rows = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    log_open("test", LEVEL_ERROR, false);
    snprintf(file, sizeof file, "%s/x.db", dir);
    db = db_open(file, &schema);
    s = db_prepare(db, "INSERT INTO t(pad) VALUES(zeroblob(1000))");
    count = db_prepare(db, "SELECT count(*) FROM t");
    for (int turn = 0; turn < 300; turn++) {
        struct pollfd ended = {.events = POLLIN};

        db_begin(db);
        for (int i = 0; i < 50; i++, rows++)
            db_run(db, s);
        db_commit_begin(db);
        ended.fd = db_commit_fd(db);
        if (turn % 2)
            assert_int_equal(poll(&ended, 1, -1), 1);
        assert_int_equal(db_commit_end(db), GR_OK);
        assert_int_equal(poll(&ended, 1, 0), 0); /* for the next one */
        db_tidy(db);
        assert_true(db_step(db, count));
        assert_int_equal(col_i64(count, 0), rows);
        db_done(count);
    }
    db_close(db);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    assert_int_equal(system(rm), 0);
}

/* Each sync in the thread, while we read what is being synced. */
static void rows_are_read_while_they_are_synced(void **state)
{
    char dir[64] = "/tmp/dbt-XXXXXX", file[100], rm[100];
    struct db *db;
    stmt *s, *count;
    int64_t rows = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    log_open("test", LEVEL_ERROR, false);
    snprintf(file, sizeof file, "%s/x.db", dir);
    db = db_open(file, &schema);
    s = db_prepare(db, "INSERT INTO t(pad) VALUES(zeroblob(1000))");
    count = db_prepare(db, "SELECT count(*) FROM t");
    for (int turn = 0; turn < 300; turn++) {
        struct pollfd ended = {.events = POLLIN};

        db_begin(db);
        for (int i = 0; i < 50; i++, rows++)
            db_run(db, s);
        assert_int_equal(db_commit_write(db), GR_OK);
        ended.fd = db_commit_fd(db);
        db_read_begin(db);
        do
            assert_int_equal(db_number(db, count, 0), rows);
        while (turn % 2 && poll(&ended, 1, 0) == 0);
        db_read_end(db);
        assert_int_equal(db_commit_end(db), GR_OK);
        db_tidy(db);
    }
    db_close(db);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    assert_int_equal(system(rm), 0);
}

/* Open and close at once, so that the thread meets every moment of it. */
static void a_thread_that_has_hardly_begun_is_stopped(void **state)
{
    char dir[64] = "/tmp/dbt-XXXXXX", file[100], rm[100];

    (void)state;
    assert_non_null(mkdtemp(dir));
    log_open("test", LEVEL_ERROR, false);
    snprintf(file, sizeof file, "%s/x.db", dir);
    for (int i = 0; i < 100; i++)
        db_close(db_open(file, &schema));
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    assert_int_equal(system(rm), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_writer_keeps_a_short_wal),
        cmocka_unit_test(a_reader_does_not_delay_writers),
        cmocka_unit_test(the_wal_is_copied_back_beside_the_writer),
        cmocka_unit_test(a_commit_in_a_thread_is_whole_at_its_end),
        cmocka_unit_test(rows_are_read_while_they_are_synced),
        cmocka_unit_test(a_thread_that_has_hardly_begun_is_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
