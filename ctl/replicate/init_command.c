/* init_command: `grapnel replicate init`: the SQL that prepares the replication database. */
#include "replicated.h"
#include <stdio.h>

int run_replicate_init(struct ctl *c)
{
    if (c->json)
        print_json(json_pack("{s:s}", "sql", engine_postgres_ddl()));
    else
        fputs(engine_postgres_ddl(), stdout);
    return 0;
}
