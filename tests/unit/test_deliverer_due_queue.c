/* Tests of due_queue: the smallest item is found first, whatever changes. */
#include "due_queue.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N = 500 };

static void expect_first(const struct due_queue *q,
                         const struct due_item *items)
{
    const struct due_item *first = due_queue_first(q);
    size_t in = 0;

    for (int i = 0; i < N; i++) {
        if (!items[i].at)
            continue;
        in++;
        assert_true(first && first->key <= items[i].key);
    }
    assert_int_equal(q->count, in);
    if (!in)
        assert_null(first);
}

static void the_first_item_of_a_queue_is_the_smallest(void **state)
{
    static struct due_item items[N];
    struct due_queue q = {0};

    (void)state;
    srand(3);
    for (int step = 0; step < 20000; step++) {
        struct due_item *item = &items[rand() % N];

        if (rand() % 3)
            due_queue_put(&q, item, rand() % 1000);
        else
            due_queue_drop(&q, item);
        if (step % 16 == 0)
            expect_first(&q, items);
    }
    due_queue_fini(&q);
}

static void a_queue_yields_all_items_in_order(void **state)
{
    static struct due_item items[N];
    struct due_queue q = {0};
    int64_t last = -1;

    (void)state;
    for (int i = 0; i < N; i++)
        due_queue_put(&q, &items[i], (i * 7919) % 1009);
    for (int i = 0; i < N; i++) {
        struct due_item *first = due_queue_first(&q);

        assert_true(first->key >= last);
        last = first->key;
        due_queue_drop(&q, first);
    }
    assert_null(due_queue_first(&q));
    due_queue_drop(&q, &items[0]); /* not in: nothing happens */
    due_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_item_of_a_queue_is_the_smallest),
        cmocka_unit_test(a_queue_yields_all_items_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
