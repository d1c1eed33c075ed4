/* Test of ingress's statements: each finds its rows by an index. */
#include "ingress.h"
#include "plans.h"

/* A thousand of each source. */
static const char *const allowed[] = {
    "FROM rejects",
    "length(body) FROM reject_bodies", /* 64 MiB, once; not their content */
    "FROM usage",                      /* a row for each source; once */
    "UPDATE usage_counted",            /* its only row */
    NULL};

static void open_all(struct db *db)
{
    static struct archive_store store;
    static struct reject_store rejects;

    archive_store_open(&store, db);
    reject_store_open(&rejects, db);
}

int main(void)
{
    return plans_main(&ingress_schema, open_all, allowed);
}
