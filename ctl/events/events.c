/* events: search the accepted events. */
#include "accepted.h"
#include "list.h"
#include "names.h"
#include <string.h>

static const struct column columns[] = {
    {.head = "RECEIVED (UTC)", .key = "received_at", .kind = COLUMN_TIME},
    {.head = "ID", .key = "id"},
    {.head = "SOURCE", .key = "source"},
    {.head = "TYPE", .key = "type"},
    {.head = "WORKSPACE", .key = "workspace"},
    {.head = "NUMBER", .key = "sequence", .kind = COLUMN_OR_DASH},
    {.head = "STATUS", .key = "status"},
    {0}};

/* By an id of the provider's it matters which of its two that is. */
static const struct column columns_by_id[] = {
    {.head = "RECEIVED (UTC)", .key = "received_at", .kind = COLUMN_TIME},
    {.head = "ID", .key = "id"},
    {.head = "SOURCE", .key = "source"},
    {.head = "TYPE", .key = "type"},
    {.head = "WORKSPACE", .key = "workspace"},
    {.head = "NUMBER", .key = "sequence", .kind = COLUMN_OR_DASH},
    {.head = "STATUS", .key = "status"},
    {.head = "ITS ID", .key = "provider_id", .kind = COLUMN_OR_DASH},
    {.head = "ITS DELIVERY", .key = "delivery_id", .kind = COLUMN_OR_DASH},
    {0}};

int run_events(struct ctl *c)
{
    static const char *const filters[] = {"--workspace", "--source", "--type",
                                          "--endpoint",  "--status", "--id",
                                          NULL};
    const char *status = parsed_value(&c->parsed, "--status");
    json_t *args = json_object();
    struct page_listing l = {
        .process = "sequencer",
        .ask = "events",
        .key = "events",
        .args = args,
        .filters = filters,
        .columns = parsed_value(&c->parsed, "--id") ? columns_by_id : columns,
        .none = "No events found."};
    int code = EXIT_USAGE;

    if (is_choice(c, "--status") && put_filters(c, args, filters))
        code = status && strcmp(status, "accepted") == 0
                   ? list_accepted(c, args, &l)
                   : list_pages(c, &l);
    json_decref(args);
    return code;
}
