/* Tests of a link that gets frames which no process of ours sends: none is applied, and
 * the link continues. */
#include "link_pair.h"
#include <time.h>

static gr_rc give(struct end *e, const void *p, size_t n)
{
    char *exact = malloc(n ? n : 1);
    gr_rc rc;

    memcpy(exact, p, n);
    rc = links_receive(e->links, (struct bytes){exact, n});
    free(exact);
    return rc;
}

static gr_rc give_batch(struct end *e, const struct wire_batch *b)
{
    struct buf out;
    gr_rc rc;

    buf_init(&out, FRAME_MAX_BYTES);
    wire_put_batch(&out, b);
    db_begin(e->db);
    rc = give(e, out.data, out.len);
    links_work(e->links);
    assert_int_equal(db_commit(e->db), GR_OK);
    buf_fini(&out);
    return rc;
}

static struct wire_batch good_batch(struct pair *p)
{
    return (struct wire_batch){
        .from = wire_text("a"),
        .inbox = wire_text(mailbox_address(p->a.mailbox, "")),
        .to = wire_text("b"),
        .epoch = 5,
        .first = 1};
}

static void a_batch_for_another_is_refused(void **state)
{
    struct pair *p = *state;
    struct wire_batch b;

    pair_start(p);
    b = good_batch(p);
    b.to = wire_text("c");
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.to = wire_text("");
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM link_in"), 0);
    b = good_batch(p);
    assert_int_equal(give_batch(&p->b, &b), GR_OK);
}

static void an_inconsistent_batch_is_refused_completely(void **state)
{
    struct pair *p = *state;
    struct wire_batch b;
    char long_name[100];

    pair_start(p);
    memset(long_name, 'x', sizeof long_name);
    b = good_batch(p);
    assert_int_equal(give_batch(&p->b, &b), GR_OK); /* the link is made */
    b.count = 1;
    b.messages = (struct bytes){"\xff\xff\xff\xff", 4};
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.messages = (struct bytes){"\x01\0\0", 3};
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.messages = (struct bytes){"\0\0\0\0\0", 5};
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.messages = (struct bytes){"\0\0\0\0", 4};
    b.count = UINT64_MAX;
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.count = 2;
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.count = 1;
    b.epoch = 0;
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.epoch = 5;
    b.first = 0;
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.first = UINT64_MAX;
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.first = 1;
    b.from = (struct bytes){long_name, sizeof long_name};
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.from = wire_text("");
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.from = wire_text("A\xff\n");
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.from = wire_text("a");
    b.inbox = wire_text("tcp://192.0.2.1:80");
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    b.inbox = wire_text("ipc:///etc/passwd");
    assert_int_equal(give_batch(&p->b, &b), GR_REFUSE);
    assert_int_equal(end_number(&p->b, "SELECT n FROM link_in"), 0);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM link_lost"), 0);
}

static void the_number_of_peers_is_bounded(void **state)
{
    struct pair *p = *state;
    int taken = 0;

    pair_start(p);
    for (int i = 0; i < 3000; i++) {
        struct wire_batch b = good_batch(p);
        char name[20];

        snprintf(name, sizeof name, "x%d", i);
        b.from = wire_text(name);
        taken += give_batch(&p->b, &b) == GR_OK;
    }
    assert_in_range(taken, 1000, 1100);
}

static void
an_acknowledgement_of_what_was_never_sent_moves_nothing(void **state)
{
    struct pair *p = *state;
    struct wire_acked a = {.from = wire_text("b"), .to = wire_text("a")};
    struct buf out;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 10);
    a.inbox = wire_text(mailbox_address(p->b.mailbox, ""));
    a.n = a.taken = 7;
    a.epoch = a.taken_epoch = 12345;
    buf_init(&out, 10000);
    wire_put_acked(&out, &a);
    db_begin(p->a.db);
    assert_int_equal(give(&p->a, out.data, out.len), GR_OK);
    links_work(p->a.links);
    assert_int_equal(db_commit(p->a.db), GR_OK);
    assert_int_equal(links_cursor(p->a.links, "b"), 0);
    buf_reset(&out);
    a.n = a.taken = UINT64_MAX;
    wire_put_acked(&out, &a);
    db_begin(p->a.db);
    assert_int_equal(give(&p->a, out.data, out.len), GR_OK);
    buf_reset(&out);
    a.n = 3;
    a.taken = 2;
    wire_put_acked(&out, &a);
    assert_int_equal(give(&p->a, out.data, out.len), GR_REFUSE);
    links_work(p->a.links);
    assert_int_equal(db_commit(p->a.db), GR_OK);
    buf_fini(&out);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 10);
}

/* What a flipped bit in a message's own bytes does is the process's to see;
 * here the message says nothing that could be checked. */
static gr_rc apply_any(void *self, const char *from, uint64_t n,
                       struct bytes msg)
{
    volatile uint8_t sum = 0;

    (void)self, (void)from, (void)n;
    for (size_t i = 0; i < msg.n; i++) /* all of it is there to be read */
        sum = (uint8_t)(sum + ((const uint8_t *)msg.p)[i]);
    return msg.n % 7 == 3 ? GR_REFUSE : GR_OK;
}

static void open_with(struct end *e, const struct links_ops *ops)
{
    links_close(e->links);
    e->links = links_open(e->db, e->mailbox, ops, fresh_epoch(), e);
}

/* Frames as they really are, changed at random, to both ends. */
static void fuzz(struct pair *p, int64_t for_ms, bool invent)
{
    time_t until = time(NULL) + for_ms / 1000;
    uint64_t done = 0;

    while (time(NULL) < until) {
        struct end *ends[] = {&p->a, &p->b};

        for (int k = 0; k < 2; k++) {
            struct end *e = ends[k];

            end_read(e);
            db_begin(e->db);
            (void)!links_resume(e->links);
            if (k == 0 && links_backlog(e->links, "b") < 100)
                for (int i = 0; i < 5; i++)
                    end_put(e, "b", MIDDLING);
            for (size_t i = 0; i < e->held_count; i++) {
                char *f = e->held[i].p;
                size_t n = e->held[i].n;

                for (int round = 0; round < 8; round++, done++) {
                    size_t cut = chance_pm(100) ? rig_random() % n : n;
                    char *copy = malloc(n);

                    memcpy(copy, f, n);
                    if (invent && chance_pm(200))
                        for (size_t j = 0; j < n; j++)
                            copy[j] = (char)rig_random();
                    for (unsigned m = 0; m < rig_random() % 4; m++)
                        copy[rig_random() %
                             (chance_pm(700) && n > 160 ? 160 : n)] =
                            (char)rig_random();
                    (void)!give(e, copy, cut);
                    free(copy);
                }
                free(f);
            }
            e->held_count = 0;
            links_work(e->links);
            assert_int_equal(db_commit(e->db), GR_OK);
            links_flush(e->links);
            db_tidy(e->db);
        }
        clock_test_advance(10);
    }
    assert_true(done > 1000);
}

static int64_t fuzz_ms(void)
{
    const char *s = getenv("GRAPNEL_FUZZ_MS");

    return s ? atoll(s) : 10000;
}

static void changed_frames_do_no_harm(void **state)
{
    static const struct links_ops any = {
        .apply = apply_any, .load = end_load, .rewound = end_rewound};
    struct pair *p = *state;

    log_open("test", LEVEL_ERROR + 1, false);
    pair_start(p);
    open_with(&p->a, &any);
    open_with(&p->b, &any);
    fuzz(p, fuzz_ms(), true);
    /* And the link still works, for those who speak sense. */
    end_kill(&p->a);
    end_kill(&p->b);
    end_start(&p->a);
    end_start(&p->b);
    db_exec(p->b.db, "DELETE FROM applied");
    end_write(&p->a, "b", SMALL, 50);
    run_through(&p->a, &p->b);
    assert_int_equal(end_number(&p->b, "SELECT max(value) FROM applied"),
                     (int64_t)next_value - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(a_batch_for_another_is_refused),
        PAIR_TEST(an_inconsistent_batch_is_refused_completely),
        PAIR_TEST(the_number_of_peers_is_bounded),
        PAIR_TEST(an_acknowledgement_of_what_was_never_sent_moves_nothing),
        PAIR_TEST(changed_frames_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
