/* Tests of delivery_ids on a real file: blocks, restarts, and changes. P10. */
#include "alloc.h"
#include "delivery_ids.h"
#include "store.h"
#include "stores.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 3 * DELIVERY_BLOCK, MAX = 10 };

static char folder[] = "/tmp/grapnel-test-delivery-ids-XXXXXX";
static char path[80];
static struct db *db;
static struct delivery_ids *ids;
static int64_t next_event;
static stmt *insert;

static void open_all(void)
{
    db = db_open(path, &sequencer_schema);
    insert = db_prepare(
        db, "INSERT INTO events(n, id, source, type, workspace, received_ms, "
            "taken_ms, status, delivery_id) VALUES(?1, 'evt_' || ?1, 's', 't', "
            "'w', 1, 1, 0, ?2)");
    ids = delivery_ids_open(db);
    db_begin(db);
}

static void close_all(void)
{
    assert_int_equal(db_commit(db), GR_OK);
    delivery_ids_close(ids);
    db_close(db);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s.db", folder);
    next_event = 1;
    open_all();
    return 0;
}

static int tear_down(void **state)
{
    char *command;

    (void)state;
    close_all();
    command = gr_printf("rm -r %s", folder);
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

/* NULL: the event has none. */
static void add(const char *delivery_id)
{
    bind_i64(insert, 1, next_event++);
    bind_text(insert, 2, delivery_id);
    db_run(db, insert);
}

static const char *id_of(int64_t n)
{
    static char text[40];

    snprintf(text, sizeof text, "%08llx-delivery",
             (unsigned long long)n * 2654435761u);
    return text;
}

static int64_t number(const char *sql)
{
    sqlite3_stmt *s = NULL;
    int64_t n;

    assert_int_equal(sqlite3_prepare_v2(db_handle(db), sql, -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return n;
}

static void add_many(int count)
{
    for (int i = 0; i < count; i++) {
        add(next_event % 7 ? id_of(next_event) : NULL);
        if (i % 100 == 0)
            delivery_ids_work(ids, next_event);
    }
    for (int i = 0; i < 100; i++)
        delivery_ids_work(ids, next_event);
}

/* At most a block and a piece are left. */
static void work_off(void)
{
    for (int i = 0; delivery_ids_work(ids, next_event); i++)
        assert_in_range(i, 0, 10);
    for (int i = 0; i < 20; i++)
        delivery_ids_work(ids, next_event);
}

static int64_t found(const char *id)
{
    int64_t events[MAX];
    int n = delivery_ids_find(ids, id, MAX, events);

    assert_in_range(n, 0, 1);
    return n ? events[0] : 0;
}

static void find_all(void)
{
    for (int64_t n = 1; n < next_event; n += 13)
        assert_int_equal(found(id_of(n)), n % 7 ? n : 0);
    assert_int_equal(found("unknown"), 0);
}

static void events_of_all_blocks_are_found_after_a_restart(void **state)
{
    (void)state;
    add_many(MANY + 1000);
    assert_int_equal(number("SELECT max(part) / 64 FROM delivery_ids"), 2);
    for (int i = 0; i < 2; i++) {
        find_all();
        close_all();
        open_all();
        delivery_ids_work(ids, next_event);
    }
    add_many(DELIVERY_BLOCK);
    assert_int_equal(number("SELECT max(part) / 64 FROM delivery_ids"), 3);
    find_all();
}

/* It stopped in the middle of a block, or an upgrade has dropped the index. */
static void the_first_turns_write_all_blocks_that_are_missing(void **state)
{
    (void)state;
    add_many(MANY);
    db_exec(db, "DELETE FROM delivery_ids");
    close_all();
    open_all();
    work_off();
    assert_int_equal(
        number("SELECT count(DISTINCT part / 64) FROM delivery_ids"), 3);
    find_all();
}

static void a_turn_reads_a_bounded_number_of_events(void **state)
{
    int turns = 0;

    (void)state;
    delivery_ids_work(ids, next_event);
    for (int i = 0; i < DELIVERY_BLOCK; i++)
        add(id_of(next_event));
    for (; !number("SELECT count(*) FROM delivery_ids"); turns++)
        delivery_ids_work(ids, next_event);
    assert_in_range(turns, 10, 20);
    assert_int_equal(found(id_of(5)), 5);
}

static void several_events_of_an_id_are_found_newest_first(void **state)
{
    int64_t events[MAX];

    (void)state;
    for (int block = 0; block < 3; block++) {
        add("same");
        add("same");
        add_many(DELIVERY_BLOCK);
    }
    add("same");
    assert_int_equal(delivery_ids_find(ids, "same", MAX, events), 7);
    for (int i = 1; i < 7; i++)
        assert_true(events[i] < events[i - 1]);
    assert_int_equal(events[0], next_event - 1);
    assert_int_equal(events[6], 1);
    assert_int_equal(delivery_ids_find(ids, "same", 2, events), 2);
}

static void a_changed_id_is_found(void **state)
{
    (void)state;
    add_many(MANY + 1000);
    db_exec(db, "UPDATE events SET delivery_id = 'other' WHERE n IN (100, "
                "24600)");
    delivery_ids_note(ids, 100, "other");
    delivery_ids_note(ids, 24600, "other");
    delivery_ids_note(ids, 100, NULL);
    for (int i = 0; i < 2; i++) {
        int64_t events[MAX];

        assert_int_equal(found(id_of(100)), 0);
        assert_int_equal(delivery_ids_find(ids, "other", MAX, events), 2);
        assert_int_equal(events[1], 100);
        assert_int_equal(found(id_of(101)), 101);
        add_many(DELIVERY_BLOCK);
    }
}

/* After a restart numbers may be skipped. */
static void blocks_without_events_are_skipped(void **state)
{
    (void)state;
    add_many(1000);
    next_event += 1000LL * DELIVERY_BLOCK;
    add_many(2 * DELIVERY_BLOCK);
    assert_int_equal(found(id_of(9)), 9);
    assert_int_equal(found(id_of(next_event - 2)),
                     (next_event - 2) % 7 ? next_event - 2 : 0);
    assert_in_range(number("SELECT count(*) FROM delivery_ids"), 1, 3 * 64 + 1);
}

static void blocks_of_deleted_events_are_deleted(void **state)
{
    (void)state;
    add_many(MANY);
    db_exec(db, "DELETE FROM events WHERE n < 8200");
    delivery_ids_tidy(ids);
    assert_int_equal(number("SELECT min(part) / 64 FROM delivery_ids"), 1);
    assert_int_equal(found(id_of(5)), 0);
    assert_int_equal(found(id_of(8201)), 8201);
    db_exec(db, "DELETE FROM events");
    delivery_ids_tidy(ids);
    assert_int_equal(number("SELECT count(*) FROM delivery_ids"), 0);
    add_many(2 * DELIVERY_BLOCK);
    assert_int_equal(found(id_of(next_event - 3)),
                     (next_event - 3) % 7 ? next_event - 3 : 0);
}

static void a_rolled_back_turn_removes_its_block(void **state)
{
    (void)state;
    add_many(DELIVERY_BLOCK - 100);
    db_exec(db, "SAVEPOINT turn");
    add_many(200);
    assert_int_equal(number("SELECT count(*) > 0 FROM delivery_ids"), 1);
    db_exec(db, "ROLLBACK TO turn");
    next_event -= 200;
    delivery_ids_undo(ids);
    assert_int_equal(number("SELECT count(*) FROM delivery_ids"), 0);
    find_all();
    add_many(200);
    find_all();
}

/* The first turn after an upgrade, on a full disk. */
static void blocks_of_a_rolled_back_turn_are_written_in_the_next(void **state)
{
    (void)state;
    add_many(MANY);
    db_exec(db, "DELETE FROM delivery_ids");
    close_all();
    open_all();
    db_exec(db, "SAVEPOINT turn");
    delivery_ids_work(ids, next_event);
    db_exec(db, "ROLLBACK TO turn");
    delivery_ids_undo(ids);
    work_off();
    assert_int_equal(
        number("SELECT count(DISTINCT part / 64) FROM delivery_ids"), 3);
    find_all();
}

/* A row that exists is written again with each requeue, as a rule with the same id. */
static void an_unchanged_id_changes_nothing(void **state)
{
    int64_t bytes;

    (void)state;
    add_many(DELIVERY_BLOCK);
    bytes = number("SELECT sum(length(ids)) FROM delivery_ids");
    for (int i = 0; i < 9000; i++)
        delivery_ids_note(ids, 1000, id_of(1000));
    assert_int_equal(number("SELECT sum(length(ids)) FROM delivery_ids"),
                     bytes);
    find_all();
    /* The next block is written all the same. */
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 100; k++)
            add(id_of(next_event));
        delivery_ids_work(ids, next_event);
        delivery_ids_note(ids, DELIVERY_BLOCK + 100,
                          id_of(DELIVERY_BLOCK + 100));
    }
    assert_int_equal(number("SELECT max(part) / 64 FROM delivery_ids"), 2);
}

static void an_old_event_keeps_only_its_own_block(void **state)
{
    (void)state;
    add_many(4 * DELIVERY_BLOCK);
    db_exec(db, "DELETE FROM events WHERE n > 5 AND n < 24600");
    for (int i = 0; i < 10; i++)
        delivery_ids_tidy(ids);
    assert_int_equal(
        number("SELECT count(DISTINCT part / 64) FROM delivery_ids"), 2);
    assert_int_equal(found(id_of(5)), 5);
    assert_int_equal(found(id_of(24601)), 24601);
}

/* A batch has up to 10,000 events. */
static void large_turns_leave_no_more_than_two_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 10000; k++)
            add(id_of(next_event));
        assert_false(delivery_ids_work(ids, next_event));
        assert_in_range(next_event -
                            DELIVERY_BLOCK *
                                (1 + number("SELECT ifnull(max(part) / 64, -1) "
                                            "FROM delivery_ids")),
                        0, 2 * DELIVERY_BLOCK);
    }
}

/* Its index is gone, and its events are in no block yet. */
static void events_of_an_earlier_version_are_found(void **state)
{
    struct db_schema older = sequencer_schema;

    (void)state;
    close_all();
    unlink(path);
    older.create = NULL;
    older.count = 0;
    while (!strstr(older.steps[older.count], "CREATE TABLE delivery_ids"))
        older.count++;
    db = db_open(path, &older);
    db_exec(db, "WITH RECURSIVE all_(n) AS (SELECT 1 UNION ALL SELECT n + 1 "
                "FROM all_ WHERE n < 20000) INSERT INTO events(n, id, source, "
                "type, workspace, received_ms, taken_ms, status, delivery_id) "
                "SELECT n, 'evt_' || n, 's', 't', 'w', 1, 1, 0, 'old-' || n "
                "FROM all_");
    db_close(db);
    open_all();
    next_event = 20001;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(found("old-1"), 1);
        assert_int_equal(found("old-20000"), 20000);
        work_off();
        assert_int_equal(number("SELECT max(part) / 64 FROM delivery_ids"), 1);
    }
    assert_int_equal(number("SELECT count(*) FROM sqlite_schema WHERE name = "
                            "'events_delivery_id'"),
                     0);
}

/* The rest of the part is still read. */
static void a_part_of_an_odd_length_is_read(void **state)
{
    (void)state;
    add_many(DELIVERY_BLOCK);
    db_exec(db, "UPDATE delivery_ids SET ids = CAST(ids || x'00' AS BLOB)");
    find_all();
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_of_all_blocks_are_found_after_a_restart),
        TEST(the_first_turns_write_all_blocks_that_are_missing),
        TEST(a_turn_reads_a_bounded_number_of_events),
        TEST(several_events_of_an_id_are_found_newest_first),
        TEST(a_changed_id_is_found),
        TEST(blocks_without_events_are_skipped),
        TEST(blocks_of_deleted_events_are_deleted),
        TEST(an_unchanged_id_changes_nothing),
        TEST(an_old_event_keeps_only_its_own_block),
        TEST(large_turns_leave_no_more_than_two_blocks),
        TEST(events_of_an_earlier_version_are_found),
        TEST(a_part_of_an_odd_length_is_read),
        TEST(a_rolled_back_turn_removes_its_block),
        TEST(blocks_of_a_rolled_back_turn_are_written_in_the_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
