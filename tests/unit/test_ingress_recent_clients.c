/* How many connections had a request lately: each once, idle ones not, and none after two seconds. */
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
    int64_t one = 0, two = 0;

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
    int64_t all[5] = {0};

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
    int64_t all[5] = {0};

    (void)state;
    for (int i = 0; i < 5; i++)
        recent_clients_note(&r, &all[i], BEGIN_MS);
    assert_int_equal(recent_clients_count(&r, 1999), 5);
    assert_int_equal(recent_clients_count(&r, 2000), 0);
    recent_clients_note(&r, &all[3], 60 * 1000);
    assert_int_equal(recent_clients_count(&r, 60 * 1000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_connection_counts_once_however_many_requests_it_sends),
        cmocka_unit_test(a_new_span_still_knows_those_of_the_last),
        cmocka_unit_test(connections_that_became_idle_do_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
