/* Tests of a link whose ends are restored from an older copy or start empty: at least
 * once, in order, with losses counted. P4. */
#include "link_pair.h"

/* The sender's archive is the truth: each of its rows was applied, the last
 * time in order, or is counted lost and was not. */
static void assert_whole(struct end *from, struct end *to, bool may_lose)
{
    stmt *s = NULL;
    int64_t at = 0, lost = 0;

    sqlite3_prepare_v2(db_handle(from->db),
                       "SELECT n, value FROM archive ORDER BY n", -1, &s, NULL);
    while (sqlite3_step(s) == SQLITE_ROW) {
        char sql[200];
        int64_t id;
        bool gone;

        snprintf(sql, sizeof sql,
                 "SELECT max(id) FROM applied WHERE value = %lld",
                 (long long)col_i64(s, 1));
        id = end_number(to, sql);
        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM link_lost WHERE from_n "
                 "<= %lld AND to_n >= %lld",
                 (long long)col_i64(s, 0), (long long)col_i64(s, 0));
        gone = end_number(to, sql) > 0;
        if (!id && !gone)
            fail_msg("row %lld (value %lld) is neither applied nor lost (seed "
                     "%llu)",
                     (long long)col_i64(s, 0), (long long)col_i64(s, 1),
                     (unsigned long long)rig_seed);
        lost += gone;
        if (!id)
            continue;
        if (id <= at)
            fail_msg("row %lld is out of order", (long long)col_i64(s, 0));
        at = id;
    }
    sqlite3_finalize(s);
    if (!may_lose)
        assert_int_equal(lost, 0);
}

static void go_on(struct pair *p)
{
    for (int i = 0; i < 10; i++) {
        end_write(&p->a, "b", SMALL, 5);
        both_turn(&p->a, &p->b);
    }
    run_through(&p->a, &p->b);
}

enum after { IDLE, ROWS };

/* The sender comes back from a copy made when it had 40 rows of 60. */
static void older_sender(struct pair *p, enum after after)
{
    pair_start(p);
    end_write(&p->a, "b", SMALL, 40);
    run_through(&p->a, &p->b);
    end_copy(&p->a, "copy");
    end_write(&p->a, "b", SMALL, 20);
    run_through(&p->a, &p->b);
    end_restore(&p->a, "copy");
    if (after == ROWS)
        end_write(&p->a, "b", SMALL, 35);
    run_through(&p->a, &p->b);
    go_on(p);
    assert_whole(&p->a, &p->b, false);
    assert_true(link_of(&p->a, "b", true).rewinds > 0);
    assert_int_equal(link_of(&p->b, "a", false).rewinds, 1);
    assert_int_equal(link_of(&p->b, "a", false).lost, 0);
    assert_true(p->a.rewinds == 1 && p->b.rewinds == 1);
}

static void an_older_sender_idle(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    older_sender(p, IDLE);
}

static void an_older_sender_with_new_rows(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    older_sender(p, ROWS);
}

static void an_older_sender_with_an_archive_and_a_held_receiver(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    p->b.hold_from = "a";
    older_sender(p, ROWS);
}

/* The receiver comes back from a copy made when it had 40 rows of 60. */
static void older_receiver(struct pair *p, enum after after, bool may_lose)
{
    struct link_state in;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 40);
    run_through(&p->a, &p->b);
    end_copy(&p->b, "copy");
    end_write(&p->a, "b", SMALL, 20);
    run_through(&p->a, &p->b);
    end_restore(&p->b, "copy");
    if (after == ROWS)
        end_write(&p->a, "b", SMALL, 35);
    run_through(&p->a, &p->b);
    in = link_of(&p->b, "a", false);
    assert_int_equal(in.lost, may_lose ? 20 : 0);
    if (may_lose) {
        assert_int_equal(end_number(&p->b, "SELECT from_n FROM link_lost"), 41);
        assert_int_equal(end_number(&p->b, "SELECT to_n FROM link_lost"), 60);
        assert_true(end_number(&p->b, "SELECT at_ms FROM link_lost") >=
                    1700000000000);
    }
    assert_int_equal(link_of(&p->a, "b", true).rewinds, 1);
    assert_int_equal(p->a.rewinds, 1);
    assert_int_equal(p->b.rewinds, may_lose);
    go_on(p);
    assert_whole(&p->a, &p->b, may_lose);
    assert_int_equal(link_of(&p->b, "a", false).lost, may_lose ? 20 : 0);
}

static void an_older_receiver_of_an_archive_idle(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    older_receiver(p, IDLE, false);
}

static void an_older_receiver_of_an_archive_with_new_rows(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    older_receiver(p, ROWS, false);
}

static void an_older_receiver_of_a_kept_log(void **state)
{
    struct pair *p = *state;

    p->a.keep_to = "b";
    p->a.archives = true;
    older_receiver(p, ROWS, false);
}

static void an_older_receiver_of_a_log_that_forgets_idle(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    older_receiver(p, IDLE, true);
}

static void an_older_receiver_of_a_log_that_forgets_with_new_rows(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    older_receiver(p, ROWS, true);
}

static void an_empty_receiver(struct pair *p, enum after after, int64_t lost)
{
    pair_start(p);
    end_write(&p->a, "b", SMALL, 60);
    run_through(&p->a, &p->b);
    if (p->a.own_to && lost) {
        db_begin(p->a.db);
        links_floor(p->a.links, "b", 20);
        links_work(p->a.links);
        assert_int_equal(db_commit(p->a.db), GR_OK);
    }
    end_restore(&p->b, NULL);
    if (after == ROWS)
        end_write(&p->a, "b", SMALL, 35);
    run_through(&p->a, &p->b);
    assert_int_equal(link_of(&p->b, "a", false).lost, lost);
    go_on(p);
    assert_whole(&p->a, &p->b, true);
    assert_int_equal(link_of(&p->b, "a", false).lost, lost);
    assert_true(link_of(&p->a, "b", true).rewinds > 0);
}

static void an_empty_receiver_of_a_whole_archive_gets_all(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    an_empty_receiver(p, IDLE, 0);
}

static void
an_empty_receiver_begins_at_the_cursor_of_a_later_archive(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    an_empty_receiver(p, ROWS, 60);
}

static void an_empty_receiver_begins_at_the_cursor_of_a_log_idle(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    an_empty_receiver(p, IDLE, 60);
}

static void
an_empty_receiver_begins_at_the_cursor_of_a_log_with_rows(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    an_empty_receiver(p, ROWS, 60);
}

/* What it gets is what is held, not only what lies past the cursor of when it was
 * empty. */
static void an_empty_receiver_can_be_restored_from_an_older_copy(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    pair_start(p);
    end_write(&p->a, "b", SMALL, 10);
    run_through(&p->a, &p->b);
    end_copy(&p->b, "copy");
    end_write(&p->a, "b", SMALL, 50);
    run_through(&p->a, &p->b);
    db_begin(p->a.db);
    links_floor(p->a.links, "b", 20);
    links_work(p->a.links);
    assert_int_equal(db_commit(p->a.db), GR_OK);
    end_restore(&p->b, NULL);
    run_through(&p->a, &p->b);
    assert_int_equal(link_of(&p->b, "a", false).lost, 60);
    end_restore(&p->b, "copy");
    run_through(&p->a, &p->b);
    assert_int_equal(link_of(&p->b, "a", false).lost, 9);
    assert_whole(&p->a, &p->b, true);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied"), 51);
}

static void give_acked(struct end *e, const struct wire_acked *a)
{
    struct buf out;

    buf_init(&out, FRAME_MAX_BYTES);
    wire_put_acked(&out, a);
    db_begin(e->db);
    assert_int_equal(links_receive(e->links, (struct bytes){out.data, out.len}),
                     GR_OK);
    links_work(e->links);
    assert_int_equal(db_commit(e->db), GR_OK);
    buf_fini(&out);
}

/* They waited in a pipe of a process that is dead, and are read when its successor has
 * long gone on. That they are repeated, and however late, proves nothing. */
static void old_acknowledgements_do_not_rewind(void **state)
{
    struct pair *p = *state;
    struct wire_acked old = {.from = wire_text("b"), .to = wire_text("a")};

    p->a.keep_to = "b";
    pair_start(p);
    end_write(&p->a, "b", SMALL, 40);
    run_through(&p->a, &p->b);
    old.n = old.taken = 40;
    old.epoch = old.taken_epoch = (uint64_t)end_number(
        &p->b, "SELECT epoch FROM link_in_epochs");
    end_restart(&p->b);
    old.inbox = wire_text(mailbox_address(p->b.mailbox, ""));
    end_write(&p->a, "b", SMALL, 20);
    run_through(&p->a, &p->b);
    for (int i = 0; i < 5; i++) {
        give_acked(&p->a, &old);
        clock_test_advance(1500);
    }
    old.n = old.taken = 0;
    old.epoch = old.taken_epoch = 0;
    for (int i = 0; i < 5; i++) {
        give_acked(&p->a, &old);
        clock_test_advance(1500);
        if (i == 2)
            run_through(&p->a, &p->b);
    }
    assert_int_equal(links_cursor(p->a.links, "b"), 60);
    go_on(p);
    assert_no_alarm(&p->a, &p->b);
    assert_int_equal(p->a.rewinds + p->b.rewinds, 0);
}

/* A row that the sender never had: one of both was restored. But who says so may be
 * dead since, and its successor restored too. */
static void an_old_disagreement_is_not_believed(void **state)
{
    struct pair *p = *state;
    struct wire_acked old = {.from = wire_text("b"), .to = wire_text("a")};

    pair_start(p);
    end_write(&p->a, "b", SMALL, 40);
    run_through(&p->a, &p->b);
    old.inbox = wire_text(mailbox_address(p->b.mailbox, ""));
    old.n = old.taken = 60;
    old.epoch = old.taken_epoch = 77;
    for (int i = 0; i < 5; i++) {
        give_acked(&p->a, &old);
        clock_test_advance(1500);
    }
    go_on(p);
    assert_no_alarm(&p->a, &p->b);
    assert_int_equal(p->a.rewinds + p->b.rewinds, 0);
}

static void an_empty_sender_begins_anew(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    pair_start(p);
    end_write(&p->a, "b", SMALL, 60);
    run_through(&p->a, &p->b);
    end_restore(&p->a, NULL);
    end_write(&p->a, "b", SMALL, 10);
    run_through(&p->a, &p->b);
    go_on(p);
    assert_whole(&p->a, &p->b, false);
    assert_int_equal(link_of(&p->b, "a", false).rewinds, 1);
    assert_int_equal(link_of(&p->b, "a", false).lost, 0);
}

static void an_empty_sender_that_is_idle_says_so(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    pair_start(p);
    end_write(&p->a, "b", SMALL, 60);
    run_through(&p->a, &p->b);
    end_restore(&p->a, NULL);
    end_restart(&p->b); /* which says where it is */
    for (int i = 0; i < 300; i++)
        both_turn(&p->a, &p->b);
    assert_int_equal(p->a.rewinds, 1);
    assert_int_equal(link_of(&p->b, "a", false).rewinds, 1);
    assert_int_equal(link_of(&p->b, "a", false).done, 0);
    go_on(p);
    assert_whole(&p->a, &p->b, false);
}

/* ---- everything at once ---- */

static void restore_or_copy(struct end *e)
{
    char path[200];

    snprintf(path, sizeof path, "%s/%s.copy", e->dir, e->name);
    if (chance_pm(400) || access(path, F_OK) != 0) {
        end_copy(e, path + strlen(e->dir) + 1);
        return;
    }
    end_restore(e, chance_pm(200) ? NULL : path + strlen(e->dir) + 1);
}

static int rows_left;

static void write_some(struct end *e)
{
    for (int n = (int)(rig_random() % 9); n > 0 && rows_left > 0; n--)
        rows_left--, end_put(e, "b", SMALL);
}

static void everything(struct pair *p, uint64_t seed)
{
    rig_seed = seed * 0x9e3779b97f4a7c15ULL | 1;
    rows_left = 300;
    while (rows_left > 0) {
        enum step at = chance_pm(50) ? rig_random() % STEPS : STEPS;

        end_turn_dying(&p->a, write_some, at);
        at = chance_pm(50) ? rig_random() % STEPS : STEPS;
        end_turn_dying(&p->b, NULL, at);
        clock_test_advance(5);
        if (chance_pm(60))
            restore_or_copy(chance_pm(500) ? &p->a : &p->b);
    }
    /* An empty store knows nobody to tell before it has a row. */
    end_write(&p->a, "b", SMALL, 1);
    run_through(&p->a, &p->b);
    end_write(&p->a, "b", SMALL, 1); /* new rows go through after all that */
    run_through(&p->a, &p->b);
    assert_whole(&p->a, &p->b, true);
}

static void run_everything(struct pair *p, uint64_t first, uint64_t seeds)
{
    p->a.lose_pm = p->b.lose_pm = 50;
    p->a.double_pm = p->b.double_pm = 100;
    p->a.reorder_pm = p->b.reorder_pm = 100;
    pair_start(p);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        everything(p, seed);
}

static uint64_t seeds(void)
{
    const char *s = getenv("GRAPNEL_SEEDS");

    return s ? (uint64_t)atoi(s) : 6;
}

static void everything_at_once_with_a_log(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    run_everything(p, 100, seeds());
}

static void everything_at_once_with_an_archive(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    run_everything(p, 200, seeds());
}

static void everything_at_once_with_a_held_cursor(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    p->b.hold_from = "a";
    run_everything(p, 300, seeds());
}

static void have_taken(struct pair *p, size_t count)
{
    for (int i = 0; i < ROUNDS_MAX && p->b.pending_count < count; i++)
        both_turn(&p->a, &p->b);
    assert_int_equal(p->b.pending_count, count);
}

/* What was taken and not settled is forgotten with its epoch, on disk by the turn
 * that takes such a row again: a turn that is taken back writes nothing. */
static void an_epoch_that_was_never_settled_is_forgotten(void **state)
{
    struct pair *p = *state;
    struct link_state l;
    int writes;

    p->b.hold_from = "a";
    p->b.settle_by_hand = true;
    pair_start(p);
    end_write(&p->a, "b", SMALL, 2);
    have_taken(p, 2);
    db_begin(p->b.db);
    end_settle(&p->b, 2);
    links_work(p->b.links);
    assert_int_equal(db_commit(p->b.db), GR_OK);
    end_copy(&p->a, "a.two");
    end_restart(&p->a);
    end_write(&p->a, "b", SMALL, 1);
    end_restart(&p->a);
    end_write(&p->a, "b", SMALL, 1);
    have_taken(p, 2);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM link_in_epochs"),
                     3);
    writes = sqlite3_total_changes(db_handle(p->b.db));
    p->b.pending_count = 0;
    links_undo(p->b.links);
    assert_int_equal(sqlite3_total_changes(db_handle(p->b.db)), writes);
    end_restore(&p->a, "a.two");
    end_write(&p->a, "b", SMALL, 3);
    have_taken(p, 3);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM link_in_epochs"),
                     2);
    p->b.settle_by_hand = false;
    run_through(&p->a, &p->b);
    end_restart(&p->b);
    end_write(&p->a, "b", SMALL, 1);
    run_through(&p->a, &p->b);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied"), 6);
    l = link_of(&p->b, "a", false);
    assert_int_equal(l.rewinds, 0);
    assert_int_equal(l.lost, 0);
}

/* What it has taken and both have does not come again; what only the former sender
 * had is void. */
static void a_held_receiver_keeps_what_both_have(void **state)
{
    struct pair *p = *state;

    p->a.archives = true;
    p->b.hold_from = "a";
    p->b.settle_by_hand = true;
    pair_start(p);
    end_write(&p->a, "b", SMALL, 20);
    have_taken(p, 20);
    db_begin(p->b.db);
    end_settle(&p->b, 10);
    links_work(p->b.links);
    assert_int_equal(db_commit(p->b.db), GR_OK);
    end_copy(&p->a, "a.copy");
    end_write(&p->a, "b", SMALL, 10);
    have_taken(p, 20);
    end_restore(&p->a, "a.copy");
    end_write(&p->a, "b", SMALL, 5);
    for (int i = 0; i < ROUNDS_MAX && !p->b.rewinds; i++)
        both_turn(&p->a, &p->b);
    p->b.settle_by_hand = false;
    run_through(&p->a, &p->b);
    assert_whole(&p->a, &p->b, false);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied"), 25);
    assert_int_equal(link_of(&p->b, "a", false).rewinds, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(an_older_sender_idle),
        PAIR_TEST(an_older_sender_with_new_rows),
        PAIR_TEST(an_older_sender_with_an_archive_and_a_held_receiver),
        PAIR_TEST(an_older_receiver_of_an_archive_idle),
        PAIR_TEST(an_older_receiver_of_an_archive_with_new_rows),
        PAIR_TEST(an_older_receiver_of_a_kept_log),
        PAIR_TEST(an_older_receiver_of_a_log_that_forgets_idle),
        PAIR_TEST(an_older_receiver_of_a_log_that_forgets_with_new_rows),
        PAIR_TEST(an_empty_receiver_of_a_whole_archive_gets_all),
        PAIR_TEST(an_empty_receiver_begins_at_the_cursor_of_a_later_archive),
        PAIR_TEST(an_empty_receiver_begins_at_the_cursor_of_a_log_idle),
        PAIR_TEST(an_empty_receiver_begins_at_the_cursor_of_a_log_with_rows),
        PAIR_TEST(an_empty_receiver_can_be_restored_from_an_older_copy),
        PAIR_TEST(old_acknowledgements_do_not_rewind),
        PAIR_TEST(an_old_disagreement_is_not_believed),
        PAIR_TEST(an_empty_sender_begins_anew),
        PAIR_TEST(an_empty_sender_that_is_idle_says_so),
        PAIR_TEST(an_epoch_that_was_never_settled_is_forgotten),
        PAIR_TEST(a_held_receiver_keeps_what_both_have),
        PAIR_TEST(everything_at_once_with_a_log),
        PAIR_TEST(everything_at_once_with_an_archive),
        PAIR_TEST(everything_at_once_with_a_held_cursor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
