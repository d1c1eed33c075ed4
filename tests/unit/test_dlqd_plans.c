/* Test of dlqd's statements: each finds its rows by an index. */
#include "dlqd.h"
#include "plans.h"

/* One for each state, endpoint and reason; what is done once, when an older copy has come back; and
 * the replies of a day, when a workspace is erased. */
static const char *const allowed[] = {
    "FROM tallies", "UPDATE redirects SET link_n = 0",
    "DELETE FROM idempotency WHERE instr", NULL};

static void open_all(struct db *db)
{
    static struct store store;

    store_open(&store, db);
}

int main(void)
{
    return plans_main(&dlqd_schema, open_all, allowed);
}
