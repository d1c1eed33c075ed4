/* How ingress's statements find their rows. */
#include "ingress.h"
#include "plans.h"

/* A thousand of each source. */
static const char *const allowed[] = {"FROM rejects", NULL};

static void every_statement_seeks_what_it_needs(void **state)
{
    struct store store = {0};
    struct plans p;

    (void)state;
    plans_open(&p, ingress_plan.schema);
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
