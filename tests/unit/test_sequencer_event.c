/* Tests of event: which status may follow which. */
#include "event.h"
#include "log.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* In a process of its own: does it end at this change? */
static bool is_refused(int from, int to)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct event_row e = {.id = "evt_1", .source = "s", .status = from};

        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        event_move(&e, (enum event_status)to, "because");
        _exit(e.status == to && strcmp(e.reason, "because") == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void only_what_the_table_allows_is_done(void **state)
{
    static const char dead_letters[] =
        "odrbi   sn"; /* rOuted Duplicate … New */
    static const char *const allowed[] = {
        [EVENT_ROUTED] = "",        [EVENT_DUPLICATE] = "orbi",
        [EVENT_REFUSED] = "odrbis", [EVENT_BUFFERED] = "ori",
        [EVENT_IGNORED] = "or",     [EVENT_SPLIT] = "",
        [EVENT_NEW] = "odrbis",
    };

    (void)state;
    for (int from = EVENT_ROUTED; from <= EVENT_NEW; from++)
        for (int to = EVENT_ROUTED; allowed[from] && to <= EVENT_NEW; to++)
            if (dead_letters[to] != ' ')
                assert_int_equal(is_refused(from, to),
                                 !strchr(allowed[from], dead_letters[to]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_the_table_allows_is_done),
    };

    log_open("sequencer", LEVEL_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
