/* Tests of a link between databases that do not belong together, and of rewinds in
 * turns that are rolled back. */
#include "link_pair.h"

static void fill_disk_when_rewound(struct end *e)
{
    if (!e->rewinds)
        return;
    db_exec(e->db, "PRAGMA max_page_count = 1");
    for (int i = 0; i < 5000; i++)
        links_put(e->links, "b", SMALL, 999999);
}

/* The process must hear of it again: what it did at that is undone too. */
static void a_rewind_that_is_rolled_back_is_reported_again(void **state)
{
    struct pair *p = *state;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 10);
    run_through(&p->a, &p->b);
    end_restore(&p->b, NULL);
    for (int i = 0; i < 20000 && !p->a.rewinds; i++) {
        end_turn_dying(&p->a, fill_disk_when_rewound, STEPS);
        both_turn(&p->b, &p->b);
    }
    assert_int_equal(p->a.rewinds, 1);
    db_exec(p->a.db, "PRAGMA max_page_count = 100000");
    for (int i = 0; i < 20000 && p->a.rewinds < 2; i++)
        both_turn(&p->a, &p->b);
    assert_int_equal(p->a.rewinds, 2);
    end_write(&p->a, "b", SMALL, 10);
    run_through(&p->a, &p->b);
    assert_exactly(&p->b, "a", 11, 20);
}

/* b comes with the store of c, whose cursor is past what b has: rows that b never
 * saw must not count as acknowledged. */
static void a_cursor_in_another_peer_s_log_is_not_believed(void **state)
{
    struct pair *p = *state;
    struct end *c = calloc(1, sizeof *c);
    char cp[400];

    pair_start(p);
    end_make(c, p->dir, "c");
    end_write(&p->a, "c", SMALL, 30);
    run_through(&p->a, c);
    end_write(&p->a, "b", SMALL, 10);
    run_through(&p->a, &p->b);
    end_kill(c);
    end_kill(&p->b);
    end_remove_store(&p->b);
    snprintf(cp, sizeof cp, "cp %s %s", c->path, p->b.path);
    assert_int_equal(system(cp), 0);
    end_write(&p->a, "b", SMALL, 40); /* 41 … 80, not one of them to c */
    end_start(&p->b);
    run_through(&p->a, &p->b);
    assert_int_equal(end_number(&p->b, "SELECT count(*) FROM applied "
                                       "WHERE value > 40"),
                     40);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(a_rewind_that_is_rolled_back_is_reported_again),
        PAIR_TEST(a_cursor_in_another_peer_s_log_is_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
