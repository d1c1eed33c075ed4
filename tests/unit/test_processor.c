/* Tests of processor: a thread that has to wait for a processor, and one that has not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "clock.h"
#include "processor.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MS = 1000000 };

static void a_third_of_its_time_is_contended(void **state)
{
    struct processor p = {0};

    (void)state;
    processor_judge(&p, 300 * MS, 90 * MS, 1000);
    assert_false(p.contended);
    processor_judge(&p, 600 * MS, 200 * MS, 1000);
    assert_true(p.contended);
}

static void it_stays_contended_down_to_a_sixth(void **state)
{
    struct processor p = {0};

    (void)state;
    processor_judge(&p, 300 * MS, 300 * MS, 1000);
    assert_true(p.contended);
    processor_judge(&p, 600 * MS, 360 * MS, 1000);
    assert_true(p.contended);
    processor_judge(&p, 900 * MS, 400 * MS, 1000);
    assert_false(p.contended);
}

static void a_thread_that_sleeps_is_not_contended(void **state)
{
    struct processor p = {0};

    (void)state;
    processor_judge(&p, 300 * MS, 300 * MS, 1000);
    processor_judge(&p, 300 * MS, 300 * MS, 1000);
    assert_false(p.contended);
}

static void it_tells_the_part_of_the_time_that_was_waited(void **state)
{
    struct processor p = {0};

    (void)state;
    processor_judge(&p, 300 * MS, 200 * MS, 1000);
    assert_int_equal(p.waited_percent, 20);
    processor_judge(&p, 600 * MS, 500 * MS, 2000);
    assert_int_equal(p.waited_percent, 15);
    processor_judge(&p, 600 * MS, 500 * MS, 100);
    assert_int_equal(p.waited_percent, 0);
    processor_judge(&p, 700 * MS, 500 * MS, 0);
    assert_int_equal(p.waited_percent, 0);
}

static atomic_bool done;

static void *spin(void *arg)
{
    (void)arg;
    while (!atomic_load(&done))
        ;
    return NULL;
}

/* Two threads that share one processor and never sleep: each waits as long as it runs. */
static void the_kernel_says_it(void **state)
{
    struct processor p = {0};
    cpu_set_t before, one;
    pthread_t other;

    (void)state;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    assert_int_equal(pthread_create(&other, NULL, spin, NULL), 0);
    while (!processor_look(&p, mono_ms())) /* the limit is the test's own */
        ;
    assert_true(p.ran_ns > 0 && p.waited_ns > 0);
    atomic_store(&done, true);
    pthread_join(other, NULL);
    sched_setaffinity(0, sizeof before, &before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_third_of_its_time_is_contended),
        cmocka_unit_test(it_stays_contended_down_to_a_sixth),
        cmocka_unit_test(a_thread_that_sleeps_is_not_contended),
        cmocka_unit_test(it_tells_the_part_of_the_time_that_was_waited),
        cmocka_unit_test(the_kernel_says_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
