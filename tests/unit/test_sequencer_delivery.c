/* Tests of delivery: each transition of its table, and what a transition changes beside
 * the status. P5. */
#include "delivery.h"
#include "dispatch.h"
#include "event.h"
#include "lane.h"
#include "log.h"
#include "managed_endpoints.h"
#include "search_filters.h"
#include "sequencer.h"
#include "store.h"
#include "store_lanes.h"
#include "store_search.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { GRANT = 77, LANE = 1 };

static const struct delivery_cause reported = {.reported = true,
                                               .reason = "rejected"},
                                   decided = {.reason = "abandoned"};

static char folder[40];
static struct sequencer q;
static struct endpoint endpoint;
static struct deliverer_peer owner;
static struct settings settings;

static int begin(void **state)
{
    static const struct links_ops nothing = {0};
    char *path;

    (void)state;
    log_open("sequencer", LEVEL_ERROR, false);
    snprintf(folder, sizeof folder, "/tmp/gr-delivery-XXXXXX");
    assert_non_null(mkdtemp(folder));
    path = gr_printf("%s/sequencer.db", folder);
    q = (struct sequencer){.endpoints = &endpoint, .endpoint_count = 1};
    q.d.epoch = 7;
    q.d.settings = &settings;
    q.d.db = db_open(path, &sequencer_schema);
    q.d.mailbox = mailbox_open(folder, "sequencer");
    q.d.links = links_open(q.d.db, q.d.mailbox, &nothing, q.d.epoch, &q);
    q.store = store_open(q.d.db);
    q.deliveries = deliveries_open(q.d.db);
    q.managed = managed_open(q.d.db);
    q.lanes = store_lanes_open(q.d.db);
    q.search = store_search_open(q.d.db);
    q.search_filters = search_filters_open(&q);
    owner = (struct deliverer_peer){.name = "deliverer-1"};
    endpoint = (struct endpoint){.id = 1,
                                 .name = "billing",
                                 .owner = &owner,
                                 .grant = GRANT,
                                 .resumed_ms = INT64_MAX};
    db_begin(q.d.db);
    free(path);
    return 0;
}

static int end(void **state)
{
    char *command = gr_printf("rm -rf %s", folder);

    (void)state;
    workspaces_clear(&q.workspaces);
    search_filters_close(q.search_filters);
    store_search_close(q.search);
    store_lanes_close(q.lanes);
    managed_close(q.managed);
    for (int i = 0; i < ENDPOINT_LISTS; i++)
        free(q.lists[i].slots);
    deliveries_close(q.deliveries);
    store_close(q.store);
    links_close(q.d.links);
    mailbox_close(q.d.mailbox);
    db_close(q.d.db);
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

static void run(const char *sql)
{
    db_run(q.d.db, db_prepare(q.d.db, sql));
}

/* Delivery of event `n`, in its lane behind those with lower numbers. */
static void add(int64_t n, int status, bool behind)
{
    bool out = status == DELIVERY_IN_FLIGHT || status == DELIVERY_RETRYING;
    char *event = gr_printf("INSERT INTO events(n, id, source, type, "
                            "workspace, received_ms, taken_ms, status) "
                            "VALUES(%d, 'evt_%d', 's', 't', 'w', 0, 0, 0)",
                            (int)n, (int)n);
    char *row = gr_printf(
        "INSERT INTO deliveries(event, endpoint, status, grant_id, lane, "
        "route_order, behind) VALUES(%d, 1, %d, %d, %d, %d, %d)",
        (int)n, status, out ? GRANT : 0, LANE, (int)n, behind);

    run(event);
    run(row);
    if (status == DELIVERY_IN_FLIGHT)
        endpoint.in_window = owner.in_window = endpoint.in_window + 1;
    free(event);
    free(row);
}

static struct delivery row_of(int64_t n)
{
    struct delivery d;

    assert_true(delivery_load(q.deliveries, n, endpoint.id, &d));
    return d;
}

static int64_t count(const char *sql)
{
    return db_number(q.d.db, db_prepare(q.d.db, sql), 0);
}

static void move(int64_t n, enum delivery_status to,
                 const struct delivery_cause *why)
{
    struct delivery d = row_of(n);

    delivery_move(&q, &endpoint, &d, to, why);
    assert_int_equal(d.status, to == DELIVERY_DEAD && endpoint.temporary
                                   ? DELIVERY_ABANDONED
                                   : to);
    delivery_fini(&d);
}

static void is(int64_t n, int status, uint64_t grant, bool behind)
{
    struct delivery d = row_of(n);

    assert_int_equal(d.status, status);
    assert_int_equal(d.grant_id, grant);
    assert_int_equal(d.behind, behind);
    delivery_fini(&d);
}

/* In a process of its own: does it end at this change? */
static bool is_refused(int from, int to)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct delivery d = {.event = 1, .endpoint = 1, .status = from};

        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        d.error = gr_strdup("");
        d.reason = gr_strdup("rejected");
        d.deliverer = gr_strdup("");
        d.generation = 1;
        if (from == DELIVERY_IN_FLIGHT || from == DELIVERY_RETRYING)
            d.grant_id = GRANT;
        endpoint.in_window = owner.in_window = 1;
        delivery_move(&q, &endpoint, &d, to, &reported);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void only_what_the_table_allows_reaches_the_disk(void **state)
{
    static const char *const allowed[] = {
        [DELIVERY_WAITING] = "irdDA",  [DELIVERY_IN_FLIGHT] = "wrdDA",
        [DELIVERY_RETRYING] = "wrdDA", [DELIVERY_DELIVERED] = "w",
        [DELIVERY_DEAD] = "wd",        [DELIVERY_ABANDONED] = "wd",
    };
    static const char dead_letters[] = "wirdDA";

    (void)state;
    /* delivery_dispatch() alone leads from WAITING to the next two; it is
     * tried in a_dispatched_delivery_takes_a_slot(). */
    for (int from = DELIVERY_WAITING; from <= DELIVERY_ABANDONED; from++) {
        for (int to = DELIVERY_WAITING; to <= DELIVERY_ABANDONED; to++) {
            if (from == DELIVERY_WAITING &&
                (to == DELIVERY_IN_FLIGHT || to == DELIVERY_RETRYING))
                continue;
            assert_int_equal(is_refused(from, to),
                             !strchr(allowed[from], dead_letters[to]));
        }
    }
}

static void a_dispatched_delivery_takes_a_slot(void **state)
{
    (void)state;
    add(1, DELIVERY_WAITING, false);
    add(2, DELIVERY_WAITING, false);
    delivery_dispatch(&q, &endpoint, 1, 0);
    is(1, DELIVERY_IN_FLIGHT, GRANT, false);
    assert_int_equal(endpoint.in_window, 1);
    q.d.loop.now_ms = 1000;
    delivery_dispatch(&q, &endpoint, 2, 2000); /* its retry waits there */
    is(2, DELIVERY_RETRYING, GRANT, false);
    assert_int_equal(endpoint.in_window, 1);
    move(1, DELIVERY_RETRYING, &reported);
    assert_int_equal(endpoint.in_window, 0);
    assert_int_equal(owner.in_window, 0);
    move(2, DELIVERY_WAITING, &reported);
    is(2, DELIVERY_WAITING, 0, false);
    assert_true(endpoint.waiting);
}

/* P5: nobody else of its lane goes while a copy may still be under way. */
static void
a_copy_that_is_out_keeps_slot_and_lane_until_it_is_gone(void **state)
{
    struct delivery d;

    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    add(2, DELIVERY_WAITING, true);
    move(1, DELIVERY_DEAD, &decided);
    is(1, DELIVERY_DEAD, GRANT, false);
    is(2, DELIVERY_WAITING, 0, true);
    assert_int_equal(endpoint.in_window, 1);
    d = row_of(1);
    delivery_copy_gone(&q, &endpoint, &d);
    delivery_fini(&d);
    assert_int_equal(endpoint.in_window, 0);
    is(1, DELIVERY_DEAD, 0, false);
    is(2, DELIVERY_WAITING, 0, false);
}

static void a_retry_that_is_dropped_takes_a_slot_until_then(void **state)
{
    (void)state;
    add(1, DELIVERY_RETRYING, false);
    move(1, DELIVERY_DELIVERED, &(struct delivery_cause){0});
    is(1, DELIVERY_DELIVERED, GRANT, false);
    assert_int_equal(endpoint.in_window, 1);
}

static void a_reported_end_lets_the_next_of_the_lane_go(void **state)
{
    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    add(2, DELIVERY_WAITING, true);
    move(1, DELIVERY_DELIVERED, &reported);
    is(1, DELIVERY_DELIVERED, 0, false);
    is(2, DELIVERY_WAITING, 0, false);
    assert_int_equal(endpoint.in_window, 0);
}

/* ---- the next delivery of a lane, at once ---- */

/* Deliveries 1 and 2 of a lane, 1 at the deliverer, and space for more there. */
static void begin_lane(void)
{
    static const struct endpoint_settings set = {.transport = TRANSPORT_HTTP,
                                                 .ordered = LANES_WORKSPACE};

    endpoint.settings = &set;
    endpoint.window.size = 8;
    add(1, DELIVERY_IN_FLIGHT, false);
    add(2, DELIVERY_WAITING, true);
    add(3, DELIVERY_WAITING, true);
}

/* P5: one at a time. */
static void a_success_dispatches_the_next_of_its_lane(void **state)
{
    (void)state;
    begin_lane();
    move(1, DELIVERY_DELIVERED, &reported);
    is(2, DELIVERY_IN_FLIGHT, GRANT, false);
    is(3, DELIVERY_WAITING, 0, true);
    assert_int_equal(endpoint.in_window, 1);
    assert_int_equal(owner.in_window, 1);
    assert_false(endpoint.waiting);
    assert_int_equal(links_backlog(q.d.links, owner.name), 1);
    move(2, DELIVERY_DELIVERED, &reported);
    is(3, DELIVERY_IN_FLIGHT, GRANT, false);
    move(3, DELIVERY_DELIVERED, &reported);
    assert_int_equal(endpoint.in_window, 0);
}

static void the_next_of_a_lane_keeps_the_time_of_its_retry(void **state)
{
    (void)state;
    begin_lane();
    q.d.loop.now_ms = 1000;
    run("UPDATE deliveries SET next_ms = 2000 WHERE event = 2");
    move(1, DELIVERY_DELIVERED, &reported);
    is(2, DELIVERY_RETRYING, GRANT, false);
    assert_int_equal(count("SELECT next_ms FROM deliveries WHERE event = 2"),
                     2000);
    assert_int_equal(endpoint.in_window, 0);
}

/* The head waits again, as its grant has ended, and then the result under that grant arrives. */
static void a_late_success_of_a_waiting_head_dispatches_the_next(void **state)
{
    (void)state;
    begin_lane();
    run("UPDATE deliveries SET status = 0, grant_id = 0 WHERE event = 1");
    endpoint.in_window = owner.in_window = 0;
    move(1, DELIVERY_DELIVERED, &(struct delivery_cause){0});
    is(2, DELIVERY_IN_FLIGHT, GRANT, false);
    assert_int_equal(endpoint.in_window, 1);
}

/* P5: the deliverer may still make an attempt for it. */
static void a_late_success_of_a_copy_that_is_out_does_not(void **state)
{
    (void)state;
    begin_lane();
    move(1, DELIVERY_DELIVERED, &(struct delivery_cause){0});
    is(1, DELIVERY_DELIVERED, GRANT, false);
    is(2, DELIVERY_WAITING, 0, true);
}

/* P5: the head is at the deliverer already. */
static void a_late_success_behind_the_head_dispatches_nothing(void **state)
{
    (void)state;
    begin_lane();
    move(2, DELIVERY_DELIVERED, &(struct delivery_cause){0});
    is(1, DELIVERY_IN_FLIGHT, GRANT, false);
    is(3, DELIVERY_WAITING, 0, true);
    assert_int_equal(endpoint.in_window, 1);
    assert_int_equal(links_backlog(q.d.links, owner.name), 0);
}

enum obstacle {
    OTHER_WAITS,
    WINDOW_FULL,
    OWNER_BUSY, /* others of its deliverer have their turns, too */
    TO_BE_REVOKED,
    REVOKED,
    SWEEPING,
    MOVING,
    NO_SETTINGS,
    UNDONE,
    OBSTACLES,
};

static void obstruct(enum obstacle o)
{
    endpoint.waiting = o == OTHER_WAITS;
    endpoint.window.size = o == WINDOW_FULL ? 0 : 8;
    owner.in_window = o == OWNER_BUSY ? 8193 : 1;
    endpoint.revoke = o == TO_BE_REVOKED;
    endpoint.revoking = o == REVOKED;
    endpoint.sweeping = o == SWEEPING;
    endpoint.laning = o == MOVING ? LINING_UP : SETTLED;
    q.was_undone = o == UNDONE;
    if (o == NO_SETTINGS)
        endpoint.settings = NULL;
}

/* Then it is the head, and dispatch_work() finds it. */
static void the_next_of_a_lane_waits_if_it_may_not_be_dispatched(void **state)
{
    (void)state;
    for (int o = 0; o < OBSTACLES; o++) {
        run("DELETE FROM deliveries");
        run("DELETE FROM events");
        endpoint.in_window = owner.in_window = 0;
        begin_lane();
        obstruct((enum obstacle)o);
        move(1, DELIVERY_DELIVERED, &reported);
        is(2, DELIVERY_WAITING, 0, false);
        assert_true(endpoint.waiting);
    }
}

/* Its response may disable the endpoint (410 Gone) once the row is written. */
static void a_failure_dispatches_nothing(void **state)
{
    (void)state;
    begin_lane();
    move(1, DELIVERY_DEAD, &reported);
    is(2, DELIVERY_WAITING, 0, false);
    assert_true(endpoint.waiting);
}

static void a_success_in_a_halted_lane_dispatches_nothing(void **state)
{
    const struct halt_row halt = {
        .event = 9, .endpoint = 1, .lane = {LANE, 0}, .route_order = 1};

    (void)state;
    begin_lane();
    store_halt(q.lanes, &halt);
    endpoint.halts = 1;
    move(1, DELIVERY_DELIVERED, &reported);
    is(2, DELIVERY_WAITING, 0, true);
    assert_false(endpoint.waiting);
}

/* The endpoint may be configured again before all of its deliveries are dead. */
static void a_removed_endpoints_lane_keeps_a_head(void **state)
{
    (void)state;
    endpoint.owner = NULL;
    endpoint.grant = 0;
    add(1, DELIVERY_WAITING, false);
    add(2, DELIVERY_WAITING, true);
    add(3, DELIVERY_WAITING, true);
    move(1, DELIVERY_DEAD,
         &(struct delivery_cause){.reason = "endpoint_removed"});
    is(2, DELIVERY_WAITING, 0, false);
    is(3, DELIVERY_WAITING, 0, true);
}

static void
a_dead_letter_is_written_once_and_a_late_success_recovers_it(void **state)
{
    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    move(1, DELIVERY_DEAD, &reported);
    assert_int_equal(count("SELECT count(*) FROM dead_letters"), 1);
    assert_int_equal(q.metrics[METRIC_DEAD], 1);
    move(1, DELIVERY_DELIVERED, &(struct delivery_cause){0});
    assert_int_equal(count("SELECT count(*) FROM dead_letters"), 2);
    assert_int_equal(q.metrics[METRIC_RECOVERED], 1);
    assert_int_equal(q.metrics[METRIC_DELIVERED], 1);
}

static void a_temporary_endpoint_has_no_dead_letter(void **state)
{
    (void)state;
    endpoint.temporary = true;
    add(1, DELIVERY_IN_FLIGHT, false);
    add(2, DELIVERY_WAITING, true);
    move(1, DELIVERY_DEAD, &reported);
    is(1, DELIVERY_ABANDONED, 0, false);
    is(2, DELIVERY_WAITING, 0, false);
    assert_int_equal(count("SELECT count(*) FROM dead_letters"), 0);
    assert_int_equal(q.metrics[METRIC_DEAD], 0);
    assert_int_equal(q.metrics[METRIC_ABANDONED], 1);
    move(1, DELIVERY_DELIVERED, &(struct delivery_cause){0});
    assert_int_equal(count("SELECT count(*) FROM dead_letters"), 0);
    assert_int_equal(q.metrics[METRIC_RECOVERED], 0);
    assert_int_equal(q.metrics[METRIC_DELIVERED], 0);
    assert_int_equal(q.metrics[METRIC_LISTENED], 1);
}

static void an_ended_grant_frees_what_it_held(void **state)
{
    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    add(2, DELIVERY_WAITING, true);
    move(1, DELIVERY_DEAD, &decided);
    add(4, DELIVERY_RETRYING, false);
    endpoint.owner = NULL;
    endpoint.grant = 0;
    assert_int_equal(deliveries_sweep(&q, &endpoint, GRANT, true, 64), 2);
    is(1, DELIVERY_DEAD, 0, false);
    is(2, DELIVERY_WAITING, 0, true); /* 4 is first in the lane again */
    is(4, DELIVERY_WAITING, 0, false);
    assert_int_equal(count("SELECT sent FROM deliveries WHERE event = 4"), 1);
}

/* Encodes the task of delivery `n` with a body of this size, as for number `n` of the log. */
static void encode(int64_t n, size_t bytes)
{
    struct delivery d = row_of(n);
    struct event_row ev = {.id = (char[]){"evt_1"},
                           .source = (char[]){"s"},
                           .type = (char[]){"t"},
                           .workspace = (char[]){"w"},
                           .clock = (char[]){""},
                           .gap = (char[]){""}};
    struct event_content content = {.headers = {"", 0}};
    struct buf task;
    char *body = gr_alloc(bytes);

    content.body = (struct bytes){body, bytes};
    d.out_n = (uint64_t)n;
    buf_init(&task, FRAME_MAX_BYTES);
    dispatch_encode_task(&q, &endpoint, &ev, &d, &content, &task);
    assert_true(!task.failed && task.len > bytes);
    buf_fini(&task);
    delivery_fini(&d);
    free(body);
}

/* The link loads a task again for a deliverer that was restarted. */
static void a_task_that_is_encoded_again_is_measured_once(void **state)
{
    int64_t bytes;

    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    add(2, DELIVERY_IN_FLIGHT, false);
    encode(1, 80000);
    encode(2, 10);
    bytes = endpoint.window.bytes;
    assert_in_range(bytes, 60000, 79000);
    encode(1, 80000);
    encode(2, 10);
    assert_int_equal(endpoint.window.bytes, bytes);
    add(3, DELIVERY_IN_FLIGHT, false);
    encode(3, 10);
    assert_true(endpoint.window.bytes < bytes);
}

/* ---- rows in memory ---- */

static const char *const long_id = "evt_00000000000000000000000001";

/* The row is in memory now, and `d` is a second copy of it. */
static struct delivery keep_row(int64_t n)
{
    struct delivery d = row_of(n), kept = row_of(n);

    delivery_keep(q.deliveries, &kept, long_id);
    return d;
}

static void a_kept_row_is_never_older_than_the_one_on_disk(void **state)
{
    struct delivery d;

    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    d = keep_row(1);
    is(1, DELIVERY_IN_FLIGHT, GRANT, false);
    delivery_keep(q.deliveries, &d, long_id);
    d = keep_row(1);
    d.attempts = 3;
    delivery_move(&q, &endpoint, &d, DELIVERY_RETRYING, &reported);
    delivery_fini(&d);
    d = keep_row(1);
    assert_int_equal(d.attempts, 3);
    assert_int_equal(d.status, DELIVERY_RETRYING);
    delivery_fini(&d);
    endpoint.grant = GRANT + 1;
    assert_int_equal(deliveries_sweep(&q, &endpoint, GRANT, true, 10), 1);
    is(1, DELIVERY_WAITING, 0, false);
}

static void rows_are_read_again_after_a_turn_was_rolled_back(void **state)
{
    struct delivery d;

    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    d = keep_row(1);
    delivery_fini(&d);
    assert_true(delivery_find(&q, wire_text(long_id), 1, &d));
    delivery_keep(q.deliveries, &d, long_id);
    run("UPDATE deliveries SET attempts = 5 WHERE event = 1");
    deliveries_forget(q.deliveries);
    d = row_of(1);
    assert_int_equal(d.attempts, 5);
    delivery_fini(&d);
    assert_false(delivery_find(&q, wire_text(long_id), 1, &d));
}

static void an_event_ends_with_its_last_delivery(void **state)
{
    struct delivery d;

    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    run("INSERT INTO bodies(event, headers, body) VALUES(1, x'', x'')");
    for (int other = 2; other <= 40; other++) {
        char *sql = gr_printf("INSERT INTO deliveries(event, endpoint, status, "
                              "lane, route_order) VALUES(1, %d, 0, -1, 1)",
                              other);

        run(sql);
        free(sql);
    }
    for (int64_t id = 40; id >= 1; id--) {
        assert_int_equal(count("SELECT count(*) FROM bodies"), 1);
        endpoint.id = id;
        assert_true(delivery_load(q.deliveries, 1, id, &d));
        delivery_move(&q, &endpoint, &d, DELIVERY_DELIVERED, &reported);
        delivery_fini(&d);
    }
    endpoint.id = 1;
    assert_int_equal(count("SELECT count(*) FROM bodies"), 0);
}

/* An older copy of the database: dlqd sends a dead letter whose event is buffered again. */
static void
a_buffered_event_keeps_its_body_after_its_last_delivery(void **state)
{
    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    run("INSERT INTO bodies(event, headers, body) VALUES(1, x'', x'')");
    run("UPDATE events SET status = 3 WHERE n = 1");
    move(1, DELIVERY_DELIVERED, &reported);
    assert_int_equal(count("SELECT count(*) FROM bodies"), 1);
}

static void an_event_that_was_purged_is_found_under_its_new_number(void **state)
{
    struct event_row again = {.n = 2,
                              .id = (char *)(uintptr_t)long_id,
                              .source = (char[]){"s"},
                              .type = (char[]){"t"},
                              .workspace = (char[]){"w"}};
    struct delivery d;

    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    d = keep_row(1);
    delivery_fini(&d);
    move(1, DELIVERY_DELIVERED, &reported);
    run("DELETE FROM deliveries");
    run("DELETE FROM events");
    store_event_add(q.store, &again);
    run("INSERT INTO deliveries(event, endpoint, status, lane, route_order) "
        "VALUES(2, 1, 0, 1, 2)");
    assert_true(delivery_find(&q, wire_text(long_id), 1, &d));
    assert_int_equal(d.event, 2);
    delivery_fini(&d);
}

/* The rest of the turn uses rows in memory, and is rolled back. */
static void a_kept_row_is_used_after_the_disk_was_full(void **state)
{
    struct delivery d;

    (void)state;
    add(1, DELIVERY_IN_FLIGHT, false);
    d = keep_row(1);
    delivery_fini(&d);
    run("PRAGMA max_page_count = 1"); /* no less than it has */
    run("CREATE TABLE large(b)");
    assert_true(db_full(q.d.db));
    d = row_of(1);
    assert_int_equal(d.status, DELIVERY_IN_FLIGHT);
    delivery_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            only_what_the_table_allows_reaches_the_disk, begin, end),
        cmocka_unit_test_setup_teardown(a_dispatched_delivery_takes_a_slot,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_copy_that_is_out_keeps_slot_and_lane_until_it_is_gone, begin,
            end),
        cmocka_unit_test_setup_teardown(
            a_retry_that_is_dropped_takes_a_slot_until_then, begin, end),
        cmocka_unit_test_setup_teardown(
            a_reported_end_lets_the_next_of_the_lane_go, begin, end),
        cmocka_unit_test_setup_teardown(
            a_success_dispatches_the_next_of_its_lane, begin, end),
        cmocka_unit_test_setup_teardown(
            the_next_of_a_lane_keeps_the_time_of_its_retry, begin, end),
        cmocka_unit_test_setup_teardown(
            a_late_success_of_a_waiting_head_dispatches_the_next, begin, end),
        cmocka_unit_test_setup_teardown(
            a_late_success_of_a_copy_that_is_out_does_not, begin, end),
        cmocka_unit_test_setup_teardown(
            a_late_success_behind_the_head_dispatches_nothing, begin, end),
        cmocka_unit_test_setup_teardown(
            the_next_of_a_lane_waits_if_it_may_not_be_dispatched, begin, end),
        cmocka_unit_test_setup_teardown(a_failure_dispatches_nothing, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_success_in_a_halted_lane_dispatches_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_removed_endpoints_lane_keeps_a_head,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_dead_letter_is_written_once_and_a_late_success_recovers_it, begin,
            end),
        cmocka_unit_test_setup_teardown(a_temporary_endpoint_has_no_dead_letter,
                                        begin, end),
        cmocka_unit_test_setup_teardown(an_ended_grant_frees_what_it_held,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_task_that_is_encoded_again_is_measured_once, begin, end),
        cmocka_unit_test_setup_teardown(
            a_kept_row_is_never_older_than_the_one_on_disk, begin, end),
        cmocka_unit_test_setup_teardown(
            rows_are_read_again_after_a_turn_was_rolled_back, begin, end),
        cmocka_unit_test_setup_teardown(an_event_ends_with_its_last_delivery,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_buffered_event_keeps_its_body_after_its_last_delivery, begin,
            end),
        cmocka_unit_test_setup_teardown(
            an_event_that_was_purged_is_found_under_its_new_number, begin, end),
        cmocka_unit_test_setup_teardown(
            a_kept_row_is_used_after_the_disk_was_full, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
