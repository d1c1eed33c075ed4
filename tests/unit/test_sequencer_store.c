/* How the sequencer's statements find their rows: with ten million deliveries
 * waiting, one that looks at more than it needs is one too many. */
#include "clock.h"
#include "provider_ids.h"
#include "search.h"
#include "sequencer.h"
#include "store.h"
#include "store_lanes.h"
#include "store_order.h"
#include "store_search.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Those that walk a table by intention: small ones, at a start. */
static const char *const walks[] = {"FROM endpoints", "FROM deliverers",
                                    "FROM ingresses", "sum(held)"};

static bool may_walk(const char *sql)
{
    for (size_t i = 0; i < COUNT_OF(walks); i++)
        if (strstr(sql, walks[i]))
            return true;
    return false;
}

static void judge(const char *sql, const char *step)
{
    if (strncmp(step, "SCAN ", 5) == 0 && !strstr(step, "CONSTANT ROW") &&
        !(strstr(step, " INDEX ") && strstr(sql, "LIMIT")) &&
        !strstr(sql, "FROM workspaces ORDER BY name LIMIT") &&
        !strstr(step, "(subquery") && !may_walk(sql))
        fail_msg("%s\n%s", step, sql);
    if (strstr(step, "deliveries_lane") &&
        !strstr(step, strstr(sql, "(lane, lane_key) >")
                          ? "(lane,lane_key)>(?,?)"
                      : strstr(sql, "d.lane >= ")
                          ? "(endpoint=? AND lane>? AND lane<?)"
                          : "lane=? AND lane_key=?"))
        fail_msg("%s\n%s", step, sql);
    /* A count of what waits touches no rows. */
    if (strstr(sql, "count(*)") && strstr(step, "deliveries USING INDEX"))
        fail_msg("%s\n%s", step, sql);
    if (strstr(step, "TEMP B-TREE FOR ORDER") &&
        (strstr(sql, "FROM deliveries INDEXED") || strstr(sql, " DESC")) &&
        !strstr(sql, "LIMIT 1"))
        fail_msg("%s\n%s", step, sql);
}

static void explain(sqlite3 *h, const char *sql)
{
    char *text = gr_printf("EXPLAIN QUERY PLAN %s", sql);
    sqlite3_stmt *s = NULL;

    assert_int_equal(sqlite3_prepare_v2(h, text, -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW)
        judge(sql, (const char *)sqlite3_column_text(s, 3));
    sqlite3_finalize(s);
    free(text);
}

static char folder[32], *path;
static struct db *db;
static struct store *store;

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gr-store-XXXXXX");
    assert_non_null(mkdtemp(folder));
    path = gr_printf("%s/sequencer.db", folder);
    db = db_open(path, &sequencer_schema);
    store = store_open(db);
    return 0;
}

static int end(void **state)
{
    (void)state;
    store_close(store);
    db_close(db);
    unlink(path);
    free(path);
    rmdir(folder);
    return 0;
}

static void every_statement_seeks_what_it_needs(void **state)
{
    struct deliveries *deliveries = deliveries_open(db);
    struct store_lanes *lanes = store_lanes_open(db);
    struct store_order *order = store_order_open(db);
    struct store_search *search = store_search_open(db);
    const char *sql[200];
    int count = 0;

    (void)state;
    for (sqlite3_stmt *s = NULL; (s = sqlite3_next_stmt(db_handle(db), s));)
        if (strstr(sqlite3_sql(s), "SELECT") && count < (int)COUNT_OF(sql))
            sql[count++] = sqlite3_sql(s);
    assert_in_range(count, 30, COUNT_OF(sql) - 1);
    for (int i = 0; i < count; i++)
        explain(db_handle(db), sql[i]);
    store_search_close(search);
    store_order_close(order);
    store_lanes_close(lanes);
    deliveries_close(deliveries);
}

/* ---- shared headers ---- */

static int64_t heads(void)
{
    return db_number(db, db_prepare(db, "SELECT count(*) FROM heads"), 0);
}

/* A requeue brings headers and body of an event that still has its own. */
static void a_body_that_is_there_already_leaves_no_shared_head(void **state)
{
    char text[1000];
    const struct bytes body = {"{}", 2}, headers = {text, sizeof text};

    (void)state;
    memset(text, 'h', sizeof text);
    db_begin(db);
    store_body_add(store, 1, headers, body);
    store_body_add(store, 1, headers,
                   body); /* the second: it would be shared */
    assert_int_equal(heads(), 0);
    store_body_add(store, 2, headers, body);
    store_body_add(store, 2, headers, body);
    assert_int_equal(heads(), 1);
    store_body_add(store, 3, headers, body);
    store_body_drop(store, 2);
    assert_int_equal(heads(), 1); /* the third event's */
    store_body_drop(store, 3);
    assert_int_equal(heads(), 0);
    store_body_drop(store, 1);
    assert_int_equal(db_commit(db), GR_OK);
}

/* ---- an older database ---- */

/* A program of before wrote 16 bits of an endpoint's id into what its log points
 * at; the rows that are still to be sent mean the same deliveries. */
static void the_log_of_an_older_program_is_carried_forward(void **state)
{
    static const char kinds[] =
        "INSERT INTO hop_log(link, n, kind, ref) VALUES"
        "(1, 1, 33, 7 << 16 | 65535), (1, 2, 35, 8 << 16 | 2), (1, 3, 9, 77)";
    const int before = 7; /* its steps */
    struct db_schema older = sequencer_schema;
    stmt *ref;

    (void)state;
    store_close(store);
    db_close(db);
    unlink(path);
    older.create = NULL;
    older.count = before;
    db = db_open(path, &older);
    db_exec(db, kinds);
    db_close(db);
    db = db_open(path, &sequencer_schema);
    store = store_open(db);
    ref = db_prepare(db, "SELECT ref FROM link_log WHERE n = ?");
    for (int n = 1; n <= 3; n++) {
        bind_i64(ref, 1, n);
        assert_int_equal(db_number(db, ref, 0), n == 1 ? delivery_ref(7, 65535)
                                                : n == 2 ? delivery_ref(8, 2)
                                                         : 77);
    }
}

/* ---- the provider's ids ---- */

struct found {
    int count;
    char ids[8], providers[8], deliveries[8]; /* a dead letter each */
};

static void note_found(void *arg, const struct event_row *e)
{
    struct found *f = arg;

    if (f->count < 7) {
        f->ids[f->count] = e->id[4];
        f->providers[f->count] = *e->provider_id ? *e->provider_id : '-';
        f->deliveries[f->count] = *e->delivery_id ? *e->delivery_id : '-';
    }
    f->count++;
}

static struct found find(const char *id)
{
    struct sequencer q = {.search = store_search_open(db),
                          .provider_ids = provider_ids_open(db)};
    struct found f = {0};
    char why[200];

    assert_true(events_of_provider_id(&q, id, note_found, &f, why));
    provider_ids_close(q.provider_ids);
    store_search_close(q.search);
    return f;
}

static void add_named(int64_t n, const char *provider_id, const char *delivery)
{
    char id[8];

    snprintf(id, sizeof id, "evt_%d", (int)n);
    store_event_add(store, &(struct event_row){.n = n,
                                               .id = id,
                                               .source = "s",
                                               .provider_id = provider_id,
                                               .delivery_id = delivery,
                                               .type = "t",
                                               .workspace = "w"});
}

/* P10: newest first, by either id, and of a number that came very often a
 * hundred. One that is both is stored once. */
static void an_event_is_found_by_either_id(void **state)
{
    struct found f;
    struct event_row e;
    stmt *stored;

    (void)state;
    add_named(1, "p", "d");
    add_named(2, "d", "d");
    add_named(3, NULL, "d");
    add_named(4, "p", NULL);
    f = find("d");
    assert_string_equal(f.ids, "321");
    assert_string_equal(f.providers, "-dp");
    assert_string_equal(f.deliveries, "ddd");
    f = find("p");
    assert_string_equal(f.ids, "41");
    assert_string_equal(f.deliveries, "-d");
    assert_int_equal(find("").count, 0);
    stored = db_prepare(db, "SELECT ifnull(length(delivery_id), -1) FROM "
                            "events WHERE n = ?");
    bind_i64(stored, 1, 2);
    assert_int_equal(db_number(db, stored, 0), 0);
    /* What is set anew keeps its rule. */
    assert_true(store_event(store, 2, &e));
    e.provider_id = "q";
    store_event_set(store, &e);
    event_fini(&e);
    assert_string_equal(find("d").providers, "-qp");
    for (int64_t n = 10; n < 200; n++)
        add_named(n, "p", "d");
    assert_int_equal(find("d").count, 100);
    assert_int_equal(find("p").count, 100);
}

static void ids_of_an_older_program_find_their_events(void **state)
{
    static const char row[] =
        "INSERT INTO events(n, id, source, provider_id, type, workspace, "
        "received_ms, taken_ms, status) VALUES(1, 'evt_1', 's', 'd', 't', "
        "'w', 1, 1, 0)";
    struct db_schema older = sequencer_schema;
    struct found f;

    (void)state;
    store_close(store);
    db_close(db);
    unlink(path);
    older.create = NULL;
    older.count = 0; /* up to 14-delivery_ids.sql */
    while (!strstr(older.steps[older.count], "ADD COLUMN delivery_id"))
        older.count++;
    db = db_open(path, &older);
    db_exec(db, row);
    db_close(db);
    db = db_open(path, &sequencer_schema);
    store = store_open(db);
    f = find("d");
    assert_string_equal(f.ids, "1");
    assert_string_equal(f.providers, "d");
    assert_string_equal(f.deliveries, "-");
}

/* ---- what is purged ---- */

static void add_with_id(int64_t n, const char *id)
{
    store_event_add(store, &(struct event_row){.n = n,
                                               .id = id,
                                               .source = "plane",
                                               .type = "t",
                                               .workspace = "w",
                                               .clock = ""});
}

/* Ids of several processes ascend, but not all together; those made from keys are above all of them. */
static void an_id_is_found_whatever_came_before_it(void **state)
{
    static const char *const ids[] = {
        "evt_01JG00000000000000000000B0", "evt_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "evt_01JG00000000000000000000A0", "evt_01JG00000000000000000000C0",
        "evt_80000000000000000000000000", "evt_01JG00000000000000000000BZ"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        assert_int_equal(store_event_n(store, wire_text(ids[i])), 0);
        add_with_id((int64_t)i + 1, ids[i]);
        if (i == COUNT_OF(ids) / 2) { /* the process starts again */
            store_close(store);
            store = store_open(db);
        }
        for (size_t k = 0; k <= i; k++)
            assert_int_equal(store_event_n(store, wire_text(ids[k])), k + 1);
    }
    assert_int_equal(
        store_event_n(store, wire_text("evt_01JG00000000000000000000D0")), 0);
}

static void add_event(int64_t n, int status, int64_t taken_ms)
{
    char id[8];

    snprintf(id, sizeof id, "evt_%d", (int)n);
    store_event_add(store, &(struct event_row){.n = n,
                                               .id = id,
                                               .source = "s",
                                               .type = "t",
                                               .workspace = "w",
                                               .taken_ms = taken_ms,
                                               .status = status});
}

static void add_delivery(int64_t event, int status, uint64_t grant)
{
    stmt *add = db_prepare(
        db, "INSERT INTO deliveries(event, endpoint, status, grant_id, lane, "
            "route_order) VALUES(?, 1, ?, ?, 0, 0)");

    bind_i64(add, 1, event);
    bind_i64(add, 2, status);
    bind_i64(add, 3, (int64_t)grant);
    db_run(db, add);
}

static bool is_there(int64_t n)
{
    struct event_row e;
    bool there = store_event(store, n, &e);

    event_fini(&e);
    return there;
}

/* Only the events with a subscriber are asked about. */
static bool is_needed(void *arg, int64_t event, int64_t subscriber,
                      int64_t taken_ms)
{
    (void)arg;
    (void)taken_ms;
    assert_int_equal(subscriber, 7);
    return event % 2;
}

/* P2: a process that waits for the outcome of an event gets it before the event is purged. */
static void an_event_stays_until_its_subscriber_knows_its_end(void **state)
{
    int64_t at = 0;

    (void)state;
    for (int64_t n = 1; n <= 4; n++)
        store_event_add(store,
                        &(struct event_row){
                            .n = n,
                            .id = (const char *[]){"a", "b", "c", "d"}[n - 1],
                            .source = "s",
                            .type = "t",
                            .workspace = "w",
                            .subscriber = n < 3 ? 7 : 0,
                            .status = EVENT_ROUTED});
    db_run(db, db_prepare(db, "INSERT INTO outcome_decisions VALUES(1, 0, 1, "
                              "1), (2, 0, 1, 1)"));
    db_run(db, db_prepare(db, "INSERT INTO outcome_replays VALUES(1, 7), "
                              "(2, 7)"));
    assert_false(store_purge(store, 2, 1, 64, &at, is_needed, NULL));
    for (int64_t n = 1; n <= 4; n++)
        assert_int_equal(is_there(n), n == 1);
    assert_int_equal(
        db_number(db,
                  db_prepare(db, "SELECT sum(event) FROM (SELECT event FROM "
                                 "outcome_decisions UNION ALL SELECT event "
                                 "FROM outcome_replays)"),
                  0),
        2);
}

/* P2, P5: an event is no history yet when it is buffered, when a delivery of
 * it is open or waits to be sent again, or when a copy of it is still out: its
 * lane waits for that. */
static void only_ended_events_are_purged(void **state)
{
    enum {
        DONE = 1,
        HELD,
        OPEN,
        COPY_OUT,
        AGAIN,
        DEAD_LETTER,
        DUPLICATE,
        YOUNG
    };
    int64_t at = 0;

    (void)state;
    for (int64_t n = DONE; n < YOUNG; n++)
        add_event(n,
                  n == HELD        ? EVENT_BUFFERED
                  : n == DUPLICATE ? EVENT_DUPLICATE
                                   : EVENT_ROUTED,
                  0);
    add_delivery(DONE, DELIVERY_DELIVERED, 0);
    add_delivery(OPEN, DELIVERY_WAITING, 0);
    add_delivery(COPY_OUT, DELIVERY_DELIVERED, 7);
    add_delivery(AGAIN, DELIVERY_DELIVERED, 0);
    store_reopening_add(store, AGAIN, 1, 5);
    add_delivery(DEAD_LETTER, DELIVERY_DEAD, 0);
    store_dead_letter_add(store, 1,
                          &(struct dead_letter_row){.event = DEAD_LETTER,
                                                    .endpoint = 1,
                                                    .generation = 1,
                                                    .error = "",
                                                    .reason = "rejected",
                                                    .response = {"", 0}});
    assert_false(store_purge(store, 2, 1, 64, &at, is_needed, NULL));
    for (int64_t n = DONE; n < YOUNG; n++)
        assert_int_equal(is_there(n), n != DONE && n != DUPLICATE);
}

/* A clock that was ahead for a while is no reason to keep all from then on. */
static void rows_behind_a_future_time_are_purged(void **state)
{
    enum { OLD = 1, AHEAD, OLD_TOO, YOUNG, LAST };
    const int64_t now = 400 * DAY_MS, keep = 30 * DAY_MS;
    int64_t at = 0;

    (void)state;
    add_event(OLD, EVENT_ROUTED, now - keep - 1);
    add_event(AHEAD, EVENT_ROUTED, now + 300 * DAY_MS);
    add_event(OLD_TOO, EVENT_ROUTED, now - keep - 1);
    add_event(YOUNG, EVENT_ROUTED, now - keep);
    add_event(LAST, EVENT_ROUTED, now - keep - 1);
    assert_false(store_purge(store, now, now - keep, 64, &at, is_needed, NULL));
    assert_int_equal(at, OLD_TOO);
    for (int64_t n = OLD; n <= LAST; n++)
        assert_int_equal(is_there(n), n != OLD && n != OLD_TOO);
}

/* P2: its last dead letter may be done with while it is buffered. */
static void a_buffered_event_has_not_ended(void **state)
{
    (void)state;
    add_event(1, EVENT_BUFFERED, 0);
    add_event(2, EVENT_ROUTED, 0);
    assert_false(store_event_ended(store, 1));
    assert_true(store_event_ended(store, 2));
}

/* P5: deliveries of one number and different keys are in different lanes. */
static void each_key_of_a_workspace_is_a_lane(void **state)
{
    /* lane, key and status of events 1, 2 … */
    static const struct {
        struct lane lane;
        int status;
        bool behind;
    } rows[] = {{{5, 0}, DELIVERY_WAITING, false},
                {{5, 7}, DELIVERY_DELIVERED, false},
                {{5, 7}, DELIVERY_WAITING, true},
                {{5, 7}, DELIVERY_WAITING, true},
                {{5, INT64_MAX}, DELIVERY_WAITING, false},
                {{6, 7}, DELIVERY_WAITING, false}};
    struct store_lanes *lanes = store_lanes_open(db);
    struct lane lane = {-1, 0}, found[8];
    struct lane_front front;
    int64_t route_order;
    int n = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        stmt *add = db_prepare(
            db, "INSERT INTO deliveries(event, endpoint, status, lane, "
                "lane_key, route_order, behind) VALUES(?1, 1, ?, ?, ?, ?1, ?)");

        bind_i64(add, 1, (int64_t)i + 1);
        bind_i64(add, 2, rows[i].status);
        bind_i64(add, 3, rows[i].lane.n);
        bind_i64(add, 4, rows[i].lane.key);
        bind_i64(add, 5, rows[i].behind);
        db_run(db, add);
    }
    for (; store_lane_after(lanes, 1, lane, &lane); n++)
        found[n] = lane;
    assert_int_equal(n, 4);
    for (int i = 0; i < n; i++) {
        const struct lane want = rows[i ? i + 2 : 0].lane;

        assert_true(found[i].n == want.n && found[i].key == want.key);
    }
    lane = rows[2].lane;
    assert_true(store_lane_any(lanes, 1, lane));
    assert_true(store_lane_front(lanes, 1, lane, &front));
    assert_true(front.behind);
    assert_int_equal(front.event, 3);
    assert_true(store_lane_front(lanes, 1, rows[0].lane, &front));
    assert_false(front.behind);
    assert_false(store_lane_front(lanes, 1, (struct lane){6, 0}, &front));
    assert_false(store_lane_any(lanes, 1, (struct lane){6, 0}));
    store_halt(lanes,
               &(struct halt_row){
                   .event = 2, .endpoint = 1, .lane = lane, .route_order = 2});
    assert_true(store_halted(lanes, 1, lane, &route_order));
    assert_false(store_halted(lanes, 1, rows[0].lane, &route_order));
    store_lanes_close(lanes);
}

static void assert_range(struct store_lanes *lanes, bool behind,
                         struct lane_range range, const char *events)
{
    struct lane_row rows[8];
    int n = store_lane_range(lanes, 1, behind, range, COUNT_OF(rows), rows);
    char found[64] = "";

    for (int i = 0; i < n; i++) {
        snprintf(found + strlen(found), sizeof found - strlen(found), "%d ",
                 (int)rows[i].event);
        free(rows[i].workspace);
        free(rows[i].ordering_key);
        free(rows[i].retry_choice);
    }
    assert_string_equal(found, events);
}

/* Both kinds of a lane's deliveries, each by its own index. */
static void waiting_deliveries_are_found_by_ranges_of_lanes(void **state)
{
    static const struct {
        int64_t lane;
        int status;
        bool behind;
    } rows[] = {
        {INT64_MIN, DELIVERY_WAITING, false}, {-5, DELIVERY_WAITING, false},
        {7, DELIVERY_WAITING, false},         {7, DELIVERY_WAITING, true},
        {7, DELIVERY_WAITING, true},          {8, DELIVERY_IN_FLIGHT, false},
        {8, DELIVERY_WAITING, true},          {9, DELIVERY_DELIVERED, false}};
    struct store_lanes *lanes = store_lanes_open(db);
    struct ready_row ready[8];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        stmt *add = db_prepare(
            db, "INSERT INTO deliveries(event, endpoint, status, grant_id, "
                "lane, route_order, behind) VALUES(?1, 1, ?, ?, ?, ?1, ?)");

        bind_i64(add, 1, (int64_t)i + 1);
        bind_i64(add, 2, rows[i].status);
        bind_i64(add, 3, rows[i].status == DELIVERY_IN_FLIGHT);
        bind_i64(add, 4, rows[i].lane);
        bind_i64(add, 5, rows[i].behind);
        db_run(db, add);
    }
    assert_range(lanes, false, (struct lane_range){INT64_MIN, -1}, "1 2 ");
    assert_range(lanes, false, (struct lane_range){0, INT64_MAX}, "3 ");
    assert_range(lanes, true, (struct lane_range){INT64_MIN, -1}, "");
    assert_range(lanes, true, (struct lane_range){0, 7}, "4 5 ");
    assert_range(lanes, true, (struct lane_range){8, INT64_MAX}, "7 ");
    assert_int_equal(
        store_ready(store, 1, INT64_MIN, 7, COUNT_OF(ready), ready), 2);
    assert_true(ready[0].event == 2 && ready[0].lane == -5);
    assert_true(ready[1].event == 3 && ready[1].lane == 7);
    assert_int_equal(store_count_waiting(store, 1, 100), 6);
    store_lanes_close(lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_statement_seeks_what_it_needs,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_body_that_is_there_already_leaves_no_shared_head, begin, end),
        cmocka_unit_test_setup_teardown(
            the_log_of_an_older_program_is_carried_forward, begin, end),
        cmocka_unit_test_setup_teardown(an_event_is_found_by_either_id, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            ids_of_an_older_program_find_their_events, begin, end),
        cmocka_unit_test_setup_teardown(an_id_is_found_whatever_came_before_it,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            an_event_stays_until_its_subscriber_knows_its_end, begin, end),
        cmocka_unit_test_setup_teardown(
            waiting_deliveries_are_found_by_ranges_of_lanes, begin, end),
        cmocka_unit_test_setup_teardown(each_key_of_a_workspace_is_a_lane,
                                        begin, end),
        cmocka_unit_test_setup_teardown(only_ended_events_are_purged, begin,
                                        end),
        cmocka_unit_test_setup_teardown(rows_behind_a_future_time_are_purged,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_buffered_event_has_not_ended, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
