/* Tests of heap: the smallest item is found first, whatever changes. */
#include "heap.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N = 500 };

static void expect_first(const struct heap *h, const struct heap_item *items)
{
    const struct heap_item *first = heap_first(h);
    size_t in = 0;

    for (int i = 0; i < N; i++) {
        if (!items[i].at)
            continue;
        in++;
        assert_true(first && first->key <= items[i].key);
    }
    assert_int_equal(h->count, in);
    if (!in)
        assert_null(first);
}

static void the_first_item_of_a_heap_is_the_smallest(void **state)
{
    static struct heap_item items[N];
    struct heap h = {0};

    (void)state;
    srand(3);
    for (int step = 0; step < 20000; step++) {
        struct heap_item *item = &items[rand() % N];

        if (rand() % 3)
            heap_put(&h, item, rand() % 1000);
        else
            heap_drop(&h, item);
        if (step % 16 == 0)
            expect_first(&h, items);
    }
    heap_fini(&h);
}

static void a_heap_yields_all_items_in_order(void **state)
{
    static struct heap_item items[N];
    struct heap h = {0};
    int64_t last = -1;

    (void)state;
    for (int i = 0; i < N; i++)
        heap_put(&h, &items[i], (i * 7919) % 1009);
    for (int i = 0; i < N; i++) {
        struct heap_item *first = heap_first(&h);

        assert_true(first->key >= last);
        last = first->key;
        heap_drop(&h, first);
    }
    assert_null(heap_first(&h));
    heap_drop(&h, &items[0]); /* not in: nothing happens */
    heap_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_item_of_a_heap_is_the_smallest),
        cmocka_unit_test(a_heap_yields_all_items_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
