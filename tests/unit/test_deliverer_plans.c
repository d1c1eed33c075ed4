/* How the deliverer's statements find their rows. */
#include "deliverer.h"
#include "plans.h"

/* One row each; the grants of a start; and what counts all tasks, by an index
 * alone, at a start and after a rolled back turn. */
static const char *const allowed[] = {"FROM settled", "FROM meta",
                                      "FROM grants", "GROUP BY grant_id", NULL};

static void every_statement_seeks_what_it_needs(void **state)
{
    struct store store = {0};
    struct plans p;

    (void)state;
    plans_open(&p, deliverer_plan.schema);
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
