/* Tests of what all processes share: command line, lock, configuration, control and
 * metrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "daemon.h"
#include "log.h"
#include "wire.h"
#include <czmq.h>
#include <fcntl.h>
#include <msgpack.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the daemon ---- */

static const char *const steps[] = {"CREATE TABLE t(v INTEGER, pad BLOB)",
                                    proto_links_sql, daemon_acts_sql};
static const struct db_schema schema = {.steps = steps, .count = 3};
static struct daemon daemon_of_ours;
static int64_t values[2] = {41, -1}, turns;

static gr_rc apply(void *self, const char *from, uint64_t n, struct bytes msg)
{
    (void)self, (void)from, (void)n, (void)msg;
    return GR_OK;
}
static const struct links_ops ops = {.apply = apply};
static const struct metric metrics[] = {
    {"grapnel_test_things_total", METRIC_COUNTER, "things", "counted"},
    {"grapnel_test_level", METRIC_GAUGE, "", "measured"},
    {0},
};

static json_t *on_add(void *self, json_t *args, char why[200])
{
    json_t *by = json_object_get(args, "by");

    if (!json_is_integer(by)) {
        snprintf(why, 200, "args.by: a number is needed");
        return NULL;
    }
    *(int64_t *)self += json_integer_value(by);
    return json_pack("{s:I}", "now", (json_int_t) * (int64_t *)self);
}

/* Rows that do not fit: the turn is rolled back. */
static json_t *on_fill(void *self, json_t *args, char why[200])
{
    (void)self, (void)args, (void)why;
    sqlite3_exec(db_handle(daemon_of_ours.db), "PRAGMA max_page_count = 10",
                 NULL, NULL, NULL);
    db_run(daemon_of_ours.db,
           db_prepare(daemon_of_ours.db,
                      "INSERT INTO t VALUES(1, zeroblob(1000000))"));
    return json_object();
}

/* Takes longer than a turn should. */
static json_t *on_look(void *self, json_t *args, char why[200])
{
    (void)self, (void)args, (void)why;
    usleep(20 * 1000);
    return json_pack("{s:I}", "turn", (json_int_t)turns);
}

static bool later;

/* Replies in the next turn. */
static json_t *on_later(void *self, json_t *args, char why[200])
{
    (void)self, (void)args;
    if (control_waiting(daemon_of_ours.control)) {
        control_fail(why, CONTROL_IN_PROGRESS, "another one is in progress");
        return NULL;
    }
    later = true;
    return control_later(daemon_of_ours.control);
}

static const struct value add_args[] = {
    {.name = "by", .type = VALUE_ANY, .help = "a number"}, {0}};
static const struct command_spec add_spec = {
    .name = "add", .args = add_args, .reply = {.type = VALUE_ANY}};
static const struct command_spec look_spec = {.name = "look",
                                              .reply = {.type = VALUE_ANY}};
static const struct command_spec fill_spec = {
    .name = "fill", .reply = {.type = VALUE_ANY}, .flags = COMMAND_ACTS};
static const struct value later_args[] = {
    {.name = "text", .type = VALUE_TEXT, .max = 10000}, {0}};
static const struct command_spec later_spec = {.name = "later",
                                               .args = later_args,
                                               .reply = {.type = VALUE_ANY},
                                               .flags = COMMAND_ACTS |
                                                        COMMAND_LATER};

/* With space for more than any process has. */
static struct control_command commands[65] = {
    {&add_spec, on_add},
    {&look_spec, on_look},
    {&fill_spec, on_fill},
    {&later_spec, on_later},
};

static int work(void *self)
{
    (void)self;
    turns++;
    if (later)
        control_reply(daemon_of_ours.control, json_object(), NULL);
    later = false;
    return -1;
}

static void status(void *self, json_t *out)
{
    json_object_set_new(out, "in_flight", json_integer(*(int64_t *)self));
}

static const struct daemon_plan plan = {
    .process = "tester",
    .default_name = "tester",
    .summary = "Does nothing, as every daemon does.",
    .schema = &schema,
    .links = &ops,
    .commands = commands,
    .metrics = metrics,
    .metric_values = values,
    .self = &values[0],
    .status = status,
    .work = work,
};

/* ---- processes ---- */

static char dir[64], config[100], run_dir[100], said[65536];
static int said_fd;

static void write_config(const char *state, const char *run)
{
    FILE *f = fopen(config, "w");

    assert_non_null(f);
    fprintf(f, "state_dir: %s\nrun_dir: %s\n", state, run);
    fclose(f);
}

static int setup(void **state)
{
    char state_dir[100];

    (void)state;
    snprintf(dir, sizeof dir, "/tmp/dae-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(config, sizeof config, "%s/grapnel.yaml", dir);
    snprintf(run_dir, sizeof run_dir, "%s/run", dir);
    snprintf(state_dir, sizeof state_dir, "%s/state", dir);
    write_config(state_dir, run_dir);
    return 0;
}

static int teardown(void **state)
{
    char rm[100];

    (void)state;
    snprintf(rm, sizeof rm, "rm -rf %s", dir);
    return system(rm) == 0 ? 0 : -1;
}

/* A process of its own; no thread of ours may live at a fork, so CZMQ's are
 * ended before. */
static pid_t begin(const char *const *args)
{
    char *argv[10] = {"grapnel-tester"};
    int argc = 1, ends[2];
    pid_t pid;

    for (; *args; args++)
        argv[argc++] = (char *)(uintptr_t)*args;
    assert_int_equal(pipe(ends), 0);
    zsys_shutdown();
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        unsetenv("GRAPNEL_CONFIG");
        daemon_start(&daemon_of_ours, &plan, argc, argv);
        exit(daemon_run(&daemon_of_ours));
    }
    close(ends[1]);
    said_fd = ends[0];
    return pid;
}
#define BEGIN(...) begin((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static int end_of(pid_t pid)
{
    size_t n = 0;
    ssize_t got;
    int code;

    while ((got = read(said_fd, said + n, sizeof said - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = 0;
    close(said_fd);
    assert_int_equal(waitpid(pid, &code, 0), pid);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -WTERMSIG(code);
}

static json_t *ask_for(const char *what, json_t *args, char why[200])
{
    bool unreachable;
    json_t *reply = control_ask(run_dir, "tester", what, args, NULL, 10000,
                                &unreachable, why);

    json_decref(args);
    assert_false(unreachable);
    return reply;
}

static int stop(pid_t pid)
{
    kill(pid, SIGTERM);
    return end_of(pid);
}

/* ---- the command line ---- */

static void help_and_version_are_answered(void **state)
{
    (void)state;
    assert_int_equal(end_of(BEGIN("--help")), 0);
    assert_non_null(strstr(said, "usage: grapnel-tester"));
    assert_non_null(strstr(said, "Does nothing"));
    assert_int_equal(end_of(BEGIN("--version")), 0);
    assert_non_null(strstr(said, "grapnel-tester " GRAPNEL_VERSION "\n"));
    assert_int_equal(end_of(BEGIN("--metrics")), 0);
    assert_non_null(strstr(said, "| `grapnel_test_level` | gauge |"));
}

static void a_wrong_command_line_is_64(void **state)
{
    (void)state;
    assert_int_equal(end_of(BEGIN("--colour")), EXIT_USAGE);
    assert_int_equal(end_of(BEGIN("-c")), EXIT_USAGE);
    assert_int_equal(end_of(BEGIN("more")), EXIT_USAGE);
    assert_non_null(strstr(said, "no arguments"));
    assert_int_equal(end_of(BEGIN("-n", "../x")), EXIT_USAGE);
    assert_int_equal(end_of(BEGIN("-n", "")), EXIT_USAGE);
    assert_int_equal(end_of(BEGIN("-n", "sequencer")), EXIT_USAGE);
    assert_non_null(strstr(said, "--name sequencer is not a name"));
    assert_int_equal(end_of(BEGIN("-n", "tester2")), EXIT_USAGE);
    assert_int_equal(end_of(BEGIN("-n", "tester-2", "-c", config, "--check")),
                     0);
}

static void a_configuration_that_is_missing_or_wrong_is_78(void **state)
{
    (void)state;
    assert_int_equal(end_of(BEGIN("-c", "/nowhere/grapnel.yaml")), EXIT_CONFIG);
    assert_non_null(strstr(said, "/nowhere/grapnel.yaml"));
    write_config("/proc/state", run_dir);
    assert_int_equal(end_of(BEGIN("-c", config)), EXIT_CONFIG);
    assert_non_null(strstr(said, "state_dir"));
}

static void a_configuration_can_be_checked_alone(void **state)
{
    (void)state;
    assert_int_equal(end_of(BEGIN("-c", config, "--check")), 0);
    assert_non_null(strstr(said, "no errors"));
    assert_int_not_equal(access(run_dir, F_OK), 0);
}

static void a_path_too_long_for_a_socket_is_78(void **state)
{
    char state_dir[100], far[400];

    (void)state;
    snprintf(state_dir, sizeof state_dir, "%s/state", dir);
    snprintf(far, sizeof far, "%s/%0110d", dir, 7);
    write_config(state_dir, far);
    assert_int_equal(end_of(BEGIN("-c", config)), EXIT_CONFIG);
    assert_non_null(strstr(said, "too long"));
    assert_non_null(strstr(said, "run_dir"));
}

/* ---- one instance ---- */

static void a_second_instance_exits_69_without_harm(void **state)
{
    pid_t first = BEGIN("-c", config), second;
    int first_fd = said_fd;
    char why[200], pid_text[20], lock[100];
    json_t *pong = NULL;
    struct stat st;

    (void)state;
    snprintf(lock, sizeof lock, "%s/state/tester.lock", dir);
    while (stat(lock, &st) != 0 || st.st_size == 0)
        usleep(1000);
    second = BEGIN("-c", config);
    assert_int_equal(end_of(second), EXIT_UNAVAILABLE);
    snprintf(pid_text, sizeof pid_text, "process %d ", (int)first);
    assert_non_null(strstr(said, pid_text));
    pong = ask_for("ping", NULL, why);
    assert_int_equal(json_integer_value(json_object_get(pong, "pid")), first);
    json_decref(pong);
    said_fd = first_fd;
    assert_int_equal(stop(first), 0);
    assert_int_equal(end_of(BEGIN("-c", config, "--check")), 0);
}

static void a_lock_ends_with_its_process(void **state)
{
    pid_t pid = BEGIN("-c", config);
    char why[200];

    (void)state;
    json_decref(ask_for("ping", NULL, why));
    kill(pid, SIGKILL);
    assert_int_equal(end_of(pid), -SIGKILL);
    pid = BEGIN("-c", config);
    json_decref(ask_for("ping", NULL, why));
    assert_int_equal(stop(pid), 0);
    assert_non_null(strstr(said, "stopped"));
}

/* ---- control ---- */

static void control_replies_to_what_it_knows(void **state)
{
    pid_t pid = BEGIN("-c", config);
    char why[200] = "";
    json_t *a = ask_for("ping", NULL, why);
    struct stat st;

    (void)state;
    assert_string_equal(json_string_value(json_object_get(a, "process")),
                        "tester");
    json_decref(a);
    a = ask_for("add", json_pack("{s:i}", "by", 2), why);
    assert_int_equal(json_integer_value(json_object_get(a, "now")), 43);
    json_decref(a);
    a = ask_for("status", NULL, why);
    assert_int_equal(json_integer_value(json_object_get(a, "in_flight")), 43);
    assert_true(json_is_array(json_object_get(a, "links")));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(a, "metrics"),
                                           "grapnel_test_things_total")),
        43);
    json_decref(a);
    a = ask_for("reload", NULL, why);
    assert_non_null(a);
    json_decref(a);
    assert_int_equal(stat(run_dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stop(pid), 0);
}

static void control_refuses_unknown_requests_by_name(void **state)
{
    pid_t pid = BEGIN("-c", config);
    char why[200] = "", big[3000];

    (void)state;
    assert_null(ask_for("explode", NULL, why));
    assert_non_null(strstr(why, "\"explode\""));
    assert_non_null(strstr(why, "status"));
    assert_non_null(strstr(why, "add"));
    assert_null(ask_for("add", json_pack("{s:s}", "by", "x"), why));
    assert_string_equal(why, "args.by: a number is needed");
    assert_null(ask_for("add", json_pack("[i]", 1), why));
    assert_null(ask_for("backup", json_pack("{s:s}", "path", "x"), why));
    memset(big, '%', sizeof big - 1);
    big[sizeof big - 1] = 0;
    assert_null(ask_for(big, NULL, why));
    /* The error cites 40 bytes of it, the last of which begins a character. */
    snprintf(big, sizeof big, "%.39sé",
             "an-unknown-request-with-a-long-long-name");
    assert_null(ask_for(big, NULL, why));
    assert_non_null(strstr(why, "has no request \"an-unknown"));
    assert_int_equal(stop(pid), 0);
}

static void every_command_is_known_however_many_there_are(void **state)
{
    static const struct command_spec odd = {.name = "odd"},
                                     even = {.name = "even"},
                                     last = {.name = "last",
                                             .reply = {.type = VALUE_ANY}};
    struct control_command all[COUNT_OF(commands)];
    char why[200];
    json_t *a;
    pid_t pid;

    (void)state;
    memcpy(all, commands, sizeof all);
    for (size_t i = 4; i < COUNT_OF(commands) - 1; i++)
        commands[i] = (struct control_command){i % 2 ? &odd : &even, on_look};
    commands[COUNT_OF(commands) - 2].spec = &last;
    pid = BEGIN("-c", config);
    a = ask_for("last", NULL, why);
    assert_non_null(a);
    json_decref(a);
    assert_int_equal(stop(pid), 0);
    memcpy(commands, all, sizeof all);
}

static char *raw(const char *text, size_t n)
{
    zsock_t *req = zsock_new(ZMQ_REQ);
    char *reply;

    zsock_set_rcvtimeo(req, 5000);
    zsock_connect(req, "ipc://%s/tester.control", run_dir);
    zsock_send(req, "b", text, n);
    reply = zstr_recv(req);
    zsock_destroy(&req);
    return reply;
}

static void garbage_gets_a_reply_too(void **state)
{
    static const struct bytes garbage[] = {
        {"", 0},
        {"\xff\x00\x01", 3},
        {"[1,2]", 5},
        {"{\"v\":2,\"ask\":\"ping\"}", 20},
        {"{\"v\":1}", 7},
        {"{\"v\":1,\"ask\":7}", 15},
        {"{\"v\":1,\"v\":1,\"ask\":\"ping\"}", 26},
        {"{\"v\":1,\"ask\":\"ping\",\"args\":3}", 29},
    };
    pid_t pid = BEGIN("-c", config);
    char why[200];

    (void)state;
    json_decref(ask_for("ping", NULL, why));
    for (size_t i = 0; i < COUNT_OF(garbage); i++) {
        char *reply = raw(garbage[i].p, garbage[i].n);
        json_t *doc = reply ? json_loads(reply, 0, NULL) : NULL;

        assert_non_null(doc);
        assert_true(json_is_false(json_object_get(doc, "ok")));
        assert_true(json_is_string(json_object_get(doc, "error")));
        json_decref(doc);
        free(reply);
    }
    assert_int_equal(stop(pid), 0);
}

/* A commit lies between them: each client waits for one commit. */
static void replies_that_take_long_take_a_turn_each(void **state)
{
    enum { ASKED = 5 };
    pid_t pid = BEGIN("-c", config);
    void *asked[ASKED];
    bool unreachable;
    char why[200];
    json_int_t turn[ASKED];

    (void)state;
    json_decref(ask_for("ping", NULL, why));
    for (int i = 0; i < ASKED; i++)
        asked[i] = control_send(run_dir, "tester", "look", NULL, NULL, 10000);
    for (int i = 0; i < ASKED; i++) {
        json_t *a = control_take(asked[i], &unreachable, why);

        turn[i] = json_integer_value(json_object_get(a, "turn"));
        json_decref(a);
    }
    assert_int_equal(stop(pid), 0);
    for (int i = 0; i < ASKED; i++) {
        assert_true(turn[i] > 0);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(turn[k], turn[i]);
    }
}

static void a_request_of_a_rolled_back_turn_gets_an_error(void **state)
{
    static const char fill[] =
        "{\"v\":1,\"ask\":\"fill\",\"by\":{\"actor\":\"token "
        "a\",\"owner\":\"tok_a\",\"key\":\"k\",\"digest\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}"
        "}";
    pid_t pid = BEGIN("-c", config);
    char why[200] = "", *text;
    json_t *a;

    (void)state;
    for (int i = 0; i < 2; i++) { /* its key stays unused */
        text = raw(fill, strlen(fill));
        assert_non_null(strstr(text, "\"code\":\"disk_full\""));
        assert_non_null(strstr(text, "disk is full"));
        free(text);
    }
    a = ask_for("audit", NULL, why);
    assert_int_equal(json_array_size(json_object_get(a, "audit")), 0);
    json_decref(a);
    a = ask_for("reload", NULL, why); /* a full disk does not undo it */
    assert_non_null(a);
    json_decref(a);
    a = ask_for("status", NULL, why); /* and it goes on */
    assert_non_null(a);
    json_decref(a);
    assert_int_equal(stop(pid), 0);
}

/* The rows of the first one, which need a new page, wait for space. */
static void acts_that_reply_later_follow_each_other_on_a_full_disk(void **state)
{
    pid_t pid = BEGIN("-c", config);
    char why[200] = "", text[4081];
    json_t *a;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_null(ask_for("fill", NULL, why));
    for (int i = 0; i < 3; i++) {
        a = ask_for("later", json_pack("{s:s}", "text", text), why);
        if (!a)
            fail_msg("%s", why);
        json_decref(a);
    }
    a = ask_for("audit", NULL, why);
    assert_non_null(a);
    assert_int_equal(json_array_size(json_object_get(a, "audit")), 0);
    json_decref(a);
    /* What fits without them is stored meanwhile. */
    assert_int_equal(stop(pid), 0);
    assert_non_null(strstr(said, "an act is missing in the audit table"));
}

static void an_absent_process_is_unreachable(void **state)
{
    char why[200] = "";
    bool unreachable = false;

    (void)state;
    assert_null(control_ask(run_dir, "tester", "ping", NULL, NULL, 100,
                            &unreachable, why));
    assert_true(unreachable);
    assert_non_null(strstr(why, "does not respond"));
}

/* ---- backup, reload, frames, metrics ---- */

static void a_backup_is_a_complete_database(void **state)
{
    pid_t pid = BEGIN("-c", config);
    char why[200] = "", path[120];
    json_t *a;
    struct db *copy;

    (void)state;
    snprintf(path, sizeof path, "%s/copy.db", dir);
    a = ask_for("backup", json_pack("{s:s}", "path", path), why);
    assert_string_equal(json_string_value(json_object_get(a, "path")), path);
    json_decref(a);
    assert_null(ask_for("backup", json_pack("{s:s}", "path", path), why));
    assert_non_null(strstr(why, "already exists"));
    assert_int_equal(stop(pid), 0);
    copy = db_open(path, &schema);
    db_close(copy);
}

static void a_reload_with_errors_keeps_the_old_one(void **state)
{
    pid_t pid = BEGIN("-c", config);
    char why[200] = "";
    json_t *a;
    FILE *f;

    (void)state;
    json_decref(ask_for("ping", NULL, why));
    f = fopen(config, "a");
    fputs("colour: red\n", f);
    fclose(f);
    a = ask_for("reload", NULL, why);
    assert_true(json_is_false(json_object_get(a, "reloaded")));
    assert_non_null(strstr(
        json_string_value(json_array_get(json_object_get(a, "errors"), 0)),
        "colour"));
    json_decref(a);
    kill(pid, SIGHUP);
    json_decref(ask_for("ping", NULL, why));
    assert_int_equal(stop(pid), 0);
    assert_non_null(strstr(said, "keeps the old one"));
}

static void malformed_frames_are_dropped_and_logged(void **state)
{
    pid_t pid = BEGIN("-c", config);
    char why[200] = "";
    zsock_t *push;
    struct wire_revoked v = {.grant = 1};
    struct buf b;

    (void)state;
    json_decref(ask_for("ping", NULL, why));
    push = zsock_new(ZMQ_PUSH);
    assert_int_equal(zsock_connect(push, "ipc://%s/tester.inbox", run_dir), 0);
    zstr_send(push, "");
    zstr_send(push, "\x93\x01\x01\xc0");
    buf_init(&b, 1000);
    wire_put_revoked(&b, &v); /* a frame of ours, but none for this daemon */
    zsock_send(push, "b", b.data, b.len);
    buf_fini(&b);
    usleep(100000);
    json_decref(ask_for("ping", NULL, why));
    zsock_destroy(&push);
    assert_int_equal(stop(pid), 0);
    assert_non_null(strstr(said, "invalid frame"));
}

static bool has(const msgpack_object *map, const char *key,
                const msgpack_object **value)
{
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object *k = &map->via.map.ptr[i].key;

        if (k->type == MSGPACK_OBJECT_STR && k->via.str.size == strlen(key) &&
            memcmp(k->via.str.ptr, key, k->via.str.size) == 0) {
            *value = &map->via.map.ptr[i].val;
            return true;
        }
    }
    return false;
}

static void metrics_are_published(void **state)
{
    pid_t pid = BEGIN("-c", config);
    zsock_t *sub = zsock_new(ZMQ_SUB);
    zframe_t *frame;
    msgpack_unpacked got;
    const msgpack_object *v = NULL, *m = NULL;

    (void)state;
    zsock_set_subscribe(sub, "");
    zsock_set_rcvtimeo(sub, 20000);
    zsock_connect(sub, "ipc://%s/tester.metrics", run_dir);
    frame = zframe_recv(sub);
    zsock_destroy(&sub);
    assert_non_null(frame);
    msgpack_unpacked_init(&got);
    assert_int_equal(msgpack_unpack_next(&got, (char *)zframe_data(frame),
                                         zframe_size(frame), NULL),
                     MSGPACK_UNPACK_SUCCESS);
    assert_int_equal(got.data.type, MSGPACK_OBJECT_MAP);
    assert_true(has(&got.data, "v", &v) && v->via.u64 == 1);
    assert_true(has(&got.data, "process", &v));
    assert_true(has(&got.data, "epoch", &v) && v->via.u64 != 0);
    assert_true(has(&got.data, "time_ms", &v));
    assert_true(has(&got.data, "metrics", &m));
    assert_true(has(m, "grapnel_test_things_total", &v) && v->via.u64 == 41);
    assert_true(has(m, "grapnel_test_level", &v) && v->via.i64 == -1);
    msgpack_unpacked_destroy(&got);
    zframe_destroy(&frame);
    assert_int_equal(stop(pid), 0);
}

/* ---- ids ---- */

static void ids_are_never_zero_and_fit_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t id = random_id();

        assert_true(id > 0 && id <= INT64_MAX);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(help_and_version_are_answered),
        T(a_wrong_command_line_is_64),
        T(a_configuration_that_is_missing_or_wrong_is_78),
        T(a_configuration_can_be_checked_alone),
        T(a_path_too_long_for_a_socket_is_78),
        T(a_second_instance_exits_69_without_harm),
        T(a_lock_ends_with_its_process),
        T(control_replies_to_what_it_knows),
        T(control_refuses_unknown_requests_by_name),
        T(acts_that_reply_later_follow_each_other_on_a_full_disk),
        T(every_command_is_known_however_many_there_are),
        T(garbage_gets_a_reply_too),
        T(replies_that_take_long_take_a_turn_each),
        T(a_request_of_a_rolled_back_turn_gets_an_error),
        T(an_absent_process_is_unreachable),
        T(a_backup_is_a_complete_database),
        T(a_reload_with_errors_keeps_the_old_one),
        T(malformed_frames_are_dropped_and_logged),
        T(metrics_are_published),
        T(ids_are_never_zero_and_fit_a_row),
    };

    log_open("test", LEVEL_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
