/* Tests of provider_ids on a real file: blocks, restarts, and changes. P10. */
#include "alloc.h"
#include "event.h"
#include "provider_ids.h"
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

enum { MANY = 3 * PROVIDER_BLOCK, MAX = 10 };

static char folder[] = "/tmp/grapnel-test-provider-ids-XXXXXX";
static char path[80];
static struct db *db;
static struct provider_ids *ids;
static int64_t next_event;
static stmt *insert;

static void open_all(void)
{
    db = db_open(path, &sequencer_schema);
    insert = db_prepare(
        db, "INSERT INTO events(n, id, source, type, workspace, received_ms, "
            "taken_ms, status, provider_id, delivery_id) VALUES(?1, 'evt_' || "
            "?1, 's', 't', 'w', 1, 1, 0, ?2, ?3)");
    ids = provider_ids_open(db);
    db_begin(db);
}

static void close_all(void)
{
    assert_int_equal(db_commit(db), GR_OK);
    provider_ids_close(ids);
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
static void add_both(const char *provider_id, const char *delivery_id)
{
    bind_i64(insert, 1, next_event++);
    bind_text_or_null(insert, 2, provider_id);
    bind_text_or_null(insert, 3, delivery_id);
    db_run(db, insert);
}

/* Its own id, or that of its delivery, in turns. */
static void add(const char *id)
{
    if (next_event % 2)
        add_both(id, "");
    else
        add_both(NULL, id);
}

static const char *id_of(int64_t n)
{
    static char text[40];

    snprintf(text, sizeof text, "%08llx-id",
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
            provider_ids_work(ids, next_event);
    }
    for (int i = 0; i < 100; i++)
        provider_ids_work(ids, next_event);
}

/* At most a block and a piece are left. */
static void work_off(void)
{
    for (int i = 0; provider_ids_work(ids, next_event); i++)
        assert_in_range(i, 0, 10);
    for (int i = 0; i < 40; i++)
        provider_ids_work(ids, next_event);
}

static int64_t found(const char *id)
{
    int64_t events[MAX];
    int n = provider_ids_find(ids, NULL, id, INT64_MAX, MAX, events);

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
    assert_int_equal(number("SELECT max(part) / 128 FROM provider_ids"), 2);
    for (int i = 0; i < 2; i++) {
        find_all();
        close_all();
        open_all();
        provider_ids_work(ids, next_event);
    }
    add_many(PROVIDER_BLOCK);
    assert_int_equal(number("SELECT max(part) / 128 FROM provider_ids"), 3);
    find_all();
}

/* It stopped in the middle of a block, or an upgrade has dropped the index. */
static void the_first_turns_write_all_blocks_that_are_missing(void **state)
{
    (void)state;
    add_many(MANY);
    db_exec(db, "DELETE FROM provider_ids");
    close_all();
    open_all();
    work_off();
    assert_int_equal(
        number("SELECT count(DISTINCT part / 128) FROM provider_ids"), 3);
    find_all();
}

static void a_turn_reads_a_bounded_number_of_events(void **state)
{
    int turns = 0;

    (void)state;
    provider_ids_work(ids, next_event);
    for (int i = 0; i < PROVIDER_BLOCK; i++)
        add(id_of(next_event));
    for (; !number("SELECT count(*) FROM provider_ids"); turns++)
        provider_ids_work(ids, next_event);
    assert_in_range(turns, 30, 36);
    assert_int_equal(found(id_of(5)), 5);
}

static void several_events_of_an_id_are_found_newest_first(void **state)
{
    int64_t events[MAX];

    (void)state;
    for (int block = 0; block < 3; block++) {
        add("same");
        add("same");
        add_many(PROVIDER_BLOCK);
    }
    add("same");
    assert_int_equal(
        provider_ids_find(ids, NULL, "same", INT64_MAX, MAX, events), 7);
    for (int i = 1; i < 7; i++)
        assert_true(events[i] < events[i - 1]);
    assert_int_equal(events[0], next_event - 1);
    assert_int_equal(events[6], 1);
    assert_int_equal(provider_ids_find(ids, NULL, "same", INT64_MAX, 2, events),
                     2);
}

static void a_search_continues_below_an_event(void **state)
{
    int64_t all[MAX], events[MAX], below = INT64_MAX;
    int count;

    (void)state;
    for (int block = 0; block < 3; block++) {
        add("same");
        add("same");
        add("same");
        add_many(PROVIDER_BLOCK - 3);
    }
    add("same");
    count = provider_ids_find(ids, NULL, "same", INT64_MAX, MAX, all);
    assert_int_equal(count, 10);
    for (int i = 0; i < count; i++, below = events[0]) {
        assert_int_equal(provider_ids_find(ids, NULL, "same", below, 1, events),
                         1);
        assert_int_equal(events[0], all[i]);
        assert_int_equal(
            provider_ids_find(ids, NULL, "same", all[i] + 1, MAX, events),
            count - i);
        assert_int_equal(events[0], all[i]);
    }
    assert_int_equal(provider_ids_find(ids, NULL, "same", below, 1, events), 0);
    assert_int_equal(provider_ids_find(ids, NULL, "same", 0, 1, events), 0);
    assert_int_equal(provider_ids_find(ids, NULL, "same", INT64_MIN, 1, events),
                     0);
}

static void set_ids(int64_t event, const char *provider_id,
                    const char *delivery_id)
{
    provider_ids_note(ids, &(struct event_row){.n = event,
                                               .provider_id = provider_id,
                                               .delivery_id = delivery_id});
}

static void a_changed_id_is_found(void **state)
{
    (void)state;
    add_many(MANY + 1000);
    db_exec(db, "UPDATE events SET delivery_id = 'other', provider_id = NULL "
                "WHERE n IN (100, 49200)");
    db_exec(db, "UPDATE events SET provider_id = 'other' WHERE n IN (200, "
                "49300)");
    set_ids(49300, "other", id_of(49300));
    set_ids(100, NULL, "other");
    set_ids(49200, "", "other");
    set_ids(200, "other", "other");
    set_ids(200, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        int64_t events[MAX];

        assert_int_equal(found(id_of(100)), 0);
        assert_int_equal(
            provider_ids_find(ids, NULL, "other", INT64_MAX, MAX, events), 4);
        assert_int_equal(events[0], 49300);
        assert_int_equal(events[1], 49200);
        assert_int_equal(events[2], 200);
        assert_int_equal(events[3], 100);
        assert_int_equal(found(id_of(101)), 101);
        add_many(PROVIDER_BLOCK);
    }
}

static void an_event_is_found_once_by_either_id(void **state)
{
    int64_t events[MAX];

    (void)state;
    for (int i = 0; i < 2; i++) {
        add_both("p", "d");
        add_both("d", "");
        add_both("d", "d");
        assert_int_equal(
            provider_ids_find(ids, NULL, "d", INT64_MAX, MAX, events),
            3 * (i + 1));
        assert_int_equal(
            provider_ids_find(ids, NULL, "p", INT64_MAX, MAX, events), i + 1);
        add_many(2 * PROVIDER_BLOCK);
    }
    assert_int_equal(provider_ids_find(ids, NULL, "d", INT64_MAX, MAX, events),
                     6);
    assert_int_equal(provider_ids_find(ids, NULL, "", INT64_MAX, MAX, events),
                     0);
}

static void an_event_of_a_source_is_found_by_its_own_id_only(void **state)
{
    int64_t event = 0;

    (void)state;
    add_both("p", "d");
    db_exec(db, "UPDATE events SET source = 'other'");
    add_both("q", "p");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(provider_ids_find(ids, "s", "p", INT64_MAX, 1, &event),
                         0);
        assert_int_equal(
            provider_ids_find(ids, "other", "d", INT64_MAX, 1, &event), 0);
        assert_int_equal(
            provider_ids_find(ids, "other", "p", INT64_MAX, 1, &event), 1);
        assert_int_equal(event, 1);
        assert_int_equal(provider_ids_find(ids, "s", "q", INT64_MAX, 1, &event),
                         1);
        assert_int_equal(event, 2);
        add_many(2 * PROVIDER_BLOCK);
    }
}

/* A search comes before the work of its turn. */
static void events_of_this_turn_are_found(void **state)
{
    (void)state;
    add_many(1000);
    for (int i = 0; i < 3 * PROVIDER_BLOCK; i++) {
        add(id_of(next_event));
        if (i % 5000 == 0)
            assert_int_equal(found(id_of(next_event - 1)), next_event - 1);
    }
    assert_int_equal(found(id_of(1002)), 1002);
    assert_int_equal(number("SELECT count(*) FROM provider_ids"), 0);
    work_off();
    assert_int_equal(number("SELECT max(part) / 128 FROM provider_ids"), 2);
    for (int64_t n = 1001; n < next_event; n += 13)
        assert_int_equal(found(id_of(n)), n);
}

/* After a restart numbers may be skipped. */
static void blocks_without_events_are_skipped(void **state)
{
    int64_t event;

    (void)state;
    add_many(1000);
    assert_int_equal(found(id_of(9)), 9); /* it has read the rest */
    next_event += 1000LL * PROVIDER_BLOCK;
    add("far");
    /* What is between them is not known before the next turn. */
    assert_int_equal(provider_ids_find(ids, NULL, "far", INT64_MAX, 1, &event),
                     -1);
    assert_false(provider_ids_work(ids, next_event));
    assert_int_equal(found("far"), next_event - 1);
    add_many(2 * PROVIDER_BLOCK);
    assert_int_equal(found(id_of(9)), 9);
    assert_int_equal(found(id_of(next_event - 2)),
                     (next_event - 2) % 7 ? next_event - 2 : 0);
    assert_in_range(number("SELECT count(*) FROM provider_ids"), 1,
                    3 * 128 + 1);
}

static void blocks_of_deleted_events_are_deleted(void **state)
{
    (void)state;
    add_many(MANY);
    db_exec(db, "DELETE FROM events WHERE n < 16400");
    provider_ids_tidy(ids);
    assert_int_equal(number("SELECT min(part) / 128 FROM provider_ids"), 1);
    assert_int_equal(found(id_of(5)), 0);
    assert_int_equal(found(id_of(16402)), 16402);
    db_exec(db, "DELETE FROM events");
    provider_ids_tidy(ids);
    assert_int_equal(number("SELECT count(*) FROM provider_ids"), 0);
    add_many(2 * PROVIDER_BLOCK);
    assert_int_equal(found(id_of(next_event - 3)),
                     (next_event - 3) % 7 ? next_event - 3 : 0);
}

static void a_rolled_back_turn_removes_its_block(void **state)
{
    (void)state;
    add_many(PROVIDER_BLOCK - 100);
    db_exec(db, "SAVEPOINT turn");
    add_many(200);
    assert_int_equal(number("SELECT count(*) > 0 FROM provider_ids"), 1);
    db_exec(db, "ROLLBACK TO turn");
    next_event -= 200;
    provider_ids_undo(ids);
    assert_int_equal(number("SELECT count(*) FROM provider_ids"), 0);
    find_all();
    add_many(200);
    find_all();
}

/* The first turn after an upgrade, on a full disk. */
static void blocks_of_a_rolled_back_turn_are_written_in_the_next(void **state)
{
    (void)state;
    add_many(MANY);
    db_exec(db, "DELETE FROM provider_ids");
    close_all();
    open_all();
    db_exec(db, "SAVEPOINT turn");
    provider_ids_work(ids, next_event);
    db_exec(db, "ROLLBACK TO turn");
    provider_ids_undo(ids);
    work_off();
    assert_int_equal(
        number("SELECT count(DISTINCT part / 128) FROM provider_ids"), 3);
    find_all();
}

/* A row that exists is written again with each requeue, as a rule with the same id. */
static void an_unchanged_id_changes_nothing(void **state)
{
    int64_t bytes;

    (void)state;
    add_many(PROVIDER_BLOCK);
    bytes = number("SELECT sum(length(ids)) FROM provider_ids");
    for (int i = 0; i < 9000; i++)
        set_ids(1000, NULL, id_of(1000));
    assert_int_equal(number("SELECT sum(length(ids)) FROM provider_ids"),
                     bytes);
    find_all();
    /* The next block is written all the same. */
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 100; k++)
            add(id_of(next_event));
        provider_ids_work(ids, next_event);
        set_ids(PROVIDER_BLOCK + 100, NULL, id_of(PROVIDER_BLOCK + 100));
    }
    assert_int_equal(number("SELECT max(part) / 128 FROM provider_ids"), 1);
}

static void an_old_event_keeps_only_its_own_block(void **state)
{
    (void)state;
    add_many(4 * PROVIDER_BLOCK);
    db_exec(db, "DELETE FROM events WHERE n > 5 AND n < 49200");
    for (int i = 0; i < 10; i++)
        provider_ids_tidy(ids);
    assert_int_equal(
        number("SELECT count(DISTINCT part / 128) FROM provider_ids"), 2);
    assert_int_equal(found(id_of(5)), 5);
    assert_int_equal(found(id_of(49201)), 49201);
}

/* A batch has up to 10,000 events. */
static void large_turns_leave_no_more_than_two_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 10000; k++)
            add(id_of(next_event));
        assert_false(provider_ids_work(ids, next_event));
        assert_in_range(
            next_event - PROVIDER_BLOCK *
                             (1 + number("SELECT ifnull(max(part) / 128, -1) "
                                         "FROM provider_ids")),
            0, 2 * PROVIDER_BLOCK);
    }
}

/* A file of an earlier version with so many events. */
static void open_earlier(int count)
{
    struct db_schema older = sequencer_schema;
    char *fill = gr_printf(
        "WITH RECURSIVE all_(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM all_ "
        "WHERE n < %d) INSERT INTO events(n, id, source, type, workspace, "
        "received_ms, taken_ms, status, provider_id, delivery_id) SELECT n, "
        "'evt_' || n, 's', 't', 'w', 1, 1, 0, 'own-' || n, 'old-' || n FROM "
        "all_",
        count);

    close_all();
    unlink(path);
    older.create = NULL;
    older.count = 0;
    while (!strstr(older.steps[older.count], "CREATE TABLE provider_ids"))
        older.count++;
    db = db_open(path, &older);
    db_exec(db, fill);
    db_close(db);
    free(fill);
    open_all();
    next_event = count + 1;
}

/* Their indexes are gone, and they are in no block yet. */
static void events_of_an_earlier_version_are_found(void **state)
{
    (void)state;
    open_earlier(40000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(found("old-1"), 1);
        assert_int_equal(found("own-1"), 1);
        assert_int_equal(found("old-40000"), 40000);
        work_off();
        assert_int_equal(number("SELECT max(part) / 128 FROM provider_ids"), 1);
    }
    assert_int_equal(number("SELECT count(*) FROM sqlite_schema WHERE name IN "
                            "('events_delivery_id', 'events_provider_id', "
                            "'delivery_ids')"),
                     0);
}

static void
many_events_of_an_earlier_version_are_found_when_all_are_read(void **state)
{
    int64_t event;

    (void)state;
    open_earlier(200000);
    assert_int_equal(
        provider_ids_find(ids, NULL, "own-3", INT64_MAX, 1, &event), -1);
    assert_true(provider_ids_work(ids, next_event));
    assert_int_equal(
        provider_ids_find(ids, NULL, "own-3", INT64_MAX, 1, &event), -1);
    work_off();
    assert_int_equal(found("own-3"), 3);
    assert_int_equal(found("old-200000"), 200000);
}

/* The rest of the part is still read. */
static void a_part_of_an_odd_length_is_read(void **state)
{
    (void)state;
    add_many(PROVIDER_BLOCK);
    db_exec(db, "UPDATE provider_ids SET ids = CAST(ids || x'00' AS BLOB)");
    find_all();
}

/* ---- random turns ---- */

static unsigned seed;

static int random_below(int n)
{
    return rand_r(&seed) % n;
}

/* Often that of an earlier event. */
static const char *some_id(char text[20])
{
    snprintf(text, 20, "%s%d", random_below(2) ? "p" : "d",
             random_below(20000));
    return text;
}

static void add_random(int count)
{
    char own[20], delivery[20];

    while (count--)
        add_both(random_below(2) ? some_id(own) : NULL,
                 random_below(2) ? some_id(delivery) : NULL);
}

static void change_random(void)
{
    int64_t event = 1 + random_below((int)next_event);
    char id[20],
        *sql = gr_printf("UPDATE events SET provider_id = '%s' WHERE n = %lld",
                         some_id(id), (long long)event);

    db_exec(db, sql);
    free(sql);
    sql = gr_printf("SELECT count(*) FROM events WHERE n = %lld",
                    (long long)event);
    if (number(sql))
        set_ids(event, id, NULL);
    free(sql);
}

static void purge_random(void)
{
    char *sql = gr_printf("DELETE FROM events WHERE n < %d AND n %% 5003 <> 7",
                          random_below((int)next_event + 1));

    db_exec(db, sql);
    provider_ids_tidy(ids);
    free(sql);
}

static void compare_random(void)
{
    int64_t events[100];
    int count, i = 0;
    char id[20];
    sqlite3_stmt *s = NULL;

    count = provider_ids_find(ids, NULL, some_id(id), INT64_MAX, 100, events);
    assert_int_equal(
        sqlite3_prepare_v2(db_handle(db),
                           "SELECT n FROM events WHERE ?1 IN (provider_id, "
                           "delivery_id) ORDER BY n DESC",
                           -1, &s, NULL),
        SQLITE_OK);
    sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
    for (; sqlite3_step(s) == SQLITE_ROW; i++) {
        assert_true(i < count);
        assert_int_equal(events[i], sqlite3_column_int64(s, 0));
    }
    sqlite3_finalize(s);
    assert_int_equal(count, i);
}

static void one_random_turn(void)
{
    int64_t before = next_event;

    db_exec(db, "SAVEPOINT turn");
    add_random(random_below(random_below(8) ? 300 : 10000));
    for (int i = random_below(4); i > 0; i--)
        change_random();
    if (!random_below(12))
        purge_random();
    compare_random();
    provider_ids_work(ids, next_event);
    compare_random();
    if (!random_below(10)) {
        db_exec(db, "ROLLBACK TO turn");
        provider_ids_undo(ids);
        next_event = before;
    } else if (!random_below(10)) {
        next_event += random_below(1024); /* as a restart does */
    }
    db_exec(db, "RELEASE turn");
}

/* SQL says what has to be found. */
static void random_turns_find_what_sql_finds(void **state)
{
    (void)state;
    for (seed = 1; seed <= 3; seed++) {
        for (int turn = 0; turn < 60; turn++) {
            one_random_turn();
            if (turn % 20 == 7) {
                close_all();
                open_all();
            }
        }
        work_off();
        compare_random();
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_of_all_blocks_are_found_after_a_restart),
        TEST(the_first_turns_write_all_blocks_that_are_missing),
        TEST(a_turn_reads_a_bounded_number_of_events),
        TEST(several_events_of_an_id_are_found_newest_first),
        TEST(a_search_continues_below_an_event),
        TEST(a_changed_id_is_found),
        TEST(an_event_is_found_once_by_either_id),
        TEST(an_event_of_a_source_is_found_by_its_own_id_only),
        TEST(events_of_this_turn_are_found),
        TEST(blocks_without_events_are_skipped),
        TEST(blocks_of_deleted_events_are_deleted),
        TEST(an_unchanged_id_changes_nothing),
        TEST(an_old_event_keeps_only_its_own_block),
        TEST(large_turns_leave_no_more_than_two_blocks),
        TEST(events_of_an_earlier_version_are_found),
        TEST(many_events_of_an_earlier_version_are_found_when_all_are_read),
        TEST(a_part_of_an_odd_length_is_read),
        TEST(a_rolled_back_turn_removes_its_block),
        TEST(blocks_of_a_rolled_back_turn_are_written_in_the_next),
        TEST(random_turns_find_what_sql_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
