/* Tests of lookup: entries are found by their key. */
#include "lookup.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static bool has(const struct lookup *l, uint64_t key, size_t slot)
{
    size_t i, at = 0;

    while ((i = lookup_next(l, key, &at)) != LOOKUP_END)
        if (i == slot)
            return true;
    return false;
}

static void an_empty_table_has_no_entry(void **state)
{
    struct lookup l = {0};
    size_t at = 0;

    (void)state;
    assert_true(lookup_next(&l, 7, &at) == LOOKUP_END);
    lookup_drop(&l, 7, 0);
    lookup_fini(&l);
}

static void entries_are_found_by_key_and_by_iteration(void **state)
{
    struct lookup l = {0};
    int things[100], *t;
    size_t at, seen = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        lookup_add(&l, (uint64_t)i % 50, &things[i]);
    at = 0;
    t = lookup_get(&l, 7, &at);
    assert_true(t == &things[7] || t == &things[57]);
    lookup_remove(&l, 7, t);
    at = 0;
    t = lookup_get(&l, 7, &at);
    assert_true(t == &things[7] || t == &things[57]);
    assert_null(lookup_get(&l, 7, &at));
    for (at = 0; (t = lookup_walk(&l, &at));)
        seen += t >= things && t < things + 100;
    assert_int_equal(seen, 99);
    assert_int_equal(l.used, 99);
    lookup_fini(&l);
}

static void two_entries_of_one_key_are_both_found(void **state)
{
    struct lookup l = {0};
    size_t at = 0;

    (void)state;
    lookup_put(&l, 7, 1);
    lookup_put(&l, 7, 0);
    lookup_put(&l, 8, 5);
    assert_true(has(&l, 7, 0) && has(&l, 7, 1) && has(&l, 8, 5));
    assert_true(lookup_next(&l, 7, &at) == 1);
    assert_true(lookup_next(&l, 7, &at) == 0);
    assert_true(lookup_next(&l, 7, &at) == LOOKUP_END);
    lookup_drop(&l, 7, 1);
    assert_true(has(&l, 7, 0) && !has(&l, 7, 1));
    lookup_fini(&l);
}

/* In any order, with keys that meet: 60 of them, and what is there stays found
 * when its neighbours go. */
static void entries_stay_until_they_are_dropped(void **state)
{
    enum { KEYS = 60, SLOTS = 8, STEPS = 5000 };
    static bool there[KEYS][SLOTS];
    struct lookup l = {0};
    size_t used = 0;

    (void)state;
    srandom(1);
    for (int step = 0; step < STEPS; step++) {
        uint64_t key = (uint64_t)random() % KEYS;
        size_t slot = (size_t)random() % SLOTS;
        bool *is = &there[key][slot];

        if (*is)
            lookup_drop(&l, key, slot);
        else if (random() % 8 == 0) /* so that it is never very full */
            lookup_put(&l, key, slot);
        else
            continue;
        used += *is ? -1UL : 1;
        *is = !*is;
        assert_true(l.used == used);
        for (size_t k = 0; k < KEYS * SLOTS; k++)
            assert_true(has(&l, k / SLOTS, k % SLOTS) ==
                        there[k / SLOTS][k % SLOTS]);
    }
    lookup_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_has_no_entry),
        cmocka_unit_test(entries_are_found_by_key_and_by_iteration),
        cmocka_unit_test(two_entries_of_one_key_are_both_found),
        cmocka_unit_test(entries_stay_until_they_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
