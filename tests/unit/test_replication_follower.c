/* A standby that follows, takes over, and becomes a standby again: with real files, writers that are killed, and an engine in memory whose outcomes are
 * unknown at times. The clock is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "follower.h"
#include "replicated_host.h"
#include <pthread.h>

enum { TAKEOVER_AFTER_MS = 12000, STEPS_MAX = 100000 };

static char dir[64];
static struct host host;
static uint8_t starts; /* each has another holder */

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/replicated-XXXXXX");
    assert_non_null(mkdtemp(dir));
    sh("mkdir %s/a %s/b %s/c", dir, dir, dir);
    host = (struct host){.engine = me_open(NULL),
                         .sealer = sealer_open(writer_key)};
    clock_test_set(1000000000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clock_test_off();
    sealer_close(host.sealer);
    me_free(host.engine);
    sh("rm -rf %s", dir);
    return 0;
}

static char *path_on(char name)
{
    static char paths[3][100];
    char *path = paths[name - 'a'];

    snprintf(path, 100, "%s/%c/x.db", dir, name);
    return path;
}

static struct follower *open_with(const char *path, const uint8_t *key,
                                  bool former_has_ended)
{
    uint8_t me[HOLDER_BYTES] = {0};

    me[0] = 200;
    me[1] = ++starts;
    return follower_open(
        &(struct follower_settings){.db_path = path,
                                    .process = WRITER_PROCESS,
                                    .ops = &memory_engine_ops,
                                    .engine = (struct engine *)host.engine,
                                    .key = key,
                                    .me = me,
                                    .former_has_ended = former_has_ended,
                                    .takeover_after_ms = TAKEOVER_AFTER_MS,
                                    .schema = 7});
}

static struct follower *open_one(const char *path)
{
    return open_with(path, writer_key, false);
}

/* Steps until it has ended, or there is nothing to do for `ms` in all. The time that passes is what it waits. */
static enum follower_result run_for(struct follower *f, int64_t ms, char *why)
{
    enum follower_result r;
    int64_t end_ms = mono_ms() + ms, wait_ms;

    for (int i = 0; i < STEPS_MAX; i++) {
        r = follower_step(f, &wait_ms, why);
        if (r != FOLLOWER_GOES_ON || mono_ms() + wait_ms > end_ms)
            return r;
        clock_test_advance(wait_ms);
    }
    fail_msg("it does not end");
    return r;
}

static struct follower_state state_of(struct follower *f)
{
    struct follower_state s;

    follower_state(f, &s);
    return s;
}

static char why[ENGINE_WHY_BYTES];

/* Of a follower that has taken over: a writer goes on from there. */
static void be_active(struct follower *f, const char *path, struct writer *w)
{
    const struct ownership *o = follower_ownership(f);

    assert_false(host_has(path, "-wal") || host_has(path, "-shm"));
    assert_true(host_content_is(&host, path, host.engine->last));
    w->engine = host.engine;
    w->path = path;
    w->mine = o->mine;
    w->at = o->at;
    w->seed = rig_random();
    follower_close(f);
}

static void a_standby_follows_and_takes_over_after_the_silence(void **state)
{
    struct writer w = {.turns = 20};
    struct follower *a = open_one(path_on('a')), *b;
    int64_t begun_ms;

    (void)state;
    /* Nobody has ever been the owner: no silence to wait for. */
    assert_int_equal(run_for(a, 0, why), FOLLOWER_OWNER);
    be_active(a, path_on('a'), &w);
    writer_run(&w);
    b = open_one(path_on('b'));
    assert_int_equal(run_for(b, 1000, why), FOLLOWER_GOES_ON);
    assert_int_equal(state_of(b).at.n, host.engine->last);
    assert_true(state_of(b).ready);
    assert_true(host_content_is(&host, path_on('b'), host.engine->last));
    /* While the active beats, it waits. */
    for (int i = 0; i < 40; i++) {
        host.engine->owner.beat++;
        assert_int_equal(run_for(b, 1000, why), FOLLOWER_GOES_ON);
        assert_int_equal(host.engine->node.at.n, host.engine->last);
    }
    assert_true(host.engine->node.ready);
    assert_int_equal(host.engine->node.peers, 0);
    follower_reaches(b, 3);
    host.engine->owner.beat++;
    assert_int_equal(run_for(b, 1000, why), FOLLOWER_GOES_ON);
    assert_int_equal(host.engine->node.peers, 3);
    assert_int_equal(host.engine->claims, 0);
    begun_ms = mono_ms();
    assert_int_equal(run_for(b, 10 * TAKEOVER_AFTER_MS, why), FOLLOWER_OWNER);
    assert_true(host.engine->claims > 0);
    assert_true(mono_ms() - begun_ms >= TAKEOVER_AFTER_MS - 1000);
    assert_int_equal(host.engine->owner.epoch, 2);
    be_active(b, path_on('b'), &w);
}

static bool is_owner(char name, struct writer *w)
{
    struct follower *f = open_one(path_on(name));
    enum follower_result r;

    host.engine->unknown = (int)(rig_random() % 4);
    host.engine->executed = chance_pm(500);
    r = run_for(f, chance_pm(500) ? 20 * TAKEOVER_AFTER_MS : 2000, why);
    if (r == FOLLOWER_CONTRADICTION)
        fail_msg("%s", why);
    if (r == FOLLOWER_OWNER) {
        host.engine->unknown = 0;
        be_active(f, path_on(name), w);
        return true;
    }
    follower_close(f); /* as a kill: nothing is written at the end */
    return false;
}

/* Three hosts; writers are killed at any point, disks are wiped, outcomes are unknown. */
static void kills_and_wiped_disks_lose_nothing(void **state)
{
    int owners = 0, wiped = 0;

    (void)state;
    for (int round = 0; round < 80; round++) {
        struct writer w = {
            .turns = 30, .kill_pm = 4, .held_pm = 40, .snapshot_pm = 100};
        char name = "abc"[rig_random() % 3];

        /* Turns from before the first snapshot are only in the files and the log. */
        if (chance_pm(100) && host.engine->part_count) {
            sh("rm -f %s*", path_on(name));
            wiped++;
        }
        if (!is_owner(name, &w))
            continue;
        owners++;
        writer_run(&w);
        assert_false(host_has(path_on(name), ".diverged"));
    }
    print_message("%d owners, %d disks wiped, %lld turns\n", owners, wiped,
                  (long long)host.engine->last);
    assert_true(owners > 20 && wiped > 2);
}

/* Host a has been the owner, with some turns and a snapshot; it has ended. */
static void make_store(int turns, struct writer *w)
{
    struct follower *f = open_one(path_on('a'));

    *w = (struct writer){.turns = turns, .snapshot_pm = 0};
    assert_int_equal(run_for(f, 0, why), FOLLOWER_OWNER);
    be_active(f, path_on('a'), w);
    writer_run(w);
    host.engine->owner.beat += 10;
}

static void make_snapshot(struct writer *w)
{
    struct follower *f = open_one(path_on('a'));

    assert_int_equal(run_for(f, 20 * TAKEOVER_AFTER_MS, why), FOLLOWER_OWNER);
    be_active(f, path_on('a'), w);
    w->sealer = sealer_open(writer_key);
    w_open(w);
    /* The commits of the opening are in the log with the first turn; nothing is copied before. */
    for (int64_t n = w->at.n; w->at.n == n;)
        w_turn(w);
    w_begin_snapshot(w);
    while (!w_step_snapshot(w))
        ;
    for (int i = 0; i < 5; i++)
        w_turn(w);
    w_close(w);
}

static void the_start_after_a_kill_on_the_same_host_does_not_wait(void **state)
{
    struct writer w;
    struct follower *f;

    (void)state;
    make_store(10, &w);
    f = open_with(path_on('a'), writer_key, true);
    assert_int_equal(run_for(f, 0, why), FOLLOWER_OWNER);
    follower_close(f);
    f = open_with(path_on('a'), writer_key, false);
    assert_int_equal(run_for(f, TAKEOVER_AFTER_MS / 2, why), FOLLOWER_GOES_ON);
    follower_close(f);
}

/* The takeover is in, and its reply was lost; or it was never executed. */
static void
a_takeover_of_unknown_outcome_is_known_by_the_next_follow(void **state)
{
    struct writer w;

    (void)state;
    make_store(10, &w);
    for (int executed = 0; executed < 2; executed++) {
        struct follower *f = open_one(path_on('a'));
        int64_t epoch = host.engine->owner.epoch;
        int unknown = 0;

        memset(host.engine->owner.holder, 0, HOLDER_BYTES); /* released */
        for (int i = 0; i < STEPS_MAX; i++) {
            int64_t wait_ms;
            enum follower_result r;

            /* The call after the first that is ready. */
            if (state_of(f).ready && !unknown++) {
                host.engine->unknown = 1;
                host.engine->executed = executed;
            }
            r = follower_step(f, &wait_ms, why);
            if (r == FOLLOWER_OWNER)
                break;
            assert_int_equal(r, FOLLOWER_GOES_ON);
            clock_test_advance(wait_ms);
        }
        assert_true(unknown > 0);
        assert_int_equal(host.engine->owner.epoch, epoch + 1);
        assert_memory_equal(host.engine->owner.holder,
                            follower_ownership(f)->mine.holder, HOLDER_BYTES);
        assert_int_equal(follower_ownership(f)->mine.epoch, epoch + 1);
        follower_close(f);
    }
}

static void a_log_that_has_lost_turns_is_a_contradiction(void **state)
{
    struct writer w;
    struct follower *f;

    (void)state;
    make_store(10, &w);
    host.engine->last -= 3;
    f = open_one(path_on('a'));
    assert_int_equal(run_for(f, 0, why), FOLLOWER_CONTRADICTION);
    assert_non_null(strstr(why, "the log ends with turn"));
    follower_close(f);
    assert_false(host_has(path_on('a'), ".diverged"));
    host.engine->last += 3;

    /* Also while it follows. */
    f = open_one(path_on('a'));
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    host.engine->last -= 1;
    assert_int_equal(run_for(f, 5000, why), FOLLOWER_CONTRADICTION);
    follower_close(f);
}

static void a_diverged_file_is_set_aside_and_a_snapshot_taken(void **state)
{
    struct writer w;
    struct follower *f = open_one(path_on('b'));

    (void)state;
    make_store(10, &w);
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    follower_close(f);
    make_snapshot(&w);
    /* The same numbers with other turns, as a log that another host has written. */
    sh("cp %s %s/was && cp %s-position %s/was-position", path_on('b'), dir,
       path_on('b'), dir);
    {
        struct stored_position stored;

        assert_true(position_file_read(path_on('b'), &stored));
        stored.at.chain[3] ^= 1;
        assert_int_equal(position_file_write(path_on('b'), &stored), GR_OK);
    }
    f = open_one(path_on('b'));
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    assert_true(host_has(path_on('b'), ".diverged"));
    assert_true(state_of(f).ready);
    assert_true(host_content_is(&host, path_on('b'), host.engine->last));
    follower_close(f);

    /* Too old: the log after it is gone. */
    sh("cp %s/was %s && cp %s/was-position %s-position", dir, path_on('b'), dir,
       path_on('b'));
    host.engine->first = host.engine->parts[0].n + 1;
    f = open_one(path_on('b'));
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    assert_true(host_has(path_on('b'), ".diverged-2"));
    assert_true(state_of(f).ready);
    follower_close(f);
}

static void a_damaged_file_is_found_before_it_is_ready(void **state)
{
    struct writer w;
    struct follower *f;
    int fd;

    (void)state;
    make_store(30, &w);
    make_snapshot(&w);
    f = open_one(path_on('b'));
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    follower_close(f);
    fd = open(path_on('b'), O_RDWR);
    for (int page = 5; page < 200; page++) /* their headers */
        assert_int_equal(pwrite(fd, "\1\2\3\4\5\6\7", 8, page * 1024L), 8);
    close(fd);
    f = open_one(path_on('b'));
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    assert_true(host_has(path_on('b'), ".diverged"));
    assert_true(state_of(f).ready);
    assert_true(host_content_is(&host, path_on('b'), host.engine->last));
    follower_close(f);
}

static void assert_not_ready(struct follower *f, const char *words)
{
    enum follower_result r = run_for(f, 10 * TAKEOVER_AFTER_MS, why);

    assert_int_equal(r, FOLLOWER_GOES_ON);
    assert_false(state_of(f).ready);
    if (!strstr(state_of(f).why, words))
        fail_msg("%s", state_of(f).why);
    assert_string_equal(host.engine->node_why, state_of(f).why);
    assert_false(host_has(path_on('b'), ".diverged"));
    follower_close(f);
}

static void what_is_missing_is_said_and_nothing_is_taken_over(void **state)
{
    static const uint8_t other_key[SEAL_KEY_BYTES] = {8};
    struct writer w;

    (void)state;
    host.engine->owner.exists = false;
    assert_not_ready(open_one(path_on('b')), "replication was not begun");
    host.engine->owner.exists = true;
    make_store(10, &w);
    assert_not_ready(open_with(path_on('b'), other_key, false), "no snapshot");
    host.engine->owner.schema = 8;
    assert_not_ready(open_one(path_on('b')), "schema version 8");
    assert_not_ready(open_with(path_on('b'), other_key, false), "");
    host.engine->owner.schema = 7;
    sh("rm %s*", path_on('b'));
    host.engine->first = 4;
    assert_not_ready(open_one(path_on('b')), "no snapshot");
}

/* No turn comes that would show it. */
static void a_standby_with_another_key_is_not_ready(void **state)
{
    static const uint8_t other_key[SEAL_KEY_BYTES] = {8};
    struct follower *f;
    struct writer w;

    (void)state;
    make_store(30, &w);
    make_snapshot(&w);
    f = open_one(path_on('b'));
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    assert_true(state_of(f).ready);
    follower_close(f);
    assert_not_ready(open_with(path_on('b'), other_key, false),
                     "encrypted with another key");
    f = open_one(path_on('b'));
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    assert_true(state_of(f).ready);
    follower_close(f);
}

/* An engine that is away is no silence of the active. */
static void an_outage_of_the_engine_is_waited_for(void **state)
{
    struct writer w;
    struct follower *f = open_one(path_on('b'));

    (void)state;
    make_store(10, &w);
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    host.engine->unknown = 1000000;
    assert_int_equal(run_for(f, 10 * TAKEOVER_AFTER_MS, why), FOLLOWER_GOES_ON);
    assert_string_equal(state_of(f).why, "the reply was lost");
    host.engine->unknown = 0;
    host.engine->owner.beat++;
    assert_int_equal(run_for(f, TAKEOVER_AFTER_MS / 2, why), FOLLOWER_GOES_ON);
    assert_true(state_of(f).ready);
    follower_close(f);
}

static void *stop_it(void *arg)
{
    follower_stop(arg);
    return NULL;
}

static void it_stops_when_asked(void **state)
{
    struct writer w;
    struct follower *f = open_one(path_on('b'));
    pthread_t thread;

    (void)state;
    make_store(10, &w);
    assert_int_equal(run_for(f, 1000, why), FOLLOWER_GOES_ON);
    assert_int_equal(pthread_create(&thread, NULL, stop_it, f), 0);
    assert_int_equal(follower_run(f, why), FOLLOWER_STOPPED);
    pthread_join(thread, NULL);
    follower_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_standby_follows_and_takes_over_after_the_silence, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            the_start_after_a_kill_on_the_same_host_does_not_wait, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            a_takeover_of_unknown_outcome_is_known_by_the_next_follow, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            a_log_that_has_lost_turns_is_a_contradiction, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_diverged_file_is_set_aside_and_a_snapshot_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_damaged_file_is_found_before_it_is_ready, setup, teardown),
        cmocka_unit_test_setup_teardown(
            what_is_missing_is_said_and_nothing_is_taken_over, setup, teardown),
        cmocka_unit_test_setup_teardown(a_standby_with_another_key_is_not_ready,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(an_outage_of_the_engine_is_waited_for,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(it_stops_when_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(kills_and_wiped_disks_lose_nothing,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
