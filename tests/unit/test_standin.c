/* The stand-in runs while the loop waits for long, and never beside it.
 * grapnel-labels: threads */
#include "standin.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 20, EVERY_MS = 5 };

static void count(void *arg)
{
    ++*(int *)arg; /* not atomic: only one of two threads is here */
}

static void it_runs_while_the_loop_waits_for_long(void **state)
{
    int runs = 0, before;
    struct standin *s = standin_open(count, &runs, PATIENCE_MS, EVERY_MS);

    (void)state;
    standin_begin(s);
    sleep(1); /* nothing here may look at `runs` */
    standin_end(s);
    before = runs;
    assert_true(before > 1);
    for (int i = 0; i < 1000; i++) { /* short waits: the loop works itself */
        standin_begin(s);
        standin_end(s);
        count(&runs);
    }
    assert_int_equal(runs, before + 1000);
    standin_close(s);
}

static void without_one_nothing_is_done(void **state)
{
    (void)state;
    standin_begin(NULL);
    standin_end(NULL);
    standin_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_runs_while_the_loop_waits_for_long),
        cmocka_unit_test(without_one_nothing_is_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
