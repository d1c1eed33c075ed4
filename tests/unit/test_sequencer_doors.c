/* What the doors have shown, when a turn is taken back. The whole of doors is in
 * flow/test_order and crash/test_order. */
#include "doors.h"
#include "sequencer.h"
#include "store.h"
#include "store_order.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

enum { TAKEN = 5, RECEIVED_MS = 1000 };

static char folder[40];
static struct sequencer q;

/* With TAKEN messages taken from a door. */
static int begin(void **state)
{
    static const struct hop_ops nothing = {0};
    char *path;

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gr-doors-XXXXXX");
    assert_non_null(mkdtemp(folder));
    path = gr_printf("%s/sequencer.db", folder);
    q = (struct sequencer){0};
    q.d.run = 7;
    q.d.db = db_open(path, &sequencer_schema);
    db_exec(q.d.db, "INSERT INTO hop_in(peer, inbox, n) VALUES('ingress', '', "
                    "5)");
    q.d.zmq = zmq_ctx_new();
    q.d.mailbox = mailbox_open(q.d.zmq, folder, "sequencer");
    q.d.hop = hop_open(q.d.db, q.d.mailbox, &nothing, q.d.run, &q);
    q.store = store_open(q.d.db);
    q.order = store_order_open(q.d.db);
    q.doors = doors_open(&q);
    free(path);
    return 0;
}

static int end(void **state)
{
    char *command = gr_printf("rm -rf %s", folder);

    (void)state;
    doors_close(q.doors);
    store_order_close(q.order);
    store_close(q.store);
    hop_close(q.d.hop);
    mailbox_close(q.d.mailbox);
    zmq_ctx_term(q.d.zmq);
    db_close(q.d.db);
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

/* Time passes, and all that waits is asked of the door. */
static int64_t ask_at(int64_t ms)
{
    q.d.loop.awake_ms = q.d.loop.mono_ms = ms;
    doors_work(q.doors);
    doors_due(q.doors, 1);
    (void)doors_tell(q.doors);
    return doors_time(q.doors);
}

static void answer(int64_t stamp_ms, uint64_t next)
{
    doors_sounded(q.doors, &(struct wire_sounded){.from = wire_text("ingress"),
                                                  .run = q.d.run,
                                                  .stamp_ms = stamp_ms,
                                                  .next = next});
}

/* P6: messages that are taken back are still to come, so they have shown
 * nothing, and no key before them is over. */
static void what_is_taken_back_has_shown_nothing(void **state)
{
    int64_t stamp_ms;

    (void)state;
    ask_at(1);
    doors_came(q.doors, "ingress", RECEIVED_MS);
    stamp_ms = ask_at(1000);
    assert_true(stamp_ms > 0);
    answer(stamp_ms, TAKEN + 1);
    doors_work(q.doors);
    assert_int_equal(doors_judged(q.doors), stamp_ms);
    assert_int_equal(doors_received_ms(q.doors), RECEIVED_MS);

    doors_undo(q.doors);
    assert_true(doors_judged(q.doors) < stamp_ms);
    assert_int_equal(doors_received_ms(q.doors), 0);

    doors_came(q.doors, "ingress", RECEIVED_MS); /* again */
    stamp_ms = ask_at(2000);
    answer(stamp_ms, TAKEN + 1);
    doors_work(q.doors);
    assert_int_equal(doors_judged(q.doors), stamp_ms);
    assert_int_equal(doors_received_ms(q.doors), RECEIVED_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_taken_back_has_shown_nothing,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
