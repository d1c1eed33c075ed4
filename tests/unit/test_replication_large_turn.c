/* grapnel-labels: threads */
/* Tests of large_turn with replicator, db and follower: a turn of more than LARGE_TURN_BYTES is in the log as a whole or not at all. */
#include "replicated_active.h"

#include "follower.h"

enum { LARGE_MIB = 40, ROUNDS = 12 };

/* As a migration: written by db_open() or before the first turn, and a part of it. */
static void write_large(int mib)
{
    for (int i = 0; i < mib; i++) {
        db_begin(db);
        bind_i64(insert, 1, i);
        bind_i64(insert, 2, MIB);
        db_run(db, insert);
        assert_int_equal(db_commit(db), GR_OK);
        db_tidy(db);
    }
}

static int64_t slices_there(int64_t n)
{
    int64_t count = 0;

    for (size_t i = 0; i < host.engine->part_count; i++)
        count += host.engine->parts[i].n == n &&
                 host.engine->parts[i].part < -1;
    return count;
}

static void assert_log_equals_file(void)
{
    struct applied *a;

    close_active();
    sh("rm -f %s*", target);
    assert_true((a = applied_create(target, &host.engine->owner.at)) != NULL);
    host_follow(&host, a, host.engine->last);
    applied_close(a);
    cut_file();
    sh("cmp %s %s", file, target);
}

static void a_large_first_turn_is_one_row_of_the_log(void **state)
{
    (void)state;
    open_active(writer_key);
    write_large(LARGE_MIB);
    turn(1, 100);
    assert_int_equal(host.engine->last, 1);
    assert_int_equal(host.engine->turns[1].count, 1);
    assert_true(slices_there(1) > LARGE_MIB * 5);
    for (int i = 0; i < 10; i++)
        turn(1, 100);
    assert_log_equals_file();
}

static void a_large_turn_among_others_is_one_too(void **state)
{
    (void)state;
    open_active(writer_key);
    turn(1, 100);
    fault->lose = 3;
    turn(LARGE_MIB, MIB);
    turn(1, 100);
    assert_int_equal(host.engine->last, 3);
    assert_true(slices_there(2) > LARGE_MIB * 5);
    assert_log_equals_file();
}

static void a_turn_of_usual_size_has_no_slices(void **state)
{
    (void)state;
    open_active(writer_key);
    turn(3, MIB);
    assert_int_equal(fault->slices, 0);
    assert_log_equals_file();
}

/* So no standby takes over, and the permission to send holds. */
static void the_beats_go_on_meanwhile(void **state)
{
    (void)state;
    takeover_ms = 3000;
    open_active(writer_key);
    turn(1, 100);
    fault->until_beats = fault->beats + 8;
    turn(LARGE_MIB, MIB);
    assert_true(fault->beats >= fault->until_beats);
    assert_int_equal(host.engine->last, 2);
    assert_log_equals_file();
}

static void be_killed(int round)
{
    rig_seed = (uint64_t)round * 2 + 1;
    open_active(writer_key);
    turn(1, 100);
    fault->kill_pm = round % 3 ? 6 : 0;
    turn(LARGE_MIB, MIB);
    raise(SIGKILL);
}

/* The kill is in any slice, in the append, or after it. What an attempt has left is deleted by the next. */
static void a_killed_process_leaves_all_of_it_or_nothing(void **state)
{
    int whole = 0, status;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t last = host.engine->last;
        pid_t child;

        fault->kill_pm = 0;
        if (access(file, F_OK) == 0)
            cut_file();
        child = fork();
        if (child == 0)
            be_killed(i);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        fault->kill_pm = 0;
        whole += host.engine->last == last + 2;
        assert_true(host.engine->last <= last + 2);
        for (size_t p = 0; p < host.engine->part_count; p++)
            assert_true(host.engine->parts[p].part >= -1 ||
                        host.engine->parts[p].n <= last + 2);
        cut_file();
        if (i % 4 == 3) { /* keeps the test small */
            sh("rm -f %s*", file);
            memset(host.engine->turns, 0, sizeof host.engine->turns[0] * 100);
            host.engine->last = 0;
            host.engine->part_count = host.engine->arena_used = 0;
        }
    }
    assert_true(whole >= ROUNDS / 3);
    assert_true(whole < ROUNDS);
    open_active(writer_key);
    turn(1, 100);
}

static struct follower *open_follower(const uint8_t *me)
{
    struct follower_settings s = {
        .db_path = target,
        .process = WRITER_PROCESS,
        .ops = &ops,
        .engine = (struct engine *)(void *)host.engine,
        .key = writer_key,
        .me = me,
        .takeover_after_ms = 60 * 1000,
        .schema = 1};

    return follower_open(&s);
}

static void follow_until_ready(void)
{
    static const uint8_t me[HOLDER_BYTES] = {99};
    struct follower *f = open_follower(me);
    struct follower_state state = {0};
    char why[ENGINE_WHY_BYTES];
    int64_t wait_ms;

    while (!state.ready || state.at.n < host.engine->last) {
        wait_ms = 0;
        assert_int_equal(follower_step(f, &wait_ms, why), FOLLOWER_GOES_ON);
        follower_state(f, &state);
    }
    follower_close(f);
}

static void a_standby_follows_large_turns(void **state)
{
    (void)state;
    open_active(writer_key);
    write_large(LARGE_MIB);
    turn(1, 100);
    turn(2, 100);
    close_active();
    fault->lose = 2;
    follow_until_ready(); /* without a file: from the first turn */
    cut_file();
    sh("cmp %s %s", file, target);
    open_active(writer_key);
    turn(1, 100);
    turn(LARGE_MIB, MIB);
    turn(1, 100);
    turn(1, 100);
    close_active();
    follow_until_ready(); /* with its file */
    assert_false(host_has(target, ".diverged"));
    cut_file();
    sh("cmp %s %s", file, target);
    open_active(writer_key);
}

/* Its own large turn is in its write-ahead log and in the engine's. */
static void a_start_compares_its_file_with_a_large_turn(void **state)
{
    (void)state;
    open_active(writer_key);
    turn(1, 100);
    turn(LARGE_MIB, MIB);
    close_active();
    sh("for f in %s*; do cp $f %s${f#%s}; done", file, target, file);
    follow_until_ready();
    assert_false(host_has(target, ".diverged"));
    cut_file();
    sh("cmp %s %s", file, target);
    open_active(writer_key);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_large_first_turn_is_one_row_of_the_log),
        T(a_large_turn_among_others_is_one_too),
        T(a_turn_of_usual_size_has_no_slices),
        T(the_beats_go_on_meanwhile),
        T(a_killed_process_leaves_all_of_it_or_nothing),
        T(a_standby_follows_large_turns),
        T(a_start_compares_its_file_with_a_large_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
