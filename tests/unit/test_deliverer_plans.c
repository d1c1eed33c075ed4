/* Test of the deliverer's statements: each finds its rows by an index. */
#include "deliverer.h"
#include "plans.h"

/* One row each; the grants of a start; what counts all tasks, by an index alone, at
 * a start and after a rolled back turn; and at a start the few that wait for no
 * retry, by an index of those; the few kinds of requests; and the numbers of one event's attempts. */
static const char *const allowed[] = {
    "FROM settled",
    "FROM meta",
    "FROM grants",
    "FROM templates",
    "GROUP BY grant_id",
    "row_number() OVER (PARTITION BY endpoint",
    "BY tasks_untried WHERE retrying = 0) AND next_ms > ?1",
    NULL};

static void open_all(struct db *db)
{
    static struct store store;

    store_open(&store, db);
}

int main(void)
{
    return plans_main(&deliverer_schema, open_all, allowed);
}
