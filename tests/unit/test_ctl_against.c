/* Tests of how `check --against` reads databases that processes go on using: it hinders no checkpoint
 * between two batches, and an error is not "no row". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "against.h"
#include "alloc.h"
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[64];
static sqlite3 *sequencer;

static void run(sqlite3 *db, const char *sql)
{
    char *error = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", sql, error);
}

static sqlite3 *open_db(const char *name)
{
    char *path = gr_printf("%s/%s", dir, name);
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    run(db, "PRAGMA journal_mode = WAL");
    free(path);
    return db;
}

/* The columns that are read, of stores with more events than a batch has. */
static int setup(void **state)
{
    sqlite3 *ingress;

    (void)state;
    snprintf(dir, sizeof dir, "/tmp/against-XXXXXX");
    assert_non_null(mkdtemp(dir));
    ingress = open_db("ingress.db");
    run(ingress,
        "CREATE TABLE archive(n INTEGER PRIMARY KEY, event_id, source, "
        "received_ms, headers, body, head DEFAULT 0);"
        "CREATE TABLE heads(n INTEGER PRIMARY KEY, headers);"
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c "
        "LIMIT 1500) INSERT INTO archive SELECT n, 'evt_' || n, 's', n, x'', "
        "'{}', 0 FROM c");
    sqlite3_close(ingress);
    sequencer = open_db("sequencer.db");
    run(sequencer,
        "CREATE TABLE events(n INTEGER PRIMARY KEY, id UNIQUE, received_ms, "
        "status, provider_id, type, workspace, reason, duplicate_of, "
        "source_sequence, reopened_ms DEFAULT 0);"
        "CREATE TABLE deliveries(event, endpoint, action_id);"
        "CREATE TABLE endpoints(id INTEGER PRIMARY KEY, name);"
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c "
        "LIMIT 1500) INSERT INTO events(n, id, received_ms, status, type, "
        "workspace, duplicate_of) SELECT n, 'evt_' || n, n, 1, 't', 'w', "
        "'evt_1' FROM c");
    return 0;
}

static int teardown(void **state)
{
    char rm[100];

    (void)state;
    sqlite3_close(sequencer);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    return system(rm) == 0 ? 0 : -1;
}

static struct reading *reading(void)
{
    char why[300];
    struct reading *r = reading_open(dir, 0, why);

    if (!r)
        fail_msg("%s", why);
    return r;
}

static size_t next_batch(struct reading *r)
{
    struct archived_request *all;
    size_t count;
    char why[300];

    assert_int_equal(reading_batch(r, &all, &count, why), GR_OK);
    return count;
}

/* The sequencer stores something, and its log can begin anew. */
static bool log_restarts(void)
{
    int rc;

    sqlite3_busy_timeout(sequencer, 0);
    run(sequencer, "INSERT INTO endpoints(name) VALUES('crm')");
    rc = sqlite3_wal_checkpoint_v2(sequencer, NULL, SQLITE_CHECKPOINT_RESTART,
                                   NULL, NULL);
    return rc == SQLITE_OK;
}

static void a_batch_leaves_no_lock_behind(void **state)
{
    struct reading *r = reading();
    struct recorded row;

    (void)state;
    assert_int_equal(next_batch(r), 1000);
    assert_true(reading_event(r, "evt_7", &row));
    assert_string_equal(reading_duplicate_of(r, 7), "evt_1");
    assert_false(log_restarts()); /* the batch has one snapshot */
    assert_int_equal(next_batch(r), 500);
    assert_true(log_restarts());
    assert_true(reading_event(r, "evt_1007", &row));
    assert_int_equal(next_batch(r), 0);
    assert_true(log_restarts());
    reading_close(r);
}

/* It would be taken for an event that the sequencer does not know, or without deliveries. */
static void an_error_is_told(void **state)
{
    static const char *const gone[] = {"events", "deliveries"};
    struct archived_request *all;
    struct recorded row;
    char why[300], sql[60];
    size_t count;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(gone); i++) {
        struct reading *r = reading();

        assert_int_equal(next_batch(r), 1000);
        snprintf(sql, sizeof sql, "ALTER TABLE %s RENAME TO away", gone[i]);
        run(sequencer, sql);
        assert_int_equal(reading_event(r, "evt_7", &row), i > 0);
        reading_deliveries(r, 7, NULL, NULL);
        snprintf(sql, sizeof sql, "ALTER TABLE away RENAME TO %s", gone[i]);
        run(sequencer, sql);
        assert_int_equal(reading_batch(r, &all, &count, why), GR_REFUSE);
        assert_non_null(strstr(why, "sequencer.db: no such table"));
        assert_int_equal(count, 0);
        reading_close(r);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_batch_leaves_no_lock_behind),
        T(an_error_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
