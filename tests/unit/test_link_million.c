/* Test of a link whose peer is away: a million messages wait on disk, not in memory,
 * and arrive in order.
 * grapnel-labels: slow */
#include "link_pair.h"

/* Freed memory that AddressSanitizer keeps back is not ours to count. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=4";
}

enum { MILLION = 1000000, PER_COMMIT = 20000 };

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    long kib = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

static void a_million_messages_while_the_peer_is_away(void **state)
{
    struct pair *p = *state;
    long before;

    pair_start(p);
    end_write(&p->a, "b", SMALL, 10);
    run_through(&p->a, &p->b);
    end_kill(&p->b);
    end_write(&p->a, "b", SMALL, PER_COMMIT);
    for (int i = 0; i < 50; i++)
        end_turn(&p->a);
    before = resident_kib();
    for (int i = 0; i < MILLION / PER_COMMIT - 1; i++) {
        end_write(&p->a, "b", SMALL, PER_COMMIT);
        end_turn(&p->a);
        db_tidy(p->a.db);
        clock_test_advance(200);
    }
    assert_int_equal(links_backlog(p->a.links, "b"), MILLION);
    assert_in_range(resident_kib(), 0, before + 64 * 1024);
    end_start(&p->b);
    while (!is_through(&p->a, &p->b))
        both_turn(&p->a, &p->b);
    assert_in_range(resident_kib(), 0, before + 96 * 1024);
    assert_exactly(&p->b, "a", 1, MILLION + 10);
    assert_no_alarm(&p->a, &p->b);
    assert_int_equal(end_number(&p->a, "SELECT count(*) FROM link_log"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(a_million_messages_while_the_peer_is_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
