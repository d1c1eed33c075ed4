/* Tests of the deliverer's rows and its log of results, also in a file of an older
 * version. P3, P4. */
#include "clock.h"
#include "links.h"
#include "store.h"
#include "wire.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct db *open_at(const char *path, int version)
{
    struct db_schema schema = deliverer_schema;

    schema.create = NULL;
    schema.count = version;
    return db_open(path, &schema);
}

static char folder[32], file[64];

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gr-store-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/d.db", folder);
    return 0;
}

static int end(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void see(void *self, const struct attempt_row *row)
{
    snprintf(self, 200, "%llu %s %s %d %llu %lld %d",
             (unsigned long long)row->n, row->endpoint, row->event_id,
             row->outcome, (unsigned long long)row->grant_id,
             (long long)row->timings.total_us, row->sends);
}

/* Row 1 was result 1, row 2 result 3; number 2 was the end of grant 77. */
static void results_become_rows_of_the_log(void **state)
{
    char seen[200] = "";
    struct store store = {0};
    struct db *db;

    (void)state;
    db = open_at(file, 4);
    db_exec(db,
            "INSERT INTO hop_out (link, peer, next, cursor, floor) "
            "VALUES (5, 'sequencer', 4, 0, 1), (6, 'another', 9, 0, 1);"
            "INSERT INTO hop_log VALUES (5, 1, 36, 1), (5, 2, 37, 77), "
            "(5, 3, 36, 2), (6, 8, 1, 1);"
            "INSERT INTO attempts VALUES "
            "(1, 11, 7, 'crm', 'evt_a', 1, 200, '', '', 10, 1, 1, 10, 0, x'', "
            "1, x'', 1, 2, 3, 4, 5, 2, 1), "
            "(2, 12, 7, 'crm', 'evt_b', 2, 503, 'e', 'r', 20, 1, 1, 20, 9, "
            "x'00', 3, x'01', 1, 2, 3, 4, 6, 2, 2)");
    db_close(db);

    db = db_open(file, &deliverer_schema);
    store_open(&store, db);
    assert_true(store_attempt_get(&store, 1, see, seen));
    assert_string_equal(seen, "1 crm evt_a 1 7 0 1");
    assert_true(store_attempt_get(&store, 2, see, seen));
    assert_string_equal(seen, "2   0 77 0 0");
    store_attempts_of_event(&store, "evt_b", "", 0, 0, see, seen);
    assert_string_equal(seen, "3 crm evt_b 2 7 6 2");
    db_close(db);
}

/* Nothing that is not acknowledged, however old. */
static void only_what_is_acknowledged_is_purged(void **state)
{
    struct attempt_row row = {.endpoint = "crm",
                              .event_id = "evt_a",
                              .error = "",
                              .reason = "",
                              .at_ms = 100};
    struct store store = {0};
    uint64_t last;
    struct db *db;

    (void)state;
    db = db_open(file, &deliverer_schema);
    store_open(&store, db);
    db_begin(db);
    for (row.n = 3; row.n <= 7; row.n++)
        store_attempt_put(&store, &row);
    row.at_ms = 200;
    store_attempt_put(&store, &row);
    assert_int_equal(store_attempts_purge(&store, 150, 1000, 5, 256, &last), 3);
    assert_int_equal(last, 5);
    assert_int_equal(store_attempts_purge(&store, 150, 1000, 8, 256, &last), 2);
    assert_int_equal(store_attempts_purge(&store, 150, 1000, 8, 256, &last), 0);
    /* Behind one of a time to come, too; never more than so many at once. */
    row.at_ms = 9 * DAY_MS;
    for (row.n = 9; row.n <= 12; row.n++)
        store_attempt_put(&store, &row);
    row.at_ms = 100;
    store_attempt_put(&store, &row);
    assert_int_equal(store_attempts_purge(&store, 201, 1000, 99, 3, &last), 1);
    assert_int_equal(last, 8);
    assert_int_equal(store_attempts_purge(&store, 201, 1000, 99, 3, &last), 3);
    assert_int_equal(store_attempts_purge(&store, 201, 1000, 99, 3, &last), 2);
    assert_int_equal(last, 13);
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
}

/* Of a later event than any nothing is looked up; after a start, too. */
static void a_row_is_found_by_its_event(void **state)
{
    static const char *const events[] = {"evt_b", "evt_d", "evt_c"};
    struct task_row row = {.grant_id = 7};
    struct store store;
    struct db *db;

    (void)state;
    for (int start = 0; start < 2; start++) {
        store = (struct store){0};
        db = db_open(file, &deliverer_schema);
        store_open(&store, db);
        db_begin(db);
        for (int i = 0; i < 3; i++) {
            row.event_id = events[i];
            if (start == 0)
                store_task_put(&store, &row);
            assert_true(store_task_find(&store, 7, events[i], &row));
            assert_false(store_task_find(&store, 8, events[i], &row));
        }
        assert_false(store_task_find(&store, 7, "evt_a", &row));
        assert_false(store_task_find(&store, 7, "evt_e", &row));
        assert_int_equal(db_commit(db), GR_OK);
        db_close(db);
    }
}

static void see_counts(void *self, uint64_t grant, int64_t count,
                       int64_t retrying, int64_t due_ms)
{
    char *out = self;

    snprintf(out + strlen(out), 200 - strlen(out), "%d: %d %d %d; ", (int)grant,
             (int)count, (int)retrying, (int)due_ms);
}

static void rows_are_counted_by_grant(void **state)
{
    char seen[200] = "";
    struct task_row row = {.event_id = "evt_a"};
    struct store store = {0};
    struct db *db;

    (void)state;
    db = db_open(file, &deliverer_schema);
    store_open(&store, db);
    db_begin(db);
    for (int i = 0; i < 5; i++) {
        row.grant_id = i < 3 ? 7 : 8;
        row.next_ms = 100 - i;
        row.retrying = i % 2;
        row.n = store_task_put(&store, &row);
    }
    store_task_retry(&store, &row); /* the last */
    store_task_counts(&store, see_counts, seen);
    assert_string_equal(seen, "7: 3 1 98; 8: 2 2 96; ");
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
}

/* P2: written by a clock that was ahead: what waited for no retry is due at the next
 * start, a retry when it is asked to be. */
static void retries_of_a_clock_that_was_ahead_are_hastened(void **state)
{
    struct task_row row = {.grant_id = 7, .event_id = "evt_a"};
    struct store store = {0};
    struct db *db;
    int64_t now = now_ms();

    (void)state;
    db = db_open(file, &deliverer_schema);
    store_open(&store, db);
    db_begin(db);
    for (int i = 0; i < 3; i++) {
        row.next_ms = now + i * DAY_MS;
        row.retrying = i != 2;
        store_task_put(&store, &row);
    }
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
    db = db_open(file, &deliverer_schema);
    store_open(&store, db);
    assert_int_equal(store_next_due(&store, 7, now_ms()), now + DAY_MS);
    db_begin(db);
    assert_int_equal(store_tasks_hasten(&store, 7, now + DAY_MS, now, 9), 0);
    assert_int_equal(store_tasks_hasten(&store, 7, now + DAY_MS - 1, now, 9),
                     1);
    assert_int_equal(store_next_due(&store, 7, now_ms()), INT64_MAX);
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(results_become_rows_of_the_log),
        T(only_what_is_acknowledged_is_purged), T(a_row_is_found_by_its_event),
        T(rows_are_counted_by_grant),
        T(retries_of_a_clock_that_was_ahead_are_hastened)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
