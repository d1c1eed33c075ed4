/* Tests of the fallback thread: it runs only while the loop waits for long.
 * grapnel-labels: threads */
#include "fallback.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 20, EVERY_MS = 5 };

/* Relaxed: it orders nothing, so that a tool that finds races still sees whether
 * `runs` is protected by fallback_end(). */
static atomic_int calls;

static void count(void *arg)
{
    ++*(int *)arg; /* not atomic: only one of two threads is here */
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

static void the_fallback_runs_while_the_loop_waits(void **state)
{
    int runs = 0, before;
    struct fallback *s = fallback_open(count, &runs, PATIENCE_MS, EVERY_MS);

    (void)state;
    fallback_begin(s);
    while (atomic_load_explicit(&calls, memory_order_relaxed) < 2)
        usleep(1000); /* nothing here may look at `runs` */
    fallback_end(s);
    before = runs;
    assert_true(before > 1);
    for (int i = 0; i < 1000; i++) { /* short waits: the loop works itself */
        fallback_begin(s);
        fallback_end(s);
        count(&runs);
    }
    assert_int_equal(runs, before + 1000);
    fallback_close(s);
}

static void without_a_fallback_no_thread_runs(void **state)
{
    (void)state;
    fallback_begin(NULL);
    fallback_end(NULL);
    fallback_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fallback_runs_while_the_loop_waits),
        cmocka_unit_test(without_a_fallback_no_thread_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
