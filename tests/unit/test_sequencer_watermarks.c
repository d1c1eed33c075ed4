/* Tests of watermarks when a turn is rolled back; flow/test_order and crash/test_order
 * have the rest. P6. */
#include "sequencer.h"
#include "store.h"
#include "store_order.h"
#include "watermarks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TAKEN = 5, RECEIVED_MS = 1000 };

static char folder[40];
static struct sequencer q;

/* With TAKEN messages taken from an ingress. */
static int begin(void **state)
{
    static const struct links_ops nothing = {0};
    char *path;

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gr-watermarks-XXXXXX");
    assert_non_null(mkdtemp(folder));
    path = gr_printf("%s/sequencer.db", folder);
    q = (struct sequencer){0};
    q.d.epoch = 7;
    q.d.db = db_open(path, &sequencer_schema);
    db_exec(q.d.db, "INSERT INTO link_in(peer, inbox, n) VALUES('ingress', '', "
                    "5)");
    q.d.mailbox = mailbox_open(folder, "sequencer");
    q.d.links = links_open(q.d.db, q.d.mailbox, &nothing, q.d.epoch, &q);
    q.store = store_open(q.d.db);
    q.order = store_order_open(q.d.db);
    q.watermarks = watermarks_open(&q);
    free(path);
    return 0;
}

static int end(void **state)
{
    char *command = gr_printf("rm -rf %s", folder);

    (void)state;
    watermarks_close(q.watermarks);
    store_order_close(q.order);
    store_close(q.store);
    links_close(q.d.links);
    mailbox_close(q.d.mailbox);
    db_close(q.d.db);
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

/* Time passes, and all that waits is asked of ingress. */
static int64_t ask_at(int64_t ms)
{
    q.d.loop.awake_ms = q.d.loop.mono_ms = ms;
    watermarks_work(q.watermarks);
    watermarks_set_due(q.watermarks, 1);
    (void)watermarks_flush(q.watermarks);
    return watermarks_clock(q.watermarks);
}

static void respond(int64_t stamp_ms, uint64_t next)
{
    watermarks_take(q.watermarks,
                    &(struct wire_watermark){.from = wire_text("ingress"),
                                             .epoch = q.d.epoch,
                                             .stamp_ms = stamp_ms,
                                             .next = next});
}

/* P6: messages that are taken back are still to come, so they have shown
 * nothing, and no key before them has expired. */
static void rolled_back_messages_are_still_to_come(void **state)
{
    int64_t stamp_ms;

    (void)state;
    ask_at(1);
    watermarks_event(q.watermarks, "ingress", RECEIVED_MS);
    stamp_ms = ask_at(1000);
    assert_true(stamp_ms > 0);
    respond(stamp_ms, TAKEN + 1);
    watermarks_work(q.watermarks);
    assert_int_equal(watermarks_arrived(q.watermarks), stamp_ms);
    assert_int_equal(watermarks_received_ms(q.watermarks), RECEIVED_MS);

    watermarks_undo(q.watermarks);
    assert_true(watermarks_arrived(q.watermarks) < stamp_ms);
    assert_int_equal(watermarks_received_ms(q.watermarks), 0);

    watermarks_event(q.watermarks, "ingress", RECEIVED_MS); /* again */
    stamp_ms = ask_at(2000);
    respond(stamp_ms, TAKEN + 1);
    watermarks_work(q.watermarks);
    assert_int_equal(watermarks_arrived(q.watermarks), stamp_ms);
    assert_int_equal(watermarks_received_ms(q.watermarks), RECEIVED_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rolled_back_messages_are_still_to_come,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
