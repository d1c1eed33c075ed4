/* Tests of the chain over audit rows: rows of a real file that were changed, removed, inserted, cut
 * off, swapped or made with another key; erasure, retention, restores, other keys, rollbacks, and
 * rows from before there was a chain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "acts.h"
#include "audit_chain.h"
#include "clock.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const steps[] = {"CREATE TABLE t(v INTEGER)",
                                    daemon_acts_sql};
static const struct db_schema schema = {.steps = steps, .count = 2};
static const int64_t start = 20000 * DAY_MS;

static const struct value args[] = {{.name = "name", .type = VALUE_TEXT}, {0}};
static const struct command_spec change = {.name = "change",
                                           .args = args,
                                           .reply = {.type = VALUE_OBJECT},
                                           .flags = COMMAND_ACTS};

static char dir[64], file[100];
static struct db *db;
static struct retention r;
static struct acts *a;
static struct audit_keys keys;
static int64_t now, mono;

static void open_all(void)
{
    clock_test_set(now);
    log_set(LEVEL_ERROR, false);
    db = db_open(file, &schema);
    retention_open(&r, db, now);
    a = acts_open(db, &r, "tester", &keys);
    acts_begin(a, now);
}

static void close_all(void)
{
    acts_close(a);
    db_close(db);
}

static void use_keys(const char *first, const char *second)
{
    audit_keys_fini(&keys);
    audit_keys_add(&keys, first);
    if (second)
        audit_keys_add(&keys, second);
}

static const char key_1[] = "the first key, of 32 characters or more",
                  key_2[] = "the second key, of 32 characters or more";

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/chain-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    now = start;
    mono = 1;
    use_keys(key_1, NULL);
    open_all();
    return 0;
}

static int teardown(void **state)
{
    char rm[100];

    (void)state;
    close_all();
    audit_keys_fini(&keys);
    clock_test_set(0);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    return system(rm) == 0 ? 0 : -1;
}

static void act(const char *name)
{
    json_t *given = json_pack("{s:s}", "name", name);
    struct act_by by = {.actor = "token ops",
                        .role = "operator",
                        .request_id = "req_1",
                        .owner = "",
                        .key = "",
                        .digest = ""};

    acts_done(a, &(struct act){&change, given, by, now}, "done", NULL);
    json_decref(given);
}

static void commit(void)
{
    retention_work(&r, db, now, false);
    acts_work(a, mono, now);
    assert_int_equal(db_commit(db), GR_OK);
    acts_flush(a);
}

static void add_rows(int count)
{
    char name[20];

    db_begin(db);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "n%d", i);
        act(name);
    }
    commit();
}

/* As a stranger does it: with the process stopped, in the file. */
static void tamper(const char *sql)
{
    sqlite3 *h;
    char *why = NULL;

    close_all();
    assert_int_equal(sqlite3_open(file, &h), SQLITE_OK);
    if (sqlite3_exec(h, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    sqlite3_close(h);
    open_all();
}

static json_t *verify_from(int64_t after, const char *head)
{
    char why[200];
    json_t *asked = json_pack("{s:I}", "after", (json_int_t)after), *reply;

    if (head)
        json_object_set_new(asked, "heads",
                            json_pack("[s]", strrchr(head, ':') + 1));
    reply = acts_verify(a, asked, why);
    assert_non_null(reply);
    json_decref(asked);
    return reply;
}

/* The findings as "missing 3-4, unlinked 5-5". */
static void expect(const char *findings)
{
    json_t *reply = verify_from(0, NULL), *one;
    struct buf text;
    size_t i;

    buf_init(&text, 100000);
    buf_puts(&text, "");
    json_array_foreach(json_object_get(reply, "findings"), i, one)
        buf_printf(&text, "%s%s %lld-%lld", i ? ", " : "",
                   json_string_value(json_object_get(one, "what")),
                   (long long)json_integer_value(json_object_get(one, "from")),
                   (long long)json_integer_value(json_object_get(one, "to")));
    assert_string_equal(text.data, findings);
    buf_fini(&text);
    json_decref(reply);
}

static int64_t number(const char *name)
{
    json_t *reply = verify_from(0, NULL);
    int64_t n = json_integer_value(json_object_get(reply, name));

    json_decref(reply);
    return n;
}

static char *head(void)
{
    char why[200];
    json_t *reply = acts_head(a, NULL, why);
    const char *text = json_string_value(json_object_get(reply, "head"));
    char *out = text ? gr_strdup(text) : NULL;

    json_decref(reply);
    return out;
}

static int64_t found_at(const char *published)
{
    json_t *reply = verify_from(0, published);
    json_t *one = json_array_get(json_object_get(reply, "found"), 0);
    int64_t n = one ? json_integer_value(json_object_get(one, "n")) : -1;

    json_decref(reply);
    return n;
}

/* ---- tests ---- */

static void an_untouched_chain_verifies(void **state)
{
    char *first, *last;

    (void)state;
    assert_null(head());
    expect("");
    add_rows(1);
    first = head();
    assert_non_null(strstr(first, "tester:1:"));
    add_rows(1200);
    last = head();
    close_all();
    open_all();
    add_rows(1);
    expect("");
    assert_int_equal(number("rows"), 500);
    assert_int_equal(number("next"), 500);
    assert_int_equal(found_at(first), 1);
    for (int64_t after = 0, rows = 0;;) {
        json_t *reply = verify_from(after, last);
        json_t *next = json_object_get(reply, "next");

        assert_int_equal(json_array_size(json_object_get(reply, "findings")),
                         0);
        assert_int_equal(json_array_size(json_object_get(reply, "found")),
                         after == 1000);
        rows += json_integer_value(json_object_get(reply, "rows"));
        after = json_integer_value(next);
        if (json_is_null(next))
            assert_int_equal(rows, 1202);
        json_decref(reply);
        if (!after)
            break;
    }
    free(first);
    free(last);
}

static void changes_of_each_column_are_found(void **state)
{
    static const char *const changes[] = {
        "at_ms = at_ms + 1", "actor = 'x'",        "role = 'admin'",
        "command = 'x'",     "args = '{}'",        "outcome = 'x'",
        "request_id = 'x'",  "salt = zeroblob(1)", "content = zeroblob(32)",
        "key = NULL",        "hash = NULL",        "args = zeroblob(2000000)",
        "salt = NULL",       "hash = zeroblob(32)"};
    char sql[200];

    (void)state;
    add_rows(5);
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        json_t *reply, *one;

        tamper("CREATE TABLE kept AS SELECT * FROM audit");
        snprintf(sql, sizeof sql, "UPDATE audit SET %s WHERE n = 3",
                 changes[i]);
        /* A strict table does not take a blob as text. */
        if (strstr(changes[i], "args = z"))
            snprintf(sql, sizeof sql,
                     "UPDATE audit SET args = hex(zeroblob(1000000)) WHERE "
                     "n = 3");
        tamper(sql);
        reply = verify_from(0, NULL);
        one = json_array_get(json_object_get(reply, "findings"), 0);
        if (json_integer_value(json_object_get(one, "from")) != 3)
            fail_msg("%s: not found", changes[i]);
        json_decref(reply);
        tamper("DELETE FROM audit; INSERT INTO audit SELECT * FROM kept;"
               "DROP TABLE kept");
        expect("");
    }
}

static void removed_rows_are_found(void **state)
{
    (void)state;
    add_rows(6);
    tamper("DELETE FROM audit WHERE n IN (3, 4)");
    expect("missing 3-4");
    tamper("DELETE FROM audit WHERE n = 1");
    expect("missing 1-1, missing 3-4");
    /* The numbers of the rows behind them cannot be moved up. */
    tamper("UPDATE audit SET n = n - 2 WHERE n > 4;"
           "UPDATE sqlite_sequence SET seq = 4 WHERE name = 'audit'");
    expect("missing 1-1, changed 3-4");
}

static void inserted_and_swapped_rows_are_found(void **state)
{
    (void)state;
    add_rows(5);
    /* A copy of a row at the end, and before the beginning. */
    tamper("INSERT INTO audit SELECT 6, at_ms, actor, role, command, args, "
           "outcome, request_id, salt, content, hash, key, erased FROM audit "
           "WHERE n = 5");
    expect("changed 6-6");
    tamper("DELETE FROM audit WHERE n = 6; UPDATE sqlite_sequence SET seq = 5 "
           "WHERE name = 'audit'");
    expect("");
    tamper("INSERT INTO audit SELECT -1, at_ms, actor, role, command, args, "
           "outcome, request_id, salt, content, hash, key, erased FROM audit "
           "WHERE n = 5");
    expect("before_anchor 0-0");
    tamper("DELETE FROM audit WHERE n < 1");
    tamper("UPDATE audit SET n = -n WHERE n IN (2, 3);"
           "UPDATE audit SET n = 5 + n WHERE n < 0");
    expect("changed 2-3, unlinked 4-4");
}

static void cut_off_rows_are_missed_against_a_published_head(void **state)
{
    char *published, *early;

    (void)state;
    add_rows(3);
    early = head();
    add_rows(3);
    published = head();
    assert_int_equal(found_at(published), 6);
    /* Without care the used number shows it. */
    tamper("DELETE FROM audit WHERE n > 4");
    expect("missing 5-6");
    tamper("UPDATE sqlite_sequence SET seq = 4 WHERE name = 'audit'");
    expect("");
    assert_int_equal(found_at(published), -1);
    assert_int_equal(found_at(early), 3);
    add_rows(4);
    expect("");
    assert_int_equal(found_at(published), -1);
    free(published);
    free(early);
}

/* All hashes made anew with another key, by this same code. */
static void a_chain_of_another_key_is_found(void **state)
{
    char other[100];

    (void)state;
    add_rows(4);
    close_all();
    snprintf(other, sizeof other, "%s", file);
    snprintf(file, sizeof file, "%s/y.db", dir);
    use_keys(key_2, NULL);
    open_all();
    add_rows(4);
    close_all();
    use_keys(key_1, NULL);
    open_all();
    /* The process notices the other key, and goes on with its own. */
    expect("unknown_key 0-4");
    assert_int_equal(number("rows"), 5);
    tamper("UPDATE audit SET key = (SELECT key FROM audit WHERE n = 5);"
           "UPDATE audit_anchor SET key = (SELECT key FROM audit WHERE n = 5)");
    expect("anchor 0-0, changed 1-4");
    snprintf(file, sizeof file, "%s", other);
}

static void a_new_key_leaves_a_row_and_the_old_one_still_verifies(void **state)
{
    char why[200];
    json_t *page, *row;

    (void)state;
    add_rows(3);
    close_all();
    use_keys(key_2, key_1);
    open_all();
    add_rows(2);
    expect("");
    page = acts_audit(a, NULL, why);
    row = json_array_get(json_object_get(page, "audit"), 2);
    assert_string_equal(json_string_value(json_object_get(row, "command")),
                        "audit_key");
    json_decref(page);
    close_all();
    use_keys(key_2, NULL);
    open_all();
    assert_int_equal(number("rows"), 6);
    expect("unknown_key 0-3");
}

static bool has_name(void *self, const char *command, const json_t *given)
{
    const char *name = json_string_value(json_object_get(given, "name"));

    return strcmp(command, "change") == 0 && name && strcmp(name, self) == 0;
}

static void erased_content_leaves_the_chain_whole(void **state)
{
    int64_t after = 0;
    char *published, wanted[] = "n1";

    (void)state;
    add_rows(4);
    published = head();
    add_rows(100);
    db_begin(db);
    while (acts_erase_content(a, &after, 50, has_name, wanted))
        ;
    commit();
    assert_int_equal(after, 104);
    expect("");
    assert_int_equal(found_at(published), 4);
    assert_int_equal(db_number(db,
                               db_prepare(db, "SELECT count(*) FROM audit "
                                              "WHERE outcome = 'erased' AND "
                                              "salt IS NULL"),
                               -1),
                     2);
    /* Nobody else can erase a row. */
    tamper("UPDATE audit SET salt = NULL, actor = '', role = '', command = '', "
           "args = '{}', outcome = 'erased', request_id = '', erased = (SELECT "
           "erased FROM audit WHERE n = 2) WHERE n = 5");
    expect("changed 5-5");
    /* A second erasure changes no evidence. */
    after = 0;
    db_begin(db);
    acts_erase_content(a, &after, 50, has_name, wanted);
    commit();
    expect("changed 5-5");
    free(published);
}

static void a_row_of_an_old_key_is_erased_with_the_new_one(void **state)
{
    int64_t after = 0;
    char wanted[] = "n1";

    (void)state;
    add_rows(3);
    close_all();
    use_keys(key_2, NULL);
    open_all();
    db_begin(db);
    acts_erase_content(a, &after, 50, has_name, wanted);
    commit();
    expect("unknown_key 0-3");
    close_all();
    use_keys(key_2, key_1);
    open_all();
    expect("");
}

static void retention_moves_the_beginning(void **state)
{
    char *old, *young;

    (void)state;
    add_rows(10);
    old = head();
    add_rows(5);
    young = head();
    add_rows(AUDIT_MAX_ROWS - 5);
    mono += DAY_MS;
    db_begin(db);
    commit();
    expect("");
    assert_int_equal(number("begins_after"), 10);
    assert_int_equal(
        db_number(db, db_prepare(db, "SELECT min(n) FROM audit"), -1), 11);
    assert_int_equal(found_at(young), 15);
    assert_int_equal(found_at(old), 10); /* the anchor's */
    tamper("DELETE FROM audit WHERE n = 11");
    expect("missing 11-11");
    tamper("UPDATE audit_anchor SET n = 11");
    expect("anchor 11-11, unlinked 12-12");
    tamper("DELETE FROM audit_anchor");
    add_rows(1);
    assert_int_not_equal(found_at(young), 15);
    free(old);
    free(young);
}

static void a_rolled_back_row_leaves_no_hole(void **state)
{
    (void)state;
    add_rows(2);
    db_begin(db);
    act("lost");
    acts_work(a, mono, now);
    sqlite3_exec(db_handle(db), "PRAGMA max_page_count = 1", NULL, NULL, NULL);
    db_run(db, db_prepare(db, "INSERT INTO t VALUES(zeroblob(1000000))"));
    assert_int_equal(db_commit(db), GR_AGAIN);
    sqlite3_exec(db_handle(db), "PRAGMA max_page_count = 1000000000", NULL,
                 NULL, NULL);
    acts_undo(a);
    add_rows(2);
    expect("");
    assert_int_equal(number("last"), 4);
}

static void rows_from_before_the_chain_are_said_to_be(void **state)
{
    (void)state;
    add_rows(3);
    tamper("UPDATE audit SET salt = NULL, content = NULL, hash = NULL, key = "
           "NULL; DELETE FROM audit_anchor");
    expect("");
    assert_int_equal(number("unchained"), 3);
    add_rows(2);
    expect("");
    assert_int_equal(number("rows"), 2);
    assert_int_equal(number("begins_after"), 3);
    tamper("UPDATE audit SET hash = NULL, salt = NULL, content = NULL, key = "
           "NULL WHERE n = 4; UPDATE audit_anchor SET n = 4");
    expect("anchor 4-4, unlinked 5-5");
}

static void a_restore_is_a_row(void **state)
{
    json_t *reply, *one;

    (void)state;
    add_rows(1);
    db_begin(db);
    acts_restored(a, now, now - HOUR_MS, true, "user root", "/backup/mon");
    commit();
    reply = verify_from(0, NULL);
    one = json_array_get(json_object_get(reply, "restores"), 0);
    assert_int_equal(json_integer_value(json_object_get(one, "n")), 2);
    json_decref(reply);
    expect("");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(an_untouched_chain_verifies),
        T(changes_of_each_column_are_found),
        T(removed_rows_are_found),
        T(inserted_and_swapped_rows_are_found),
        T(cut_off_rows_are_missed_against_a_published_head),
        T(a_chain_of_another_key_is_found),
        T(a_new_key_leaves_a_row_and_the_old_one_still_verifies),
        T(erased_content_leaves_the_chain_whole),
        T(a_row_of_an_old_key_is_erased_with_the_new_one),
        T(retention_moves_the_beginning),
        T(a_rolled_back_row_leaves_no_hole),
        T(rows_from_before_the_chain_are_said_to_be),
        T(a_restore_is_a_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
