/* Tests of the numbers that are on a deliverer's disk: tasks that have ended do not
 * begin again after a crash. P3, P5. */
#include "stored_numbers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { EPOCH = 77 };

static void take(struct stored_numbers *s, uint64_t n)
{
    assert_int_equal(stored_numbers_receive(s, n, EPOCH), GR_OK);
}

static void the_cursor_moves_only_over_settled_numbers(void **state)
{
    struct stored_numbers s;

    (void)state;
    stored_numbers_init(&s, 10);
    for (uint64_t n = 11; n <= 15; n++)
        take(&s, n);
    stored_numbers_add(&s, 12);
    stored_numbers_add(&s, 14);
    assert_int_equal(s.base, 10);
    assert_true(stored_numbers_past_cursor(&s));
    stored_numbers_add(&s, 11);
    assert_int_equal(s.base, 12);
    stored_numbers_add(&s, 13);
    stored_numbers_add(&s, 15);
    assert_int_equal(s.base, 15);
    assert_int_equal(stored_numbers_span(&s), 0);
    assert_false(stored_numbers_past_cursor(&s));
}

static void settled_numbers_are_skipped_when_sent_again(void **state)
{
    struct stored_numbers s;

    (void)state;
    stored_numbers_init(&s, 0);
    take(&s, 1);
    take(&s, 2);
    stored_numbers_add(&s, 2);
    assert_int_equal(stored_numbers_receive(&s, 2, EPOCH), GR_REFUSE);
    assert_int_equal(stored_numbers_receive(&s, 1, EPOCH), GR_OK);
    stored_numbers_add(&s, 1);
    assert_int_equal(stored_numbers_receive(&s, 1, EPOCH), GR_REFUSE);
    assert_int_equal(stored_numbers_receive(&s, 2, EPOCH), GR_REFUSE);
    take(&s, 3);
}

static void lost_numbers_do_not_delay_the_cursor(void **state)
{
    struct stored_numbers s;

    (void)state;
    stored_numbers_init(&s, 5);
    take(&s, 6);
    take(&s, 9); /* 7 and 8 are held by nobody */
    stored_numbers_add(&s, 6);
    assert_int_equal(s.base, 8);
    stored_numbers_add(&s, 9);
    assert_int_equal(s.base, 9);
    take(&s, 1000000); /* nothing open: any jump will do */
    assert_int_equal(s.base, 999999);
}

static void too_far_ahead_is_asked_to_wait(void **state)
{
    struct stored_numbers s;

    (void)state;
    stored_numbers_init(&s, 0);
    take(&s, 1);
    take(&s, STORED_NUMBERS_SPAN);
    assert_int_equal(stored_numbers_receive(&s, STORED_NUMBERS_SPAN + 1, EPOCH),
                     GR_AGAIN);
    stored_numbers_add(&s, 1);
    assert_int_equal(s.base, STORED_NUMBERS_SPAN - 1);
    take(&s, STORED_NUMBERS_SPAN + 1);
}

static void the_bits_survive_a_restart(void **state)
{
    struct stored_numbers s, again;
    uint8_t saved[STORED_NUMBERS_MAX_BYTES];
    size_t count;

    (void)state;
    stored_numbers_init(&s, 4090);
    for (uint64_t n = 4091; n <= 4110; n++)
        take(&s, n);
    stored_numbers_add(&s, 4096);
    stored_numbers_add(&s, 4109);
    count = stored_numbers_save(&s, saved);
    stored_numbers_init(&again, 4090);
    stored_numbers_load(&again, (struct bytes){saved, count});
    assert_int_equal(stored_numbers_receive(&again, 4096, EPOCH), GR_REFUSE);
    assert_int_equal(stored_numbers_receive(&again, 4109, EPOCH), GR_REFUSE);
    assert_int_equal(stored_numbers_receive(&again, 4091, EPOCH), GR_OK);
    assert_int_equal(stored_numbers_receive(&again, 4110, EPOCH), GR_OK);
    /* A row from before: the place has passed all of it. */
    stored_numbers_init(&again, 5000);
    stored_numbers_load(&again, (struct bytes){saved, count});
    assert_false(stored_numbers_past_cursor(&again));
    assert_int_equal(again.taken, 5000);
    stored_numbers_load(&again, (struct bytes){saved, 3});
    assert_int_equal(again.base, 5000);
}

/* A sequencer that was restored from an older copy uses numbers again that this
 * deliverer has finished. */
static void a_number_of_another_epoch_is_another_message(void **state)
{
    struct stored_numbers s, again;
    uint8_t saved[STORED_NUMBERS_MAX_BYTES];
    size_t count;

    (void)state;
    stored_numbers_init(&s, 10);
    for (uint64_t n = 11; n <= 16; n++)
        assert_int_equal(stored_numbers_receive(&s, n, n < 14 ? 1 : 2), GR_OK);
    stored_numbers_add(&s, 13);
    stored_numbers_add(&s, 14);
    stored_numbers_add(&s, 16);
    count = stored_numbers_save(&s, saved);
    stored_numbers_init(&again, 10);
    stored_numbers_load(&again, (struct bytes){saved, count});
    assert_int_equal(stored_numbers_receive(&again, 11, 1), GR_OK);
    assert_int_equal(stored_numbers_receive(&again, 13, 1), GR_REFUSE);
    /* Here the sequencer's copy ended: from 15 on these are new messages. */
    assert_int_equal(stored_numbers_receive(&again, 14, 2), GR_REFUSE);
    assert_int_equal(stored_numbers_receive(&again, 15, 3), GR_OK);
    assert_int_equal(stored_numbers_receive(&again, 16, 3), GR_OK);
    stored_numbers_add(&again, 16);
    assert_int_equal(stored_numbers_receive(&again, 16, 3), GR_REFUSE);
    assert_int_equal(stored_numbers_receive(&again, 13, 1), GR_REFUSE);
}

static void numbers_of_many_epochs_wait_for_the_first(void **state)
{
    struct stored_numbers s;

    (void)state;
    stored_numbers_init(&s, 0);
    for (uint64_t n = 1; n <= STORED_NUMBERS_EPOCHS; n++)
        assert_int_equal(stored_numbers_receive(&s, n, 100 + n), GR_OK);
    assert_int_equal(stored_numbers_receive(&s, STORED_NUMBERS_EPOCHS + 1, 99),
                     GR_AGAIN);
    stored_numbers_add(&s, 1);
    assert_int_equal(stored_numbers_receive(&s, STORED_NUMBERS_EPOCHS + 1, 99),
                     GR_OK);
    assert_int_equal(stored_numbers_receive(&s, 2, 102), GR_OK);
    assert_int_equal(s.taken, STORED_NUMBERS_EPOCHS + 1);
}

/* Against a plain array, with restarts in between. */
static void random_orders_agree_with_a_plain_list(void **state)
{
    enum { N = 20000 };
    static bool done[N + 1];
    struct stored_numbers s;
    uint8_t saved[STORED_NUMBERS_MAX_BYTES];
    uint64_t n, place = 0;

    (void)state;
    srand(7);
    stored_numbers_init(&s, 0);
    while (place < N) {
        if (s.taken < N && stored_numbers_span(&s) < STORED_NUMBERS_SPAN &&
            rand() % 2) {
            take(&s, s.taken + 1);
        } else if (stored_numbers_span(&s) > 0) {
            n = s.base + 1 + (uint64_t)rand() % stored_numbers_span(&s);
            if (rand() % 4 == 0)
                n = s.base + 1;
            assert_int_equal(stored_numbers_receive(&s, n, EPOCH),
                             done[n] ? GR_REFUSE : GR_OK);
            stored_numbers_add(&s, n);
            done[n] = true;
        }
        while (place < N && done[place + 1])
            place++;
        assert_int_equal(s.base, place);
        if (rand() % 1000 == 0) {
            size_t count = stored_numbers_save(&s, saved);

            stored_numbers_init(&s, place);
            stored_numbers_load(&s, (struct bytes){saved, count});
            for (n = s.taken + 1; n <= N && done[n]; n++)
                fail_msg("%d was forgotten", (int)n);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cursor_moves_only_over_settled_numbers),
        cmocka_unit_test(settled_numbers_are_skipped_when_sent_again),
        cmocka_unit_test(lost_numbers_do_not_delay_the_cursor),
        cmocka_unit_test(too_far_ahead_is_asked_to_wait),
        cmocka_unit_test(the_bits_survive_a_restart),
        cmocka_unit_test(a_number_of_another_epoch_is_another_message),
        cmocka_unit_test(numbers_of_many_epochs_wait_for_the_first),
        cmocka_unit_test(random_orders_agree_with_a_plain_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
