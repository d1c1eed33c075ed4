/* Tests of the log: one fact per line, the event's id first, whether it is read or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "log.h"
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Standard error is a pipe while a test looks. */
static int kept_stderr, reader;

static void begin_catching(void)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    kept_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    reader = ends[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
}

static const char *caught(void)
{
    static char text[200 * 1024];
    size_t n = 0;
    ssize_t got;

    while ((got = read(reader, text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = 0;
    return text;
}

static int setup(void **state)
{
    (void)state;
    clock_test_set(1795255200123);
    begin_catching();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    if (reader >= 0)
        close(reader);
    clock_test_off();
    return 0;
}

static void a_text_line_begins_with_the_event(void **state)
{
    (void)state;
    log_open("deliverer-1", LEVEL_INFO, false);
    log_info("evt_1", "delivered", LS("endpoint", "crm"), LI("attempt", -2));
    assert_string_equal(caught(), "2026-11-21T10:00:00.123Z info deliverer-1 "
                                  "event=evt_1 delivered endpoint=crm "
                                  "attempt=-2\n");
}

static void misleading_values_are_quoted(void **state)
{
    (void)state;
    log_open("p", LEVEL_INFO, false);
    log_warn(NULL, "odd\nwords", LS("a", ""), LS("b", "x y"), LS("c", "a=b"),
             LS("d", "\n2026 info p forged"), LS("e", "q\"\\"),
             LS("f", "\xff\x1b[0m"),
             LS("g", "\xc2\x9b"
                     "2J\xc2\xa9"));
    assert_string_equal(caught(),
                        "2026-11-21T10:00:00.123Z warn p odd words a=\"\" "
                        "b=\"x y\" c=\"a=b\" d=\"\\u000a2026 info p forged\" "
                        "e=\"q\\\"\\\\\" f=\"\xef\xbf\xbd\\u001b[0m\" "
                        "g=\"\\u009b2J\xc2\xa9\"\n");
}

static void a_json_line_is_json_whatever_is_in_it(void **state)
{
    json_t *line;

    (void)state;
    log_open("p", LEVEL_INFO, true);
    log_info("evt_\"1", "wo\x01rd\xc3", LS("k\n", "\xed\xa0\x80v\t\"\\"),
             LI("n", 1LL << 60));
    line = json_loads(caught(), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "time")),
                        "2026-11-21T10:00:00.123Z");
    assert_string_equal(json_string_value(json_object_get(line, "level")),
                        "info");
    assert_string_equal(json_string_value(json_object_get(line, "event")),
                        "evt_\"1");
    assert_true(json_integer_value(json_object_get(line, "n")) == 1LL << 60);
    json_decref(line);
}

static void lines_below_the_level_are_not_written(void **state)
{
    (void)state;
    log_open("p", LEVEL_WARN, false);
    log_debug(NULL, "one");
    log_info(NULL, "two");
    assert_string_equal(caught(), "");
    assert_false(log_is_on(LEVEL_INFO));
    assert_true(log_is_on(LEVEL_ERROR));
}

static void a_long_line_is_cut_and_still_a_line(void **state)
{
    char *big = malloc(1024 * 1024);
    struct log_field many[41] = {{0}};
    const char *text;

    (void)state;
    memset(big, '\\', 1024 * 1024 - 1);
    big[1024 * 1024 - 1] = 0;
    for (int i = 0; i < 40; i++)
        many[i] = LS("field", big);
    log_open("p", LEVEL_INFO, false);
    log_write(LEVEL_INFO, NULL, "much", many);
    text = caught();
    assert_in_range(strlen(text), 4096, 33 * 1024);
    assert_string_equal(text + strlen(text) - 7, " cut=1\n");
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    log_open("p", LEVEL_INFO, true);
    many[1].key = "end"; /* JSON_REJECT_DUPLICATES is not asked here */
    log_write(LEVEL_INFO, NULL, "much", many);
    text = caught();
    assert_string_equal(text + strlen(text) - 10, ",\"cut\":1}\n");
    json_decref(json_loads(text, 0, NULL));
    free(big);
}

static void
a_full_pipe_blocks_nothing_and_what_is_dropped_is_counted(void **state)
{
    uint64_t before = log_dropped_count();
    const char *text;

    (void)state;
    log_open("p", LEVEL_INFO, false);
    alarm(20); /* a write that blocks ends the test */
    for (int i = 0; i < 20000; i++)
        log_info(NULL, "a line of some length to fill the pipe", LI("i", i));
    alarm(0);
    assert_true(log_dropped_count() > before);
    text = caught();
    log_info(NULL, "again");
    text = caught();
    assert_non_null(strstr(text, "info p again\n"));
    /* whatever was torn, the new line is one of its own */
    assert_true(text[0] == '2' || text[0] == '\n');
}

static void a_closed_pipe_ends_no_process(void **state)
{
    uint64_t before = log_dropped_count();

    (void)state;
    signal(SIGPIPE, SIG_IGN); /* as loop_prepare() does */
    log_open("p", LEVEL_INFO, false);
    close(reader);
    reader = -1;
    log_info(NULL, "to nobody");
    assert_int_equal(log_dropped_count(), before + 1);
}

static void a_field_without_a_value_is_left_out(void **state)
{
    (void)state;
    log_open("p", LEVEL_INFO, false);
    log_info(NULL, "w", LS("a", NULL), LS("b", ""), LI("n", 0), LT("c_at", 0),
             LT("d_at", 1795255200123));
    assert_string_equal(caught(),
                        "2026-11-21T10:00:00.123Z info p w b=\"\" n=0 "
                        "d_at=2026-11-21T10:00:00.123Z\n");
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void lines_about_events_are_limited_and_counted(void **state)
{
    const char *text;

    (void)state;
    log_open("p", LEVEL_INFO, false);
    log_turn(1000);
    for (int i = 0; i < 250; i++) {
        if (i % 2 == 0 || log_has_capacity(LEVEL_INFO))
            log_info("evt_1", "accepted", LI("i", i));
        log_info(NULL, "not about an event");
        if (i < 103)
            log_warn("evt_1", "dead");
        log_error("evt_1", "broken");
    }
    text = caught();
    assert_int_equal(count_of(text, " accepted "), LOG_EVENT_LINES);
    assert_int_equal(count_of(text, " dead"), LOG_EVENT_LINES);
    assert_int_equal(count_of(text, "not about"), 250);
    assert_int_equal(count_of(text, " broken"), 250);
    log_turn(1999);
    assert_string_equal(caught(), "");
    log_turn(2000);
    text = caught();
    assert_int_equal(count_of(text, "\n"), 1);
    assert_non_null(strstr(text, " warn p suppressed lines about events"));
    assert_non_null(strstr(text, "info_lines=150 warn_lines=3\n"));
    log_info("evt_1", "accepted");
    log_turn(3000);
    assert_int_equal(count_of(caught(), "\n"), 1);
}

static void at_level_debug_no_line_is_suppressed(void **state)
{
    (void)state;
    log_open("p", LEVEL_DEBUG, false);
    log_turn(10000);
    for (int i = 0; i < 150; i++)
        log_info("evt_1", "accepted");
    log_turn(20000);
    assert_int_equal(count_of(caught(), "\n"), 150);
}

static const char *text_of_file(const char *path)
{
    static char text[4096];
    FILE *f = fopen(path, "r");

    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = 0;
    if (f)
        fclose(f);
    return text;
}

static void warnings_are_also_in_the_error_file(void **state)
{
    char folder[] = "/tmp/log-XXXXXX", path[64], old[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/errors", folder);
    snprintf(old, sizeof old, "%s/errors.1", folder);
    log_open("p", LEVEL_INFO, false);
    log_errors_to(path);
    log_info(NULL, "one");
    log_warn(NULL, "two");
    log_error(NULL, "three");
    assert_int_equal(count_of(caught(), "\n"), 3);
    assert_string_equal(text_of_file(path),
                        "2026-11-21T10:00:00.123Z warn p two\n"
                        "2026-11-21T10:00:00.123Z error p three\n");
    assert_int_equal(rename(path, old), 0);
    log_warn(NULL, "four");
    log_errors_to(path);
    log_warn(NULL, "five");
    assert_int_equal(count_of(text_of_file(old), "\n"), 3);
    assert_string_equal(text_of_file(path),
                        "2026-11-21T10:00:00.123Z warn p five\n");
    log_errors_to(NULL);
    log_warn(NULL, "six");
    assert_int_equal(count_of(text_of_file(path), "\n"), 1);
    unlink(path);
    unlink(old);
    rmdir(folder);
}

static void a_missing_folder_is_reported_once_and_tried_again(void **state)
{
    char folder[] = "/tmp/log-XXXXXX", below[64], path[64];
    const char *text;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(below, sizeof below, "%s/log", folder);
    snprintf(path, sizeof path, "%s/log/errors", folder);
    log_open("p", LEVEL_INFO, false);
    log_turn(100000);
    log_errors_to(path);
    log_warn(NULL, "one");
    log_warn(NULL, "two");
    text = caught();
    assert_int_equal(count_of(text, "\n"), 3);
    assert_non_null(strstr(text, "log.errors cannot be written"));
    assert_non_null(strstr(text, "error=\"No such file or directory\""));
    assert_int_equal(mkdir(below, 0700), 0);
    log_turn(109999);
    log_warn(NULL, "three");
    assert_int_equal(count_of(caught(), "\n"), 1);
    log_turn(110000);
    assert_non_null(strstr(caught(), "log.errors is written again file="));
    log_warn(NULL, "four");
    assert_int_equal(count_of(text_of_file(path), "\n"), 1);
    log_errors_to(NULL);
    unlink(path);
    rmdir(below);
    rmdir(folder);
}

static void a_full_disk_is_reported_once_and_ends_nothing(void **state)
{
    const char *text;

    (void)state;
    log_open("p", LEVEL_INFO, false);
    log_errors_to("/dev/full");
    for (int i = 0; i < 3; i++)
        log_warn(NULL, "one");
    text = caught();
    assert_int_equal(count_of(text, " warn p one\n"), 3);
    assert_int_equal(count_of(text, "log.errors cannot be written"), 1);
    assert_non_null(strstr(text, "No space left on device"));
    log_errors_to(NULL);
}

static void die_says_why_and_exits_with_the_code(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    log_open("p", LEVEL_INFO, false);
    pid = fork();
    if (pid == 0)
        die(EXIT_STORAGE, "%s: no space\nfor two lines", "/x/y.db");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_STORAGE);
    assert_string_equal(caught(), "2026-11-21T10:00:00.123Z error p /x/y.db: "
                                  "no space for two lines\n");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_text_line_begins_with_the_event),
        T(misleading_values_are_quoted),
        T(a_field_without_a_value_is_left_out),
        T(lines_about_events_are_limited_and_counted),
        T(at_level_debug_no_line_is_suppressed),
        T(warnings_are_also_in_the_error_file),
        T(a_missing_folder_is_reported_once_and_tried_again),
        T(a_full_disk_is_reported_once_and_ends_nothing),
        T(a_json_line_is_json_whatever_is_in_it),
        T(lines_below_the_level_are_not_written),
        T(a_long_line_is_cut_and_still_a_line),
        T(a_full_pipe_blocks_nothing_and_what_is_dropped_is_counted),
        T(a_closed_pipe_ends_no_process),
        T(die_says_why_and_exits_with_the_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
