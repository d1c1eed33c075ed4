/* Tests of audit rows and idempotency records: repeats, other digests, expiry, rolled back
 * turns, acts that reply later, secrets, and rows that are deleted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "acts.h"
#include "clock.h"
#include "log.h"
#include "plans.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const steps[] = {"CREATE TABLE t(v INTEGER)",
                                    daemon_acts_sql};
static const struct db_schema schema = {.steps = steps, .count = 2};
static const int64_t start = 20000 * DAY_MS;

static const struct value args[] = {
    {.name = "name", .type = VALUE_TEXT},
    {.name = "ids", .type = VALUE_ANY},
    {.name = "password", .type = VALUE_TEXT, .flags = VALUE_SECRET},
    {.name = "who", .type = VALUE_TEXT},
    {0}};
static const struct value reply_fields[] = {
    {.name = "id", .type = VALUE_TEXT},
    {.name = "token", .type = VALUE_TEXT, .flags = VALUE_NULL | VALUE_SECRET},
    {0}};
static const struct command_spec change = {
    .name = "change",
    .args = args,
    .reply = {.type = VALUE_OBJECT, .fields = reply_fields},
    .flags = COMMAND_ACTS};
static const struct command_spec in_memory = {
    .name = "in_memory",
    .args = args,
    .reply = {.type = VALUE_OBJECT, .fields = reply_fields},
    .flags = COMMAND_ACTS | COMMAND_MEMORY};

static char dir[64], file[100];
static struct db *db;
static struct retention r;
static struct acts *a;
static struct audit_keys keys;
static int64_t now, mono;

static void open_all(void)
{
    clock_test_set(now);
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

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/acts-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.db", dir);
    now = start;
    mono = 1;
    audit_keys_add(&keys, "a key of 32 characters or more, as needed");
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

/* ---- turns ---- */

static void commit(void)
{
    retention_work(&r, db, now, false);
    acts_work(a, mono, now);
    assert_int_equal(db_commit(db), GR_OK);
    acts_flush(a);
}

/* The disk is full. */
static void roll_back(void)
{
    retention_work(&r, db, now, false);
    acts_work(a, mono, now);
    sqlite3_exec(db_handle(db), "PRAGMA max_page_count = 1", NULL, NULL, NULL);
    db_run(db, db_prepare(db, "INSERT INTO t VALUES(zeroblob(1000000))"));
    assert_int_equal(db_commit(db), GR_AGAIN);
    sqlite3_exec(db_handle(db), "PRAGMA max_page_count = 1000000000", NULL,
                 NULL, NULL);
    acts_undo(a);
}

static struct act_by with_key(const char *key, const char *digest)
{
    return (struct act_by){.actor = "token ops",
                           .role = "operator",
                           .request_id = "req_1",
                           .owner = "tok_1",
                           .key = key,
                           .digest = digest};
}

static void done(const struct command_spec *spec, struct act_by by,
                 const char *said, const char *reply)
{
    json_t *given = said ? json_loads(said, 0, NULL) : NULL;
    json_t *doc = json_loads(reply, 0, NULL);

    acts_done(a, &(struct act){spec, given, by, now}, "done", doc);
    json_decref(given);
    json_decref(doc);
}

static enum act_known known(const char *key, const char *digest, char **reply)
{
    struct act_by by = with_key(key, digest);
    char *text = NULL;
    enum act_known is = acts_look(a, &by, &text);

    assert_true((text != NULL) == (is == ACT_STORED));
    if (reply)
        *reply = text;
    else
        free(text);
    return is;
}

static int64_t count(const char *sql)
{
    return db_number(db, db_prepare(db, sql), -1);
}

static json_t *newest(void)
{
    char why[200];
    json_t *page = acts_audit(a, NULL, why);
    json_t *row = json_incref(
        json_array_get(json_object_get(page, "audit"), 0));

    json_decref(page);
    return row;
}

static const char *field(const json_t *row, const char *name)
{
    return json_string_value(json_object_get(row, name));
}

/* ---- tests ---- */

#define REPLY \
    "{\"v\":1,\"ok\":true,\"reply\":{\"id\":\"x\",\"token\":\"grp_s\"}}"

static void the_same_key_gets_the_same_reply(void **state)
{
    char *text;

    (void)state;
    db_begin(db);
    assert_int_equal(known("k", "d", NULL), ACT_NEW);
    done(&change, with_key("k", "d"), NULL, REPLY);
    assert_int_equal(known("k", "d", NULL), ACT_STORED); /* in the same turn */
    commit();
    close_all();
    open_all();
    assert_int_equal(known("k", "d", &text), ACT_STORED);
    assert_string_equal(
        text, "{\"v\":1,\"ok\":true,\"reply\":{\"id\":\"x\",\"token\":null}}");
    free(text);
    assert_int_equal(known("k", "e", NULL), ACT_OTHER);
    assert_int_equal(known("l", "d", NULL), ACT_NEW);
    assert_int_equal(known("", "", NULL), ACT_NEW);
}

static void keys_belong_to_their_owner(void **state)
{
    struct act_by other = with_key("k", "d");
    char *text = NULL;

    (void)state;
    db_begin(db);
    done(&change, with_key("k", "d"), NULL, REPLY);
    other.owner = "tok_2";
    assert_int_equal(acts_look(a, &other, &text), ACT_NEW);
    done(&change, other, NULL, REPLY);
    commit();
    assert_int_equal(count("SELECT count(*) FROM idempotency"), 2);
}

static void a_rolled_back_turn_leaves_nothing(void **state)
{
    (void)state;
    db_begin(db);
    done(&change, with_key("k", "d"), NULL, REPLY);
    roll_back();
    assert_int_equal(count("SELECT count(*) FROM audit"), 0);
    db_begin(db);
    assert_int_equal(known("k", "d", NULL), ACT_NEW);
    commit();
    assert_int_equal(count("SELECT count(*) FROM audit"), 0);
}

static void what_a_full_disk_does_not_undo_is_written_later(void **state)
{
    (void)state;
    db_begin(db);
    done(&in_memory, with_key("k", "d"), NULL, REPLY);
    assert_int_equal(known("k", "d", NULL), ACT_STORED);
    roll_back();
    assert_int_equal(known("k", "d", NULL), ACT_STORED);
    assert_int_equal(known("k", "e", NULL), ACT_OTHER);
    mono += 1000; /* too early: each try may fail the turn of others */
    db_begin(db);
    commit();
    assert_int_equal(count("SELECT count(*) FROM audit"), 0);
    mono += 10 * 1000;
    db_begin(db);
    commit();
    assert_int_equal(count("SELECT count(*) FROM audit"), 1);
    assert_int_equal(known("k", "d", NULL), ACT_STORED);
    db_begin(db);
    commit();
    assert_int_equal(count("SELECT count(*) FROM audit"), 1);
}

static void an_unreadable_record_is_not_a_new_one(void **state)
{
    (void)state;
    db_begin(db);
    done(&change, with_key("k", "d"), NULL, REPLY);
    commit();
    db_begin(db);
    sqlite3_exec(db_handle(db), "PRAGMA max_page_count = 1", NULL, NULL, NULL);
    db_run(db, db_prepare(db, "INSERT INTO t VALUES(zeroblob(1000000))"));
    assert_int_equal(known("k", "d", NULL), ACT_RUNS);
    roll_back();
    db_begin(db);
    assert_int_equal(known("k", "d", NULL), ACT_STORED);
    commit();
}

static void an_act_that_replies_later_is_in_progress_until_its_end(void **state)
{
    json_t *doc = json_loads(REPLY, 0, NULL);
    struct act act = {&change, NULL, with_key("k", "d"), now};
    struct act beside = {&change, NULL, with_key("other", "d"), now};
    int64_t number;

    (void)state;
    db_begin(db);
    number = acts_began(a, &act);
    acts_began(a, &beside);
    commit();
    assert_int_equal(known("k", "d", NULL), ACT_RUNS);
    assert_int_equal(known("k", "e", NULL), ACT_OTHER);
    now += 1000;
    db_begin(db);
    acts_ended(a, number, now, "done", doc);
    roll_back();
    assert_int_equal(known("k", "d", NULL), ACT_STORED);
    assert_int_equal(known("other", "d", NULL), ACT_RUNS);
    mono += 10 * 1000;
    db_begin(db);
    commit();
    assert_int_equal(known("k", "d", NULL), ACT_STORED);
    assert_int_equal(count("SELECT count(*) FROM audit"), 3);
    assert_int_equal(count("SELECT count(*) FROM audit WHERE outcome = "
                           "'started' AND n <= 2"),
                     2);
    json_decref(doc);
}

static void a_crash_leaves_nothing_in_progress(void **state)
{
    struct act act = {&change, NULL, with_key("k", "d"), now};

    (void)state;
    db_begin(db);
    acts_began(a, &act);
    commit();
    close_all();
    open_all();
    assert_int_equal(known("k", "d", NULL), ACT_NEW);
}

static void records_are_kept_for_a_day(void **state)
{
    (void)state;
    db_begin(db);
    for (int i = 0; i < 200; i++) {
        char key[8];

        snprintf(key, sizeof key, "%d", i);
        done(&change, with_key(key, "d"), NULL, REPLY);
    }
    commit();
    for (int hour = 0; hour < 48; hour++) {
        now += HOUR_MS / 2; /* the process runs, so the time counts */
        mono += HOUR_MS / 2;
        clock_test_set(now);
        db_begin(db);
        commit();
        if (hour < 47)
            assert_int_equal(count("SELECT count(*) FROM idempotency"), 200);
    }
    for (int64_t left = 200; left > 0;) { /* in small steps */
        int64_t before = left;

        now += HOUR_MS / 2;
        mono += HOUR_MS / 2;
        clock_test_set(now);
        db_begin(db);
        commit();
        left = count("SELECT count(*) FROM idempotency");
        assert_in_range(before - left, 0, 64);
        assert_true(now < start + 3 * DAY_MS);
    }
    assert_int_equal(known("7", "d", NULL), ACT_NEW);
    assert_int_equal(count("SELECT count(*) FROM audit"), 200);
}

static void rows_are_bounded_in_number(void **state)
{
    (void)state;
    db_begin(db);
    db_exec(db, "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM "
                "s WHERE n < 100100) INSERT INTO audit(at_ms, actor, role, "
                "command, args, outcome, request_id) SELECT 1728000000000, "
                "'a', '', 'c', '{}', 'done', '' FROM s");
    for (int i = 0; i < 4; i++) {
        commit();
        mono += 2000;
        db_begin(db);
    }
    commit();
    assert_int_equal(count("SELECT count(*) FROM audit"), AUDIT_MAX_ROWS);
    assert_int_equal(count("SELECT min(n) FROM audit"), 101);
}

static void a_row_has_the_arguments_without_secrets(void **state)
{
    json_t *row;
    char *text;

    (void)state;
    db_begin(db);
    done(&change, with_key("", ""),
         "{\"name\":\"crm\",\"password\":\"hunter2\",\"who\":\"root\"}", REPLY);
    commit();
    row = newest();
    text = json_dumps(json_object_get(row, "args"), JSON_COMPACT);
    assert_string_equal(text, "{\"name\":\"crm\",\"password\":null}");
    assert_string_equal(field(row, "actor"), "token ops");
    assert_string_equal(field(row, "process"), "tester");
    assert_string_equal(field(row, "command"), "change");
    assert_string_equal(field(row, "request_id"), "req_1");
    free(text);
    json_decref(row);
}

static void long_arguments_are_cut(void **state)
{
    json_t *given = json_object(), *ids = json_array(), *row, *kept;
    char *name = gr_alloc(20001), *text;

    (void)state;
    for (int i = 0; i < 10000; i++)
        memcpy(name + 2 * i, "ä", 2);
    for (int i = 0; i < 1000; i++)
        json_array_append_new(ids, json_sprintf("evt_%022d", i));
    json_object_set_new(given, "name", json_string(name));
    json_object_set_new(given, "ids", ids);
    text = json_dumps(given, JSON_COMPACT);
    db_begin(db);
    done(&change, with_key("", ""), text, REPLY);
    commit();
    row = newest();
    free(text);
    text = json_dumps(json_object_get(row, "args"), JSON_COMPACT);
    assert_in_range(strlen(text), 2000, 4096);
    kept = json_object_get(json_object_get(row, "args"), "ids");
    assert_in_range(json_array_size(kept), 20, 100);
    assert_non_null(strstr(text, " more\""));
    free(text);
    free(name);
    json_decref(row);
    json_decref(given);
}

static void pages_go_on_to_the_first_row(void **state)
{
    char why[200];
    json_t *page, *asked = json_pack("{s:i}", "limit", 7), *next;
    size_t rows = 0;
    int pages = 0;

    (void)state;
    db_begin(db);
    for (int i = 0; i < 20; i++)
        done(&change, with_key("", ""), NULL, REPLY);
    commit();
    do {
        page = acts_audit(a, asked, why);
        assert_non_null(page);
        rows += json_array_size(json_object_get(page, "audit"));
        pages++;
        next = json_incref(json_object_get(page, "next"));
        json_object_set(asked, "before", next);
        json_decref(page);
        json_decref(next);
    } while (json_is_string(next));
    assert_int_equal(rows, 20);
    assert_int_equal(pages, 3);
    json_object_set_new(asked, "before", json_string("x"));
    assert_null(acts_audit(a, asked, why));
    json_decref(asked);
}

/* A search through the whole table must not take the process' turns. */
static void a_page_that_matches_nothing_ends_too(void **state)
{
    static const char id[] = "evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A";
    json_t *asked = json_pack("{s:[s]}", "about", id), *page, *next;
    char name[3901], text[4000], why[200];
    size_t rows = 0;
    int pages = 0;

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    db_begin(db);
    snprintf(text, sizeof text, "{\"ids\":[\"dlq_%s-crm\"]}", id + 4);
    done(&change, with_key("", ""), text, REPLY);
    snprintf(text, sizeof text, "{\"name\":\"%s\"}", name);
    for (int i = 0; i < 300; i++)
        done(&change, with_key("", ""), text, REPLY);
    commit();
    do {
        page = acts_audit(a, asked, why);
        assert_non_null(page);
        rows += json_array_size(json_object_get(page, "audit"));
        assert_int_equal(rows, pages++);
        next = json_incref(json_object_get(page, "next"));
        json_object_set(asked, "before", next);
        json_decref(page);
        json_decref(next);
    } while (json_is_string(next));
    assert_int_equal(rows, 1);
    assert_int_equal(pages, 2);
    json_decref(asked);
}

static void every_statement_uses_an_index(void **state)
{
    sqlite3_stmt *s = NULL;
    const char *sql[32];
    size_t n = 0;

    (void)state;
    while ((s = sqlite3_next_stmt(db_handle(db), s)) && n < COUNT_OF(sql))
        if (strstr(sqlite3_sql(s), "audit") ||
            strstr(sqlite3_sql(s), "idempotency"))
            sql[n++] = sqlite3_sql(s);
    assert_in_range(n, 8, COUNT_OF(sql) - 1);
    for (size_t i = 0; i < n; i++)
        plan_judge(db_handle(db), sql[i]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_same_key_gets_the_same_reply),
        T(keys_belong_to_their_owner),
        T(a_rolled_back_turn_leaves_nothing),
        T(what_a_full_disk_does_not_undo_is_written_later),
        T(an_unreadable_record_is_not_a_new_one),
        T(an_act_that_replies_later_is_in_progress_until_its_end),
        T(a_crash_leaves_nothing_in_progress),
        T(records_are_kept_for_a_day),
        T(rows_are_bounded_in_number),
        T(a_row_has_the_arguments_without_secrets),
        T(long_arguments_are_cut),
        T(pages_go_on_to_the_first_row),
        T(a_page_that_matches_nothing_ends_too),
        T(every_statement_uses_an_index),
    };

    log_open("test", LEVEL_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
