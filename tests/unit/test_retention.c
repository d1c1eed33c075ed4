/* Tests of the spans of time in which a process ran, over restarts, kills and rolled
 * back turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "log.h"
#include "retention.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const steps[] = {"CREATE TABLE t(id INTEGER PRIMARY KEY)"};
static const struct db_schema schema = {.steps = steps, .count = 1};
static const int64_t start = 20000 * DAY_MS, keep = 30 * DAY_MS;

static char dir[64], file[100];
static struct db *db;
static struct retention r;
static int64_t now;

static void open_at(int64_t at_ms)
{
    now = at_ms;
    clock_test_set(at_ms);
    db = db_open(file, &schema);
    retention_open(&r, db, at_ms);
}

/* Turns that write, for so long. */
static void run(int64_t for_ms)
{
    for (int64_t end = now + for_ms; now <= end; now += HOUR_MS / 2) {
        clock_test_set(now);
        db_begin(db);
        db_exec(db, "INSERT INTO t DEFAULT VALUES");
        retention_work(&r, db, now, false);
        assert_int_equal(db_commit(db), GR_OK);
    }
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/retention-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    log_open("test", LEVEL_ERROR, false);
    open_at(start);
    return 0;
}

static int teardown(void **state)
{
    char rm[100];

    (void)state;
    db_close(db);
    clock_test_off();
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    return system(rm) == 0 ? 0 : -1;
}

static void
a_wrong_clock_is_not_believed_at_the_second_start_either(void **state)
{
    int64_t right;

    (void)state;
    run(DAY_MS);
    right = now;
    for (int i = 0; i < 3; i++) { /* killed, each time */
        db_close(db);
        open_at(right + 40 * DAY_MS + i * HOUR_MS);
        run(30 * MINUTE_MS);
        assert_true(retention_before(&r, now, keep) < right - 20 * DAY_MS);
    }
    db_close(db);
    open_at(right + HOUR_MS / 2);
    assert_true(retention_before(&r, now, keep) <= now - keep);
    run(keep);
    clock_test_set(now);
    assert_int_equal(retention_before(&r, now, keep), now - keep);
}

static void a_rolled_back_turn_is_noted_by_the_next(void **state)
{
    int64_t right;

    (void)state;
    run(DAY_MS);
    right = now;
    db_close(db);
    open_at(right + 40 * DAY_MS);
    db_begin(db);
    retention_work(&r, db, now, false);
    db_exec(db, "ROLLBACK; BEGIN");
    retention_undo(&r);
    retention_work(&r, db, now, false);
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
    open_at(right + 40 * DAY_MS);
    assert_int_equal(r.spans.count, 2);
}

/* A database of an older program: it knows when it was written last. */
static void an_older_database_is_not_old_at_once(void **state)
{
    (void)state;
    db_begin(db);
    db_note_written(db, now, true);
    db_exec(db, "DROP TABLE clock_spans");
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
    open_at(start + 40 * DAY_MS);
    assert_int_equal(r.spans.count, 2);
    assert_int_equal(retention_before(&r, now, keep), start - keep);
}

/* Ours follows a step slowly; what goes is old by both. */
static void removed_rows_are_old_by_both_clocks(void **state)
{
    (void)state;
    run(DAY_MS);
    clock_test_set(now + 40 * DAY_MS);
    assert_int_equal(retention_before(&r, now, HOUR_MS), now - HOUR_MS);
    clock_test_set(now - 40 * DAY_MS);
    assert_true(retention_before(&r, now, HOUR_MS) <= now - 40 * DAY_MS);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_wrong_clock_is_not_believed_at_the_second_start_either),
        T(a_rolled_back_turn_is_noted_by_the_next),
        T(an_older_database_is_not_old_at_once),
        T(removed_rows_are_old_by_both_clocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
