/* How the deliverer's statements find their rows. */
#include "deliverer.h"
#include "plans.h"

/* One row each; the grants of a start; and what counts all tasks, by an index
 * alone, at a start and after a rolled back turn. */
static const char *const allowed[] = {"FROM settled", "FROM meta",
                                      "FROM grants", "GROUP BY grant_id", NULL};

static void open_all(struct db *db)
{
    static struct store store;

    store_open(&store, db);
}

int main(void)
{
    return plans_main(deliverer_plan.schema, open_all, allowed);
}
