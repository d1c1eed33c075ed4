/* P2: a dead letter is kept with everything, once, and its requeue is one
 * transaction with the change of its state. On a real file, read again by a
 * fresh instance; the link's link goes to a sequencer that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "dead_letters.h"
#include "dlqd.h"
#include "redirect.h"
#include "requeue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOW_MS = 1000000 };

struct rig {
    char dir[64];
    struct dlqd d;
    struct settings settings;
};

static const struct links_ops ops = {.apply = dead_letters_apply,
                                     .load = requeue_load,
                                     .rewound = requeue_rewound};

static void rig_open(struct rig *r)
{
    struct daemon *m = &r->d.daemon;
    char path[100];

    memset(&r->d, 0, sizeof r->d);
    snprintf(path, sizeof path, "%s/dlqd.db", r->dir);
    m->settings = &r->settings;
    m->loop.now_ms = NOW_MS;
    m->db = db_open(path, &dlqd_schema);
    m->mailbox = mailbox_open(r->dir, "dlqd");
    m->links = links_open(m->db, m->mailbox, &ops, random_id(), &r->d);
    store_open(&r->d.store, m->db);
    store_count(&r->d.store, &r->d.metrics[M_DEAD_LETTERS]);
}

static void rig_close(struct rig *r)
{
    struct daemon *m = &r->d.daemon;

    links_close(m->links);
    mailbox_close(m->mailbox);
    db_close(m->db);
}

static int setup(void **state)
{
    struct rig *r = gr_alloc(sizeof *r);

    snprintf(r->dir, sizeof r->dir, "/tmp/grapnel-test-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->settings.dlq_keep_ms = r->settings.history_keep_ms = 1000;
    rig_open(r);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    char *rm = gr_printf("rm -rf %s", r->dir);
    int rc;

    rig_close(r);
    rc = system(rm);
    free(rm);
    free(r);
    return rc;
}

/* What the disk says after the process was replaced. */
static void again(struct rig *r)
{
    rig_close(r);
    rig_open(r);
}

static struct wire_dead dead_letter(const char *id, uint64_t generation,
                                    int64_t dead_ms)
{
    return (struct wire_dead){.dead_letter_id = wire_text(id),
                              .generation = generation,
                              .event_id = wire_text("evt_1"),
                              .endpoint = wire_text("crm"),
                              .reason = wire_text("rejected"),
                              .source = wire_text("plane"),
                              .provider_id = wire_text("p1"),
                              .type = wire_text("issue.created"),
                              .workspace = wire_text("acme"),
                              .received_ms = 500,
                              .sequence = 7,
                              .previous = 6,
                              .clock = wire_text("issue.created=7"),
                              .attempts = 3 * generation,
                              .first_ms = 600,
                              .dead_ms = dead_ms,
                              .last_http_status = 400,
                              .last_error = wire_text("400 Bad Request"),
                              .last_response = {"no\0pe", 5},
                              .headers = {"", 0},
                              .body = {"{\"a\":\0}", 7}};
}

static gr_rc apply(struct rig *r, struct buf *b)
{
    gr_rc rc;

    db_begin(r->d.daemon.db);
    rc = dead_letters_apply(&r->d, "sequencer", 1,
                            (struct bytes){b->data, b->len});
    links_work(r->d.daemon.links);
    assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
    buf_fini(b);
    return rc;
}

static gr_rc send_dead(struct rig *r, struct wire_dead m)
{
    struct buf b;

    buf_init(&b, MESSAGE_MAX_BYTES);
    wire_put_dead(&b, &m);
    assert_false(b.failed);
    return apply(r, &b);
}

static gr_rc send_recovered(struct rig *r, const char *id, uint64_t generation)
{
    struct wire_recovered m = {
        .dead_letter_id = wire_text(id), .generation = generation, .at_ms = 9};
    struct buf b;

    buf_init(&b, MESSAGE_MAX_BYTES);
    wire_put_recovered(&b, &m);
    return apply(r, &b);
}

static bool requeue(struct rig *r, const char *id)
{
    char why[200];
    bool done;

    db_begin(r->d.daemon.db);
    done = requeue_dead_letter(&r->d, id, "ada", why);
    links_work(r->d.daemon.links);
    assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
    return done;
}

static int state_of(struct rig *r, const char *id)
{
    struct dead_letter l;
    int state;

    assert_true(store_find(&r->d.store, wire_text(id), &l));
    state = l.state;
    dead_letter_fini(&l);
    return state;
}

static int history_count(struct rig *r, int64_t dead_letter)
{
    struct history_row row;
    int n = 0;

    store_history(&r->d.store, dead_letter);
    while (store_history_next(&r->d.store, &row))
        n++;
    return n;
}

static void a_dead_letter_is_stored_completely(void **state)
{
    struct rig *r = *state;
    struct bytes headers, body;
    struct dead_letter l;

    assert_int_equal(send_dead(r, dead_letter("dlq_1", 1, 900)), GR_OK);
    again(r);
    assert_true(store_find(&r->d.store, wire_text("dlq_1"), &l));
    assert_string_equal(l.endpoint, "crm");
    assert_string_equal(l.clock, "issue.created=7");
    assert_int_equal(l.sequence, 7);
    assert_int_equal(l.attempts, 3);
    assert_int_equal(l.last_response.n, 5);
    assert_memory_equal(l.last_response.p, "no\0pe", 5);
    assert_int_equal(l.state, DEAD_LETTER_DEAD);
    assert_true(store_content(&r->d.store, l.n, &headers, &body));
    assert_int_equal(body.n, 7);
    assert_memory_equal(body.p, "{\"a\":\0}", 7);
    store_content_done(&r->d.store);
    assert_int_equal(history_count(r, l.n), 1);
    assert_int_equal(r->d.metrics[M_DEAD_LETTERS + DEAD_LETTER_DEAD], 1);
    dead_letter_fini(&l);
}

static void a_dead_letter_of_an_unrouted_event_has_no_endpoint(void **state)
{
    struct rig *r = *state;
    struct wire_dead m = dead_letter("dlq_1", 1, 900);
    struct dead_letter l;

    m.endpoint = wire_text("");
    assert_int_equal(send_dead(r, m), GR_OK);
    assert_true(store_find(&r->d.store, wire_text("dlq_1"), &l));
    assert_null(l.endpoint);
    dead_letter_fini(&l);
}

/* A dead letter's id may hold the names of its event and its endpoint. */
static void a_long_id_is_kept(void **state)
{
    char id[200];

    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = 0;
    assert_int_equal(send_dead(*state, dead_letter(id, 1, 900)), GR_OK);
    assert_int_equal(state_of(*state, id), DEAD_LETTER_DEAD);
}

static void a_repeated_message_counts_once(void **state)
{
    struct rig *r = *state;

    send_dead(r, dead_letter("dlq_1", 1, 900));
    send_dead(r, dead_letter("dlq_1", 1, 900));
    assert_true(requeue(r, "dlq_1"));
    send_dead(r, dead_letter("dlq_1", 1, 900));
    assert_int_equal(state_of(r, "dlq_1"), DEAD_LETTER_REQUEUED);
    send_recovered(r, "dlq_1", 1);
    send_recovered(r, "dlq_1", 1);
    assert_int_equal(state_of(r, "dlq_1"), DEAD_LETTER_RECOVERED);
    assert_int_equal(history_count(r, 1), 3);
    assert_int_equal(r->d.metrics[M_DUPLICATES], 3);
    assert_int_equal(r->d.metrics[M_MOVED + DEAD_LETTER_DEAD], 1);
    assert_int_equal(r->d.metrics[M_MOVED + DEAD_LETTER_REQUEUED], 1);
    assert_int_equal(r->d.metrics[M_MOVED + DEAD_LETTER_RECOVERED], 1);
    assert_int_equal(r->d.metrics[M_DEAD_LETTERS + DEAD_LETTER_DEAD], 0);
    assert_int_equal(r->d.metrics[M_DEAD_LETTERS + DEAD_LETTER_RECOVERED], 1);
}

/* The message names the generation that was dead, and carries the event. */
static void a_requeue_and_its_message_are_one_transaction(void **state)
{
    struct rig *r = *state;
    struct wire_requeued m;
    struct buf b;

    send_dead(r, dead_letter("dlq_1", 4, 900));
    assert_true(requeue(r, "dlq_1"));
    assert_false(requeue(r, "dlq_1"));
    assert_false(requeue(r, "dlq_2"));
    again(r);
    assert_int_equal(state_of(r, "dlq_1"), DEAD_LETTER_REQUEUED);
    assert_int_equal(links_backlog(r->d.daemon.links, "sequencer"), 1);
    buf_init(&b, MESSAGE_MAX_BYTES);
    assert_true(requeue_load(&r->d, "sequencer", 1, ROW_REQUEUE, 1, &b));
    assert_int_equal(wire_get_requeued(&m, (struct bytes){b.data, b.len}),
                     GR_OK);
    assert_true(wire_is(m.dead_letter_id, "dlq_1"));
    assert_int_equal(m.generation, 4);
    assert_true(wire_is(m.endpoint, "crm"));
    assert_int_equal(m.sequence, 7);
    assert_int_equal(m.attempts, 12);
    assert_int_equal(m.body.n, 7);
    buf_fini(&b);
}

/* A requeue that is still on its way when the dead letter has a new generation must not
 * bring that generation's dead letter back without an operator's word. */
static void a_requeue_of_an_older_generation_is_not_sent(void **state)
{
    struct rig *r = *state;
    struct dead_letter l;
    struct buf b;

    send_dead(r, dead_letter("dlq_1", 1, 900));
    requeue(r, "dlq_1");
    assert_int_equal(send_dead(r, dead_letter("dlq_1", 2, 950)), GR_OK);
    again(r);
    assert_int_equal(state_of(r, "dlq_1"), DEAD_LETTER_DEAD);
    buf_init(&b, MESSAGE_MAX_BYTES);
    assert_false(requeue_load(&r->d, "sequencer", 1, ROW_REQUEUE, 1, &b));
    assert_true(requeue(r, "dlq_1"));
    assert_true(requeue_load(&r->d, "sequencer", 2, ROW_REQUEUE, 2, &b));
    buf_fini(&b);
    assert_true(store_find(&r->d.store, wire_text("dlq_1"), &l));
    assert_int_equal(l.generation, 2);
    assert_int_equal(l.attempts, 6);
    dead_letter_fini(&l);
}

static void a_late_success_recovers_a_dead_letter(void **state)
{
    struct rig *r = *state;

    send_dead(r, dead_letter("dlq_1", 1, 900));
    assert_int_equal(send_recovered(r, "dlq_1", 1), GR_OK);
    assert_int_equal(state_of(r, "dlq_1"), DEAD_LETTER_RECOVERED);
    assert_false(requeue(r, "dlq_1"));
    assert_int_equal(send_recovered(r, "dlq_9", 1), GR_OK);
    assert_int_equal(r->d.metrics[M_UNKNOWN], 1);
}

/* After a restore the open requeues are sent again, each once. */
static void after_a_restore_requeues_are_sent_again(void **state)
{
    struct rig *r = *state;

    send_dead(r, dead_letter("dlq_1", 1, 900));
    send_dead(r, dead_letter("dlq_2", 1, 900));
    send_dead(r, dead_letter("dlq_3", 1, 900));
    requeue(r, "dlq_1");
    requeue(r, "dlq_2");
    send_recovered(r, "dlq_2", 1);
    db_begin(r->d.daemon.db);
    requeue_rewound(&r->d, "sequencer", false);
    assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
    again(r);
    db_begin(r->d.daemon.db);
    assert_int_equal(requeue_work(&r->d), -1);
    links_work(r->d.daemon.links);
    assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
    assert_int_equal(links_backlog(r->d.daemon.links, "sequencer"), 3);
    db_begin(r->d.daemon.db);
    assert_int_equal(requeue_work(&r->d), -1);
    assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
    assert_int_equal(links_backlog(r->d.daemon.links, "sequencer"), 3);
}

static void work(struct rig *r)
{
    db_begin(r->d.daemon.db);
    redirect_work(&r->d);
    links_work(r->d.daemon.links);
    assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
}

static void acknowledge_all(struct rig *r)
{
    db_exec(r->d.daemon.db, "UPDATE link_out SET cursor = next - 1");
    again(r);
    work(r);
}

/* Its dead letter stays with all until the sequencer has it; and then until it goes
 * itself, should the sequencer not have it any more. */
static void after_a_restore_redirects_are_sent_again(void **state)
{
    struct rig *r = *state;
    struct redirect_row row, same;
    int64_t old[4];
    char why[200];

    send_dead(r, dead_letter("dlq_1", 1, 900));
    db_begin(r->d.daemon.db);
    assert_true(redirect_dead_letter(&r->d, "dlq_1", "spare", 7, "me", why));
    assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
    work(r);
    assert_int_equal(links_backlog(r->d.daemon.links, "sequencer"), 1);
    assert_int_equal(store_redirects(&r->d.store, 1, &row), 1);
    assert_int_equal(store_old(&r->d.store, DEAD_LETTER_RESOLVED, NOW_MS + 1,
                               INT64_MAX, old, 4),
                     0);
    acknowledge_all(r);
    assert_int_equal(store_redirects(&r->d.store, 1, &same), 0);
    assert_int_equal(store_old(&r->d.store, DEAD_LETTER_RESOLVED, NOW_MS + 1,
                               INT64_MAX, old, 4),
                     1);
    db_begin(r->d.daemon.db);
    requeue_rewound(&r->d, "sequencer", false);
    assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
    work(r);
    assert_int_equal(links_backlog(r->d.daemon.links, "sequencer"), 1);
    assert_int_equal(store_redirects(&r->d.store, 1, &same), 1);
    assert_int_equal(same.action_id, row.action_id);
    acknowledge_all(r);
    store_drop(&r->d.store, row.dead_letter);
    assert_false(store_redirect(&r->d.store, row.n, &row));
}

static void an_unstorable_dead_letter_is_refused(void **state)
{
    struct rig *r = *state;
    struct wire_dead m = dead_letter("", 1, 900);
    struct buf b;

    assert_int_equal(send_dead(r, m), GR_REFUSE);
    m = dead_letter("dlq_1", 0, 900);
    assert_int_equal(send_dead(r, m), GR_REFUSE);
    m = dead_letter("dlq_1", UINT64_MAX, 900);
    assert_int_equal(send_dead(r, m), GR_REFUSE);
    buf_init(&b, 100);
    buf_puts(&b, "garbage");
    assert_int_equal(apply(r, &b), GR_REFUSE);
}

static void purge(struct rig *r)
{
    r->d.purge_due_ms = 0;
    do {
        r->d.daemon.loop.mono_ms = 1;
        db_begin(r->d.daemon.db);
        dead_letters_purge(&r->d);
        assert_int_equal(db_commit(r->d.daemon.db), GR_OK);
    } while (r->d.purge_due_ms == 0);
}

static void retention_never_drops_a_requeued_dead_letter(void **state)
{
    struct rig *r = *state;
    struct dead_letter l;
    char id[20];

    for (int i = 0; i < 200; i++) {
        snprintf(id, sizeof id, "dlq_%d", i);
        send_dead(r, dead_letter(id, 1, 900));
    }
    requeue(r, "dlq_5");
    requeue(r, "dlq_6");
    send_recovered(r, "dlq_6", 1);
    purge(r);
    assert_int_equal(r->d.metrics[M_PURGED], 0);
    r->d.daemon.loop.now_ms += 1001;
    purge(r);
    assert_int_equal(r->d.metrics[M_PURGED], 199);
    assert_int_equal(state_of(r, "dlq_5"), DEAD_LETTER_REQUEUED);
    assert_false(store_find(&r->d.store, wire_text("dlq_6"), &l));
    again(r);
    assert_int_equal(r->d.metrics[M_DEAD_LETTERS + DEAD_LETTER_DEAD], 0);
    assert_int_equal(r->d.metrics[M_DEAD_LETTERS + DEAD_LETTER_REQUEUED], 1);
    assert_int_equal(r->d.metrics[M_DEAD_LETTERS + DEAD_LETTER_RECOVERED], 0);
}

/* P2: the clock was years ahead when we started, or is set back while we run: a dead
 * letter goes when we have run for dlq.keep since. */
static void a_clock_that_is_ahead_removes_no_dead_letter(void **state)
{
    struct rig *r = *state;
    struct daemon *m = &r->d.daemon;
    const int64_t ahead = 1000 * DAY_MS, keep = 30 * DAY_MS;

    r->settings.dlq_keep_ms = keep;
    send_dead(r, dead_letter("dlq_1", 1, 900));
    spans_see(&m->retention.spans, NOW_MS);
    clock_test_set(NOW_MS + ahead);
    m->loop.now_ms = NOW_MS + ahead;
    spans_see(&m->retention.spans, m->loop.now_ms);
    m->loop.now_ms += keep - MINUTE_MS;
    clock_test_set(m->loop.now_ms);
    purge(r);
    m->loop.now_ms += 2 * MINUTE_MS;
    clock_test_set(NOW_MS + keep + MINUTE_MS);
    purge(r);
    assert_int_equal(r->d.metrics[M_PURGED], 0);
    clock_test_set(m->loop.now_ms);
    purge(r);
    assert_int_equal(r->d.metrics[M_PURGED], 1);
    clock_test_off();
}

static void the_list_is_newest_first_over_all_states(void **state)
{
    struct rig *r = *state;
    struct scan_row row;
    int64_t last = INT64_MAX;
    char id[20];
    int n = 0;

    for (int i = 0; i < 9; i++) {
        snprintf(id, sizeof id, "dlq_%d", i);
        send_dead(r, dead_letter(id, 1, 900 + i % 4));
        if (i % 3 == 0)
            requeue(r, id);
        if (i % 3 == 1)
            send_recovered(r, id, 1);
    }
    store_scan(&r->d.store, NULL, INT64_MAX, INT64_MAX);
    while (store_scan_next(&r->d.store, &row)) {
        assert_true(row.dead_ms * 100 + row.n < last);
        last = row.dead_ms * 100 + row.n;
        assert_string_equal(row.endpoint, "crm");
        n++;
    }
    store_scan_done(&r->d.store);
    assert_int_equal(n, 9);
    store_scan(&r->d.store, "dead", 902, 3);
    for (n = 0; store_scan_next(&r->d.store, &row); n++)
        assert_true(row.dead_ms < 902 || (row.dead_ms == 902 && row.n < 3));
    store_scan_done(&r->d.store);
    assert_int_equal(n, 2); /* of dlq_2, dlq_5, dlq_8 */
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_dead_letter_is_stored_completely),
        T(a_dead_letter_of_an_unrouted_event_has_no_endpoint),
        T(a_long_id_is_kept),
        T(a_repeated_message_counts_once),
        T(a_requeue_and_its_message_are_one_transaction),
        T(a_requeue_of_an_older_generation_is_not_sent),
        T(a_late_success_recovers_a_dead_letter),
        T(after_a_restore_requeues_are_sent_again),
        T(after_a_restore_redirects_are_sent_again),
        T(an_unstorable_dead_letter_is_refused),
        T(retention_never_drops_a_requeued_dead_letter),
        T(a_clock_that_is_ahead_removes_no_dead_letter),
        T(the_list_is_newest_first_over_all_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
