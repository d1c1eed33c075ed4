/* Tests of the environment that child processes get; flow/test_manager.py has the
 * messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "manager.h"
#include <stdlib.h>

static void children_do_not_inherit_the_notify_socket(void **state)
{
    (void)state;
    setenv("NOTIFY_SOCKET", "@grapnel-test", 1);
    setenv("WATCHDOG_USEC", "2000000", 1);
    unsetenv("WATCHDOG_PID");
    manager_open();
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_null(getenv("WATCHDOG_USEC"));
    assert_true(manager_watches());
    manager_close();
    assert_false(manager_watches());
}

static void
a_watchdog_that_is_not_a_number_or_of_another_process_is_none(void **state)
{
    static const char *const usec[] = {
        "", "x", "-1", "0", "1s", "9e9", "99999999999999999999"};

    (void)state;
    for (size_t i = 0; i < sizeof usec / sizeof *usec; i++) {
        setenv("NOTIFY_SOCKET", "/run/notify", 1);
        setenv("WATCHDOG_USEC", usec[i], 1);
        manager_open();
        assert_false(manager_watches());
        manager_close();
    }
    setenv("NOTIFY_SOCKET", "/run/notify", 1);
    setenv("WATCHDOG_USEC", "2000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    manager_open();
    assert_false(manager_watches());
    assert_null(getenv("WATCHDOG_PID"));
    manager_close();
}

static void without_a_manager_no_message_is_sent(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    setenv("WATCHDOG_USEC", "2000000", 1);
    manager_open();
    assert_false(manager_watches());
    assert_false(manager_status_is_due(1));
    manager_starting("");
    manager_ready();
    manager_reloading();
    manager_waits(10 * 1000, 1, "the disk");
    manager_stopping(1);
    assert_int_equal(manager_turn(1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_do_not_inherit_the_notify_socket),
        cmocka_unit_test(
            a_watchdog_that_is_not_a_number_or_of_another_process_is_none),
        cmocka_unit_test(without_a_manager_no_message_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
