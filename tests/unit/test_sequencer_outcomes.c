/* Tests of outcomes: which changes get a row in the log of an event's subscriber, what the message
 * says, and how long rows and events stay. P2. */
#include "clock.h"
#include "delivery.h"
#include "event.h"
#include "log.h"
#include "outcomes.h"
#include "sequencer.h"
#include "store.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t now = 1000 * DAY_MS;
static char folder[40];
static struct sequencer q;
static struct endpoint endpoints[2];
static struct settings settings;

static void open_all(void)
{
    static const struct links_ops nothing = {0};
    char *path = gr_printf("%s/sequencer.db", folder);

    q = (struct sequencer){.endpoints = endpoints, .endpoint_count = 2};
    q.d.settings = &settings;
    q.d.loop.now_ms = now;
    q.d.loop.mono_ms = 10 * HOUR_MS;
    q.d.db = db_open(path, &sequencer_schema);
    q.d.mailbox = mailbox_open(folder, "sequencer");
    q.d.links = links_open(q.d.db, q.d.mailbox, &nothing, 7, &q);
    q.store = store_open(q.d.db);
    db_begin(q.d.db);
    q.d.retention.spans.at[0].first_ms = now - 500 * DAY_MS;
    q.d.retention.spans.at[0].last_ms = now;
    q.d.retention.spans.count = 1;
    q.outcomes = outcomes_open(&q);
    free(path);
}

static void close_all(void)
{
    outcomes_close(q.outcomes);
    store_close(q.store);
    links_close(q.d.links);
    mailbox_close(q.d.mailbox);
    db_close(q.d.db);
}

static int begin(void **state)
{
    (void)state;
    log_open("sequencer", LEVEL_ERROR, false);
    clock_test_set(now);
    snprintf(folder, sizeof folder, "/tmp/gr-outcomes-XXXXXX");
    assert_non_null(mkdtemp(folder));
    settings = (struct settings){.history_keep_ms = 400 * DAY_MS};
    endpoints[0] = (struct endpoint){.id = 1, .name = "crm"};
    endpoints[1] = (struct endpoint){.id = 2, .name = "billing"};
    open_all();
    return 0;
}

static int end(void **state)
{
    char *command = gr_printf("rm -rf %s", folder);

    (void)state;
    close_all();
    clock_test_off();
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

static void run(const char *sql)
{
    db_run(q.d.db, db_prepare(q.d.db, sql));
}

static int64_t number(const char *sql)
{
    return db_number(q.d.db, db_prepare(q.d.db, sql), 0);
}

static void commit(void)
{
    links_work(q.d.links);
    assert_int_equal(db_commit(q.d.db), GR_OK);
    db_begin(q.d.db);
}

static void add(int64_t n, enum event_status status, const char *from)
{
    char id[8];

    snprintf(id, sizeof id, "evt_%d", (int)n);
    store_event_add(q.store, &(struct event_row){
                                 .n = n,
                                 .id = id,
                                 .source = "s",
                                 .provider_id = "row",
                                 .type = "t",
                                 .workspace = "w",
                                 .taken_ms = now,
                                 .subscriber = outcomes_subscriber(&q, from),
                                 .status = (int)status});
}

static void deliver(int64_t n, int64_t to, int status, const char *rest)
{
    char *sql = gr_printf("INSERT OR REPLACE INTO deliveries(event, endpoint, "
                          "status, lane, route_order, attempts, earlier, "
                          "at_ms, next_ms, http_status, error, reason) "
                          "VALUES(%d, %d, %d, 0, 0, %s)",
                          (int)n, (int)to, status, rest);

    run(sql);
    free(sql);
}

/* The message about event n, whose texts live in `out`. */
static struct wire_outcome message(int64_t n, struct buf *out)
{
    struct wire_outcome m;

    buf_reset(out);
    assert_true(outcomes_load(&q, "outbox", 1, n, out));
    assert_int_equal(wire_get_outcome(&m, (struct bytes){out->data, out->len}),
                     GR_OK);
    return m;
}

#define assert_text(a, b) assert_true(wire_is(a, b))

static void only_events_of_subscribers_get_rows(void **state)
{
    (void)state;
    add(1, EVENT_ROUTED, "ingress");
    add(2, EVENT_ROUTED, "ingress-outbox");
    outcomes_changed(&q, 1);
    assert_int_equal(number("SELECT count(*) FROM subscribers"), 0);
    add(3, EVENT_ROUTED, "outbox");
    add(4, EVENT_ROUTED, "outbox-2");
    for (int64_t n = 1; n <= 4; n++)
        outcomes_changed(&q, n);
    assert_int_equal(links_backlog(q.d.links, "outbox"), 1);
    assert_int_equal(links_backlog(q.d.links, "outbox-2"), 1);
    assert_int_equal(number("SELECT count(*) FROM link_log"), 2);
}

static void a_row_that_is_not_sent_stands_for_later_changes(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    add(1, EVENT_ROUTED, "outbox");
    add(2, EVENT_ROUTED, "outbox");
    for (int i = 0; i < 3; i++) {
        outcomes_changed(&q, 1);
        outcomes_changed(&q, 2);
    }
    assert_int_equal(links_backlog(q.d.links, "outbox"), 2);
    message(1, &out); /* it is sent */
    outcomes_changed(&q, 1);
    outcomes_changed(&q, 2);
    assert_int_equal(links_backlog(q.d.links, "outbox"), 3);
    buf_fini(&out);
}

/* A rolled back row must not stand for the next change. */
static void after_a_rollback_a_change_gets_its_row(void **state)
{
    (void)state;
    add(1, EVENT_ROUTED, "outbox");
    commit();
    outcomes_changed(&q, 1);
    run("ROLLBACK");
    run("BEGIN");
    links_undo(q.d.links);
    outcomes_undo(&q);
    assert_int_equal(links_backlog(q.d.links, "outbox"), 0);
    outcomes_changed(&q, 1);
    assert_int_equal(links_backlog(q.d.links, "outbox"), 1);
}

static void a_message_says_what_its_rows_say(void **state)
{
    struct wire_outcome m;
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    add(1, EVENT_ROUTED, "outbox");
    assert_text(message(1, &out).state, "no_endpoint");
    deliver(1, 1, DELIVERY_RETRYING, "3, 1, 50, 90, 503, 'busy', ''");
    deliver(1, 2, DELIVERY_RETRYING, "1, 0, 60, 80, 0, 'refused', ''");
    m = message(1, &out);
    assert_text(m.state, "open");
    assert_int_equal(m.open, 2);
    assert_int_equal(m.attempts, 3);
    assert_int_equal(m.attempts_before, 1);
    assert_int_equal(m.last_ms, 60);
    assert_int_equal(m.next_ms, 80);
    assert_text(m.endpoint, "billing");
    assert_text(m.error, "refused");
    deliver(1, 1, DELIVERY_DEAD, "3, 1, 50, 0, 400, 'no', 'rejected'");
    m = message(1, &out);
    assert_text(m.state, "open");
    assert_text(m.endpoint, "crm");
    assert_text(m.reason, "rejected");
    deliver(1, 2, DELIVERY_DEAD, "3, 1, 70, 0, 404, 'none', 'rejected'");
    m = message(1, &out);
    assert_text(m.state, "dead");
    assert_text(m.endpoint, "billing"); /* the first by name */
    assert_int_equal(m.http_status, 404);
    assert_int_equal(m.next_ms, 0);
    outcomes_decided(&q, 1, 2, 1, true);
    m = message(1, &out);
    assert_text(m.state, "dead");
    assert_int_equal(m.resolved, 1);
    assert_text(m.endpoint, "crm");
    outcomes_decided(&q, 1, 1, 1, false); /* discarded */
    assert_text(message(1, &out).state, "dead");
    deliver(1, 1, DELIVERY_DELIVERED, "4, 1, 80, 0, 200, '', ''");
    m = message(1, &out);
    assert_text(m.state, "resolved");
    assert_text(m.endpoint, "");
    run("UPDATE deliveries SET generation = 2"); /* dead again since */
    assert_text(message(1, &out).state, "dead");
    deliver(1, 2, DELIVERY_DELIVERED, "4, 1, 80, 0, 200, '', ''");
    assert_text(message(1, &out).state, "delivered");
    buf_fini(&out);
}

static void a_message_says_why_an_event_has_no_delivery(void **state)
{
    static const struct {
        enum event_status status;
        const char *text;
    } all[] = {{EVENT_DUPLICATE, "duplicate"},
               {EVENT_REFUSED, "refused"},
               {EVENT_BUFFERED, "open"},
               {EVENT_IGNORED, "ignored"},
               {EVENT_SPLIT, "split"}};
    struct wire_outcome m;
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        add((int64_t)i + 1, all[i].status, "outbox");
        assert_text(message((int64_t)i + 1, &out).state, all[i].text);
    }
    outcomes_decided(&q, 2, 0, 1, true);
    assert_text(message(2, &out).state, "resolved");
    outcomes_sent_again(&q, "ingress", 1, 99);
    m = message(1, &out);
    assert_int_equal(m.action_id, 99);
    assert_text(m.provider_id, "row");
    run("UPDATE events SET workspace = 'erased:0123456789abcdef'");
    m = message(1, &out);
    assert_text(m.state, "erased");
    assert_text(m.provider_id, "");
    assert_false(outcomes_load(&q, "outbox", 9, 77, &out));
    buf_fini(&out);
}

static void acknowledge(uint64_t n)
{
    char *sql = gr_printf("UPDATE link_out SET cursor = %d", (int)n);

    commit();
    run(sql);
    free(sql);
    commit();
    close_all();
    open_all();
}

static void an_event_is_needed_until_its_outcome_is_acknowledged(void **state)
{
    int64_t id, old = now - 31 * DAY_MS;

    (void)state;
    for (int64_t n = 1; n <= 9; n++)
        add(n, EVENT_ROUTED, "outbox");
    id = outcomes_subscriber(&q, "outbox");
    assert_false(outcomes_needs(&q, 5, id, now)); /* nothing was sent */
    outcomes_changed(&q, 8);
    outcomes_changed(&q, 5);
    assert_false(outcomes_needs(&q, 4, id, now));
    assert_true(outcomes_needs(&q, 5, id, now));
    assert_true(outcomes_needs(&q, 8, id, now));
    acknowledge(1); /* of 8; but for 5 nothing from there on is purged */
    assert_false(outcomes_needs(&q, 4, id, now));
    assert_true(outcomes_needs(&q, 5, id, now));
    outcomes_changed(&q, 3);
    assert_true(outcomes_needs(&q, 3, id, now));
    acknowledge(3);
    for (int64_t n = 1; n <= 9; n++)
        assert_false(outcomes_needs(&q, n, id, now));
    outcomes_changed(&q, 5);
    assert_true(outcomes_needs(&q, 5, id, old + 2 * DAY_MS));
    assert_false(outcomes_needs(&q, 5, id, old)); /* it never comes back */
}

static void later(int64_t ms)
{
    q.d.loop.now_ms += ms;
    q.d.loop.mono_ms += ms;
    q.d.retention.spans.at[0].last_ms += ms;
    clock_test_set(q.d.loop.now_ms);
}

static int64_t rows_left(void)
{
    while (outcomes_work(&q))
        ;
    return number("SELECT count(*) FROM link_log");
}

/* Rows stay for a week after they were written, so that they can be sent again. */
static void acknowledged_rows_are_deleted_after_a_week(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 9; n++)
        add(n, EVENT_ROUTED, "outbox");
    outcomes_changed(&q, 1);
    outcomes_changed(&q, 2);
    later(2 * HOUR_MS);
    outcomes_changed(&q, 3);
    assert_int_equal(number("SELECT count(*) FROM outcome_marks"), 2);
    acknowledge(3);
    assert_int_equal(rows_left(), 3);
    later(7 * DAY_MS + HOUR_MS);
    assert_int_equal(rows_left(), 3); /* of the first mark on */
    later(2 * HOUR_MS);
    assert_int_equal(rows_left(), 1);
    outcomes_changed(&q, 4);
    later(8 * DAY_MS);
    outcomes_changed(&q, 5);
    later(8 * DAY_MS);
    assert_int_equal(rows_left(), 2); /* these are not acknowledged */
    acknowledge(5);
    later(24 * DAY_MS); /* open_all() has set the clock back */
    assert_int_equal(rows_left(), 1);
}

/* How often the log says that a subscriber is silent. */
static int silences(const char *log)
{
    FILE *f = fopen(log, "r");
    char line[1000];
    int n = 0;

    while (fgets(line, sizeof line, f))
        n += strstr(line, "does not take the outcomes") != NULL;
    fclose(f);
    return n;
}

static void a_silent_subscriber_is_logged(void **state)
{
    char *log = gr_printf("%s/log", folder);
    int before = dup(STDERR_FILENO);

    (void)state;
    assert_non_null(freopen(log, "w", stderr));
    log_open("sequencer", LEVEL_WARN, false);
    add(1, EVENT_ROUTED, "outbox");
    outcomes_work(&q);
    later(HOUR_MS); /* it has all outcomes */
    outcomes_work(&q);
    outcomes_changed(&q, 1);
    later(SECOND_MS);
    outcomes_work(&q);
    assert_int_equal(silences(log), 0);
    for (int i = 0; i < 12; i++) {
        later(6 * MINUTE_MS);
        outcomes_work(&q);
    }
    assert_int_equal(silences(log), 2); /* once an hour */
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_events_of_subscribers_get_rows,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_row_that_is_not_sent_stands_for_later_changes, begin, end),
        cmocka_unit_test_setup_teardown(after_a_rollback_a_change_gets_its_row,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_message_says_what_its_rows_say, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_message_says_why_an_event_has_no_delivery, begin, end),
        cmocka_unit_test_setup_teardown(
            an_event_is_needed_until_its_outcome_is_acknowledged, begin, end),
        cmocka_unit_test_setup_teardown(
            acknowledged_rows_are_deleted_after_a_week, begin, end),
        cmocka_unit_test_setup_teardown(a_silent_subscriber_is_logged, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
