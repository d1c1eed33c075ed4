/* Tests of replicator with db and loop: turns arrive in the engine's log as they are in the file, nothing is sent before and without permission, and the
 * process goes on serving while the engine is silent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "cut.h"
#include "log.h"
#include "loop.h"
#include "replicated_copy.h"
#include "replicator.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
    TAKEOVER_MS = 1200,
    HOLD_MS = TAKEOVER_MS / 3,
    KILLS = 24,
    FILE_MAX_BYTES = 1024 * 1024 * 1024
};

static const uint8_t history[HISTORY_BYTES] = {7};
static const char *const steps[] = {"CREATE TABLE t(v INTEGER, pad BLOB)"};
static const struct db_schema schema = {.steps = steps, .count = 1};

static struct test {
    char dir[64], file[100];
    struct loop loop;
    struct engine *engine;
    struct replicator *replicator;
    struct db *db;
    stmt *insert;
    int turns, last; /* turns so far; the loop ends after so many */
    int rows, bytes; /* that a turn inserts */
    int undone;
    int64_t stuck_ms;
    struct replicator_state state;
    _Atomic int reads, stalls, sent;
} t;

static void open_active(struct test *x)
{
    struct ownership o = shared_take_over(x->engine, 1, TAKEOVER_MS);
    struct replicator_settings s = {.ops = &shared_engine_ops,
                                    .engine = x->engine,
                                    .ownership = &o,
                                    .process = COPY_PROCESS,
                                    .db_path = x->file,
                                    .key = copy_key,
                                    .schema = 5,
                                    .stuck_ms = x->stuck_ms};
    struct db_replication turns;

    x->replicator = replicator_open(&s);
    turns = replicator_turns(x->replicator);
    x->db = db_open(x->file, &schema);
    db_replicate(x->db, &turns);
    db_copy_in_pieces(x->db, 1); /* the copier works after each turn */
    x->insert = db_prepare(x->db, "INSERT INTO t VALUES(?, randomblob(?))");
    x->loop.self = x;
    x->loop.db = x->db;
    x->loop.replicator = x->replicator;
}

static void close_active(struct test *x)
{
    db_close(x->db);
    replicator_close(x->replicator);
    x->db = NULL;
    x->replicator = NULL;
}

static int setup(void **state)
{
    (void)state;
    memset(&t, 0, sizeof t);
    snprintf(t.dir, sizeof t.dir, "/tmp/replicator-XXXXXX");
    assert_non_null(mkdtemp(t.dir));
    snprintf(t.file, sizeof t.file, "%s/x.db", t.dir);
    log_open("test", LEVEL_ERROR, false);
    loop_prepare(&t.loop);
    t.engine = shared_engine_open(history);
    t.rows = 1;
    t.bytes = 100;
    t.stuck_ms = REPLICATOR_STUCK_MS;
    return 0;
}

static int teardown(void **state)
{
    char rm[100];
    sigset_t none;

    (void)state;
    close_active(&t);
    shared_engine_forget(t.engine);
    close(t.loop.signal_fd);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(rm, sizeof rm, "rm -rf %s", t.dir);
    return system(rm) == 0 ? 0 : -1;
}

static int64_t last_of_log(void)
{
    int64_t n;

    shared_lock(t.engine);
    n = t.engine->e.durable.at.n;
    pthread_mutex_unlock(&t.engine->lock);
    return n;
}

static void insert(struct test *x)
{
    for (int i = 0; i < x->rows; i++) {
        bind_i64(x->insert, 1, x->turns);
        bind_i64(x->insert, 2, x->bytes);
        db_run(x->db, x->insert);
    }
}

static int work(void *self)
{
    insert(self);
    t.turns++;
    return 0;
}

/* What is sent is in the log. */
static void send_checked(void *self)
{
    (void)self;
    t.sent++;
    assert_int_equal(last_of_log(), t.turns);
    t.loop.done = t.turns >= t.last;
}

static void undo(void *self)
{
    (void)self;
    t.undone++;
}

static void run(int turns)
{
    t.last = t.turns + turns;
    t.loop.done = false;
    t.loop.work = work;
    t.loop.after_commit = send_checked;
    t.loop.undo = undo;
    loop_run(&t.loop);
}

static void check_copies(void)
{
    copy_is_equal(t.engine, t.file, last_of_log(), t.dir);
}

/* ---- turns ---- */

static void each_turn_is_in_the_log_before_anything_is_sent(void **state)
{
    (void)state;
    open_active(&t);
    run(20);
    assert_int_equal(t.engine->appends, 20);
    assert_int_equal(t.engine->e.durable.schema, 5);
    check_copies();
    replicator_state(t.replicator, &t.state);
    assert_int_equal(t.state.n, 20);
    assert_int_equal(t.state.epoch, 1);
    assert_int_equal(t.state.role, ROLE_ACTIVE);
    assert_true(t.state.append_us >= 0);
    assert_int_equal(t.state.failing_since_ms, 0);
}

static void the_first_turn_has_what_the_start_wrote(void **state)
{
    (void)state;
    open_active(&t);
    db_begin(t.db);
    insert(&t);
    assert_int_equal(db_commit(t.db), GR_OK); /* a part of it, too */
    assert_int_equal(last_of_log(), 0);
    run(1);
    check_copies();
}

static void the_file_says_which_turn_it_has(void **state)
{
    sqlite3_stmt *s;

    (void)state;
    open_active(&t);
    run(3);
    assert_int_equal(sqlite3_prepare_v2(db_handle(t.db),
                                        "SELECT history, n, chain FROM "
                                        "replicated",
                                        -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_memory_equal(sqlite3_column_blob(s, 0), history, HISTORY_BYTES);
    assert_int_equal(sqlite3_column_int64(s, 1), 3);
    assert_int_equal(sqlite3_column_bytes(s, 2), CHAIN_BYTES);
    assert_memory_equal(sqlite3_column_blob(s, 2), t.engine->e.rows[2].chain,
                        CHAIN_BYTES);
    assert_int_equal(sqlite3_step(s), SQLITE_DONE);
    sqlite3_finalize(s);
}

static off_t file_bytes(void)
{
    struct stat st;

    assert_int_equal(stat(t.file, &st), 0);
    return st.st_size;
}

static void nothing_is_copied_before_the_first_turn_is_in(void **state)
{
    off_t before;

    (void)state;
    open_active(&t);
    before = file_bytes();
    t.bytes = 70 * 1024 * 1024; /* a log that is to be begun anew */
    db_begin(t.db);
    insert(&t);
    assert_int_equal(db_commit(t.db), GR_OK);
    db_tidy(t.db);
    assert_int_equal(file_bytes(), before);
}

/* By a connection of its own, as the copier does it. */
static void checkpoint(void)
{
    sqlite3 *h;

    assert_int_equal(sqlite3_open(t.file, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h,
                                  "SELECT 1 FROM sqlite_schema; "
                                  "PRAGMA wal_checkpoint(PASSIVE)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(h);
}

/* Turn 4 waits for the engine. */
static bool checkpoint_while_silent(void *self)
{
    (void)self;
    if (t.engine->silent && t.engine->waiting) {
        checkpoint();
        t.stalls = copy_file_is_at(t.engine, t.file, 3, t.dir);
        t.reads++;
        t.engine->silent = 0;
    }
    return false;
}

static int work_silent_4(void *self)
{
    if (t.turns == 3)
        t.engine->silent = 1;
    return work(self);
}

static void only_turns_that_are_in_the_log_are_copied(void **state)
{
    (void)state;
    open_active(&t);
    db_copy_in_pieces(t.db, 32 * 1024 * 1024);
    run(3);
    checkpoint();
    assert_true(copy_file_is_at(t.engine, t.file, 3, t.dir));
    t.last = 4;
    t.loop.done = false;
    t.loop.work = work_silent_4;
    t.loop.read = checkpoint_while_silent;
    loop_run(&t.loop);
    assert_int_equal(t.reads, 1);
    assert_true(t.stalls); /* the file had turn 3 while turn 4 waited */
    checkpoint();
    assert_true(copy_file_is_at(t.engine, t.file, 4, t.dir));
}

static void closing_copies_nothing(void **state)
{
    off_t before;

    (void)state;
    open_active(&t);
    db_copy_in_pieces(t.db, 1024 * 1024);
    run(5);
    before = file_bytes();
    close_active(&t);
    assert_int_equal(file_bytes(), before);
    assert_true(copy_wal_bytes(t.file) > 0);
}

static int work_nothing(void *self)
{
    (void)self;
    return 0;
}

static void a_turn_without_rows_does_not_go_to_the_engine(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    t.loop.done = false;
    t.loop.work = work_nothing;
    loop_run(&t.loop);
    assert_int_equal(t.engine->appends, 1);
    assert_int_equal(t.sent, 2);
}

static int work_schema(void *self)
{
    (void)self;
    db_exec(t.db, t.turns++ ? "DROP TABLE more" : "CREATE TABLE more(x)");
    return 0;
}

static void a_turn_that_changes_only_the_schema_is_a_turn(void **state)
{
    (void)state;
    open_active(&t);
    t.last = 2;
    t.loop.work = work_schema;
    t.loop.after_commit = send_checked;
    loop_run(&t.loop);
    check_copies();
}

/* How often the write-ahead log was begun anew, as far as it was asked. */
static int restarts(void)
{
    static uint8_t salts[WAL_SALTS_BYTES];
    static int count;
    bool good;
    struct wal_file *w = wal_file_open(t.file, &good);

    assert_non_null(w);
    count += memcmp(salts, w->salts, sizeof salts) != 0;
    memcpy(salts, w->salts, sizeof salts);
    wal_file_close(w);
    return count;
}

static void
turns_of_every_size_and_restarts_of_the_log_are_replicated(void **state)
{
    int before;

    (void)state;
    open_active(&t);
    run(1);
    before = restarts();
    for (int i = 0; i < 60; i++) {
        t.rows = 1 + i % 7;
        t.bytes = i % 9 == 0 ? 2500000 : 3000;
        run(1);
        restarts();
    }
    assert_true(restarts() >= before + 1);
    check_copies();
}

static void a_second_start_goes_on_with_the_chain(void **state)
{
    (void)state;
    open_active(&t);
    run(5);
    close_active(&t);
    copy_as_standby(t.engine, t.file,
                    last_of_log()); /* as its start makes it */
    open_active(&t);
    assert_int_equal(db_copied_ms(t.db), 0); /* not a restored backup */
    run(5);
    assert_int_equal(last_of_log(), 10);
    check_copies();
}

static void an_erasure_is_replicated(void **state)
{
    (void)state;
    open_active(&t);
    t.bytes = 5000;
    run(20);
    db_begin(t.db);
    db_erasing(t.db);
    db_exec(t.db, "DELETE FROM t WHERE v < 15");
    db_commit_begin(t.db);
    assert_int_equal(db_commit_end(t.db), GR_OK);
    for (bool done = false; !done;) {
        db_begin(t.db);
        done = db_scrub(t.db);
        db_commit_begin(t.db);
        assert_int_equal(db_commit_end(t.db), GR_OK);
        db_tidy(t.db);
    }
    t.turns = (int)last_of_log();
    run(3);
    check_copies();
}

static void a_backup_is_made_beside_turns(void **state)
{
    char path[120], why[200];
    gr_rc rc;

    (void)state;
    open_active(&t);
    t.bytes = 900000;
    run(5);
    snprintf(path, sizeof path, "%s/backup.db", t.dir);
    assert_int_equal(db_backup_start(t.db, path, why), GR_OK);
    /* A slow disk delays the backup, and the log of the engine has a bounded size. */
    for (int turns = 0; (rc = db_backup_step(t.db, why)) == GR_AGAIN; turns++)
        if (turns < 20)
            run(1);
    assert_int_equal(rc, GR_OK);
    check_copies();
}

/* ---- a full disk ---- */

static int work_too_much(void *self)
{
    (void)self;
    if (t.turns == 3 && !t.undone) {
        sqlite3_exec(db_handle(t.db),
                     "PRAGMA cache_size = 10; PRAGMA max_page_count = 400",
                     NULL, NULL, NULL);
        for (int i = 0; i < 500; i++) {
            bind_i64(t.insert, 1, -1);
            bind_i64(t.insert, 2, 5000);
            db_run(t.db, t.insert);
        }
        return 0;
    }
    return work(self);
}

static void a_rolled_back_turn_leaves_no_trace_in_the_log(void **state)
{
    (void)state;
    open_active(&t);
    t.last = 6;
    t.loop.work = work_too_much;
    t.loop.after_commit = send_checked;
    t.loop.undo = undo;
    loop_run(&t.loop);
    assert_int_equal(t.undone, 1);
    check_copies();
}

/* The opening turn is rolled back, and made by the next one. */
static int work_too_much_at_first(void *self)
{
    if (t.undone)
        return work(self);
    t.turns = 3;
    work_too_much(self);
    t.turns = 0;
    return 0;
}

static void a_rolled_back_first_turn_is_repeated_by_the_next(void **state)
{
    (void)state;
    open_active(&t);
    t.last = 2;
    t.loop.work = work_too_much_at_first;
    t.loop.after_commit = send_checked;
    t.loop.undo = undo;
    loop_run(&t.loop);
    assert_int_equal(t.undone, 1);
    check_copies();
}

/* ---- an engine that fails ---- */

static void lost_replies_change_nothing(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    for (int i = 0; i < 5; i++) {
        t.engine->lose = 2;
        run(1);
        assert_int_equal(t.engine->lose, 0);
    }
    assert_false(t.engine->differed);
    assert_true(t.engine->judges > 0);
    check_copies();
}

static void failed_statements_are_repeated_with_the_same_bytes(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    t.engine->refuse = 4;
    run(1);
    assert_int_equal(t.engine->appends, 6);
    assert_false(t.engine->differed);
    check_copies();
}

/* Reads while its commit waits, sees permission end, and lets the engine respond. */
static bool read_silent(void *self)
{
    (void)self;
    if (!t.engine->silent)
        return false;
    if (t.reads++ == 0)
        kill(getpid(), SIGHUP);
    if (!replicator_may_send(t.replicator) && t.reads > 20)
        t.engine->silent = 0;
    return false;
}

static bool always(void *self)
{
    (void)self;
    return true;
}

static int reloads;

static void reload(void *self)
{
    (void)self;
    reloads++;
}

static int work_silent(void *self)
{
    if (t.turns == 1)
        t.engine->silent = 1;
    return work(self);
}

static void
while_the_engine_is_silent_the_loop_reads_and_sends_nothing(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    reloads = 0;
    t.last = 3;
    t.loop.done = false;
    t.loop.work = work_silent;
    t.loop.read = read_silent;
    t.loop.reads_wait = always;
    t.loop.reload = reload;
    loop_run(&t.loop);
    assert_true(t.reads > 20);
    assert_int_equal(t.sent, 3);
    assert_int_equal(reloads, 1); /* between two turns */
    check_copies();
}

static void stand_in(void *self)
{
    (void)self;
    t.stalls++;
    if (!replicator_may_send(t.replicator) && t.stalls > 2)
        t.engine->silent = 0;
}

static void while_the_engine_is_silent_the_fallback_thread_serves(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    t.last = 3;
    t.loop.done = false;
    t.loop.work = work_silent;
    t.loop.during_stall = stand_in;
    loop_run(&t.loop);
    assert_true(t.stalls > 2);
    check_copies();
}

static void read_more(void *self)
{
    stand_in(self);
}

static int work_silent_and_read_on(void *self)
{
    t.loop.read_on = true;
    return work_silent(self);
}

static void while_the_engine_is_silent_the_loop_reads_on(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    t.last = 3;
    t.loop.done = false;
    t.loop.work = work_silent_and_read_on;
    t.loop.meanwhile = read_more;
    loop_run(&t.loop);
    assert_true(t.stalls > 2);
    check_copies();
}

/* ---- permission ---- */

/* A turn without rows, whose permission ends before it sends. */
static int work_until_permission_ends(void *self)
{
    (void)self;
    if (t.sent == 1) {
        t.engine->silent = 1;
        while (replicator_may_send(t.replicator))
            usleep(1000);
    }
    return 0;
}

static void a_turn_without_rows_waits_for_permission(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    t.last = 1;
    t.loop.done = false;
    t.loop.work = work_until_permission_ends;
    t.loop.during_stall = stand_in; /* ends the silence */
    loop_run(&t.loop);
    assert_true(t.stalls > 2);
    assert_int_equal(t.sent, 2);
    assert_int_equal(t.engine->appends, 1);
}

static void an_idle_active_keeps_its_permission(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    while (t.engine->beats < 8)
        usleep(1000);
    while (!replicator_may_send(t.replicator))
        usleep(1000); /* a busy machine */
}

static void the_state_says_what_failed_and_since_when(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    t.engine->silent = 1;
    do {
        replicator_state(t.replicator, &t.state);
        usleep(1000);
    } while (!t.state.failing_since_ms || t.state.may_send_ms);
    assert_string_equal(t.state.error, "no response");
    t.engine->silent = 0;
    do {
        replicator_state(t.replicator, &t.state);
        usleep(1000);
    } while (t.state.failing_since_ms || !t.state.may_send_ms);
    assert_string_equal(t.state.error, "");
}

static void has_node(const char *host, int64_t n, bool ready, int64_t seen_ms)
{
    struct engine_node *node = &t.engine->nodes[t.engine->node_count++];

    *node = (struct engine_node){.n = n, .ready = ready, .seen_ms = seen_ms};
    snprintf(node->host, sizeof node->host, "%s", host);
}

static void wait_for_nodes(void)
{
    int reads = t.engine->node_reads;

    while (t.engine->node_reads < reads + 2) /* one is whole */
        usleep(1000);
}

static void the_state_counts_the_standbys(void **state)
{
    struct engine_node node;

    (void)state;
    has_node("b", 3, true, 10);
    has_node("c", 1, false, 20);
    has_node("gone", 0, true, 5LL * TAKEOVER_MS);
    open_active(&t);
    run(3);
    wait_for_nodes();
    replicator_state(t.replicator, &t.state);
    assert_int_equal(t.state.standbys, 2);
    assert_int_equal(t.state.ready, 1);
    assert_int_equal(t.state.behind, 2);
    assert_true(replicator_node(t.replicator, "gone", &node));
    assert_true(node.ready && node.n == 0 && node.seen_ms >= 5 * TAKEOVER_MS);
    assert_true(replicator_node(t.replicator, "b", &node));
    assert_true(node.ready && node.n == 3 && node.seen_ms >= 10);
    assert_false(replicator_node(t.replicator, "d", &node));
}

static void reaches(const char *host, bool ready, int64_t seen_ms, int peers)
{
    has_node(host, 3, ready, seen_ms);
    t.engine->nodes[t.engine->node_count - 1].peers = peers;
}

static void an_heir_is_the_standby_that_reaches_the_most(void **state)
{
    struct engine_node heir;

    (void)state;
    reaches("b", true, 10, 1);
    reaches("c", true, 10, 2);
    reaches("d", true, 10, 0);
    reaches("e", false, 10, 4);
    open_active(&t);
    wait_for_nodes();
    assert_true(replicator_heir(t.replicator, &heir));
    assert_string_equal(heir.host, "c");
    assert_int_equal(heir.peers, 2);
}

static void
one_that_is_not_ready_or_silent_or_reaches_nobody_is_no_heir(void **state)
{
    struct engine_node heir;

    (void)state;
    reaches("b", true, 10, 0);
    reaches("c", false, 10, 4);
    reaches("d", true, 2LL * TAKEOVER_MS, 4);
    open_active(&t);
    wait_for_nodes();
    assert_false(replicator_heir(t.replicator, &heir));
}

/* The rows get old by themselves. */
static void standbys_that_cannot_be_read_are_forgotten(void **state)
{
    struct engine_node node;

    (void)state;
    has_node("b", 1, true, 0);
    open_active(&t);
    run(1);
    wait_for_nodes();
    t.engine->no_nodes = true;
    wait_for_nodes();
    replicator_state(t.replicator, &t.state);
    assert_int_equal(t.state.failing_since_ms, 0);
    assert_string_equal(t.state.error, "");
    while (!replicator_may_send(t.replicator))
        usleep(1000); /* a busy machine */
    do {
        replicator_state(t.replicator, &t.state);
        usleep(1000);
    } while (t.state.standbys);
    assert_true(replicator_node(t.replicator, "b", &node));
    assert_true(node.seen_ms > 4 * TAKEOVER_MS);
    t.engine->no_nodes = false;
    do {
        replicator_state(t.replicator, &t.state);
        usleep(1000);
    } while (!t.state.standbys);
}

static void standbys_are_not_read_while_the_engine_is_silent(void **state)
{
    int reads;

    (void)state;
    open_active(&t);
    run(1);
    t.engine->silent = 1;
    do {
        replicator_state(t.replicator, &t.state);
        usleep(1000);
    } while (!t.state.failing_since_ms);
    reads = t.engine->node_reads;
    usleep(2 * HOLD_MS * 1000); /* not one more */
    assert_int_equal(t.engine->node_reads, reads);
    t.engine->silent = 0;
    wait_for_nodes();
}

static void a_loop_that_hangs_ends_the_beats(void **state)
{
    int beats;

    (void)state;
    t.stuck_ms = 3 * HOLD_MS;
    open_active(&t);
    while (t.engine->beats < 2)
        usleep(1000);
    replicator_in_turn(t.replicator, true);
    do {
        replicator_state(t.replicator, &t.state);
        usleep(1000);
    } while (!t.state.stuck || t.state.may_send_ms);
    beats = t.engine->beats;
    usleep(HOLD_MS * 1000); /* not one more */
    assert_int_equal(t.engine->beats, beats);
    replicator_in_turn(t.replicator, false); /* it goes on */
    while (!replicator_may_send(t.replicator))
        usleep(1000);
    replicator_state(t.replicator, &t.state);
    assert_false(t.state.stuck);
}

/* As a_loop_that_hangs_ends_the_beats(), before the first turn of the loop. */
static void a_start_that_hangs_ends_the_beats(void **state)
{
    (void)state;
    t.stuck_ms = 3 * HOLD_MS;
    open_active(&t);
    do {
        replicator_state(t.replicator, &t.state);
        usleep(1000);
    } while (!t.state.stuck || t.state.may_send_ms);
    replicator_in_turn(t.replicator, true); /* SQLite goes on */
    while (!replicator_may_send(t.replicator))
        usleep(1000);
}

static void a_start_that_makes_progress_beats(void **state)
{
    int64_t until_ms;

    (void)state;
    t.stuck_ms = 5 * HOLD_MS;
    open_active(&t);
    until_ms = mono_ms() + 2 * t.stuck_ms;
    while (mono_ms() < until_ms) {
        replicator_in_turn(t.replicator, true);
        replicator_state(t.replicator, &t.state);
        assert_false(t.state.stuck);
        usleep(1000);
    }
    while (!replicator_may_send(t.replicator))
        usleep(1000);
}

/* ---- the end ---- */

static void a_release_gives_the_store_away(void **state)
{
    static const uint8_t nobody[HOLDER_BYTES];

    (void)state;
    open_active(&t);
    run(3);
    assert_true(replicator_release(t.replicator, "", 5000));
    assert_false(replicator_may_send(t.replicator));
    assert_memory_equal(t.engine->e.durable.holder, nobody, HOLDER_BYTES);
    assert_int_equal(t.engine->releases, 1);
}

static void a_release_names_the_host_that_takes_over(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    assert_true(replicator_release(t.replicator, "b", 5000));
    assert_string_equal(t.engine->e.durable.heir, "b");
}

static void a_release_for_nobody_in_particular_has_no_heir(void **state)
{
    (void)state;
    open_active(&t);
    run(1);
    assert_true(replicator_release(t.replicator, NULL, 5000));
    assert_string_equal(t.engine->e.durable.heir, "");
}

static void a_release_without_a_response_ends_in_bounded_time(void **state)
{
    (void)state;
    open_active(&t);
    run(3);
    t.engine->silent = 1;
    assert_false(replicator_release(t.replicator, "", 300));
    assert_false(replicator_may_send(t.replicator));
}

static void a_release_of_unknown_outcome_is_not_repeated(void **state)
{
    (void)state;
    open_active(&t);
    run(3);
    t.engine->lose = 1;
    /* A beat may lose its reply instead. */
    if (!replicator_release(t.replicator, "", 5000))
        assert_false(replicator_may_send(t.replicator));
    assert_in_range(t.engine->releases, 0, 1);
}

/* Exit code of `f` in a process of its own, and what it said. */
static int ends_with(void (*f)(void), char said[4096])
{
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDERR_FILENO);
        f();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], said + n, 4095 - n)) > 0)
        n += (size_t)got;
    said[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void send_anything(void *self)
{
    (void)self;
    t.sent++;
}

static int work_after_a_takeover(void *self)
{
    if (t.turns == 2) {
        shared_lock(t.engine);
        t.engine->e.seen.epoch++;
        t.engine->e.seen.holder[0] = 9;
        snprintf(t.engine->e.seen.host, sizeof t.engine->e.seen.host, "b");
        small_make_durable(&t.engine->e);
        pthread_mutex_unlock(&t.engine->lock);
    }
    return work(self);
}

static void run_until_it_ends(int (*w)(void *))
{
    open_active(&t);
    t.loop.work = w;
    t.loop.after_commit = send_anything;
    loop_run(&t.loop);
}

static void be_fenced(void)
{
    run_until_it_ends(work_after_a_takeover);
}

static void a_fenced_active_ends_with_75(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(ends_with(be_fenced, said), EXIT_FENCED);
    assert_non_null(
        strstr(said, "on host \"b\": it has epoch 2, this one had 1"));
    assert_int_equal(last_of_log(), 2);
}

static int work_after_a_loss(void *self)
{
    if (t.turns == 2) {
        shared_lock(t.engine);
        t.engine->e.seen.at.n = 1;
        memcpy(t.engine->e.seen.at.chain, t.engine->e.rows[1].chain,
               CHAIN_BYTES);
        small_make_durable(&t.engine->e);
        pthread_mutex_unlock(&t.engine->lock);
    }
    return work(self);
}

static void be_contradicted(void)
{
    run_until_it_ends(work_after_a_loss);
}

static void a_log_that_lost_turns_ends_the_active_with_74(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(ends_with(be_contradicted, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "the file has turn 3 "));
    assert_non_null(strstr(said, "the log ends with turn 1 "));
}

static int work_before_a_loss(void *self)
{
    if (t.turns < 2)
        return work(self);
    shared_lock(t.engine);
    t.engine->e.seen.at.n = 1;
    memcpy(t.engine->e.seen.at.chain, t.engine->e.rows[1].chain, CHAIN_BYTES);
    small_make_durable(&t.engine->e);
    pthread_mutex_unlock(&t.engine->lock);
    return 0;
}

static void be_contradicted_when_idle(void)
{
    run_until_it_ends(work_before_a_loss);
}

/* Turn 2 was acknowledged. A start removes a last turn that the log does not have, but not this one. */
static void a_turn_that_the_log_lost_is_not_removed_by_a_start(void **state)
{
    struct stored_position stored = {.active = true};
    struct position end = {.n = 1};
    struct content content;
    char said[4096], why[200];

    (void)state;
    memcpy(stored.at.history, history, HISTORY_BYTES);
    assert_int_equal(position_file_write(t.file, &stored), GR_OK);
    assert_int_equal(ends_with(be_contradicted_when_idle, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "the file has turn 2 "));
    memcpy(end.history, history, HISTORY_BYTES);
    memcpy(end.chain, t.engine->e.rows[1].chain, CHAIN_BYTES);
    assert_int_equal(content_read(t.file, &content, why), GR_OK);
    assert_int_equal(
        content_match(&content, &end, (struct bytes){0}, NULL, why),
        CONTENT_AHEAD);
}

/* What a start makes of the file when the log goes on behind turn 1 with a turn 2 of another active. */
static enum content_match match_another_turn_2(void)
{
    struct turn_head head = {.n = 2, .size_pages = 3, .page_bytes = 4096};
    struct position end = {.n = 1};
    struct content content;
    enum content_match match;
    char why[200];
    struct buf form;

    memcpy(head.history, history, HISTORY_BYTES);
    buf_init(&form, 4096);
    turn_put_head(&form, &head);
    memcpy(end.history, history, HISTORY_BYTES);
    memcpy(end.chain, t.engine->e.rows[1].chain, CHAIN_BYTES);
    position_next(&end, (struct bytes){form.data, form.len});
    assert_int_equal(content_read(t.file, &content, why), GR_OK);
    match = content_match(&content, &end, (struct bytes){form.data, form.len},
                          end.chain, why);
    buf_fini(&form);
    return match;
}

/* Another host took over what was left of the log, and went on, before this one started again. */
static void a_turn_that_the_log_replaced_is_not_removed_by_a_start(void **state)
{
    struct stored_position stored = {.active = true};
    char said[4096];

    (void)state;
    memcpy(stored.at.history, history, HISTORY_BYTES);
    assert_int_equal(position_file_write(t.file, &stored), GR_OK);
    assert_int_equal(ends_with(be_contradicted_when_idle, said), EXIT_STORAGE);
    assert_int_equal(match_another_turn_2(), CONTENT_DIVERGED);
}

static int work_before_a_loss_and_a_takeover(void *self)
{
    if (t.turns == 2) {
        shared_lock(t.engine);
        t.engine->e.seen.epoch++;
        t.engine->e.seen.holder[0] = 9;
        pthread_mutex_unlock(&t.engine->lock);
    }
    return work_before_a_loss(self);
}

static void be_fenced_after_a_loss(void)
{
    run_until_it_ends(work_before_a_loss_and_a_takeover);
}

/* The takeover came before this active has noticed the loss. */
static void a_fenced_active_notes_what_the_log_had(void **state)
{
    struct stored_position stored = {.active = true};
    char said[4096];

    (void)state;
    memcpy(stored.at.history, history, HISTORY_BYTES);
    assert_int_equal(position_file_write(t.file, &stored), GR_OK);
    assert_int_equal(ends_with(be_fenced_after_a_loss, said), EXIT_FENCED);
    assert_true(position_file_read(t.file, &stored));
    assert_int_equal(stored.at.n, 2);
    assert_int_equal(match_another_turn_2(), CONTENT_DIVERGED);
}

static int work_after_an_end(void *self)
{
    if (t.turns == 2) {
        shared_lock(t.engine);
        memset(&t.engine->e.seen, 0, sizeof t.engine->e.seen);
        small_make_durable(&t.engine->e);
        pthread_mutex_unlock(&t.engine->lock);
    }
    return work(self);
}

static void be_ended(void)
{
    run_until_it_ends(work_after_an_end);
}

static void the_end_of_the_history_ends_the_active_with_74(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(ends_with(be_ended, said), EXIT_STORAGE);
    assert_non_null(strstr(said, "the engine has no owner row"));
    assert_non_null(strstr(said, "has turn 3 "));
}

static int work_silent_and_stop(void *self)
{
    if (t.turns == 1)
        kill(getpid(), SIGTERM);
    return work_silent(self);
}

static void be_stopped(void)
{
    run_until_it_ends(work_silent_and_stop);
}

static void sigterm_ends_a_wait_for_the_engine(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(ends_with(be_stopped, said), EXIT_UNAVAILABLE);
    assert_non_null(strstr(said, "stopped without sending"));
    assert_int_equal(last_of_log(), 1);
}

static int work_without_permission_and_stop(void *self)
{
    (void)self;
    if (t.turns++ == 0) {
        insert(&t);
        return 0;
    }
    t.engine->silent = 1;
    while (replicator_may_send(t.replicator))
        usleep(1000);
    kill(getpid(), SIGTERM);
    return 0;
}

static void be_stopped_without_permission(void)
{
    run_until_it_ends(work_without_permission_and_stop);
}

static void sigterm_ends_a_wait_for_permission(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(ends_with(be_stopped_without_permission, said),
                     EXIT_UNAVAILABLE);
    assert_non_null(strstr(said, "stopped without sending"));
}

/* ---- kills ---- */

/* The number of turns that this process has told of, in memory that the parent sees. */
static _Atomic int64_t *told;

static int work_random(void *self)
{
    t.rows = 1 + (int)(random() % 6);
    t.bytes = random() % 20 == 0 ? 300000 : (int)(random() % 6000);
    insert(self);
    t.turns++;
    return 0;
}

static void tell(void *self)
{
    (void)self;
    *told = last_of_log();
}

/* As a standby does before it hands the file over. */
static void note_active(void)
{
    struct stored_position p = {.at = t.engine->e.durable.at, .active = true};

    assert_int_equal(position_file_write(t.file, &p), GR_OK);
}

/* What the next start does: it keeps the turns that the log has, which are n. */
static void cut(int64_t n)
{
    struct sealer *sealer = sealer_open(copy_key);
    char why[200] = "", theirs[200];
    struct content c;
    struct position to;
    struct buf form;
    enum content_match match;
    int64_t from;

    buf_init(&form, 256 * 1024 * 1024);
    if (content_read(t.file, &c, why) != GR_OK)
        fail_msg("%s", why);
    from = content_from(&c)->n;
    if (from < n)
        copy_form(t.engine, sealer, from + 1, &form);
    match = content_match(&c, &t.engine->e.durable.at,
                          (struct bytes){form.data, form.len},
                          t.engine->e.rows[from + 1].chain, why);
    assert_true(match == CONTENT_IS_LAST || match == CONTENT_IS_BEFORE);
    to = match == CONTENT_IS_LAST ? c.last : c.before;
    assert_int_equal(to.n, n);
    assert_int_equal(cut_to(t.file, &to, why), GR_OK);
    snprintf(theirs, sizeof theirs, "%s/theirs", t.dir);
    copy_make(t.engine, n, theirs);
    assert_true(copy_same_bytes(t.file, theirs));
    buf_fini(&form);
    sealer_close(sealer);
}

static void live(unsigned seed)
{
    srandom(seed);
    note_active();
    open_active(&t);
    t.loop.work = work_random;
    t.loop.after_commit = tell;
    t.loop.during_stall = send_anything;
    if (seed % 2) {
        t.loop.read = read_silent;
        t.loop.reads_wait = always;
    }
    loop_run(&t.loop);
}

static void a_kill_leaves_at_most_one_turn_that_the_log_lacks(void **state)
{
    int one_more = 0;

    (void)state;
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned seed = 1; seed <= KILLS; seed++) {
        int64_t n, want = last_of_log() + 2 + (int64_t)(seed % 23);
        pid_t pid = fork();

        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            live(seed);
            _exit(0);
        }
        if (seed % 3 == 0) /* while a turn waits for the engine */
            want++;
        while (last_of_log() < want) {
            assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
            usleep(200);
        }
        if (seed % 3 == 0) {
            t.engine->silent = 1;
            while (!t.engine->waiting)
                usleep(100);
            usleep(1000 * (seed % 20));
        }
        if (seed % 5 == 0)
            usleep(seed * 37);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        t.engine->silent = t.engine->waiting = 0;
        n = last_of_log();
        assert_true(*told <= n); /* nobody was told of more */
        one_more += copy_has_one_more(t.engine, t.file, n, t.dir);
        if (n)
            cut(n);
        else
            copy_as_standby(t.engine, t.file, n);
    }
    print_message("%lld turns, %d of %d kills left one turn more\n",
                  (long long)last_of_log(), one_more, KILLS);
    assert_true(one_more > 0);
    munmap((void *)told, sizeof *told);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(each_turn_is_in_the_log_before_anything_is_sent),
        T(the_first_turn_has_what_the_start_wrote),
        T(the_file_says_which_turn_it_has),
        T(nothing_is_copied_before_the_first_turn_is_in),
        T(only_turns_that_are_in_the_log_are_copied),
        T(closing_copies_nothing),
        T(a_turn_without_rows_does_not_go_to_the_engine),
        T(a_turn_that_changes_only_the_schema_is_a_turn),
        T(turns_of_every_size_and_restarts_of_the_log_are_replicated),
        T(a_second_start_goes_on_with_the_chain),
        T(an_erasure_is_replicated),
        T(a_backup_is_made_beside_turns),
        T(a_rolled_back_turn_leaves_no_trace_in_the_log),
        T(a_rolled_back_first_turn_is_repeated_by_the_next),
        T(lost_replies_change_nothing),
        T(failed_statements_are_repeated_with_the_same_bytes),
        T(while_the_engine_is_silent_the_loop_reads_and_sends_nothing),
        T(while_the_engine_is_silent_the_fallback_thread_serves),
        T(while_the_engine_is_silent_the_loop_reads_on),
        T(a_turn_without_rows_waits_for_permission),
        T(an_idle_active_keeps_its_permission),
        T(the_state_says_what_failed_and_since_when),
        T(the_state_counts_the_standbys),
        T(an_heir_is_the_standby_that_reaches_the_most),
        T(one_that_is_not_ready_or_silent_or_reaches_nobody_is_no_heir),
        T(standbys_that_cannot_be_read_are_forgotten),
        T(standbys_are_not_read_while_the_engine_is_silent),
        T(a_loop_that_hangs_ends_the_beats),
        T(a_start_that_hangs_ends_the_beats),
        T(a_start_that_makes_progress_beats),
        T(a_release_gives_the_store_away),
        T(a_release_names_the_host_that_takes_over),
        T(a_release_for_nobody_in_particular_has_no_heir),
        T(a_release_without_a_response_ends_in_bounded_time),
        T(a_release_of_unknown_outcome_is_not_repeated),
        T(a_fenced_active_ends_with_75),
        T(a_log_that_lost_turns_ends_the_active_with_74),
        T(a_turn_that_the_log_lost_is_not_removed_by_a_start),
        T(a_turn_that_the_log_replaced_is_not_removed_by_a_start),
        T(a_fenced_active_notes_what_the_log_had),
        T(the_end_of_the_history_ends_the_active_with_74),
        T(sigterm_ends_a_wait_for_the_engine),
        T(sigterm_ends_a_wait_for_permission),
        T(a_kill_leaves_at_most_one_turn_that_the_log_lacks),
    };
    struct rlimit file = {FILE_MAX_BYTES, FILE_MAX_BYTES};

    setrlimit(RLIMIT_FSIZE, &file); /* a loop that never ends fills no disk */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
