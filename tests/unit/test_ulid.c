/* ulid: ids that ascend, whatever the clock does. */
#include "ulid.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void ids_ascend_within_a_millisecond_and_against_the_clock(void **state)
{
    struct ulid u = {0};
    char last[ULID_BYTES + 1] = "", id[ULID_BYTES + 1];
    int64_t now = 1700000000000;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        ulid_next(&u, now + (i % 7 == 0) - (i % 1000 == 0) * 5000, id);
        assert_true(strcmp(id, last) > 0);
        assert_true(ulid_valid(id));
        memcpy(last, id, sizeof id);
    }
}

static void an_id_begins_with_its_time(void **state)
{
    struct ulid u = {0};
    char id[ULID_BYTES + 1];

    (void)state;
    ulid_next(&u, 1469918176385, id); /* the example of the ULID spec */
    assert_memory_equal(id, "01ARYZ6S41", 10);
}

static void a_full_random_part_carries_into_the_time(void **state)
{
    struct ulid u = {0};
    char id[ULID_BYTES + 1];

    (void)state;
    assert_int_equal(ulid_resume(&u, "01ARYZ6S41ZZZZZZZZZZZZZZZZ"), GR_OK);
    ulid_next(&u, 1469918176385, id);
    assert_memory_equal(id, "01ARYZ6S42", 10);
}

static void a_resumed_generator_continues_after_an_old_id(void **state)
{
    struct ulid u = {0};
    char id[ULID_BYTES + 1];

    (void)state;
    assert_int_equal(ulid_resume(&u, "01ARYZ6S41TSV4RRFFQ69G5FAV"), GR_OK);
    ulid_next(&u, 0, id);
    assert_string_equal(id, "01ARYZ6S41TSV4RRFFQ69G5FAW");
}

static void an_invalid_id_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "01ARYZ6S41TSV4RRFFQ69G5FA",
        "01ARYZ6S41TSV4RRFFQ69G5FAVX",
        "01aryz6s41tsv4rrffq69g5fav",
        "01ARYZ6S41TSV4RRFFQ69G5FAU",
        "81ARYZ6S41TSV4RRFFQ69G5FAV",
    };
    struct ulid u = {.ms = 7};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(ulid_resume(&u, wrong[i]), GR_REFUSE);
    assert_int_equal(u.ms, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_ascend_within_a_millisecond_and_against_the_clock),
        cmocka_unit_test(an_id_begins_with_its_time),
        cmocka_unit_test(a_full_random_part_carries_into_the_time),
        cmocka_unit_test(a_resumed_generator_continues_after_an_old_id),
        cmocka_unit_test(an_invalid_id_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
