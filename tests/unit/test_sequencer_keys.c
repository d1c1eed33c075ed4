/* Tests of keys on a real file: filters, generations, and a restart. P7. */
#include "clock.h"
#include "keys.h"
#include "recent_keys.h"
#include "retention.h"
#include "store.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/grapnel-test-keys-XXXXXX";
static char path[64];
static struct db *db;
static struct keys *keys;
static const struct retention right_clock;

static void open_all(void)
{
    db = db_open(path, &sequencer_schema);
    keys = keys_open(db);
    db_begin(db);
}

static void close_all(void)
{
    keys_store(keys);
    assert_int_equal(db_commit(db), GR_OK);
    keys_close(keys);
    db_close(db);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s.db", folder);
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

static struct key key_of(int64_t n)
{
    return key_make(&n, sizeof n);
}

static void a_filter_finds_all_keys_and_is_rarely_wrong(void **state)
{
    struct filter f;
    int lies = 0;

    (void)state;
    filter_init(&f, 1 << 20);
    for (int64_t n = 0; n < 20000; n++)
        filter_add(&f, key_of(n));
    filter_fold(&f, 20000);
    assert_int_equal(f.bit_count, 1 << 19); /* 16 bits a key, rounded up */
    for (int64_t n = 0; n < 20000; n++)
        assert_true(filter_may_have(&f, key_of(n)));
    for (int64_t n = 20000; n < 120000; n++)
        lies += filter_may_have(&f, key_of(n));
    assert_in_range(lies, 0, 1000);
    filter_fini(&f);
    assert_true(filter_may_have(&f, key_of(1))); /* none holds everything */
}

static void a_key_is_found_within_its_ttl_both_ways(void **state)
{
    struct key k = key_of(1);

    (void)state;
    keys_add(keys, k, 7, 100000, 5000, 0);
    assert_int_equal(keys_find(keys, k, 104000, 5000, 8), 7);
    assert_int_equal(keys_find(keys, k, 96000, 5000, 8), 7);
    assert_int_equal(keys_find(keys, k, 105001, 5000, 8), 0);
    assert_int_equal(keys_find(keys, k, 94999, 5000, 8), 0);
    assert_int_equal(keys_find(keys, k, 100000, 5000, 7), 0); /* itself */
    /* The same place, another key. */
    k.check ^= 1;
    assert_int_equal(keys_find(keys, k, 100000, 5000, 8), 0);
}

static void keys_of_all_generations_are_there_after_a_reopen(void **state)
{
    const int64_t count = GENERATION_KEYS + 1000;

    (void)state;
    for (int64_t n = 1; n <= count; n++)
        keys_add(keys, key_of(n), n, 1000, DAY_MS, 1000);
    keys_work(keys, &right_clock, 1000, 0);
    for (int i = 0; i < 2; i++) {
        for (int64_t n = 1; n <= count; n += 997)
            assert_int_equal(keys_find(keys, key_of(n), 2000, DAY_MS, 0), n);
        for (int64_t n = count + 1; n <= count + 1000; n++)
            assert_int_equal(keys_find(keys, key_of(n), 2000, DAY_MS, 0), 0);
        assert_int_equal(keys_count(keys), count);
        /* Two bytes a key, and one open generation's. */
        assert_in_range(keys_filter_bytes(keys), 1, 2 * 2 * GENERATION_KEYS);
        close_all();
        open_all();
    }
}

static int64_t rows(const char *table)
{
    char *sql = gr_printf("SELECT count(*) FROM %s", table);
    sqlite3_stmt *s = NULL;
    int64_t n;

    assert_int_equal(sqlite3_prepare_v2(db_handle(db), sql, -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    free(sql);
    return n;
}

/* A turn after the other, until all keys that were added before are in the table `keys`. */
static void add_others_and_move(void)
{
    for (int64_t n = 1; n <= RECENT_KEYS; n++)
        keys_add(keys, key_of(-n), n, 1000, 7 * DAY_MS, 1000);
    for (int turns = 0; rows("keys") < RECENT_KEYS || rows("recent_keys");
         turns++) {
        assert_in_range(turns, 0, 2 * RECENT_KEYS / RECENT_MOVED_MIN);
        keys_store(keys);
    }
}

static void move_all(void)
{
    for (int i = 0; rows("recent_keys"); i++) {
        assert_in_range(i, 0, 4 * RECENT_KEYS / RECENT_MOVED_MIN);
        keys_store(keys);
    }
}

static int64_t rows_of_segment(int segment)
{
    char *from = gr_printf("keys WHERE (k >> %d & %d) = %d",
                           KEY_HASH_BITS - KEY_SEGMENT_BITS,
                           (1 << KEY_SEGMENT_BITS) - 1, segment);
    int64_t n = rows(from);

    free(from);
    return n;
}

/* So that a move changes few pages. */
static void keys_are_in_segments_in_the_order_in_which_they_came(void **state)
{
    const int64_t count = 2 * SEGMENT_KEYS + RECENT_KEYS;

    (void)state;
    for (int64_t n = 1; n <= count; n++) {
        keys_add(keys, key_of(n), n, 1000, DAY_MS, 1000);
        if (n % RECENT_KEYS == 0) {
            keys_store(keys);
            move_all();
        }
    }
    assert_int_equal(rows_of_segment(0), SEGMENT_KEYS);
    assert_int_equal(rows_of_segment(1), SEGMENT_KEYS);
    assert_int_equal(rows_of_segment(2), RECENT_KEYS);
    for (int i = 0; i < 2; i++) { /* the filter is made of the rows */
        for (int64_t n = 1; n <= count; n++)
            assert_int_equal(keys_find(keys, key_of(n), 2000, DAY_MS, 0), n);
        for (int64_t n = count + 1; n <= count + 1000; n++)
            assert_int_equal(keys_find(keys, key_of(n), 2000, DAY_MS, 0), 0);
        close_all();
        open_all();
    }
}

/* `b` differs from `a` only in a bit of the hash that is in `rest`; `c` has the row number of `a` in a later segment. */
static void keys_that_differ_in_a_bit_are_different_keys(void **state)
{
    struct key a = key_of(1), b = a, c = a;

    (void)state;
    b.hash ^= 1ULL << (KEY_HASH_BITS - 1);
    c.check ^= 1;
    keys_add(keys, a, 7, 1000, DAY_MS, 1000);
    assert_int_equal(keys_find(keys, b, 1000, DAY_MS, 0), 0);
    for (int64_t n = 2; n <= SEGMENT_KEYS; n++)
        keys_add(keys, key_of(n), n, 1000, DAY_MS, 1000);
    keys_add(keys, c, 8, 1000, DAY_MS, 1000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(keys_find(keys, a, 1000, DAY_MS, 0), 7);
        assert_int_equal(keys_find(keys, b, 1000, DAY_MS, 0), 0);
        assert_int_equal(keys_find(keys, c, 1000, DAY_MS, 0), 8);
        if (i == 0) {
            close_all();
            open_all();
        }
        keys_store(keys);
        move_all();
    }
    assert_int_equal(rows_of_segment(1), 1);
}

/* It had expired, and came again in a later segment. */
static void of_two_rows_of_a_key_the_later_one_counts(void **state)
{
    (void)state;
    keys_add(keys, key_of(1), 1, 1000, MINUTE_MS, 1000);
    for (int64_t n = 2; n <= SEGMENT_KEYS; n++)
        keys_add(keys, key_of(n), n, 1000, MINUTE_MS, 1000);
    keys_add(keys, key_of(1), 9, 200000, MINUTE_MS, 1000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(keys_find(keys, key_of(1), 201000, MINUTE_MS, 0), 9);
        assert_int_equal(keys_find(keys, key_of(1), 201000, MINUTE_MS, 9), 0);
        assert_int_equal(keys_find(keys, key_of(2), 2000, MINUTE_MS, 0), 2);
        keys_store(keys);
        move_all();
        assert_int_equal(rows_of_segment(1), 1);
    }
}

/* Its generation goes on as it was made, and the next one has segments. */
static void keys_of_an_earlier_version_are_found(void **state)
{
    struct key old = key_of(-7);
    char *sql = gr_printf("INSERT INTO keys VALUES (%lld, %lld, 77, 1000)",
                          (long long)(1LL << KEY_HASH_BITS | (int64_t)old.hash),
                          (long long)old.check);

    (void)state;
    db_exec(db, "INSERT INTO key_generations(id, class, count, made_ms, "
                "expires_ms, closed) VALUES (1, 2, 1, 1000, 90000000, 0)");
    db_exec(db, sql);
    free(sql);
    close_all();
    open_all();
    for (int64_t n = 1; n <= GENERATION_KEYS + 1000; n++) {
        keys_add(keys, key_of(n), n, 1000, DAY_MS, 1000);
        if (n % RECENT_KEYS == 0)
            keys_store(keys);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(keys_find(keys, old, 2000, DAY_MS, 0), 77);
        for (int64_t n = 1; n <= GENERATION_KEYS + 1000; n += 97)
            assert_int_equal(keys_find(keys, key_of(n), 2000, DAY_MS, 0), n);
        assert_int_equal(rows("key_generations WHERE segmented = 0"), 1);
        assert_int_equal(rows("key_generations WHERE segmented = 1"), 1);
        close_all();
        open_all();
    }
}

/* In each turn a commit, and then a new process. */
static void a_restart_at_any_time_loses_no_key(void **state)
{
    const int64_t count = RECENT_KEYS + RECENT_KEYS / 2, step = 6000;

    (void)state;
    for (int64_t n = 1; n <= count; n++) {
        keys_add(keys, key_of(n), n, 1000, DAY_MS, 1000);
        if (n % step)
            continue;
        close_all();
        open_all();
        for (int64_t i = 1; i <= n; i += 97)
            assert_int_equal(keys_find(keys, key_of(i), 2000, DAY_MS, 0), i);
    }
    for (int i = 0; i < RECENT_KEYS / RECENT_MOVED_MIN / 2; i++)
        keys_store(keys);
    close_all(); /* in the middle of the move */
    open_all();
    assert_in_range(rows("keys"), RECENT_KEYS / 4, RECENT_KEYS);
    for (int64_t i = 1; i <= count; i++)
        assert_int_equal(keys_find(keys, key_of(i), 2000, DAY_MS, 0), i);
    assert_int_equal(keys_count(keys), count);
    for (int i = 0; rows("recent_keys"); i++) {
        assert_in_range(i, 0, 2 * count / RECENT_MOVED_MIN);
        keys_store(keys);
    }
    assert_int_equal(rows("keys"), count);
    close_all();
    open_all();
    for (int64_t i = 1; i <= count; i++)
        assert_int_equal(keys_find(keys, key_of(i), 2000, DAY_MS, 0), i);
}

static void a_turn_moves_a_bounded_number_of_keys(void **state)
{
    int64_t before;

    (void)state;
    for (int64_t n = 1; n <= RECENT_KEYS; n++)
        keys_add(keys, key_of(n), n, 1000, DAY_MS, 1000);
    close_all();
    open_all();
    keys_store(keys); /* from here on they are moved */
    keys_store(keys);
    before = rows("keys");
    assert_int_equal(before, RECENT_MOVED_MIN);
    for (int64_t n = 1; n <= RECENT_KEYS; n += 97)
        assert_int_equal(keys_find(keys, key_of(n), 2000, DAY_MS, 0), n);
    for (int64_t n = 1; n <= 1000;
         n++) /* at least as fast as new ones are added */
        keys_add(keys, key_of(-n), n, 1000, DAY_MS, 1000);
    keys_store(keys);
    assert_int_equal(rows("keys"), before + 2000);
}

/* The same 45 bits: the later key has the row, wherever the earlier one is. */
static void a_later_key_replaces_an_earlier_one(void **state)
{
    struct key a = key_of(1), b = a;

    (void)state;
    b.check ^= 1;
    keys_add(keys, a, 7, 1000, 5000, 1000);
    keys_add(keys, b, 8, 1000, 5000, 1000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(keys_find(keys, a, 1000, 5000, 0), 0);
        assert_int_equal(keys_find(keys, b, 1000, 5000, 0), 8);
        close_all();
        open_all();
    }
    add_others_and_move();
    assert_int_equal(keys_find(keys, b, 1000, 5000, 0), 8);
    keys_add(keys, a, 9, 1000, 5000, 1000);
    assert_int_equal(keys_find(keys, b, 1000, 5000, 0), 0);
    assert_int_equal(keys_find(keys, a, 1000, 5000, 0), 9);
    add_others_and_move();
    assert_int_equal(keys_find(keys, a, 1000, 5000, 0), 9);
}

static void keys_of_a_deleted_generation_are_not_moved(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 2000; n++)
        keys_add(keys, key_of(n), n, 1000, MINUTE_MS, 1000);
    keys_store(keys);
    keys_work(keys, &right_clock, HOUR_MS, 0); /* old: closed */
    while (keys_work(keys, &right_clock, HOUR_MS, 2 * MINUTE_MS))
        ;
    assert_int_equal(keys_count(keys), 0);
    add_others_and_move();
    assert_int_equal(rows("keys"), RECENT_KEYS);
}

static void
a_generation_is_deleted_as_a_whole_when_all_of_it_has_expired(void **state)
{
    int turns = 0;

    (void)state;
    for (int64_t n = 1; n <= 2000; n++)
        keys_add(keys, key_of(n), n, 1000, MINUTE_MS, 1000);
    keys_add(keys, key_of(9999), 9999, 1000, 7 * DAY_MS, 1000);
    add_others_and_move();
    keys_work(keys, &right_clock, HOUR_MS, 0); /* old: closed */
    assert_false(keys_work(keys, &right_clock, HOUR_MS,
                           30000)); /* nothing has ended yet */
    assert_int_equal(keys_find(keys, key_of(5), 2000, MINUTE_MS, 0), 5);
    while (keys_work(keys, &right_clock, HOUR_MS, 2 * MINUTE_MS))
        assert_in_range(++turns, 1, 100);
    assert_true(turns > 3); /* a bounded number of rows at a time */
    assert_int_equal(keys_count(keys), 1 + RECENT_KEYS);
    assert_int_equal(keys_find(keys, key_of(5), 2000, MINUTE_MS, 0), 0);
    assert_int_equal(keys_find(keys, key_of(9999), 2000, 7 * DAY_MS, 0), 9999);
}

static void digests_are_found_as_long_as_they_are_kept(void **state)
{
    int turns = 0;

    (void)state;
    keys_add_signed(keys, key_of(1), 7, 100000, 30 * DAY_MS, 100000);
    keys_add(keys, key_of(2), 8, 100000, 30 * DAY_MS, 100000);
    assert_int_equal(keys_find_signed(keys, key_of(1), 9), 7);
    assert_int_equal(keys_find_signed(keys, key_of(1), 7), 0); /* itself */
    /* They and the keys are apart. */
    assert_int_equal(keys_find_signed(keys, key_of(2), 9), 0);
    assert_int_equal(keys_find(keys, key_of(1), 100000, DAY_MS, 9), 0);
    keys_work(keys, &right_clock, 100000 + 9 * DAY_MS,
              100000 + 9 * DAY_MS); /* closed */
    keys_work(keys, &right_clock, 100000 + 30 * DAY_MS, 100000 + 30 * DAY_MS);
    assert_int_equal(keys_find_signed(keys, key_of(1), 9), 7);
    while (keys_work(keys, &right_clock, 100000 + 31 * DAY_MS,
                     100000 + 31 * DAY_MS))
        assert_in_range(++turns, 1, 10);
    assert_int_equal(keys_find_signed(keys, key_of(1), 9), 0);
}

/* Time in which the process was down before a generation was made does not lengthen how long
 * it is kept; time in which it was down since does. */
static void downtime_before_a_key_does_not_extend_it(void **state)
{
    const int64_t made = 100 * DAY_MS, keep = 30 * DAY_MS;
    struct retention r = {0};
    int turns = 0;

    (void)state;
    spans_see(&r.spans, made - 60 * DAY_MS); /* then it was down for 59 days */
    for (int64_t t = made - DAY_MS; t <= made + 9 * DAY_MS; t += HOUR_MS)
        spans_see(&r.spans, t);
    keys_add_signed(keys, key_of(1), 7, made, keep, made);
    keys_add(keys, key_of(2), 8, made, keep, made);
    keys_work(keys, &r, made + 9 * DAY_MS, made + 9 * DAY_MS); /* closed */
    /* Down for a day. */
    for (int64_t t = made + 10 * DAY_MS; t <= made + 32 * DAY_MS; t += HOUR_MS)
        spans_see(&r.spans, t);
    assert_false(keys_work(keys, &r, made + 30 * DAY_MS + HOUR_MS,
                           made + 30 * DAY_MS + HOUR_MS));
    assert_int_equal(keys_count(keys), 2);
    while (keys_work(keys, &r, made + 31 * DAY_MS + 2 * HOUR_MS,
                     made + 31 * DAY_MS + 2 * HOUR_MS))
        assert_in_range(++turns, 1, 10);
    assert_int_equal(keys_count(keys), 0);
}

/* So that an event never searches hundreds of generations on disk. */
static void too_many_digests_forget_the_oldest(void **state)
{
    stmt *insert;

    (void)state;
    insert = db_prepare(db, "INSERT INTO key_generations(id, class, count, "
                            "made_ms, expires_ms, closed, filter) "
                            "VALUES(?1, 5, 1, ?1, 1000000, 1, zeroblob(512))");
    for (int i = 1; i <= SIGNED_GENERATIONS_MAX + 2; i++) {
        bind_i64(insert, 1, i);
        db_run(db, insert);
    }
    close_all();
    open_all();
    for (int i = 0; i < 20; i++)
        keys_work(keys, &right_clock, 1000, 10);
    assert_int_equal(keys_count(keys), SIGNED_GENERATIONS_MAX);
    assert_int_equal(
        db_number(db, db_prepare(db, "SELECT min(id) FROM key_generations"), 0),
        3);
}

static void a_rolled_back_turn_removes_its_keys(void **state)
{
    (void)state;
    keys_add(keys, key_of(1), 1, 1000, DAY_MS, 1000);
    keys_work(keys, &right_clock, 1000, 0);
    keys_store(keys);
    db_exec(db, "SAVEPOINT turn");
    keys_add(keys, key_of(2), 2, 1000, HOUR_MS, 1000);
    keys_store(keys);
    db_exec(db, "ROLLBACK TO turn");
    keys_undo(keys);
    assert_int_equal(keys_count(keys), 1);
    assert_int_equal(keys_find(keys, key_of(1), 1000, DAY_MS, 0), 1);
    assert_int_equal(keys_find(keys, key_of(2), 1000, DAY_MS, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_finds_all_keys_and_is_rarely_wrong),
        cmocka_unit_test_setup_teardown(a_key_is_found_within_its_ttl_both_ways,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            keys_of_all_generations_are_there_after_a_reopen, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            keys_are_in_segments_in_the_order_in_which_they_came, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            keys_that_differ_in_a_bit_are_different_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            of_two_rows_of_a_key_the_later_one_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_of_an_earlier_version_are_found,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restart_at_any_time_loses_no_key,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_turn_moves_a_bounded_number_of_keys,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_later_key_replaces_an_earlier_one,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            keys_of_a_deleted_generation_are_not_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_generation_is_deleted_as_a_whole_when_all_of_it_has_expired,
            set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            digests_are_found_as_long_as_they_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            downtime_before_a_key_does_not_extend_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_digests_forget_the_oldest,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rolled_back_turn_removes_its_keys,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
