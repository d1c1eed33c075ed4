/* How dlqd's statements find their rows. */
#include "dlqd.h"
#include "plans.h"

extern const char dlqd_store_sql[], dlqd_redirects_sql[], dlqd_again_sql[],
    dlqd_counted_sql[], dlqd_sums_sql[];

/* One for each state, endpoint and reason; and what is done once, when an older
 * copy has come back. */
static const char *const allowed[] = {"FROM tallies",
                                      "UPDATE redirects SET hop_n = 0", NULL};

static void open_all(struct db *db)
{
    static struct store store;

    store_open(&store, db);
}

int main(void)
{
    const char *const steps[] = {dlqd_store_sql,     proto_hop_sql,
                                 dlqd_redirects_sql, dlqd_again_sql,
                                 dlqd_counted_sql,   dlqd_sums_sql};
    const struct db_schema schema = {.steps = steps, .count = COUNT_OF(steps)};

    return plans_main(&schema, open_all, allowed);
}
