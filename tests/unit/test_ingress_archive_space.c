/* Tests of archive_space: limits by size and disk, and which rows are deleted. P1, P2.
 * */
#include "archive_space.h"
#include "clock.h"
#include "db.h"
#include "ingress.h"
#include "links.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MIB = 1024 * 1024 };

static void the_mark_is_a_part_of_the_disk_but_not_a_large_one(void **state)
{
    (void)state;
    assert_int_equal(archive_space_mark_bytes(20LL * MIB) / 1000, MIB / 1000);
    assert_int_equal(archive_space_mark_bytes(1000LL * 1024 * MIB), 256 * MIB);
    assert_int_equal(archive_space_mark_bytes(0), 0);
}

static void below_the_mark_or_over_the_size_is_a_refusal(void **state)
{
    struct archive_space r = {.free_bytes = 100,
                              .mark_bytes = 100,
                              .max_bytes = 50,
                              .used_bytes = 50};

    (void)state;
    assert_int_equal(archive_space_judge(&r), ARCHIVE_HAS_SPACE);
    r.used_bytes = 51;
    assert_int_equal(archive_space_judge(&r), ARCHIVE_BACKLOG_FULL);
    r.free_bytes = 99;
    assert_int_equal(archive_space_judge(&r), ARCHIVE_DISK_LOW);
}

static void its_share_is_half_of_what_its_disk_can_give(void **state)
{
    struct archive_space r = {
        .max_bytes = 50, .used_bytes = 10, .free_bytes = 1000};

    (void)state;
    assert_int_equal(archive_space_share_bytes(&r), 50);
    r.free_bytes = 60;
    assert_int_equal(archive_space_share_bytes(&r), 35);
}

/* ---- rows ---- */

static char folder[] = "/tmp/gr-space-XXXXXX";
static struct archive_store store;
static const struct retention right_clock;

static int open_store(void **state)
{
    char *path;

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gr-space-XXXXXX");
    assert_non_null(mkdtemp(folder));
    path = gr_printf("%s/i.db", folder);
    archive_store_open(&store, db_open(path, &ingress_schema));
    free(path);
    return 0;
}

static int close_store(void **state)
{
    char *command = gr_printf("rm -r %s", folder);

    (void)state;
    archive_store_close(&store);
    db_close(store.db);
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

static void insert_of(const char *source, int64_t n, int64_t received_ms,
                      size_t body_bytes)
{
    char id[EVENT_ID_BYTES + 1];
    char *body = gr_alloc(body_bytes + 1);
    struct archive_row row = {.n = n,
                              .received_ms = received_ms,
                              .event_id = id,
                              .source = source,
                              .remote = "",
                              .headers = {"", 0},
                              .body = {body, body_bytes}};

    snprintf(id, sizeof id, "evt_%026d", (int)n);
    memset(body, 'b', body_bytes);
    archive_insert(&store, &row);
    free(body);
}

static void insert(int64_t n, int64_t received_ms, size_t body_bytes)
{
    insert_of("plane", n, received_ms, body_bytes);
}

static void commit(void)
{
    assert_int_equal(db_commit(store.db), GR_OK);
}

static void rows_are_purged_from_the_front_in_steps(void **state)
{
    int64_t first, last;
    char id[EVENT_ID_BYTES + 1];

    (void)state;
    db_begin(store.db);
    for (int n = 1; n <= 20; n++)
        insert(n, n * 1000, 1000);
    assert_int_equal(archive_purge(&store, 0, 1000, 5, MIB), 0);
    assert_int_equal(archive_purge(&store, 20, 1000, 5, MIB), 5);
    assert_int_equal(archive_purge(&store, 7, 1000, 5, MIB), 7);
    assert_int_equal(archive_purge(&store, 7, 1000, 5, MIB), 0);
    assert_int_equal(archive_purge(&store, 20, 1000, 20, 2500), 10); /* bytes */
    assert_int_equal(archive_purge(&store, 11, 1000, 20, MIB), 11);
    commit();
    archive_ends(&store, &first, &last, id);
    assert_int_equal(first, 12);
    assert_int_equal(last, 20);
    assert_string_equal(id, "evt_00000000000000000000000020");
}

static int64_t old(struct ages *ages, int64_t before_ms, int64_t now_ms)
{
    archive_ages(&store, before_ms, now_ms, 4, ages);
    return ages->old_n;
}

/* Some came while the clock was ahead: behind them, too, it is looked, in steps,
 * and what came before an old one is old. */
static void a_row_from_the_future_does_not_keep_others(void **state)
{
    const int64_t now = 1000LL * DAY_MS, ahead = now + 100 * DAY_MS;
    const int64_t cut = now - 9 * DAY_MS;
    struct ages ages = {0};

    (void)state;
    db_begin(store.db);
    insert(1, cut - 2, 10);
    for (int n = 2; n <= 9; n++)
        insert(n, ahead, 10);
    insert(10, cut - 1, 10);
    insert(11, ahead, 10);
    insert(12, cut, 10);
    insert(13, cut - 1, 10); /* came slowly */
    commit();
    assert_int_equal(old(&ages, cut, now), 1);
    assert_int_equal(old(&ages, cut, now), 1);
    assert_int_equal(old(&ages, cut, now), 10);
    assert_int_equal(old(&ages, cut, now), 10);
    assert_int_equal(old(&ages, cut + 1, now), 13);
    assert_int_equal(old(&ages, cut - 1, now), 1); /* keep was made longer */
}

/* P2: what was promised to be sent again is there when it leaves. */
static void a_row_stays_until_its_replay_was_handed_on(void **state)
{
    struct replay_row replay = {.n = 11,
                                .archived = 4,
                                .action_id = 1,
                                .event_id = "evt_00000000000000000000000004",
                                .new_id = "",
                                .endpoint = "",
                                .who = "me"};
    struct buf message;

    (void)state;
    buf_init(&message, MIB);
    db_begin(store.db);
    for (int n = 1; n <= 10; n++)
        insert(n, n * 1000, 1000);
    archive_replay_add(&store.replays, &replay);
    assert_int_equal(archive_purge(&store, 10, 10, 20, MIB), 3);
    assert_int_equal(archive_purge(&store, 10, 10, 20, MIB), 0);
    assert_true(archive_replay_load(&store.replays, 11, &message));
    assert_int_equal(archive_purge(&store, 10, 11, 20, MIB), 10);
    assert_false(archive_replay_load(&store.replays, 11, &message));
    commit();
    buf_fini(&message);
}

static void purged_space_is_free_again(void **state)
{
    int64_t before, full;

    (void)state;
    before = db_used_bytes(store.db);
    db_begin(store.db);
    for (int n = 1; n <= 100; n++)
        insert(n, 1, 10000);
    commit();
    full = db_used_bytes(store.db);
    assert_true(full > before + 1000000);
    db_begin(store.db);
    assert_int_equal(archive_purge(&store, 100, 1000, 100, 100 * MIB), 100);
    commit();
    assert_true(db_used_bytes(store.db) < before + 100000);
}

static struct mailbox *mailbox;

/* The sequencer has acknowledged rows up to `taken`. */
static struct links *open_links(int taken)
{
    static const struct links_ops nothing = {0};
    char *sql = gr_printf("INSERT INTO link_out(peer, next, cursor, floor) "
                          "VALUES('sequencer', %d, %d, 1)",
                          taken + 1, taken);
    struct links *links;

    db_exec(store.db, sql);
    free(sql);
    mailbox = mailbox_open(folder, "ingress");
    links = links_open(store.db, mailbox, &nothing, 1, NULL);
    links_own_log(links, SEQUENCER, KIND_ARCHIVED);
    return links;
}

static void close_links(struct links *links)
{
    links_close(links);
    mailbox_close(mailbox);
}

/* P1: the sequencer was away until the disk was low, and has it all now. Of the
 * very last space nothing is taken to make more. */
static void processed_requests_are_purged_when_the_disk_is_low(void **state)
{
    struct settings s = {.ingress.archive_max_bytes = 1024LL * MIB,
                         .ingress.archive_keep_ms = DAY_MS};
    struct archive_space r;
    struct links *links;
    int wait_ms;

    (void)state;
    links = open_links(20);
    db_begin(store.db);
    for (int n = 1; n <= 20; n++)
        insert(n, 1, 100000);
    r = (struct archive_space){.refusal = ARCHIVE_DISK_LOW,
                               .looked_ms = 1,
                               .free_bytes = MIB,
                               .mark_bytes = 2 * MIB,
                               .used_bytes = db_used_bytes(store.db),
                               .first_n = 1,
                               .last_n = 20};
    assert_int_equal(
        archive_space_work(&r, &store, links, &s, &right_clock, 2, 2, &wait_ms),
        0);
    r.disk_bytes = 100LL * MIB;
    assert_int_equal(
        archive_space_work(&r, &store, links, &s, &right_clock, 2, 2, &wait_ms),
        20);
    assert_int_equal(r.refusal, ARCHIVE_HAS_SPACE);
    commit();
    close_links(links);
}

/* A turn may bring more than the usual step. */
static void as_many_rows_are_purged_as_are_added(void **state)
{
    enum { ROWS = 1000 };
    struct settings s = {.ingress.archive_max_bytes = MIB / 4,
                         .ingress.archive_keep_ms = DAY_MS};
    struct archive_space r = {0};
    struct links *links;
    int wait_ms;

    (void)state;
    links = open_links(1000);
    archive_space_open(&r, &store, &s);
    db_begin(store.db);
    for (int n = 1; n <= ROWS; n++) {
        insert(n, 1, 5000);
        archive_space_took(&r, n, 5000);
    }
    assert_true(archive_space_work(&r, &store, links, &s, &right_clock, 2, 2,
                                   &wait_ms) > ROWS - IDS_APART);
    commit();
    close_links(links);
}

/* After a shorter `keep` all are due: events that arrive wait for the commit of each step. */
static void rows_that_are_due_are_purged_in_small_steps(void **state)
{
    enum { ROWS = 1000 };
    struct settings s = {.ingress.archive_max_bytes = 100LL * MIB,
                         .ingress.archive_keep_ms = 1000};
    struct archive_space r = {0};
    struct links *links;
    int wait_ms, steps = 0;
    int64_t n, all = 0, mono_ms = DAY_MS;

    (void)state;
    links = open_links(1000);
    db_begin(store.db);
    for (int i = 1; i <= ROWS; i++)
        insert(i, 1, 500);
    archive_space_open(&r, &store, &s);
    while ((n = archive_space_work(&r, &store, links, &s, &right_clock, DAY_MS,
                                   mono_ms, &wait_ms)) > 0) {
        assert_in_range(n, 1, PURGE_PACE_ROWS);
        assert_int_equal(wait_ms, PURGE_PACE_MS);
        /* A turn in between leaves them, and asks for the next one. */
        assert_int_equal(archive_space_work(&r, &store, links, &s, &right_clock,
                                            DAY_MS, mono_ms + 1, &wait_ms),
                         0);
        assert_int_equal(wait_ms, PURGE_PACE_MS - 1);
        mono_ms += PURGE_PACE_MS;
        all += n;
        steps++;
    }
    assert_true(all > ROWS - IDS_APART);
    assert_true(steps >= ROWS / PURGE_PACE_ROWS);
    commit();
    close_links(links);
}

static int64_t held_of(const char *source)
{
    char *sql = gr_printf("SELECT count(*) FROM archive WHERE source = '%s'",
                          source);
    stmt *q = db_prepare(store.db, sql);
    int64_t n = db_number(store.db, q, 0);

    free(sql);
    return n;
}

/* 200 rows of 100 kB of one source, behind and among ten of another, and all were handed
 * on: the archive of 8 MiB keeps the ten, and at most half for the one. */
static void a_source_that_floods_deletes_its_own_first(void **state)
{
    enum { ROWS = 210, EVERY = 21, LARGE = 100000 };
    struct settings s = {.ingress.archive_max_bytes = 8LL * MIB,
                         .ingress.archive_keep_ms = DAY_MS};
    struct archive_space r = {0};
    struct links *links;
    int wait_ms = 0;

    (void)state;
    links = open_links(ROWS);
    db_begin(store.db);
    for (int n = 1; n <= ROWS; n++)
        insert_of(n % EVERY == 1 ? "quiet" : "loud", n, 1,
                  n % EVERY == 1 ? 100 : LARGE);
    commit();
    archive_space_open(&r, &store, &s);
    for (int turn = 0; turn < 100 && !wait_ms; turn++) {
        db_begin(store.db);
        archive_space_work(&r, &store, links, &s, &right_clock, 2, 2, &wait_ms);
        commit();
    }
    assert_true(r.used_bytes <= s.ingress.archive_max_bytes);
    assert_int_equal(held_of("quiet"), ROWS / EVERY);
    assert_true(held_of("loud") > 0);
    assert_true(held_of("loud") * LARGE < s.ingress.archive_max_bytes);
    /* What memory knows is what a start would count. */
    {
        struct archive_usage anew;

        archive_usage_open(&anew, store.db);
        assert_int_equal(anew.count, store.usage.count);
        for (size_t i = 0; i < anew.count; i++)
            for (size_t k = 0; k < anew.count; k++)
                if (strcmp(anew.sources[i].name, store.usage.sources[k].name) ==
                    0)
                    assert_int_equal(anew.sources[i].bytes,
                                     store.usage.sources[k].bytes);
        archive_usage_close(&anew);
    }
    close_links(links);
}

static void a_row_is_found_by_its_event_and_loaded_by_its_number(void **state)
{
    struct archived row;
    struct buf out;

    (void)state;
    db_begin(store.db);
    insert(7, 1234, 10);
    commit();
    assert_true(archive_find(&store, "evt_00000000000000000000000007", &row));
    assert_int_equal(row.n, 7);
    assert_int_equal(row.received_ms, 1234);
    assert_int_equal(row.body_bytes, 10);
    assert_string_equal(row.source, "plane");
    archive_found_done(&store);
    assert_false(archive_find(&store, "evt_0", &row));
    buf_init(&out, MIB);
    assert_true(archive_load(&store, 7, &out));
    assert_int_equal(wire_kind((struct bytes){out.data, out.len}),
                     WIRE_KIND_ACCEPTED);
    assert_false(archive_load(&store, 8, &out));
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mark_is_a_part_of_the_disk_but_not_a_large_one),
        cmocka_unit_test(below_the_mark_or_over_the_size_is_a_refusal),
        cmocka_unit_test(its_share_is_half_of_what_its_disk_can_give),
        cmocka_unit_test_setup_teardown(rows_are_purged_from_the_front_in_steps,
                                        open_store, close_store),
        cmocka_unit_test_setup_teardown(
            a_row_from_the_future_does_not_keep_others, open_store,
            close_store),
        cmocka_unit_test_setup_teardown(
            a_row_stays_until_its_replay_was_handed_on, open_store,
            close_store),
        cmocka_unit_test_setup_teardown(purged_space_is_free_again, open_store,
                                        close_store),
        cmocka_unit_test_setup_teardown(
            processed_requests_are_purged_when_the_disk_is_low, open_store,
            close_store),
        cmocka_unit_test_setup_teardown(
            rows_that_are_due_are_purged_in_small_steps, open_store,
            close_store),
        cmocka_unit_test_setup_teardown(as_many_rows_are_purged_as_are_added,
                                        open_store, close_store),
        cmocka_unit_test_setup_teardown(
            a_source_that_floods_deletes_its_own_first, open_store,
            close_store),
        cmocka_unit_test_setup_teardown(
            a_row_is_found_by_its_event_and_loaded_by_its_number, open_store,
            close_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
