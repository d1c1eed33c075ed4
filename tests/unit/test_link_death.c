/* Tests of a link whose ends die at each step of a turn, and of messages that crash the
 * receiver. P3, P4. */
#include "link_pair.h"
#include <signal.h>
#include <sys/wait.h>

static int rows_left;

static void write_some(struct end *e)
{
    int n = (int)(rig_random() % 9);

    for (; n > 0 && rows_left > 0; n--, rows_left--)
        end_put(e, "b", (int)(rig_random() % 2));
}

/* Values of rows that were not committed are not used again, so what must
 * arrive is what the sender's archive holds. */
static void assert_archive_arrived(struct end *from, struct end *to)
{
    stmt *a = NULL, *b = NULL;
    int64_t rows = 0;

    sqlite3_prepare_v2(db_handle(from->db),
                       "SELECT value FROM archive ORDER BY n", -1, &a, NULL);
    sqlite3_prepare_v2(db_handle(to->db),
                       "SELECT value FROM applied ORDER BY id", -1, &b, NULL);
    while (sqlite3_step(a) == SQLITE_ROW) {
        assert_int_equal(sqlite3_step(b), SQLITE_ROW);
        assert_int_equal(col_i64(a, 0), col_i64(b, 0));
        rows++;
    }
    assert_int_equal(sqlite3_step(b), SQLITE_DONE);
    assert_true(rows > 0);
    sqlite3_finalize(a);
    sqlite3_finalize(b);
}

static void die_at(struct pair *p, unsigned a_pm, unsigned b_pm, uint64_t seed)
{
    rig_seed = seed * 0x9e3779b97f4a7c15ULL | 1;
    rows_left = 600;
    while (rows_left > 0 || !is_through(&p->a, &p->b)) {
        enum step at = chance_pm(a_pm) ? rig_random() % STEPS : STEPS;

        end_turn_dying(&p->a, write_some, at);
        at = chance_pm(b_pm) ? rig_random() % STEPS : STEPS;
        end_turn_dying(&p->b, NULL, at);
        clock_test_advance(5);
    }
    assert_archive_arrived(&p->a, &p->b);
    assert_no_alarm(&p->a, &p->b);
}

static void the_sender_dies_at_every_step(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    pair_start(p);
    die_at(p, 200, 0, 1);
}

static void the_receiver_dies_at_every_step(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    pair_start(p);
    die_at(p, 0, 200, 2);
}

static void both_sides_die_and_frames_are_lost(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    p->a.lose_pm = p->b.lose_pm = 50;
    p->a.double_pm = p->b.double_pm = 100;
    p->a.reorder_pm = p->b.reorder_pm = 200;
    pair_start(p);
    for (uint64_t seed = 3; seed < 6; seed++)
        die_at(p, 100, 100, seed);
}

static void a_held_receiver_dies_at_every_step(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    p->b.hold_from = "a";
    pair_start(p);
    die_at(p, 0, 200, 7);
    die_at(p, 100, 100, 8);
}

/* ---- for real ----
 *
 * The receiver is another process: this program, started anew, as neither a
 * connection nor a thread may cross a fork. */

enum { CHILD_THROUGH = 0, CHILD_LATE = 1, CHILD_CRASHED = 99 };

/* Turns until row `rows` is in, but no more than `turns` that had something to
 * read: then it kills itself. */
static int child(const char *dir, int turns, uint64_t rows,
                 uint64_t crash_value)
{
    static struct end e;

    log_open("child", LEVEL_ERROR, false);
    clock_test_set(1700000000000);
    rig_seed ^= (uint64_t)getpid() << 20; /* each start is another epoch */
    e.crash_value = crash_value;
    end_make(&e, dir, "b");
    if (!crash_value)
        end_calm(&e);
    for (int idle = 0; idle < 60000;) {
        bool any = end_turn(&e);
        zmq_pollitem_t item = {zsock_resolve(mailbox_socket(e.mailbox)), -1,
                               ZMQ_POLLIN, 0};

        clock_test_advance(5);
        if (turns > 0 && any && --turns == 0)
            kill(getpid(), SIGKILL);
        if (link_of(&e, "a", false).done == rows)
            return CHILD_THROUGH;
        idle = any ? 0 : idle + 1;
        if (!any)
            zmq_poll(&item, 1, 1);
    }
    return CHILD_LATE;
}

/* Epochs the child while we send; returns its wait status. */
static int run_child(struct pair *p, int turns, int rows, int crash_value)
{
    char arg[3][24];
    char *argv[] = {"child", p->dir, arg[0], arg[1], arg[2], NULL};
    pid_t pid;
    int status;

    snprintf(arg[0], sizeof arg[0], "%d", turns);
    snprintf(arg[1], sizeof arg[1], "%d", rows);
    snprintf(arg[2], sizeof arg[2], "%d", crash_value);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        end_turn(&p->a);
        clock_test_advance(5);
        usleep(200);
    }
    return status;
}

/* Killed with -9 after its nth turn, for n = 1, 2, … until it gets through
 * before it is killed. */
static void a_receiver_killed_by_a_signal_continues(void **state)
{
    struct pair *p = *state;
    int status = 1;

    p->a.archives = true;
    end_make(&p->a, p->dir, "a");
    end_write(&p->a, "b", MIDDLING, 2000);
    for (int turns = 1; !WIFEXITED(status); turns++) {
        status = run_child(p, turns, 2000, 0);
        if (WIFEXITED(status))
            assert_int_equal(WEXITSTATUS(status), CHILD_THROUGH);
        else
            assert_int_equal(WTERMSIG(status), SIGKILL);
        assert_true(turns < 500);
    }
    end_make(&p->b, p->dir, "b");
    run_through(&p->a, &p->b);
    assert_archive_arrived(&p->a, &p->b);
    assert_no_alarm(&p->a, &p->b);
}

/* ---- a message that takes the process down ---- */

static int starts_until_through(struct pair *p, int rows, int crash_value)
{
    for (int starts = 0; starts < 20; starts++) {
        int status = run_child(p, 0, rows, crash_value);

        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == CHILD_THROUGH)
            return starts;
        assert_int_equal(WEXITSTATUS(status), CHILD_CRASHED);
    }
    return -1;
}

static void
a_message_that_crashes_is_set_aside_and_the_link_goes_on(void **state)
{
    struct pair *p = *state;
    struct link_state l;

    end_make(&p->a, p->dir, "a");
    end_write(&p->a, "b", SMALL, 400);
    assert_in_range(starts_until_through(p, 400, 150), 2, 6);
    end_make(&p->b, p->dir, "b");
    l = link_of(&p->b, "a", false);
    assert_int_equal(l.unprocessable, 1);
    assert_int_equal(l.lost, 0);
    assert_int_equal(l.rewinds, 0);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied"), 399);
    assert_int_equal(end_number(&p->b,
                                "SELECT n FROM link_unprocessable WHERE why = "
                                "'it crashed the process twice' AND "
                                "length(bytes) = 8"),
                     150);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied "
                                       "WHERE value = 150"),
                     0);
}

/* Orderly stops are no suspicion, however many at the same cursor. */
static void an_orderly_stop_quarantines_nothing(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 5);
    run_through(&p->a, &p->b);
    for (int i = 0; i < 5; i++) {
        db_begin(p->b.db);
        links_stopped(p->b.links);
        assert_int_equal(db_commit(p->b.db), GR_OK);
        end_restart(&p->b);
        assert_int_equal(end_number(&p->b, "SELECT stalls FROM link_in"), 0);
    }
    for (int i = 0; i < 5; i++)
        end_restart(&p->b);
    assert_int_equal(end_number(&p->b, "SELECT stalls FROM link_in"), 5);
    /* suspected: applied one by one, and still all of them */
    end_write(&p->a, "b", SMALL, 600);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 605);
    assert_no_alarm(&p->a, &p->b);
}

/* A turn of both; waits a little for messages that were sent. */
static void turn_of(struct pair *p, int then_ms)
{
    zmq_pollitem_t item = {zsock_resolve(mailbox_socket(p->b.mailbox)), -1,
                           ZMQ_POLLIN, 0};

    end_turn(&p->a);
    zmq_poll(&item, 1, 2);
    end_turn(&p->b);
    clock_test_advance(then_ms);
}

static int64_t tries_of(struct end *e)
{
    return end_number(e, "SELECT max(tries) FROM link_in");
}

/* As soon as it has noted that it tries a message, but within a second of its
 * start. */
static void be_killed_trying(struct pair *p)
{
    int64_t tries = tries_of(&p->b), started_ms = mono_ms();

    while (mono_ms() - started_ms < 900 && tries_of(&p->b) <= tries)
        turn_of(p, 10);
    end_restart(&p->b);
}

static void have_it_taken(struct pair *p)
{
    while (p->b.pending_count == 0 &&
           end_number(&p->b, "SELECT count(*) FROM link_unprocessable") == 0)
        turn_of(p, 200);
}

/* Kills that fall into the trial of a message are not its doing: those after
 * its commit do not count, though its cursor is held, and of those soon after a
 * start only one. */
static void frequent_kills_put_no_good_message_aside(void **state)
{
    enum { KILLS = 6 };
    struct pair *p = *state;

    p->b.hold_from = "a";
    p->b.settle_by_hand = true;
    pair_start(p);
    end_write(&p->a, "b", SMALL, 1);
    for (int kills = 0; kills < KILLS; kills++) {
        have_it_taken(p);
        end_restart(&p->b);
    }
    for (int kills = 0; kills < KILLS; kills++)
        be_killed_trying(p);
    have_it_taken(p);
    p->b.settle_by_hand = false;
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 1);
    assert_no_alarm(&p->a, &p->b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(the_sender_dies_at_every_step),
        PAIR_TEST(the_receiver_dies_at_every_step),
        PAIR_TEST(both_sides_die_and_frames_are_lost),
        PAIR_TEST(a_held_receiver_dies_at_every_step),
        PAIR_TEST(a_receiver_killed_by_a_signal_continues),
        PAIR_TEST(a_message_that_crashes_is_set_aside_and_the_link_goes_on),
        PAIR_TEST(an_orderly_stop_quarantines_nothing),
        PAIR_TEST(frequent_kills_put_no_good_message_aside),
    };

    if (argc == 5 && strcmp(argv[0], "child") == 0)
        return child(argv[1], atoi(argv[2]), strtoull(argv[3], NULL, 10),
                     strtoull(argv[4], NULL, 10));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
