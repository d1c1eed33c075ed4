/* Tests of loop: commit, then send; roll back when the disk is full; signals between
 * turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "log.h"
#include "loop.h"
#include <czmq.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *const steps[] = {"CREATE TABLE t(v INTEGER, pad BLOB)"};
static const struct db_schema schema = {.steps = steps, .count = 1};

static struct test {
    char dir[64], file[100];
    struct loop loop;
    struct db *db;
    stmt *insert;
    char story[4096];
    int turns, pipe[2], watch, sent;
    zsock_t *push, *pull;
    bool big;
} t;

static void note(const char *what)
{
    strncat(t.story, what, sizeof t.story - strlen(t.story) - 1);
}

static int setup(void **state)
{
    (void)state;
    memset(&t, 0, sizeof t);
    snprintf(t.dir, sizeof t.dir, "/tmp/loop-XXXXXX");
    assert_non_null(mkdtemp(t.dir));
    snprintf(t.file, sizeof t.file, "%s/x.db", t.dir);
    log_open("test", LEVEL_ERROR, false);
    loop_prepare(&t.loop); /* before the store's thread */
    t.db = db_open(t.file, &schema);
    t.insert = db_prepare(t.db, "INSERT INTO t VALUES(?, zeroblob(?))");
    t.loop.self = &t;
    t.loop.db = t.db;
    return 0;
}

static int teardown(void **state)
{
    char rm[100];
    sigset_t none;

    (void)state;
    db_close(t.db);
    close(t.loop.signal_fd);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(rm, sizeof rm, "rm -rf %s", t.dir);
    return system(rm) == 0 ? 0 : -1;
}

static int64_t rows_seen_by_others(void)
{
    sqlite3 *h = NULL;
    sqlite3_stmt *s = NULL;
    int64_t n = -1;

    sqlite3_open_v2(t.file, &h, SQLITE_OPEN_READONLY, NULL);
    sqlite3_prepare_v2(h, "SELECT count(*) FROM t", -1, &s, NULL);
    if (sqlite3_step(s) == SQLITE_ROW)
        n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(h);
    return n;
}

static void insert(int64_t bytes)
{
    bind_i64(t.insert, 1, t.turns);
    bind_i64(t.insert, 2, bytes);
    db_run(t.db, t.insert);
}

/* ---- the order ---- */

static int work_once(void *self)
{
    (void)self;
    note("work ");
    insert(10);
    assert_int_equal(rows_seen_by_others(), t.turns);
    t.turns++;
    return 0;
}

static void after_commit(void *self)
{
    (void)self;
    note("send ");
    assert_int_equal(rows_seen_by_others(), t.turns);
    t.loop.done = t.turns == 3;
}

static void a_turn_commits_then_sends(void **state)
{
    (void)state;
    t.loop.work = work_once;
    t.loop.after_commit = after_commit;
    loop_run(&t.loop);
    assert_string_equal(t.story, "work send work send work send ");
}

/* ---- a full disk ---- */

static int work_big(void *self)
{
    (void)self;
    note("work ");
    assert_int_equal(t.loop.undone, t.turns == 1);
    if (++t.turns == 1) {
        sqlite3_exec(db_handle(t.db), "PRAGMA max_page_count = 10", NULL, NULL,
                     NULL);
        insert(1000000);
    } else {
        insert(10);
    }
    return 0;
}

static void send_and_leave(void *self)
{
    (void)self;
    note("send ");
    t.loop.done = true;
}

static void undo(void *self)
{
    (void)self;
    note("undo ");
    assert_int_equal(rows_seen_by_others(), 0);
}

static void a_turn_without_space_is_rolled_back_and_sends_nothing(void **state)
{
    (void)state;
    t.loop.work = work_big;
    t.loop.after_commit = send_and_leave;
    t.loop.undo = undo;
    loop_run(&t.loop);
    assert_string_equal(t.story, "work undo work send ");
}

/* ---- reading on while it commits ---- */

static int work_and_read_on(void *self)
{
    (void)self;
    note("work ");
    insert(10);
    t.turns++;
    t.loop.read_on = t.turns != 2;
    return 0;
}

static int work_big_and_read_on(void *self)
{
    int ms = work_big(self);

    t.loop.read_on = true;
    return ms;
}

static void note_read_on(void *self)
{
    (void)self;
    if (!strstr(t.story + strlen(t.story) - strlen("read "), "read "))
        note("read ");
}

static void the_loop_reads_while_it_commits_and_sends_after(void **state)
{
    (void)state;
    assert_int_equal(pipe(t.pipe), 0);
    t.loop.read_on_fd = t.pipe[0];
    t.loop.work = work_and_read_on;
    t.loop.after_commit = after_commit;
    t.loop.meanwhile = note_read_on;
    loop_run(&t.loop);
    assert_string_equal(t.story, "work read send work send work read send ");
    close(t.pipe[0]);
    close(t.pipe[1]);
}

static void a_turn_without_space_is_rolled_back_after_reading_on(void **state)
{
    (void)state;
    assert_int_equal(pipe(t.pipe), 0);
    t.loop.read_on_fd = t.pipe[0];
    t.loop.work = work_big_and_read_on;
    t.loop.after_commit = send_and_leave;
    t.loop.undo = undo;
    t.loop.meanwhile = note_read_on;
    loop_run(&t.loop);
    assert_string_equal(t.story, "work read undo work read send ");
    close(t.pipe[0]);
    close(t.pipe[1]);
}

/* ---- signals ---- */

static int work_signals(void *self)
{
    (void)self;
    note(t.loop.stopping ? "stopping " : "work ");
    switch (t.turns++) {
    case 0:
        kill(getpid(), SIGHUP);
        break;
    case 1:
        kill(getpid(), SIGTERM);
        break;
    default:
        t.loop.done = t.loop.stopping;
    }
    return -1; /* the signal wakes it */
}

static void send_nothing(void *self)
{
    (void)self;
}

static void reload(void *self)
{
    (void)self;
    note("reload ");
}

static void signals_come_between_turns(void **state)
{
    (void)state;
    t.loop.work = work_signals;
    t.loop.after_commit = send_nothing;
    t.loop.reload = reload;
    loop_run(&t.loop);
    assert_string_equal(t.story, "work reload work stopping ");
}

static void a_broken_pipe_is_an_error_and_ends_no_process(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(write(ends[1], "x", 1), -1);
    close(ends[1]);
}

static void files_may_be_as_many_as_the_hard_limit(void **state)
{
    struct rlimit files;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_true(files.rlim_cur == files.rlim_max);
}

/* ---- what wakes it ---- */

static int work_watching(void *self)
{
    char c;

    (void)self;
    if (t.turns++ == 0) {
        assert_false(loop_ready(&t.loop, t.watch));
        assert_int_equal(write(t.pipe[1], "x", 1), 1);
        return 60000;
    }
    assert_true(loop_ready(&t.loop, t.watch));
    assert_int_equal(read(t.pipe[0], &c, 1), 1);
    t.loop.done = true;
    return 0;
}

static void a_descriptor_wakes_it(void **state)
{
    int64_t began = mono_ms();

    (void)state;
    assert_int_equal(pipe(t.pipe), 0);
    t.watch = loop_watch_fd(&t.loop, t.pipe[0]);
    t.loop.work = work_watching;
    t.loop.after_commit = send_nothing;
    loop_run(&t.loop);
    assert_in_range(mono_ms() - began, 0, 5000);
    close(t.pipe[0]);
    close(t.pipe[1]);
}

/* A message stays in the socket for two turns. Its signal has been consumed before the first wait, as sending on a socket may do. */
static int work_receiving(void *self)
{
    bool ready = loop_socket_ready(&t.loop, t.pull);
    char *text;

    (void)self;
    switch (t.turns++) {
    case 0:
        assert_false(ready);
        assert_int_equal(zstr_send(t.push, "x"), 0);
        while (!(zsock_events(t.pull) & ZMQ_POLLIN))
            ;
        return 60000;
    case 1:
        assert_true(ready);
        return 60000;
    case 2:
        assert_true(ready);
        text = zstr_recv(t.pull);
        assert_string_equal(text, "x");
        zstr_free(&text);
        return 20;
    case 3:
        assert_false(ready);
        assert_int_equal(zstr_send(t.push, "y"), 0); /* comes meanwhile */
        return 60000;
    default:
        assert_true(ready);
        t.loop.done = true;
        return 0;
    }
}

static void a_message_wakes_it_until_it_is_received(void **state)
{
    int64_t began = mono_ms();

    (void)state;
    t.pull = zsock_new(ZMQ_PULL);
    t.push = zsock_new(ZMQ_PUSH);
    assert_int_equal(zsock_bind(t.pull, "ipc://%s/x.inbox", t.dir), 0);
    assert_int_equal(zsock_connect(t.push, "ipc://%s/x.inbox", t.dir), 0);
    loop_watch_socket(&t.loop, t.pull);
    assert_true(loop_socket_ready(&t.loop, t.push)); /* it is not watched */
    t.loop.work = work_receiving;
    t.loop.after_commit = send_nothing;
    loop_run(&t.loop);
    assert_in_range(mono_ms() - began, 0, 5000);
    zsock_destroy(&t.push);
    zsock_destroy(&t.pull);
}

/* ---- a message that may wait ---- */

enum { LONG_MS = 60000, SHORT_MS = 50 };

static int64_t began_ms;

static int64_t since_turn_before(void)
{
    int64_t ms = mono_ms() - began_ms;

    began_ms = mono_ms();
    return ms;
}

static int work_patiently(void *self)
{
    int64_t took_ms = since_turn_before();
    char byte;

    (void)self;
    if (t.turns)
        assert_true(loop_socket_ready(&t.loop, t.pull));
    t.loop.patient_ms = LONG_MS;
    switch (t.turns++) {
    case 0:
        assert_int_equal(zstr_send(t.push, "x"), 0);
        while (!(zsock_events(t.pull) & ZMQ_POLLIN))
            ;
        return SHORT_MS;
    case 1: /* not before the time that work() asked for */
        assert_in_range(took_ms, SHORT_MS, LONG_MS / 2);
        assert_int_equal(write(t.pipe[1], "x", 1), 1);
        return LONG_MS;
    case 2: /* as soon as there is other input */
        assert_in_range(took_ms, 0, LONG_MS / 2);
        assert_true(loop_ready(&t.loop, t.watch));
        assert_int_equal(read(t.pipe[0], &byte, 1), 1);
        t.loop.patient_ms = SHORT_MS;
        return -1;
    case 3: /* without any, after its time */
        assert_in_range(took_ms, SHORT_MS, LONG_MS / 2);
        t.loop.patient_ms = 0;
        return LONG_MS;
    case 4: /* at once, as it may not wait */
        assert_in_range(took_ms, 0, LONG_MS / 2);
        kill(getpid(), SIGTERM);
        return LONG_MS;
    default: /* a stop does not wait for it */
        assert_in_range(took_ms, 0, LONG_MS / 2);
        assert_true(t.loop.stopping);
        t.loop.done = t.turns == 7;
        return LONG_MS;
    }
}

static void a_patient_message_waits_for_other_input(void **state)
{
    (void)state;
    t.pull = zsock_new(ZMQ_PULL);
    t.push = zsock_new(ZMQ_PUSH);
    assert_int_equal(zsock_bind(t.pull, "ipc://%s/x.inbox", t.dir), 0);
    assert_int_equal(zsock_connect(t.push, "ipc://%s/x.inbox", t.dir), 0);
    assert_int_equal(pipe(t.pipe), 0);
    t.loop.watch[loop_watch_socket(&t.loop, t.pull)].patient = true;
    t.watch = loop_watch_fd(&t.loop, t.pipe[0]);
    t.loop.work = work_patiently;
    t.loop.after_commit = send_nothing;
    loop_run(&t.loop);
    zsock_destroy(&t.push);
    zsock_destroy(&t.pull);
    close(t.pipe[0]);
    close(t.pipe[1]);
}

/* Receives what was sent, when it is told to. */
static void *drain(void *arg)
{
    zsock_t *pull = arg;
    char c;

    if (read(t.pipe[0], &c, 1) == 1)
        for (int i = 0; i < t.sent; i++)
            zframe_destroy(&(zframe_t *){zframe_recv(pull)});
    return NULL;
}

static int watch_full(void *self, zmq_pollitem_t *items, int max)
{
    (void)self;
    assert_in_range(max, 1, LOOP_MORE_MAX);
    items[0] = (zmq_pollitem_t){.socket = zsock_resolve(t.push),
                                .events = ZMQ_POLLOUT};
    if (t.turns == 1) /* full: the loop is about to wait for space */
        assert_int_equal(write(t.pipe[1], "x", 1), 1);
    return t.turns ? 1 : 0;
}

static int work_full(void *self)
{
    (void)self;
    if (t.turns++ == 0) {
        while (zsock_events(t.push) & ZMQ_POLLOUT) {
            assert_int_equal(zsock_send(t.push, "s", "x"), 0);
            t.sent++;
        }
        return 60000;
    }
    /* A wait may end early. The one with space must not last. */
    t.loop.done = t.turns > 2 && zsock_events(t.push) & ZMQ_POLLOUT;
    return 60000;
}

static void a_peer_that_has_space_again_wakes_it(void **state)
{
    int64_t began = mono_ms();
    pthread_t thread;

    (void)state;
    assert_int_equal(pipe(t.pipe), 0);
    t.pull = zsock_new(ZMQ_PULL);
    t.push = zsock_new(ZMQ_PUSH);
    zsock_set_rcvhwm(t.pull, 1);
    zsock_set_sndhwm(t.push, 1);
    assert_int_equal(zsock_bind(t.pull, "inproc://full"), 0);
    assert_int_equal(zsock_connect(t.push, "inproc://full"), 0);
    assert_int_equal(pthread_create(&thread, NULL, drain, t.pull), 0);
    t.loop.more_items = watch_full;
    t.loop.work = work_full;
    t.loop.after_commit = send_nothing;
    loop_run(&t.loop);
    assert_in_range(mono_ms() - began, 0, 5000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    zsock_destroy(&t.push);
    zsock_destroy(&t.pull);
    close(t.pipe[0]);
    close(t.pipe[1]);
}

static int work_times(void *self)
{
    (void)self;
    switch (t.turns++) {
    case 0:
        assert_false(loop_spent(&t.loop));
        usleep(150 * 1000);
        assert_true(loop_spent(&t.loop));
        return 40;
    case 1:
        /* The turn before stood still, the wait did not. */
        assert_in_range(t.loop.mono_ms - t.loop.awake_ms, 150, 2000);
        return 40;
    default:
        assert_true(t.loop.mono_ms > 0 && t.loop.now_ms > 0);
        t.loop.done = true;
        return 0;
    }
}

static void the_loop_sleeps_as_asked_and_notices_stalls(void **state)
{
    int64_t began = mono_ms();

    (void)state;
    t.loop.work = work_times;
    t.loop.after_commit = send_nothing;
    loop_run(&t.loop);
    assert_in_range(mono_ms() - began, 150 + 2 * 40 - 5, 5000);
}

/* ---- while processors are contended ---- */

enum { MAY_WAIT_US = 50 * 1000 };

static int64_t began_us[8];

/* A look is not due within the test, so the steps are the test's. */
static int work_paced(void *self)
{
    (void)self;
    t.loop.pace.steps = t.turns == 2 ? 0 : TURN_PACE_STEPS;
    t.loop.pace.processor.looked_ms = t.loop.pace.judged_ms = mono_ms();
    t.loop.may_wait_us = t.turns == 1 ? 0 : MAY_WAIT_US;
    began_us[t.turns] = t.loop.turn_us;
    insert(10);
    return 0;
}

static void after_paced(void *self)
{
    (void)self;
    if (t.turns == 1 || t.turns == 2)
        assert_false(loop_will_wait(&t.loop));
    t.loop.done = ++t.turns == 5;
    assert_false(t.loop.done && loop_will_wait(&t.loop));
}

static void
a_turn_waits_only_if_it_may_and_processors_are_contended(void **state)
{
    (void)state;
    t.loop.work = work_paced;
    t.loop.after_commit = after_paced;
    loop_run(&t.loop);
    assert_true(began_us[1] - began_us[0] >= MAY_WAIT_US);
    assert_true(began_us[4] - began_us[3] >= MAY_WAIT_US);
}

static int work_paced_and_stopping(void *self)
{
    (void)self;
    t.loop.pace.steps = TURN_PACE_STEPS;
    t.loop.stopping = true;
    t.loop.may_wait_us = INT64_MAX / TURN_PACE_STEPS;
    assert_false(loop_will_wait(&t.loop));
    t.loop.done = ++t.turns == 3;
    return 0;
}

static void a_stop_does_not_wait_for_a_processor(void **state)
{
    (void)state;
    t.loop.work = work_paced_and_stopping;
    t.loop.after_commit = send_nothing;
    loop_run(&t.loop);
    assert_int_equal(t.turns, 3);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_turn_commits_then_sends),
        T(a_turn_without_space_is_rolled_back_and_sends_nothing),
        T(the_loop_reads_while_it_commits_and_sends_after),
        T(a_turn_without_space_is_rolled_back_after_reading_on),
        T(signals_come_between_turns),
        T(a_broken_pipe_is_an_error_and_ends_no_process),
        T(files_may_be_as_many_as_the_hard_limit),
        T(a_descriptor_wakes_it),
        T(a_message_wakes_it_until_it_is_received),
        T(a_patient_message_waits_for_other_input),
        T(a_peer_that_has_space_again_wakes_it),
        T(the_loop_sleeps_as_asked_and_notices_stalls),
        T(a_turn_waits_only_if_it_may_and_processors_are_contended),
        T(a_stop_does_not_wait_for_a_processor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
