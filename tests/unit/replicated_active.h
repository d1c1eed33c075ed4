/* replicated_active: an active of tests: db with replicator and snapshotter, on an engine in memory (memory_engine.h) that two threads use, with faults, and that a killed
 * process leaves. Each function is for the one test program that includes this. */
#ifndef TEST_REPLICATED_ACTIVE_H
#define TEST_REPLICATED_ACTIVE_H

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

enum { TAKEOVER_MS = 600 * 1000, MIB = 1024 * 1024 };

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
    _Atomic int until_beats; /* slices get no response before so many beats */
    _Atomic int puts, forgets, cleans, slices, beats;
};

static struct fault *fault;
static char dir[64], file[100], target[100];
static struct host host;
static struct replicator *replicator;
static int64_t takeover_ms;
static struct db *db;
static stmt *insert;

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

static inline void maybe_die(void)
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
    fault->beats++;
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

static enum engine_result f_put_slice(struct engine *e,
                                      const struct tenure *mine,
                                      const struct position *at, int64_t slice,
                                      struct bytes sealed,
                                      char why[ENGINE_WHY_BYTES])
{
    enum engine_result r;

    if (is_silent(why) || fault->beats < fault->until_beats)
        return ENGINE_UNKNOWN;
    lock();
    r = me_put_slice(e, mine, at, slice, sealed, why);
    unlock();
    fault->slices++;
    return lost(r, why);
}

static enum engine_result f_get_slice(struct engine *e, int64_t n,
                                      int64_t epoch, int64_t slice,
                                      struct buf *sealed,
                                      char why[ENGINE_WHY_BYTES])
{
    enum engine_result r;

    if (is_silent(why))
        return ENGINE_UNKNOWN;
    lock();
    r = me_get_slice(e, n, epoch, slice, sealed, why);
    unlock();
    return lost(r, why);
}

static enum engine_result f_forget_slices(struct engine *e,
                                          const struct tenure *mine, bool *more,
                                          char why[ENGINE_WHY_BYTES])
{
    enum engine_result r;

    if (is_silent(why))
        return ENGINE_UNKNOWN;
    lock();
    r = me_forget_slices(e, mine, more, why);
    unlock();
    return lost(r, why);
}

static enum engine_result f_nodes(struct engine *e,
                                  const struct engine_node **nodes,
                                  size_t *count, char why[ENGINE_WHY_BYTES])
{
    static const struct engine_node none;

    (void)e;
    (void)why;
    *nodes = &none;
    *count = 0;
    return ENGINE_DONE;
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
    .nodes = f_nodes,
    .follow = me_follow,
    .claim = me_claim,
    .take_over = me_take_over,
    .put_slice = f_put_slice,
    .get_slice = f_get_slice,
    .forget_slices = f_forget_slices,
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

static inline void open_active(const uint8_t *key)
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
    ownership_init(&o, me, takeover_ms);
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
}

static inline void close_active(void)
{
    db_close(db);
    replicator_close(replicator);
    db = NULL;
    replicator = NULL;
}

static inline void end_turn(void)
{
    db_commit_begin(db);
    assert_int_equal(db_commit_end(db), GR_OK);
    db_tidy(db);
}

/* A turn of the loop that writes so many rows, or none. */
static inline void turn(int rows, int bytes)
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
static inline void fill(int mib)
{
    fault->silent = 1;
    for (int i = 0; i < mib; i++)
        turn(1, MIB);
    fault->silent = 0;
}

static inline struct snapshot_state state_now(void)
{
    struct snapshot_state s;

    replicator_snapshots(replicator, &s);
    return s;
}

/* Turns of the loop, with rows or not, until there is a snapshot after turn n. */
static inline int64_t run_until_snapshot(int64_t n, int rows)
{
    while (state_now().n <= n) {
        turn(rows, 300);
        usleep(200);
    }
    return state_now().n;
}

static inline int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/snapshotter-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    snprintf(target, sizeof target, "%s/target.db", dir);
    log_open("test", LEVEL_ERROR, false);
    fault = fault_open();
    takeover_ms = TAKEOVER_MS;
    host = (struct host){.engine = me_open(NULL),
                         .sealer = sealer_open(writer_key)};
    return 0;
}

static inline int teardown(void **state)
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
static inline void settle(const char *path)
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
static inline void assert_standby_equals(int64_t snapshot)
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

/* As a start does it: cut to what the log has, which it has to the end. */
static inline void cut_file(void)
{
    struct applied *a = host_start(&host, file);

    host_follow(&host, a, host.engine->last);
    while (applied_hand_over(a) != GR_OK)
        ;
    applied_close(a);
}

#endif
