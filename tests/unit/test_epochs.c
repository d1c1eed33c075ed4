/* Tests of epochs: which start of a process wrote which rows, and the last row that two
 * logs share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "bounds.h"
#include "epochs.h"
#include "le64.h"

/* "epoch:first epoch:first …", ended with 0. */
static struct epochs made(const uint64_t *pairs)
{
    struct epochs r = {0};

    for (; pairs[0]; pairs += 2)
        epochs_add(&r, pairs[0], pairs[1]);
    return r;
}
#define EPOCHS(...) made((const uint64_t[]){__VA_ARGS__, 0, 0})

static void an_epoch_reaches_to_the_next(void **state)
{
    struct epochs r = EPOCHS(11, 1, 22, 5, 33, 9);

    (void)state;
    assert_int_equal(epochs_of(&r, 0), 0);
    assert_int_equal(epochs_of(&r, 1), 11);
    assert_int_equal(epochs_of(&r, 4), 11);
    assert_int_equal(epochs_of(&r, 5), 22);
    assert_int_equal(epochs_of(&r, 100), 33);
    epochs_add(&r, 33, 50);
    assert_int_equal(r.count, 3);
    epochs_cut(&r, 8);
    assert_int_equal(r.count, 2);
    epochs_cut(&r, 5);
    assert_int_equal(r.count, 2);
    epochs_cut(&r, 0);
    assert_int_equal(r.count, 0);
    epochs_fini(&r);
}

static void needed_epochs_are_never_forgotten(void **state)
{
    struct epochs r = EPOCHS(11, 1, 22, 5, 33, 9, 44, 12);

    (void)state;
    assert_false(epochs_shorten(&r, 4, 100));
    assert_false(epochs_shorten(&r, 1, 4)); /* row 4 is of epoch 11 */
    assert_true(epochs_shorten(&r, 1, 9));
    assert_int_equal(r.list[0].epoch, 33);
    assert_true(epochs_forgot(&r, 8));
    assert_false(epochs_forgot(&r, 9));
    assert_false(epochs_forgot(&r, 0));
    assert_int_equal(epochs_of(&r, 8), 0);
    assert_true(epochs_shorten(&r, 1, 1000)); /* the last always stays */
    assert_int_equal(r.count, 1);
    assert_false(epochs_shorten(&r, 0, 1000));
    epochs_fini(&r);
}

static void check_common(struct epochs a, uint64_t a_last, struct epochs b,
                         uint64_t b_last, uint64_t expected)
{
    assert_int_equal(epochs_common(&a, a_last, &b, b_last), expected);
    assert_int_equal(epochs_common(&b, b_last, &a, a_last), expected);
    epochs_fini(&a);
    epochs_fini(&b);
}

static void the_last_common_row_is_found(void **state)
{
    (void)state;
    check_common(EPOCHS(1, 1), 7, EPOCHS(1, 1, 2, 6), 6, 5);
    check_common(EPOCHS(1, 1), 5, EPOCHS(1, 1), 9, 5);
    check_common(EPOCHS(1, 1), 5, EPOCHS(2, 1), 9, 0);
    check_common(EPOCHS(1, 1, 2, 4, 3, 6), 9, EPOCHS(1, 1, 2, 4, 4, 8), 9, 5);
    check_common(EPOCHS(2, 4), 9, EPOCHS(1, 1, 2, 4), 7,
                 7);                                   /* 1 is forgotten */
    check_common(EPOCHS(2, 4), 0, EPOCHS(2, 4), 7, 0); /* nothing taken */
    check_common((struct epochs){0}, 0, EPOCHS(2, 4), 7, 0);
}

static void epochs_survive_a_round_trip(void **state)
{
    struct epochs r = EPOCHS(0x1122334455667788, 1, 2, 0xffffffff), back = {0};
    struct buf b;

    (void)state;
    buf_init(&b, 1000);
    assert_int_equal(epochs_put(&r, &b), 2);
    assert_int_equal(b.len, 32);
    assert_int_equal((unsigned char)b.data[0], 0x88);
    assert_int_equal(epochs_get(&back, (struct bytes){b.data, b.len}, 2),
                     GR_OK);
    assert_int_equal(back.list[1].first, 0xffffffff);
    assert_memory_equal(back.list, r.list, 2 * sizeof *r.list);
    epochs_fini(&back);
    assert_int_equal(epochs_get(&back, (struct bytes){b.data, b.len}, 1),
                     GR_REFUSE);
    assert_int_equal(
        epochs_get(&back, (struct bytes){b.data, b.len}, UINT64_MAX / 16 + 1),
        GR_REFUSE);
    epochs_fini(&back);
    epochs_fini(&r);
    buf_fini(&b);
}

static void only_what_could_be_a_list_is_taken(void **state)
{
    static const uint64_t bad[][4] = {
        {0, 1, 2, 3}, /* no epoch */
        {1, 0, 2, 3}, /* row 0 */
        {1, 3, 2, 3}, /* not ascending */
        {1, 3, 1, 5}, /* one epoch twice */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct epochs r = {0};
        struct buf b;

        buf_init(&b, 100);
        for (int k = 0; k < 4; k++)
            put_le64(&b, bad[i][k]);
        assert_int_equal(epochs_get(&r, (struct bytes){b.data, b.len}, 2),
                         GR_REFUSE);
        epochs_fini(&r);
        buf_fini(&b);
    }
}

static void of_too_many_epochs_the_newest_are_sent(void **state)
{
    struct epochs r = {0}, back = {0};
    struct buf b;

    (void)state;
    buf_init(&b, 16 * EPOCHS_MAX_COUNT);
    for (uint64_t i = 1; i <= EPOCHS_MAX_COUNT + 10; i++)
        epochs_add(&r, i, i);
    assert_int_equal(epochs_put(&r, &b), EPOCHS_MAX_COUNT);
    assert_int_equal(
        epochs_get(&back, (struct bytes){b.data, b.len}, EPOCHS_MAX_COUNT),
        GR_OK);
    assert_int_equal(back.list[0].epoch, 11);
    epochs_fini(&r);
    epochs_fini(&back);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_reaches_to_the_next),
        cmocka_unit_test(needed_epochs_are_never_forgotten),
        cmocka_unit_test(the_last_common_row_is_found),
        cmocka_unit_test(epochs_survive_a_round_trip),
        cmocka_unit_test(only_what_could_be_a_list_is_taken),
        cmocka_unit_test(of_too_many_epochs_the_newest_are_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
