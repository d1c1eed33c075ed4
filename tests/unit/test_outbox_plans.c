/* Test of outbox's statements: each finds its rows by an index. */
#include "outbox.h"
#include "plans.h"

static const char *const allowed[] = {
    "FROM usage",           /* a row for each source; once */
    "UPDATE usage_counted", /* its only row */
    "max(n)",               /* of all outcomes; once at a start */
    "SET due_ms = 0",       /* of all outcomes that wait; once at a start */
    NULL};

static void open_all(struct db *db)
{
    static struct outbox outbox;

    archive_store_open(&outbox.archive.store, db);
    outbox.daemon.db = db;
    outcomes_open(&outbox);
}

int main(void)
{
    return plans_main(&outbox_schema, open_all, allowed);
}
