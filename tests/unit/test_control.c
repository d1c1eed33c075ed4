/* Tests of control: in which part of a turn a request is handled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "control.h"
#include "log.h"
#include <czmq.h>

static const char *const steps[] = {"CREATE TABLE t(v INTEGER)"};
static const struct db_schema schema = {.steps = steps, .count = 1};

static struct test {
    char dir[64];
    struct loop loop;
    struct control *control;
    zsock_t *request;
    stmt *insert;
} t;

static bool read_none(void *self)
{
    (void)self;
    return false;
}

static json_t *show(void *self, json_t *args, char why[200])
{
    (void)self, (void)args, (void)why;
    return json_object();
}

static const struct command_spec show_spec = {
    .name = "show", .flags = COMMAND_READS, .reply = {.type = VALUE_ANY}};

static json_t *end(void *self, json_t *args, char why[200])
{
    (void)self, (void)args, (void)why;
    control_if_undone(t.control, "it has ended");
    return json_object();
}

static const struct command_spec end_spec = {.name = "end",
                                             .reply = {.type = VALUE_ANY}};
static const struct control_command commands[] = {
    {&show_spec, show}, {&end_spec, end}, {0}};

/* The request is there when this returns. */
static void ask(const char *what)
{
    zmq_pollitem_t arrives = {
        .socket = zsock_resolve(control_socket(t.control)),
        .events = ZMQ_POLLIN};

    t.request = control_send(t.dir, "x", what, NULL, NULL, 10000);
    assert_non_null(t.request);
    assert_int_equal(zmq_poll(&arrives, 1, 10000), 1);
}

/* A turn that has a row, and a request that only reads. */
static int setup(void **state)
{
    char file[100];

    (void)state;
    memset(&t, 0, sizeof t);
    snprintf(t.dir, sizeof t.dir, "/tmp/control-XXXXXX");
    assert_non_null(mkdtemp(t.dir));
    snprintf(file, sizeof file, "%s/x.db", t.dir);
    log_open("test", LEVEL_ERROR, false);
    t.loop.db = db_open(file, &schema);
    t.loop.read = read_none;
    t.insert = db_prepare(t.loop.db, "INSERT INTO t VALUES(1)");
    t.control = control_open(t.dir, "x");
    control_add(t.control, commands, NULL);
    ask("show");
    db_begin(t.loop.db);
    db_run(t.loop.db, t.insert);
    return 0;
}

static int teardown(void **state)
{
    char rm[100];

    (void)state;
    zsock_destroy(&t.request);
    control_close(t.control);
    db_close(t.loop.db);
    snprintf(rm, sizeof rm, "rm -rf %s", t.dir);
    return system(rm) == 0 ? 0 : -1;
}

/* Takes the response: its error, or "". */
static const char *error_of_response(void)
{
    static char code[CONTROL_CODE_BYTES];
    char why[200];
    bool unreachable;
    json_t *reply = control_take_coded(t.request, &unreachable, code, why);

    t.request = NULL;
    assert_true(reply || *code);
    json_decref(reply);
    return reply ? "" : code;
}

static void a_read_is_left_to_the_sync_of_a_turn_that_has_rows(void **state)
{
    (void)state;
    control_work(t.control, &t.loop);
    assert_true(control_waits(t.control));
    assert_int_equal(db_commit_write(t.loop.db), GR_OK);
    assert_true(control_read(t.control));
    assert_int_equal(db_commit_end(t.loop.db), GR_OK);
    control_flush(t.control);
    assert_string_equal(error_of_response(), "");
}

/* That turn, too, may have rows and be rolled back before its sync, again and again. */
static void a_read_is_not_left_after_a_turn_that_was_rolled_back(void **state)
{
    (void)state;
    t.loop.undone = true;
    control_work(t.control, &t.loop);
    assert_false(control_waits(t.control));
    control_undo(t.control);
    assert_string_equal(error_of_response(), "disk_full");
    assert_int_equal(db_commit(t.loop.db), GR_OK);
}

/* Its request has not been handled yet: ask for `what` instead. */
static void ask_instead(const char *what)
{
    zsock_destroy(&t.request);
    control_work(t.control, &t.loop);
    ask(what);
}

static void a_reply_can_say_what_a_rollback_leaves(void **state)
{
    char code[CONTROL_CODE_BYTES], why[200];
    bool unreachable;

    (void)state;
    t.loop.undone = true;
    ask_instead("end");
    control_work(t.control, &t.loop);
    control_undo(t.control);
    assert_null(control_take_coded(t.request, &unreachable, code, why));
    t.request = NULL;
    assert_string_equal(code, "disk_full");
    assert_string_equal(why, "it has ended");
    ask("show");
    control_work(t.control, &t.loop);
    control_undo(t.control);
    assert_null(control_take_coded(t.request, &unreachable, code, why));
    t.request = NULL;
    assert_non_null(strstr(why, "nothing was changed"));
    assert_int_equal(db_commit(t.loop.db), GR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_read_is_left_to_the_sync_of_a_turn_that_has_rows, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            a_read_is_not_left_after_a_turn_that_was_rolled_back, setup,
            teardown),
        cmocka_unit_test_setup_teardown(a_reply_can_say_what_a_rollback_leaves,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
