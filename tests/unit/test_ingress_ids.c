/* Tests of archive_ids against a model: an event is found by its id, though few ids have
 * an entry. P7, P10. */
#include "ingress.h"
#include "published.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS_MAX = 20000, MIB = 1024 * 1024 };

/* Row n has rows[n]; an empty id: there is none. */
struct tested {
    char folder[32];
    char *path;
    struct archive_store store;
    struct ulid ids;
    uint64_t random;
    int64_t now_ms, first_n, next_n;
    char rows[ROWS_MAX][EVENT_ID_BYTES + 1];
};

static void open_with(struct tested *a, const struct db_schema *schema)
{
    archive_store_open(&a->store, db_open(a->path, schema));
}

static void reopen(struct tested *a)
{
    archive_store_close(&a->store);
    db_close(a->store.db);
    open_with(a, &ingress_schema);
}

static struct tested *new_folder(void)
{
    struct tested *a = gr_alloc(sizeof *a);

    snprintf(a->folder, sizeof a->folder, "/tmp/gr-ids-XXXXXX");
    assert_non_null(mkdtemp(a->folder));
    a->path = gr_printf("%s/i.db", a->folder);
    a->random = 88172645463325252ULL;
    a->now_ms = 1700000000000;
    a->first_n = a->next_n = 1;
    return a;
}

static int setup(void **state)
{
    struct tested *a = new_folder();

    open_with(a, &ingress_schema);
    *state = a;
    return 0;
}

static int teardown(void **state)
{
    struct tested *a = *state;
    char *command = gr_printf("rm -r %s", a->folder);

    archive_store_close(&a->store);
    db_close(a->store.db);
    assert_int_equal(system(command), 0);
    free(command);
    free(a->path);
    free(a);
    return 0;
}

/* The same numbers in each run. */
static int below(struct tested *a, int max)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 7;
    a->random ^= a->random << 17;
    return (int)(a->random % (uint64_t)max);
}

/* ---- rows ---- */

static void insert(struct tested *a, const char *id, size_t body_bytes)
{
    char *body = gr_alloc(body_bytes + 1);

    assert_true(a->next_n < ROWS_MAX);
    memset(body, 'b', body_bytes);
    archive_insert(&a->store,
                   &(struct archive_row){.n = a->next_n,
                                         .event_id = id,
                                         .source = "plane",
                                         .remote = "",
                                         .headers = {"", 0},
                                         .body = {body, body_bytes}});
    memcpy(a->rows[a->next_n++], id, EVENT_ID_BYTES + 1);
    free(body);
}

static void made_from_time(struct tested *a, char id[EVENT_ID_BYTES + 1])
{
    memcpy(id, "evt_", 4);
    ulid_next(&a->ids, a->now_ms += below(a, 3), id + 4);
}

static void made_from_a_key(struct tested *a, int key,
                            char id[EVENT_ID_BYTES + 1])
{
    char text[32];

    snprintf(text, sizeof text, "order-%d", key);
    published_event_id(id, "billing", (struct bytes){text, strlen(text)});
    (void)a;
}

static void insert_timed(struct tested *a, int count)
{
    char id[EVENT_ID_BYTES + 1];

    for (; count > 0; count--) {
        made_from_time(a, id);
        insert(a, id, 10);
    }
}

/* Keys are the numbers of their rows. */
static void insert_keyed(struct tested *a, int count)
{
    char id[EVENT_ID_BYTES + 1];

    for (; count > 0; count--) {
        made_from_a_key(a, (int)a->next_n, id);
        insert(a, id, 10);
    }
}

static void purge(struct tested *a, int64_t upto)
{
    while (archive_purge(&a->store, upto, a->next_n, 256, 64 * MIB))
        ;
    for (; a->first_n <= upto && a->first_n < a->next_n; a->first_n++)
        a->rows[a->first_n][0] = 0;
}

/* ---- what must be so ---- */

static void absent(struct tested *a, const char *id)
{
    assert_int_equal(archive_number(&a->store, id), 0);
}

/* The ids just below and above one, letter by letter: no row has them. */
static void neighbours_are_absent(struct tested *a, const char *id)
{
    char other[EVENT_ID_BYTES + 1];
    struct ulid u = {0};

    memcpy(other, id, sizeof other);
    other[EVENT_ID_BYTES - 1] = 0;
    absent(a, other);
    if (ulid_resume(&u, id + 4) != GR_OK)
        return;
    ulid_next(&u, 0, other + 4);
    for (int64_t n = a->first_n; n < a->next_n; n++)
        if (strcmp(a->rows[n], other) == 0)
            return; /* the next one came in the same millisecond */
    absent(a, other);
}

static int64_t number(struct tested *a, const char *sql)
{
    stmt *s = NULL;
    int64_t n;

    assert_int_equal(
        sqlite3_prepare_v2(db_handle(a->store.db), sql, -1, &s, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return n;
}

/* P10: each row is found by its id, whatever was found or not before it. */
static void is_as_it_should_be(struct tested *a)
{
    const char *newest = "";
    char id[EVENT_ID_BYTES + 1];
    int64_t first, last;

    for (int64_t n = a->first_n; n < a->next_n; n++) {
        if (!a->rows[n][0])
            continue;
        assert_int_equal(archive_number(&a->store, a->rows[n]), n);
        if (n % 97 == 0 || n == a->first_n || n == a->next_n - 1)
            neighbours_are_absent(a, a->rows[n]);
        if (strcmp(a->rows[n], KEYED_IDS_FROM) < 0)
            newest = a->rows[n];
    }
    for (const char *const *other =
             (const char *const[]){"", "evt_", "evt_00000000000000000000000000",
                                   "evt_7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
                                   "evt_80000000000000000000000000",
                                   "evt_ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "zzz",
                                   NULL};
         *other; other++)
        absent(a, *other);
    archive_ends(&a->store, &first, &last, id);
    assert_string_equal(id, newest);
    assert_int_equal(number(a, "SELECT count(*) FROM archive_ids i WHERE NOT "
                               "EXISTS (SELECT 1 FROM archive a WHERE a.n = i.n"
                               " AND a.event_id = i.event_id)"),
                     0);
}

static int64_t entries(struct tested *a)
{
    return number(a, "SELECT count(*) FROM archive_ids");
}

/* ---- tests ---- */

static void of_ids_made_from_time_few_have_an_entry(void **state)
{
    struct tested *a = *state;

    db_begin(a->store.db);
    is_as_it_should_be(a);
    insert_timed(a, 1);
    is_as_it_should_be(a);
    insert_timed(a, 63);
    assert_int_equal(entries(a), 1);
    insert_timed(a, 1);
    assert_int_equal(entries(a), 2);
    insert_timed(a, 1000);
    assert_int_equal(entries(a), 17);
    is_as_it_should_be(a);
    assert_int_equal(db_commit(a->store.db), GR_OK);
}

static void keyed_ids_are_found_between_timed_ones(void **state)
{
    struct tested *a = *state;

    db_begin(a->store.db);
    for (int run = 1; run < 1500; run += run < 130 ? 7 : 450) {
        insert_timed(a, 1 + below(a, 3));
        insert_keyed(a, run);
        is_as_it_should_be(a);
    }
    insert_timed(a, 1);
    is_as_it_should_be(a);
    assert_int_equal(db_commit(a->store.db), GR_OK);
    reopen(a);
    is_as_it_should_be(a);
}

/* In the middle of what is looked for behind an entry, too. */
static void rows_are_deleted_one_by_one(void **state)
{
    struct tested *a = *state;

    db_begin(a->store.db);
    insert_timed(a, 70);
    insert_keyed(a, 30);
    insert_timed(a, 20);
    insert_keyed(a, 100);
    insert_timed(a, 100);
    for (int64_t upto = 1; upto < 318; upto++) {
        purge(a, upto);
        is_as_it_should_be(a);
    }
    insert_timed(a, 3); /* close behind the last entry that went */
    is_as_it_should_be(a);
    purge(a, a->next_n - 1);
    is_as_it_should_be(a);
    assert_int_equal(entries(a), 0);
    insert_timed(a, 3);
    is_as_it_should_be(a);
    assert_int_equal(db_commit(a->store.db), GR_OK);
}

/* P10: what follows a turn that was taken back is found. */
static void a_rolled_back_turn_leaves_no_entry(void **state)
{
    struct tested *a = *state;
    struct archive_space space = {0};
    int64_t next_n;

    db_begin(a->store.db);
    insert_timed(a, 30);
    assert_int_equal(db_commit(a->store.db), GR_OK);
    next_n = a->next_n;
    db_exec(a->store.db, "PRAGMA max_page_count = 1"); /* no more than it has */
    db_begin(a->store.db);
    insert_timed(a, 40);
    insert_keyed(a, 2000);
    assert_int_equal(db_commit(a->store.db), GR_AGAIN);
    archive_space_undo(&space, &a->store);
    while (a->next_n > next_n)
        a->rows[--a->next_n][0] = 0;
    is_as_it_should_be(a);
    db_exec(a->store.db, "PRAGMA max_page_count = 1000000");
    db_begin(a->store.db);
    insert_timed(a, 200);
    is_as_it_should_be(a);
    assert_int_equal(db_commit(a->store.db), GR_OK);
}

static void grow(struct tested *a)
{
    int max = below(a, 8) ? 5 : 150;

    if (below(a, 3))
        insert_timed(a, 1 + below(a, max));
    else
        insert_keyed(a, 1 + below(a, max));
    if (below(a, 10) == 0)
        a->next_n += below(a, 100); /* replays took numbers */
}

static void random_additions_and_deletions_are_found(void **state)
{
    struct tested *a = *state;

    for (int turn = 0; turn < 600; turn++) {
        db_begin(a->store.db);
        if (below(a, 3) == 0)
            purge(a, a->first_n - 1 +
                         below(a, (int)(a->next_n - a->first_n) / 2 + 2));
        for (int i = below(a, 4); i > 0; i--)
            grow(a);
        assert_int_equal(db_commit(a->store.db), GR_OK);
        if (turn % 5 == 0)
            is_as_it_should_be(a);
        if (below(a, 20) == 0)
            reopen(a);
    }
    is_as_it_should_be(a);
}

static void no_body_is_read_to_find_one(void **state)
{
    enum { BODY_BYTES = 100 * 1000, PAGES_MAX = 100 };
    struct tested *a = *state;
    char id[EVENT_ID_BYTES + 1];
    sqlite3 *h;
    int misses, high;

    db_begin(a->store.db);
    for (int i = 0; i < IDS_APART; i++) {
        made_from_time(a, id);
        insert(a, id, BODY_BYTES);
    }
    assert_int_equal(db_commit(a->store.db), GR_OK);
    h = db_handle(a->store.db);
    sqlite3_db_release_memory(h); /* of its pages */
    sqlite3_db_status(h, SQLITE_DBSTATUS_CACHE_MISS, &misses, &high, 1);
    assert_int_equal(archive_number(&a->store, id), IDS_APART);
    sqlite3_db_status(h, SQLITE_DBSTATUS_CACHE_MISS, &misses, &high, 0);
    assert_in_range(misses, 1, PAGES_MAX);
}

/* ---- a file of before ---- */

static void insert_as_before(struct tested *a, stmt *s, bool keyed)
{
    char *id = a->rows[a->next_n];

    if (keyed)
        made_from_a_key(a, (int)a->next_n, id);
    else
        made_from_time(a, id);
    sqlite3_bind_int64(s, 1, a->next_n++);
    sqlite3_bind_text(s, 2, id, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(s), SQLITE_DONE);
    sqlite3_reset(s);
}

/* P7, P10: an id made from a key is the same event still, and all are found. */
static void a_file_with_the_old_index_is_read(void **state)
{
    enum { BEFORE = 4 };
    struct db_schema schema = ingress_schema;
    struct tested *a = new_folder();
    struct db *db;
    stmt *s;

    schema.create = NULL;
    schema.count = BEFORE;
    db = db_open(a->path, &schema);
    s = db_prepare(db, "INSERT INTO archive (n, event_id, source, received_ms, "
                       "remote, secret, headers, body) VALUES"
                       " (?1, ?2, 'plane', 0, '', 0, x'', x'00')");
    a->first_n = a->next_n = 1000; /* some went already */
    db_begin(db);
    for (int i = 0; i < 6000; i++) {
        insert_as_before(a, s, i / 500 % 4 == 2 || below(a, 3) == 0);
        if (below(a, 100) == 0)
            a->next_n += 70;
    }
    assert_int_equal(db_commit(db), GR_OK);
    db_close(db);
    open_with(a, &ingress_schema);
    *state = a;
    is_as_it_should_be(a);
    db_begin(a->store.db);
    insert_timed(a, 200);
    insert_keyed(a, 5);
    purge(a, 1500);
    is_as_it_should_be(a);
    assert_int_equal(db_commit(a->store.db), GR_OK);
}

static void an_empty_old_file_is_read(void **state)
{
    struct db_schema schema = ingress_schema;
    struct tested *a = new_folder();

    schema.create = NULL;
    schema.count = 1;
    db_close(db_open(a->path, &schema));
    open_with(a, &ingress_schema);
    *state = a;
    is_as_it_should_be(a);
}

#define ON_A_FILE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_FILE(of_ids_made_from_time_few_have_an_entry),
        ON_A_FILE(keyed_ids_are_found_between_timed_ones),
        ON_A_FILE(rows_are_deleted_one_by_one),
        ON_A_FILE(a_rolled_back_turn_leaves_no_entry),
        ON_A_FILE(random_additions_and_deletions_are_found),
        ON_A_FILE(no_body_is_read_to_find_one),
        cmocka_unit_test_teardown(a_file_with_the_old_index_is_read, teardown),
        cmocka_unit_test_teardown(an_empty_old_file_is_read, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
