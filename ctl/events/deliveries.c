/* deliveries: `grapnel deliveries`: searches deliveries. */
#include "list.h"
#include "names.h"

static const struct column columns[] = {
    {.head = "RECEIVED (UTC)", .key = "received_at", .kind = COLUMN_TIME},
    {.head = "EVENT", .key = "event_id"},
    {.head = "ENDPOINT", .key = "endpoint"},
    {.head = "STATUS", .key = "status"},
    {.head = "ATTEMPTS", .key = "attempts"},
    {.head = "RESPONSE", .key = "last_http_status", .kind = COLUMN_OR_DASH},
    {.head = "TYPE", .key = "type"},
    {.head = "WORKSPACE", .key = "workspace"},
    {.head = "NEXT ATTEMPT (UTC)",
     .key = "next_attempt_at",
     .kind = COLUMN_TIME},
    {0}};

int run_deliveries(struct ctl *c)
{
    static const char *const filters[] = {"--workspace", "--source", "--type",
                                          "--endpoint",  "--status", NULL};
    json_t *args = json_object();
    int code = EXIT_USAGE;

    if (put_filters(c, args))
        code = list_pages(
            c, &(struct page_listing){.process = "sequencer",
                                      .ask = "deliveries",
                                      .key = "deliveries",
                                      .args = args,
                                      .filters = filters,
                                      .columns = columns,
                                      .none = "No deliveries found."});
    json_decref(args);
    return code;
}
