/* Tests of one link without restores: each message arrives once and in order. P4. */
#include "link_pair.h"
#include "link_table.h"

static void messages_arrive_once_in_order(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    for (int i = 0; i < 10; i++) {
        end_write(&p->a, "b", MIDDLING, 100);
        both_turn(&p->a, &p->b);
    }
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 1000);
    assert_no_alarm(&p->a, &p->b);
    assert_int_equal(end_number(&p->a, "SELECT count(*) FROM link_log"), 0);
}

static void messages_flow_both_ways_at_once(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    for (int i = 0; i < 20; i++) {
        next_value = 1 + (uint64_t)i * 10;
        end_write(&p->a, "b", MIDDLING, 10);
        next_value = 1 + (uint64_t)i * 10;
        end_write(&p->b, "a", SMALL, 10);
        both_turn(&p->a, &p->b);
    }
    run_through(&p->a, &p->b);
    run_through(&p->b, &p->a);
    assert_exactly(&p->b, "a", 1, 200);
    assert_exactly(&p->a, "b", 1, 200);
    assert_no_alarm(&p->a, &p->b);
    assert_no_alarm(&p->b, &p->a);
}

static void a_row_leaves_only_after_its_commit(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    run_through(&p->a, &p->b);
    db_begin(p->a.db);
    end_put(&p->a, "b", SMALL);
    links_work(p->a.links);
    assert_null(mailbox_take(p->b.mailbox));
    sqlite3_exec(db_handle(p->a.db), "ROLLBACK", NULL, NULL, NULL);
    end_restart(&p->a);
    assert_int_equal(links_next(p->a.links, "b"), 1);
}

/* Row 1 says 10 or 11, its message 20: what arrives shows of which it was made. */
static void put_with_message(struct pair *p, int64_t row)
{
    struct buf message;

    buf_init(&message, FRAME_MAX_BYTES);
    put_message(&message, SMALL, 20);
    links_put_message(p->a.links, "b", SMALL, row,
                      (struct bytes){message.data, message.len});
    buf_fini(&message);
}

static void a_message_that_was_put_leaves_without_its_row(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 1);
    run_through(&p->a, &p->b); /* connected: the next turn can send */
    db_begin(p->a.db);
    put_with_message(p, 10);
    links_work(p->a.links);
    assert_int_equal(db_commit(p->a.db), GR_OK);
    run_through(&p->a, &p->b);
    assert_int_equal(end_number(&p->b, "SELECT max(value) FROM applied"), 20);
}

static void a_message_is_forgotten_with_its_turn(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 1);
    run_through(&p->a, &p->b);
    db_exec(p->a.db, "PRAGMA max_page_count = 1");
    db_begin(p->a.db);
    put_with_message(p, 10);
    for (int i = 0; i < 5000; i++)
        links_put(p->a.links, "b", SMALL, 999999);
    assert_int_equal(db_commit(p->a.db), GR_AGAIN);
    links_undo(p->a.links);
    db_exec(p->a.db, "PRAGMA max_page_count = 100000");
    db_begin(p->a.db);
    links_put(p->a.links, "b", SMALL, 11);
    links_work(p->a.links);
    assert_int_equal(db_commit(p->a.db), GR_OK);
    run_through(&p->a, &p->b);
    assert_int_equal(end_number(&p->b, "SELECT max(value) FROM applied"), 11);
}

/* Waits for batches until they have `messages` in all. Returns how many batches. */
static int count_batches(struct end *e, uint64_t messages)
{
    zmq_pollitem_t item = {zsock_resolve(mailbox_socket(e->mailbox)), -1,
                           ZMQ_POLLIN, 0};
    int batches = 0;

    for (uint64_t got = 0; got < messages;) {
        zframe_t *frame = mailbox_take(e->mailbox);
        struct wire_batch b;

        if (!frame) {
            assert_int_equal(zmq_poll(&item, 1, 5000), 1);
            continue;
        }
        if (wire_get_batch(&b, (struct bytes){zframe_data(frame),
                                              zframe_size(frame)}) == GR_OK &&
            b.count) {
            got += b.count;
            batches++;
        }
        zframe_destroy(&frame);
    }
    return batches;
}

/* Of three rows, two come with their message. */
static void rows_with_and_without_their_message_share_a_batch(void **state)
{
    enum { ROWS = 400 };
    struct pair *p = *state;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 1);
    run_through(&p->a, &p->b);
    end_write(&p->a, "b", SMALL, ROWS);
    links_flush(p->a.links);
    assert_int_equal(count_batches(&p->b, ROWS),
                     (ROWS + BATCH_MAX_COUNT - 1) / BATCH_MAX_COUNT);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 1 + ROWS);
    assert_no_alarm(&p->a, &p->b);
}

static void memory_of_a_large_turn_is_given_back(void **state)
{
    struct pair *p = *state;
    const struct link_turn *t;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 1);
    run_through(&p->a, &p->b);
    end_write(&p->a, "b", MIDDLING, 400);
    assert_int_equal(p->a.links->out_count, 1);
    t = &p->a.links->out[0]->turn;
    assert_true(t->messages.cap > 4 * TURN_MEMORY_KEPT_BYTES);
    run_through(&p->a, &p->b);
    assert_in_range(t->messages.cap, 0, TURN_MEMORY_KEPT_BYTES);
    end_write(&p->a, "b", SMALL, 2); /* later messages are kept as before */
    assert_true(t->messages.len > 0);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 403);
    assert_true(t->messages.cap > 0); /* a small buffer stays */
}

/* A storm of lost, doubled and reordered frames, both ways. */
static void storm(struct pair *p, unsigned lose, unsigned twice,
                  unsigned reorder, uint64_t seed)
{
    rig_seed = seed * 0x9e3779b97f4a7c15ULL | 1;
    p->a.lose_pm = p->b.lose_pm = lose;
    p->a.double_pm = p->b.double_pm = twice;
    p->a.reorder_pm = p->b.reorder_pm = reorder;
    for (int i = 0; i < 60; i++) {
        end_write(&p->a, "b", (int)(rig_random() % 2), 1 + (int)(i % 40));
        both_turn(&p->a, &p->b);
    }
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, next_value - 1);
    assert_no_alarm(&p->a, &p->b);
}

static void lost_frames_are_sent_again(void **state)
{
    pair_start(*state);
    storm(*state, 300, 0, 0, 1);
}

static void duplicate_frames_take_effect_once(void **state)
{
    pair_start(*state);
    storm(*state, 0, 500, 0, 2);
}

static void reordered_frames_are_put_in_order(void **state)
{
    pair_start(*state);
    storm(*state, 0, 0, 500, 3);
}

static void messages_survive_all_frame_faults_at_once(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    for (uint64_t seed = 10; seed < 20; seed++)
        storm(p, 200, 200, 300, seed);
}

static void
messages_survive_all_faults_with_an_archive_and_a_held_cursor(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    p->b.hold_from = "a";
    pair_start(p);
    for (uint64_t seed = 20; seed < 30; seed++)
        storm(p, 200, 200, 300, seed);
    assert_int_equal(end_number(&p->a, "SELECT count(*) FROM archive"),
                     next_value - 1);
}

static void a_full_window_waits_and_continues(void **state)
{
    struct pair *p = *state;

    p->b.hold_from = "a";
    p->b.settle_by_hand = true;
    pair_start(p);
    end_write(&p->a, "b", SMALL, WINDOW_MAX_COUNT + 1000);
    for (int i = 0; i < 400; i++)
        both_turn(&p->a, &p->b);
    /* taken is one window, and no message more */
    assert_int_equal(p->b.pending_count, WINDOW_MAX_COUNT);
    assert_int_equal(links_cursor(p->a.links, "b"), 0);
    p->b.settle_by_hand = false;
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, WINDOW_MAX_COUNT + 1000);
    assert_no_alarm(&p->a, &p->b);
}

static void a_window_counts_bytes_too(void **state)
{
    struct pair *p = *state;

    p->b.hold_from = "a";
    p->b.settle_by_hand = true;
    pair_start(p);
    end_write(&p->a, "b", LARGE, 200); /* 60 MB */
    for (int i = 0; i < 300; i++)
        both_turn(&p->a, &p->b);
    assert_in_range(p->b.pending_count, 50, WINDOW_MAX_BYTES / 300000 + 4);
    p->b.settle_by_hand = false;
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 200);
}

static void a_message_larger_than_a_batch_goes_alone(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    for (int i = 0; i < 3; i++) {
        end_write(&p->a, "b", SMALL, 5);
        end_write(&p->a, "b", HUGE_ONE, 2);
        end_write(&p->a, "b", LARGE, 6);
    }
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 39);
    assert_no_alarm(&p->a, &p->b);
}

static bool load_largest(void *self, const char *peer, uint64_t n, int kind,
                         int64_t ref, struct buf *out)
{
    static const char zeros[65536];

    (void)self, (void)peer, (void)n, (void)kind;
    put_le64(out, (uint64_t)ref);
    for (size_t left = MESSAGE_MAX_BYTES - 8; left;) {
        size_t part = left < sizeof zeros ? left : sizeof zeros;

        buf_put(out, zeros, part);
        left -= part;
    }
    return true;
}

static size_t largest_taken;

static gr_rc apply_largest(void *self, const char *from, uint64_t n,
                           struct bytes msg)
{
    (void)self, (void)from, (void)n;
    largest_taken = msg.n;
    return GR_OK;
}

static void the_largest_message_there_may_be_passes(void **state)
{
    static const struct links_ops largest = {.apply = apply_largest,
                                             .load = load_largest};
    struct pair *p = *state;
    struct end *ends[] = {&p->a, &p->b};

    pair_start(p);
    for (int i = 0; i < 2; i++) {
        links_close(ends[i]->links);
        ends[i]->links = links_open(ends[i]->db, ends[i]->mailbox, &largest,
                                    fresh_epoch(), ends[i]);
    }
    end_write(&p->a, "b", SMALL, 2);
    run_through(&p->a, &p->b);
    assert_int_equal(largest_taken, MESSAGE_MAX_BYTES);
}

static void a_receiver_without_space_gets_it_again(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 500);
    p->b.no_space = 3;
    run_through(&p->a, &p->b);
    end_write(&p->a, "b", SMALL, 1);
    p->b.no_space = 5;
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 501);
    assert_no_alarm(&p->a, &p->b);
}

/* So that others are heard meanwhile. */
static void messages_that_take_long_are_spread_over_turns(void **state)
{
    struct pair *p = *state;
    size_t turns;

    pair_start(p);
    p->b.slow_ms = 100;
    end_write(&p->a, "b", SMALL, BATCH_MAX_COUNT);
    turns = p->b.turns;
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, BATCH_MAX_COUNT);
    assert_no_alarm(&p->a, &p->b);
    assert_true(p->b.turns - turns >= BATCH_MAX_COUNT / 4);
}

static void an_unprocessable_message_is_kept_with_its_bytes(void **state)
{
    struct pair *p = *state;
    struct buf b;
    stmt *s;

    pair_start(p);
    end_write(&p->a, "b", MIDDLING, 30);
    p->b.refuse_value = 17;
    run_through(&p->a, &p->b);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied"), 29);
    assert_int_equal(link_of(&p->b, "a", false).unprocessable, 1);
    s = db_prepare(p->b.db, "SELECT peer, n, why, bytes, at_ms "
                            "FROM link_unprocessable");
    assert_true(db_step(p->b.db, s));
    assert_string_equal(col_text(s, 0), "a");
    assert_int_equal(col_i64(s, 1), 17);
    assert_string_equal(col_text(s, 2), "it cannot be decoded");
    assert_true(col_i64(s, 4) >= 1700000000000);
    buf_init(&b, 10000);
    put_message(&b, MIDDLING, 17);
    assert_int_equal(col_blob(s, 3).n, b.len);
    assert_memory_equal(col_blob(s, 3).p, b.data, b.len);
    assert_false(db_step(p->b.db, s));
    db_done(s);
    buf_fini(&b);
}

static void a_row_that_is_gone_is_an_empty_number(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    pair_start(p);
    end_write(&p->a, "b", SMALL, 20);
    db_exec(p->a.db, "DELETE FROM archive WHERE n = 9");
    end_restart(&p->a); /* its messages are no longer in memory */
    run_through(&p->a, &p->b);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied"), 19);
    assert_int_equal(end_number(&p->b, "SELECT n FROM link_in"), 20);
    assert_no_alarm(&p->a, &p->b);
}

/* What was logged since the last call of this, into text; from then on warnings
 * are kept. */
static void take_log(char *text, size_t size)
{
    static int file = -1, kept = -1;
    ssize_t n;

    if (file < 0) {
        file = fileno(tmpfile());
        kept = dup(STDERR_FILENO);
        log_open("test", LEVEL_WARN, false);
        dup2(file, STDERR_FILENO);
        return;
    }
    n = pread(file, text, size - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    log_open("test", LEVEL_ERROR, false);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(file);
    file = kept = -1;
}

/* As when an endpoint moves to another deliverer; also when frames are lost and
 * the rows are sent again. */
static void many_rows_that_are_gone_are_one_line(void **state)
{
    struct pair *p = *state;
    char text[16384];
    int lines = 0;

    p->a.own_to = "b";
    p->b.lose_pm = 300;
    pair_start(p);
    end_write(&p->a, "b", SMALL, 400);
    db_exec(p->a.db, "DELETE FROM archive WHERE n % 2 = 0");
    end_restart(&p->a); /* its messages are no longer in memory */
    take_log(NULL, 0);
    run_through(&p->a, &p->b);
    take_log(text, sizeof text);
    for (const char *at = text; (at = strstr(at, " missing; ")); at++)
        lines++;
    if (lines != 1)
        fail_msg("%d lines:\n%s", lines, text);
    assert_non_null(strstr(text, "peer=b rows=200 first_n=2 last_n=400"));
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied"), 200);
}

static void a_floor_never_passes_an_unacknowledged_row(void **state)
{
    struct pair *p = *state;

    p->a.keep_to = "b";
    pair_start(p);
    end_write(&p->a, "b", SMALL, 50);
    db_begin(p->a.db);
    links_floor(p->a.links, "b", 30);
    links_work(p->a.links);
    assert_int_equal(db_commit(p->a.db), GR_OK);
    assert_int_equal(links_floor_of(p->a.links, "b"), 1);
    run_through(&p->a, &p->b);
    assert_int_equal(end_number(&p->a, "SELECT count(*) FROM link_log"), 50);
    db_begin(p->a.db);
    links_floor(p->a.links, "b", 30);
    links_floor(p->a.links, "b", 10); /* never back */
    links_work(p->a.links);
    assert_int_equal(db_commit(p->a.db), GR_OK);
    assert_int_equal(links_floor_of(p->a.links, "b"), 30);
    assert_int_equal(end_number(&p->a, "SELECT min(n) FROM link_log"), 30);
    end_restart(&p->a);
    assert_int_equal(links_floor_of(p->a.links, "b"), 30);
    end_write(&p->a, "b", SMALL, 10);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 60);
    assert_no_alarm(&p->a, &p->b);
}

/* A full disk at the receiver: the turn is taken back, nothing is lost. */
static void messages_of_a_rolled_back_turn_are_applied_again(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    run_through(&p->a, &p->b);
    db_exec(p->b.db, "PRAGMA max_page_count = 24");
    end_write(&p->a, "b", SMALL, 20000);
    for (int i = 0; i < 300; i++)
        both_turn(&p->a, &p->b);
    assert_true(links_backlog(p->a.links, "b") > 0);
    db_exec(p->b.db, "PRAGMA max_page_count = 100000");
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 20000);
    assert_no_alarm(&p->a, &p->b);
}

static void a_full_disk_at_the_sender_gives_no_number_twice(void **state)
{
    struct pair *p = *state;
    uint64_t before;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 100);
    run_through(&p->a, &p->b);
    db_exec(p->a.db, "PRAGMA max_page_count = 1");
    before = links_next(p->a.links, "b");
    db_begin(p->a.db);
    for (int i = 0; i < 5000; i++)
        links_put(p->a.links, "b", SMALL, 999999);
    links_work(p->a.links);
    assert_int_equal(db_commit(p->a.db), GR_AGAIN);
    links_undo(p->a.links);
    assert_int_equal(links_next(p->a.links, "b"), before);
    db_exec(p->a.db, "PRAGMA max_page_count = 100000");
    end_write(&p->a, "b", SMALL, 100);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 200);
    assert_no_alarm(&p->a, &p->b);
}

/* Every start with rows is an epoch. More of them than are remembered. */
static void many_starts_while_the_peer_is_away(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 3);
    run_through(&p->a, &p->b);
    end_kill(&p->b);
    for (int i = 0; i < 700; i++) {
        end_restart(&p->a);
        end_write(&p->a, "b", SMALL, 1);
    }
    assert_int_equal(end_number(&p->a, "SELECT count(*) FROM link_out_epochs"),
                     701);
    end_start(&p->b);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 703);
    assert_no_alarm(&p->a, &p->b);
    assert_true(end_number(&p->a, "SELECT count(*) FROM link_out_epochs") <=
                513);
    assert_true(end_number(&p->b, "SELECT count(*) FROM link_in_epochs") <=
                513);
    end_restart(&p->b);
    end_restart(&p->a);
    end_write(&p->a, "b", SMALL, 1);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 704);
    assert_no_alarm(&p->a, &p->b);
}

static void an_idle_pair_asks_rarely(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 3);
    run_through(&p->a, &p->b);
    for (int i = 0; i < 50; i++) /* settle */
        both_turn(&p->a, &p->b);
    for (int i = 0, seen = 0; i < 1000; i++) { /* 20 s */
        zframe_t *frame;

        links_flush(p->a.links);
        clock_test_advance(20);
        while ((frame = mailbox_take(p->b.mailbox))) {
            seen++;
            zframe_destroy(&frame);
        }
        assert_true(seen <= 6);
    }
}

static int64_t cursor_on_disk(struct pair *p)
{
    return end_number(&p->a, "SELECT cursor FROM link_out");
}

static void until_acknowledged(struct pair *p, uint64_t n)
{
    for (int i = 0; links_cursor(p->a.links, "b") < n; i++) {
        assert_true(i < 100);
        both_turn(&p->a, &p->b);
    }
}

/* An fsync for the cursor alone would cost all that is under way. */
static void the_cursor_of_an_archive_waits_for_rows(void **state)
{
    struct pair *p = *state;

    p->a.own_to = "b";
    pair_start(p);
    end_write(&p->a, "b", SMALL, 5);
    until_acknowledged(p, 5);
    assert_int_equal(cursor_on_disk(p), 0);
    end_write(&p->a, "b", SMALL, 1); /* a turn with a row */
    assert_int_equal(cursor_on_disk(p), 5);
    until_acknowledged(p, 6);
    for (int i = 0; i < 60; i++) { /* none comes any more */
        both_turn(&p->a, &p->b);
        clock_test_advance(20);
    }
    assert_int_equal(cursor_on_disk(p), 6);
    end_write(&p->a, "b", SMALL, 3);
    until_acknowledged(p, 9);
    end_restart(&p->a); /* killed: the disk is behind */
    assert_int_equal(links_cursor(p->a.links, "b"), 6);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 9);
    assert_no_alarm(&p->a, &p->b);
}

/* The receiver does not read, so the pipe to it is full. When it reads, the sender's loop
 * wakes and it goes on: no clock is moved here, so nothing waits for a timer. */
static void a_full_pipe_continues_when_it_has_space(void **state)
{
    struct pair *p = *state;
    zmq_pollitem_t items[2];
    int written = 0;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 1);
    run_through(&p->a, &p->b);
    for (; written < 3000 && !mailbox_full(p->a.mailbox, items, 2); written++) {
        end_write(&p->a, "b", MIDDLING, 1);
        end_turn(&p->a);
    }
    assert_in_range(written, 64, 2999);
    assert_int_equal(zmq_poll(items, 1, 0), 0); /* there is no space */
    end_write(&p->a, "b", MIDDLING, 200);
    for (int i = 0; i < 2000 && !is_through(&p->a, &p->b); i++) {
        int n = mailbox_full(p->a.mailbox, items, 1);

        end_turn(&p->b);
        if (n)
            assert_true(zmq_poll(items, 1, 5000) >= 0);
        end_turn(&p->a);
    }
    for (int i = 0; i < 1000 && !is_through(&p->a, &p->b); i++) {
        zmq_pollitem_t inboxes[] = {
            {.socket = zsock_resolve(mailbox_socket(p->a.mailbox)),
             .events = ZMQ_POLLIN},
            {.socket = zsock_resolve(mailbox_socket(p->b.mailbox)),
             .events = ZMQ_POLLIN}};

        assert_true(zmq_poll(inboxes, 2, 5000) >= 0); /* frames on their way */
        end_turn(&p->b);
        end_turn(&p->a);
    }
    assert_true(is_through(&p->a, &p->b));
    assert_int_equal(mailbox_full(p->a.mailbox, items, 1), 0);
    assert_exactly(&p->b, "a", 1, (uint64_t)written + 201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(messages_arrive_once_in_order),
        PAIR_TEST(messages_flow_both_ways_at_once),
        PAIR_TEST(a_row_leaves_only_after_its_commit),
        PAIR_TEST(a_message_that_was_put_leaves_without_its_row),
        PAIR_TEST(a_message_is_forgotten_with_its_turn),
        PAIR_TEST(rows_with_and_without_their_message_share_a_batch),
        PAIR_TEST(memory_of_a_large_turn_is_given_back),
        PAIR_TEST(lost_frames_are_sent_again),
        PAIR_TEST(duplicate_frames_take_effect_once),
        PAIR_TEST(reordered_frames_are_put_in_order),
        PAIR_TEST(messages_survive_all_frame_faults_at_once),
        PAIR_TEST(
            messages_survive_all_faults_with_an_archive_and_a_held_cursor),
        PAIR_TEST(a_full_window_waits_and_continues),
        PAIR_TEST(a_window_counts_bytes_too),
        PAIR_TEST(a_message_larger_than_a_batch_goes_alone),
        PAIR_TEST(the_largest_message_there_may_be_passes),
        PAIR_TEST(a_receiver_without_space_gets_it_again),
        PAIR_TEST(messages_that_take_long_are_spread_over_turns),
        PAIR_TEST(an_unprocessable_message_is_kept_with_its_bytes),
        PAIR_TEST(a_row_that_is_gone_is_an_empty_number),
        PAIR_TEST(many_rows_that_are_gone_are_one_line),
        PAIR_TEST(a_floor_never_passes_an_unacknowledged_row),
        PAIR_TEST(messages_of_a_rolled_back_turn_are_applied_again),
        PAIR_TEST(a_full_disk_at_the_sender_gives_no_number_twice),
        PAIR_TEST(many_starts_while_the_peer_is_away),
        PAIR_TEST(an_idle_pair_asks_rarely),
        PAIR_TEST(the_cursor_of_an_archive_waits_for_rows),
        PAIR_TEST(a_full_pipe_continues_when_it_has_space),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
