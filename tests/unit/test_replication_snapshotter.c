/* grapnel-labels: threads */
/* Tests of snapshotter with replicator and db: an active makes snapshots while its turns go on, and what a standby restores of them equals its file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "replicated_active.h"

enum { KILLS = 24 };

/* ---- tests ---- */

static void a_quiet_store_gets_its_first_snapshot(void **state)
{
    (void)state;
    open_active(writer_key);
    turn(1, 100); /* the first of the start */
    assert_int_equal(run_until_snapshot(0, 0), 1);
    assert_int_equal(host.engine->last, 1);
    assert_true(state_now().made_ms > 0);
    assert_int_equal(state_now().all_parts, 0);
    assert_standby_equals(1);
}

static void no_snapshot_begins_before_the_first_turn_is_in(void **state)
{
    (void)state;
    open_active(writer_key);
    for (int i = 0; i < 30; i++) {
        db_begin(db);
        bind_i64(insert, 1, i);
        bind_i64(insert, 2, 100000);
        db_run(db, insert);
        assert_int_equal(db_commit(db), GR_OK); /* a part of the first turn */
        db_tidy(db);
        assert_false(state_now().due);
    }
    assert_int_equal(fault->puts, 0);
    turn(1, 100);
    assert_true(run_until_snapshot(0, 0) == 1);
    assert_standby_equals(1);
}

static void turns_go_on_while_a_snapshot_is_made(void **state)
{
    (void)state;
    open_active(writer_key);
    fill(12);
    fault->lose = 3;
    assert_true(run_until_snapshot(0, 3) < host.engine->last);
    turn(40, 2000);
    assert_standby_equals(state_now().n);
}

/* Turns that change the first row, so the file stays as it is. */
static void rewrite(int turns)
{
    stmt *first = db_prepare(
        db, "UPDATE t SET pad = randomblob(?) WHERE rowid = 1");

    for (int i = 0; i < turns; i++) {
        db_begin(db);
        bind_i64(first, 1, 2 * MIB);
        db_run(db, first);
        end_turn();
    }
}

static void the_next_one_is_made_when_the_log_is_as_large(void **state)
{
    int64_t first, second, third;

    (void)state;
    open_active(writer_key);
    turn(1, 2 * MIB);
    first = run_until_snapshot(0, 0);
    rewrite(30);
    assert_false(state_now().due);
    assert_int_equal(state_now().n, first);
    rewrite(10);
    second = run_until_snapshot(first, 0);
    assert_int_equal(host.engine->first, first + 1);
    rewrite(40);
    third = run_until_snapshot(second, 0);
    assert_int_equal(host.engine->first, second + 1);
    assert_standby_equals(third);
}

/* A file of 100 MiB that the engine has as a few KiB: a snapshot is due after the least that the log must have, 64 MiB, and not after 100 MiB. */
static void stored_bytes_are_compared_with_stored_bytes(void **state)
{
    stmt *zeros;
    int64_t n;

    (void)state;
    open_active(writer_key);
    fault->silent = 1;
    zeros = db_prepare(db, "INSERT INTO t VALUES(?, zeroblob(?))");
    for (int i = 0; i < 50; i++) {
        db_begin(db);
        bind_i64(zeros, 1, i);
        bind_i64(zeros, 2, 2 * MIB);
        db_run(db, zeros);
        end_turn();
    }
    fault->silent = 0;
    n = run_until_snapshot(0, 0);
    close_active();
    open_active(writer_key); /* the manifest says what the snapshot has */
    /* Turns that came while the snapshot was made count, too: more of them on a slow machine. */
    if (host.engine->last - n < 20) {
        while (host.engine->last - n < 28)
            rewrite(1);
        assert_false(state_now().due);
    }
    rewrite(40);
    n = run_until_snapshot(n, 0);
    rewrite(40);
    assert_true(run_until_snapshot(n, 0) > n);
}

/* The engine is silent for the snapshotter, and turns go on. */
static void a_silent_engine_only_delays_it(void **state)
{
    int64_t n;

    (void)state;
    open_active(writer_key);
    fill(10);
    while (fault->puts < 3)
        turn(0, 0);
    fault->silent = 1;
    while (!state_now().failing_since_ms)
        turn(1, 100);
    assert_string_equal(state_now().error, "no response");
    assert_true(state_now().parts >= 2);
    assert_true(state_now().all_parts > 80);
    n = host.engine->last;
    turn(1, 100);
    assert_int_equal(host.engine->last, n + 1);
    fault->silent = 0;
    n = run_until_snapshot(0, 1);
    assert_string_equal(state_now().error, "");
    assert_int_equal(state_now().failing_since_ms, 0);
    assert_standby_equals(n);
}

static size_t parts_of_others(int64_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < host.engine->part_count; i++)
        count += host.engine->parts[i].n != n;
    return count;
}

/* The replicator finds out whether that is so. The rest of that snapshot is deleted. */
static void another_owner_ends_it_and_its_parts_are_deleted(void **state)
{
    int64_t n;

    (void)state;
    open_active(writer_key);
    fill(5);
    while (fault->puts < 3)
        turn(0, 0);
    fault->not_owner = 1;
    while (!state_now().failing_since_ms)
        turn(1, 100);
    lock();
    assert_true(parts_of_others(0) >= 3);
    unlock();
    n = run_until_snapshot(0, 1);
    assert_int_equal(parts_of_others(n), 0);
    assert_standby_equals(n);
}

static void a_damaged_one_is_made_again_at_a_later_turn(void **state)
{
    int64_t n;

    (void)state;
    open_active(writer_key);
    turn(2, MIB);
    fault->damage = 1;
    n = run_until_snapshot(0, 0);
    for (int i = 0; i < 100; i++) {
        turn(0, 0);
        usleep(2000);
    }
    assert_int_equal(state_now().made_ms, 0);
    assert_false(state_now().due); /* there is no later turn */
    turn(1, 100);
    n = run_until_snapshot(n, 0);
    assert_true(state_now().made_ms > 0);
    assert_standby_equals(n);
}

static void one_with_another_key_does_not_count(void **state)
{
    static const uint8_t other_key[SEAL_KEY_BYTES] = {8};
    int64_t n;

    (void)state;
    open_active(other_key);
    turn(1, 100);
    n = run_until_snapshot(0, 0);
    close_active();
    open_active(writer_key);
    turn(1, 100);
    assert_true(run_until_snapshot(n, 0) > n);
    assert_standby_equals(n + 1);
}

static sqlite3 *read_transaction(void)
{
    sqlite3 *h;

    assert_int_equal(sqlite3_open(file, &h), SQLITE_OK);
    sqlite3_db_config(h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    assert_int_equal(
        sqlite3_exec(h, "BEGIN; SELECT count(*) FROM t", NULL, NULL, NULL),
        SQLITE_OK);
    return h;
}

static void it_waits_for_a_reader_of_the_write_ahead_log(void **state)
{
    sqlite3 *reader;
    int64_t n;

    (void)state;
    fault->silent = 1; /* nothing is due yet */
    open_active(writer_key);
    turn(1, 100);
    reader = read_transaction();
    turn(1, 100);
    fault->silent = 0;
    while (!state_now().due)
        turn(0, 0);
    for (int i = 0; i < 20; i++)
        turn(0, 0); /* the first of them tries it */
    assert_true(state_now().due);
    assert_int_equal(fault->puts, 0);
    sqlite3_close(reader);
    n = run_until_snapshot(0, 0);
    assert_int_equal(n, 2);
    assert_standby_equals(n);
}

static void it_ends_in_the_middle(void **state)
{
    int64_t n;

    (void)state;
    open_active(writer_key);
    fill(10);
    n = host.engine->last;
    while (fault->puts < 3)
        turn(0, 0);
    close_active();
    assert_non_null(me_part_of(host.engine, n, 0));
    assert_null(me_part_of(host.engine, n, -1));
    open_active(writer_key);
    turn(1, 100);
    assert_int_equal(run_until_snapshot(0, 0), n + 1);
    assert_null(me_part_of(host.engine, n, 0));
    assert_standby_equals(n + 1);
}

/* ---- kills ---- */

static void run_until_killed(int round)
{
    rig_seed = (uint64_t)round * 2 + 1;
    open_active(writer_key);
    fault->kill_pm = 4;
    for (int i = 0; i < 4000; i++) {
        turn(i % 3 ? (int)(rig_random() % 4) : 0, 20000);
        maybe_die();
    }
    _exit(0);
}

/* A host without the file takes part, whatever the kills have left. */
static void a_killed_process_leaves_what_a_standby_can_restore(void **state)
{
    struct applied *a;
    int status;

    (void)state;
    for (int i = 0; i < KILLS; i++) {
        pid_t child;

        fault->kill_pm = 0;
        if (access(file, F_OK) == 0)
            cut_file();
        child = fork();
        if (child == 0)
            run_until_killed(i);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL
                                        : WEXITSTATUS(status) == 0);
        sh("rm -f %s*", target);
        a = host_start(&host, target);
        host_follow(&host, a, host.engine->last);
        applied_close(a);
        cut_file();
        sh("cmp %s %s", file, target);
    }
    fault->kill_pm = 0;
    assert_true(host.restored > 0);
    open_active(writer_key);
    turn(1, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_quiet_store_gets_its_first_snapshot,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            no_snapshot_begins_before_the_first_turn_is_in, setup, teardown),
        cmocka_unit_test_setup_teardown(turns_go_on_while_a_snapshot_is_made,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_next_one_is_made_when_the_log_is_as_large, setup, teardown),
        cmocka_unit_test_setup_teardown(
            stored_bytes_are_compared_with_stored_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_silent_engine_only_delays_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            another_owner_ends_it_and_its_parts_are_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_damaged_one_is_made_again_at_a_later_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(one_with_another_key_does_not_count,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            it_waits_for_a_reader_of_the_write_ahead_log, setup, teardown),
        cmocka_unit_test_setup_teardown(it_ends_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_killed_process_leaves_what_a_standby_can_restore, setup,
            teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
