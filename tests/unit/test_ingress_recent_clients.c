/* How many open connections had a request lately: each once, neither idle nor closed ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "recent_clients.h"

enum { BEGIN_MS = 500 };

static void
a_connection_counts_once_however_many_requests_it_sends(void **state)
{
    struct recent_clients r = {0};
    struct recent_client one = {0}, two = {0};

    (void)state;
    assert_int_equal(recent_clients_count(&r, BEGIN_MS), 0);
    for (int i = 0; i < 100; i++)
        recent_clients_note(&r, &one, BEGIN_MS + i);
    assert_int_equal(recent_clients_count(&r, BEGIN_MS + 100), 1);
    recent_clients_note(&r, &two, BEGIN_MS + 100);
    assert_int_equal(recent_clients_count(&r, BEGIN_MS + 100), 2);
}

static void a_new_span_still_knows_those_of_the_last(void **state)
{
    struct recent_clients r = {0};
    struct recent_client all[5] = {0};

    (void)state;
    for (int i = 0; i < 5; i++)
        recent_clients_note(&r, &all[i], BEGIN_MS);
    assert_int_equal(recent_clients_count(&r, 1000), 5);
    recent_clients_note(&r, &all[0], 1000);
    assert_int_equal(recent_clients_count(&r, 1000), 5);
    recent_clients_note(&r, &all[0], 2000);
    assert_int_equal(recent_clients_count(&r, 2000), 1);
}

static void connections_that_became_idle_do_not_count(void **state)
{
    struct recent_clients r = {0};
    struct recent_client all[5] = {0};

    (void)state;
    for (int i = 0; i < 5; i++)
        recent_clients_note(&r, &all[i], BEGIN_MS);
    assert_int_equal(recent_clients_count(&r, 1999), 5);
    assert_int_equal(recent_clients_count(&r, 2000), 0);
    recent_clients_note(&r, &all[3], 60 * 1000);
    assert_int_equal(recent_clients_count(&r, 60 * 1000), 1);
}

static void a_closed_connection_does_not_count(void **state)
{
    struct recent_clients r = {0};
    struct recent_client idle = {0}, both = {0}, last = {0}, old = {0};

    (void)state;
    for (int i = 0; i < 100; i++) { /* one connection for each request */
        struct recent_client c = {0};

        recent_clients_note(&r, &c, BEGIN_MS);
        assert_int_equal(recent_clients_count(&r, BEGIN_MS), 1);
        recent_clients_leave(&r, &c);
    }
    recent_clients_leave(&r, &idle); /* it had no request */
    assert_int_equal(recent_clients_count(&r, BEGIN_MS), 0);

    recent_clients_note(&r, &old, BEGIN_MS);
    recent_clients_note(&r, &both, 1000);
    recent_clients_note(&r, &last, 1000);
    recent_clients_note(&r, &both, 2000);
    assert_int_equal(recent_clients_count(&r, 2000), 2);
    recent_clients_leave(&r, &both);
    assert_int_equal(recent_clients_count(&r, 2000), 1);
    recent_clients_leave(&r, &last);
    assert_int_equal(recent_clients_count(&r, 2000), 0);
    recent_clients_leave(&r, &old);
    assert_int_equal(recent_clients_count(&r, 2000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_connection_counts_once_however_many_requests_it_sends),
        cmocka_unit_test(a_new_span_still_knows_those_of_the_last),
        cmocka_unit_test(connections_that_became_idle_do_not_count),
        cmocka_unit_test(a_closed_connection_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
