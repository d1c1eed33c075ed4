/* grapnel-labels: threads */
/* Tests of snapshotter with replicator and db: an active makes snapshots while its turns go on, and what a standby restores of them equals its file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "db.h"
#include "log.h"
#include "replicated_host.h"
#include "replicator.h"
#include <errno.h>
#include <pthread.h>

enum { TAKEOVER_MS = 600 * 1000, KILLS = 24, MIB = 1024 * 1024 };

static const char *const steps[] = {"CREATE TABLE t(v INTEGER, pad BLOB)"};
static const struct db_schema schema = {.steps = steps, .count = 1};

/* What the engine does with the snapshotter's calls. In memory that a killed process leaves. */
struct fault {
    pthread_mutex_t lock;
    _Atomic int silent; /* no response */
    _Atomic int lose;   /* so many replies are lost; the calls are executed */
    _Atomic int not_owner; /* so many parts find another owner */
    _Atomic int damage;    /* so many parts are written with another bit */
    _Atomic int
        kill_pm; /* at each call, so many times in a thousand the process ends */
    _Atomic int puts, forgets, cleans;
};

static struct fault *fault;
static char dir[64], file[100], target[100];
static struct host host;
static struct replicator *replicator;
static struct db *db;
static stmt *insert, *replace;

/* ---- the engine: memory_engine.h for two threads, with faults ---- */

static bool take_one(_Atomic int *count)
{
    int n = atomic_load(count);

    while (n > 0)
        if (atomic_compare_exchange_weak(count, &n, n - 1))
            return true;
    return false;
}

static void lock(void)
{
    if (pthread_mutex_lock(&fault->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&fault->lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&fault->lock);
}

static void maybe_die(void)
{
    static _Thread_local uint64_t x;

    if (!x)
        x = (uint64_t)mono_us() * 2 + 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    if (x % 1000 < (uint64_t)fault->kill_pm)
        raise(SIGKILL);
}

static enum engine_result lost(enum engine_result r, char *why)
{
    maybe_die();
    if (!take_one(&fault->lose))
        return r;
    snprintf(why, ENGINE_WHY_BYTES, "the reply was lost");
    return ENGINE_UNKNOWN;
}

static bool is_silent(char *why)
{
    maybe_die();
    snprintf(why, ENGINE_WHY_BYTES, "no response");
    return fault->silent;
}

static enum engine_result f_append(struct engine *e, const struct tenure *mine,
                                   const struct position *before,
                                   const struct position *after,
                                   const struct sealed_parts *parts,
                                   int64_t *beat, char why[ENGINE_WHY_BYTES])
{
    enum engine_result r;

    maybe_die();
    lock();
    r = me_append(e, mine, before, after, parts, beat, why);
    unlock();
    maybe_die();
    return r;
}

static enum engine_result f_beat(struct engine *e, const struct tenure *mine,
                                 const struct position *at, int64_t *beat,
                                 char why[ENGINE_WHY_BYTES])
{
    enum engine_result r;

    lock();
    r = me_beat(e, mine, at, beat, why);
    unlock();
    return r;
}

static enum engine_result f_put(struct engine *e, const struct tenure *mine,
                                const struct position *at, int64_t part,
                                struct bytes sealed, char why[ENGINE_WHY_BYTES])
{
    bool damage = part == 0 && take_one(&fault->damage);
    enum engine_result r;

    if (is_silent(why))
        return ENGINE_UNKNOWN;
    if (part > 0 && take_one(&fault->not_owner))
        return ENGINE_NO_ROW;
    lock();
    r = me_put_snapshot(e, mine, at, part, sealed, why);
    if (damage)
        ((uint8_t *)(uintptr_t)me_part_of(me(e), at->n, part)->bytes.p)[90] ^=
            1;
    unlock();
    fault->puts++;
    return lost(r, why);
}

static enum engine_result f_get(struct engine *e, int64_t part, int64_t *n,
                                int64_t *epoch, struct buf *sealed,
                                char why[ENGINE_WHY_BYTES])
{
    enum engine_result r;

    if (is_silent(why))
        return ENGINE_UNKNOWN;
    lock();
    r = me_get_snapshot(e, part, n, epoch, sealed, why);
    unlock();
    return lost(r, why);
}

static enum engine_result f_forget(struct engine *e, const struct tenure *mine,
                                   int64_t n, bool *more,
                                   char why[ENGINE_WHY_BYTES])
{
    enum engine_result r;

    if (is_silent(why))
        return ENGINE_UNKNOWN;
    lock();
    r = me_forget(e, mine, n, more, why);
    unlock();
    fault->forgets++;
    return lost(r, why);
}

static enum engine_result f_clean(struct engine *e, const struct tenure *mine,
                                  int64_t after, int64_t before, bool *more,
                                  char why[ENGINE_WHY_BYTES])
{
    enum engine_result r;

    if (is_silent(why))
        return ENGINE_UNKNOWN;
    lock();
    r = me_forget_unfinished(e, mine, after, before, more, why);
    unlock();
    fault->cleans++;
    return lost(r, why);
}

static void f_close(struct engine *e)
{
    (void)e; /* its memory is the test's */
}

static const struct engine_ops ops = {
    .close = f_close,
    .append = f_append,
    .beat = f_beat,
    .release = me_release,
    .put_snapshot = f_put,
    .get_snapshot = f_get,
    .forget = f_forget,
    .forget_unfinished = f_clean,
};

static struct fault *fault_open(void)
{
    struct fault *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;

    assert_true(f != MAP_FAILED);
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&f->lock, &shared);
    pthread_mutexattr_destroy(&shared);
    return f;
}

/* ---- the active ---- */

static void open_active(const uint8_t *key)
{
    struct memory_engine *e = host.engine;
    struct engine *handle = (struct engine *)(void *)e;
    struct ownership o;
    uint8_t me[HOLDER_BYTES] = {(uint8_t)(e->owner.epoch + 1)};
    struct replicator_settings s = {.ops = &ops,
                                    .engine = handle,
                                    .snapshots = handle,
                                    .schema = 1,
                                    .ownership = &o,
                                    .process = WRITER_PROCESS,
                                    .db_path = file,
                                    .key = key,
                                    .stuck_ms = REPLICATOR_STUCK_MS};
    struct db_replication turns;

    e->owner.epoch++;
    memcpy(e->owner.holder, me, HOLDER_BYTES);
    ownership_init(&o, me, TAKEOVER_MS);
    o.role = ROLE_ACTIVE;
    o.mine.epoch = e->owner.epoch;
    memcpy(o.mine.holder, me, HOLDER_BYTES);
    o.at = me_at(e);
    o.beat = e->owner.beat;
    replicator = replicator_open(&s);
    turns = replicator_turns(replicator);
    db = db_open(file, &schema);
    db_replicate(db, &turns);
    insert = db_prepare(db, "INSERT INTO t VALUES(?, randomblob(?))");
    replace = db_prepare(db, "UPDATE t SET pad = randomblob(?)");
}

static void close_active(void)
{
    db_close(db);
    replicator_close(replicator);
    db = NULL;
    replicator = NULL;
}

static void end_turn(void)
{
    db_commit_begin(db);
    assert_int_equal(db_commit_end(db), GR_OK);
    db_tidy(db);
}

/* A turn of the loop that writes so many rows, or none. */
static void turn(int rows, int bytes)
{
    db_begin(db);
    for (int i = 0; i < rows; i++) {
        bind_i64(insert, 1, (int64_t)(rig_random() % 1000));
        bind_i64(insert, 2, bytes);
        db_run(db, insert);
    }
    end_turn();
}

/* Turns of a MiB each. No snapshot begins meanwhile. */
static void fill(int mib)
{
    fault->silent = 1;
    for (int i = 0; i < mib; i++)
        turn(1, MIB);
    fault->silent = 0;
}

static struct snapshot_state state_now(void)
{
    struct snapshot_state s;

    replicator_snapshots(replicator, &s);
    return s;
}

/* Turns of the loop, with rows or not, until there is a snapshot after turn n. */
static int64_t run_until_snapshot(int64_t n, int rows)
{
    while (state_now().n <= n) {
        turn(rows, 300);
        usleep(200);
    }
    return state_now().n;
}

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/snapshotter-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    snprintf(target, sizeof target, "%s/target.db", dir);
    log_open("test", LEVEL_ERROR, false);
    fault = fault_open();
    host = (struct host){.engine = me_open(NULL),
                         .sealer = sealer_open(writer_key)};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_active();
    sealer_close(host.sealer);
    me_free(host.engine);
    munmap(fault, sizeof *fault);
    sh("rm -rf %s", dir);
    return 0;
}

/* What SQLite makes of the active's file and its write-ahead log. */
static void settle(const char *path)
{
    sqlite3 *h;

    sh("rm -f %s* && cp %s %s && cp %s-wal %s-wal", path, file, path, file,
       path);
    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h,
                                  "SELECT 1 FROM sqlite_schema; "
                                  "PRAGMA wal_checkpoint(TRUNCATE)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(h);
}

/* A host without the file restores the newest snapshot, and follows the log to its end. No turn is open. */
static void assert_standby_equals(int64_t snapshot)
{
    char settled[120];
    int restored = host.restored;
    struct applied *a;

    sh("rm -f %s*", target);
    lock();
    a = host_start(&host, target);
    assert_int_equal(host.restored, restored + 1);
    assert_int_equal(applied_position(a)->n, snapshot);
    host_follow(&host, a, host.engine->last);
    unlock();
    assert_true(applied_is_whole(a));
    applied_close(a);
    snprintf(settled, sizeof settled, "%s/settled.db", dir);
    settle(settled);
    sh("cmp %s %s", settled, target);
}

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

/* Turns that change the same row, so the file stays small. */
static void rewrite(int turns)
{
    for (int i = 0; i < turns; i++) {
        db_begin(db);
        bind_i64(replace, 1, 2 * MIB);
        db_run(db, replace);
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
    assert_int_equal(state_now().made_ms, 0);
    for (int i = 0; i < 20; i++)
        turn(0, 0);
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
        turn(i % 2, 100);
    assert_true(state_now().due);
    assert_int_equal(fault->puts, 0);
    sqlite3_close(reader);
    n = run_until_snapshot(0, 0);
    assert_true(n >= 2);
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

/* As a start does it: cut to what the log has, which it has to the end. */
static void cut_file(void)
{
    struct applied *a = host_start(&host, file);

    host_follow(&host, a, host.engine->last);
    while (applied_hand_over(a) != GR_OK)
        ;
    applied_close(a);
}

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
