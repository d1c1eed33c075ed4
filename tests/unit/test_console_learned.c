/* Tests of what the console has learned after a turn that was rolled back, because the disk was full. */
#include "../../console/console.h"
#include "clock.h"
#include "console_rig.h"
#include <unistd.h>

static const int64_t start = 20000 * DAY_MS;
static struct console c;
static struct source plane = {.name = (char *)(uintptr_t) "plane"};

static void open_console(struct rig *r, const char *dir)
{
    char *path = gr_printf("%s/console.db", dir);

    clock_test_set(start);
    r->s.sources = &plane;
    r->s.source_count = 1;
    r->s.console.evaluate_ms = SECOND;
    c = (struct console){.collector = r->g};
    c.daemon.settings = &r->s;
    c.daemon.db = db_open(path, &console_schema);
    retention_open(&c.daemon.retention, c.daemon.db, start);
    db_begin(c.daemon.db);
    db_run(c.daemon.db,
           db_prepare(c.daemon.db,
                      "INSERT INTO learned_sources(source, seen_ms, event_ms, "
                      "hour, count, observed_ms, learned_ms, expected, "
                      "missing, pause_ms, overdue, longest, longest_overdue) "
                      "VALUES('plane', 1728000000000, 1728000000000, 0, 0, 0, "
                      "30.0 * 86400000, 0, 0, 0, 0, 0, 0)"));
    assert_int_equal(db_commit(c.daemon.db), GR_OK);
    c.learned = learned_open(&c);
    free(path);
}

static void refused(struct rig *r, int64_t count)
{
    static const char *const labels[][2] = {{"source", "plane"},
                                            {"reason", "signature_mismatch"}};

    publish_series(r, "ingress", "grapnel_ingress_rejected_total", "counter",
                   labels, 2, count);
}

/* How many reasons are new. */
static double look(struct rig *r)
{
    const struct alert_rule rule = {.when = ALERT_NEW_REFUSAL};
    struct measurement_list l;
    double value;

    r->now += SECOND;
    c.daemon.loop.mono_ms = r->now;
    c.daemon.loop.now_ms = start + r->now;
    db_begin(c.daemon.db);
    learned_take(c.learned);
    learned_measure(c.learned, &rule, &l);
    assert_int_equal(l.count, 1);
    value = l.all[0].value;
    measurement_list_fini(&l);
    return value;
}

static void commit(void)
{
    assert_int_equal(db_commit(c.daemon.db), GR_OK);
    learned_flush(c.learned);
}

static void roll_back(void)
{
    sqlite3 *db = db_handle(c.daemon.db);

    sqlite3_exec(db, "PRAGMA max_page_count = 1", NULL, NULL, NULL);
    db_run(c.daemon.db,
           db_prepare(c.daemon.db, "INSERT INTO learned_hours(source, rates) "
                                   "VALUES('x', zeroblob(1000000))"));
    assert_int_equal(db_commit(c.daemon.db), GR_AGAIN);
    sqlite3_exec(db, "PRAGMA max_page_count = 1000000000", NULL, NULL, NULL);
    learned_undo(c.learned);
}

static int64_t number(const char *sql)
{
    return db_number(c.daemon.db, db_prepare(c.daemon.db, sql), -1);
}

/* A refusal whose alert was not stored is new in the next look, and one that was stored is not again. */
static void a_look_that_was_rolled_back_is_repeated(void **state)
{
    struct rig *r = *state;
    char dir[] = "/tmp/learned-XXXXXX", rm[100];

    assert_non_null(mkdtemp(dir));
    open_console(r, dir);
    refused(r, 0);
    assert_true(look(r) == 0);
    commit();
    refused(r, 1);
    assert_true(look(r) == 1);
    roll_back();
    assert_int_equal(number("SELECT count(*) FROM learned_refusals"), 0);
    assert_true(look(r) == 1);
    commit();
    assert_int_equal(number("SELECT new_ms FROM learned_refusals"),
                     start + r->now);
    /* What was committed is not counted again. */
    look(r);
    roll_back();
    look(r);
    commit();
    assert_int_equal(number("SELECT new_ms FROM learned_refusals"),
                     start + r->now - 2 * SECOND);
    learned_close(c.learned);
    db_close(c.daemon.db);
    clock_test_set(0);
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    assert_int_equal(system(rm), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_look_that_was_rolled_back_is_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
