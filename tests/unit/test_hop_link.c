/* One link without restores: every message once, in order (P4). */
#include "hop_pair.h"

static void messages_arrive_once_in_order(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    for (int i = 0; i < 10; i++) {
        end_write(&p->a, "b", MIDDLING, 100);
        both_turn(&p->a, &p->b);
    }
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 1, 1000);
    assert_no_alarm(&p->a, &p->b);
    assert_int_equal(end_number(&p->a, "SELECT count(*) FROM hop_log"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(messages_arrive_once_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
