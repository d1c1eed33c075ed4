/* How dlqd's statements find their rows. */
#include "dlqd.h"
#include "plans.h"

extern const char dlqd_store_sql[], dlqd_redirects_sql[], dlqd_again_sql[];

/* One for each state, endpoint and reason; and what is done once, when an older
 * copy has come back. */
static const char *const allowed[] = {"FROM tallies",
                                      "UPDATE redirects SET hop_n = 0", NULL};

static void every_statement_seeks_what_it_needs(void **state)
{
    const char *const steps[] = {dlqd_store_sql, proto_hop_sql,
                                 dlqd_redirects_sql, dlqd_again_sql};
    const struct db_schema schema = {steps, COUNT_OF(steps), 0};
    struct store store = {0};
    struct plans p;

    (void)state;
    plans_open(&p, &schema);
    store_open(&store, p.db);
    plans_judge(&p, allowed);
    plans_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_seeks_what_it_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
