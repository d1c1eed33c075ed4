/* events: search what came in. */
#include "accepted.h"
#include "names.h"
#include "table.h"
#include <string.h>

/* By an id of the provider's it matters which of its two that is. */
static void print_events(struct ctl *c, const json_t *events)
{
    static const char *const heads[] = {
        "RECEIVED (UTC)", "ID",     "SOURCE", "TYPE",         "WORKSPACE",
        "NUMBER",         "STATUS", "ITS ID", "ITS DELIVERY", NULL};
    static const char *const usual[] = {"RECEIVED (UTC)", "ID",        "SOURCE",
                                        "TYPE",           "WORKSPACE", "NUMBER",
                                        "STATUS",         NULL};
    bool by_id = parsed_value(&c->parsed, "--id");
    struct table t;
    json_t *e;
    size_t i;

    table_init(&t, by_id ? heads : usual);
    json_array_foreach(events, i, e)
    {
        const char *number = text_of(e, "sequence");

        table_add(&t, PLAIN, "%s", time_of(e, "received_at"));
        table_add(&t, PLAIN, "%s", text_of(e, "id"));
        table_add(&t, PLAIN, "%s", text_of(e, "source"));
        table_add(&t, PLAIN, "%s", text_of(e, "type"));
        table_add(&t, PLAIN, "%s", text_of(e, "workspace"));
        table_add(&t, PLAIN, "%s", *number ? number : "-");
        table_add(&t, PLAIN, "%s", text_of(e, "status"));
        if (!by_id)
            continue;
        table_add(&t, PLAIN, "%s", text_or_dash(e, "provider_id"));
        table_add(&t, PLAIN, "%s", text_or_dash(e, "delivery_id"));
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

int run_events(struct ctl *c)
{
    static const char *const filters[] = {"--workspace", "--source", "--type",
                                          "--endpoint",  "--status", "--id",
                                          NULL};
    const char *status = parsed_value(&c->parsed, "--status");
    json_t *args = json_object();
    struct listing l = {.process = "sequencer",
                        .ask = "events",
                        .key = "events",
                        .args = args,
                        .filters = filters,
                        .print = print_events,
                        .none = "No such events."};
    int code = EXIT_USAGE;

    if (is_choice(c, "--status") && put_filters(c, args, filters))
        code = status && strcmp(status, "accepted") == 0
                   ? list_accepted(c, args, &l)
                   : list_pages(c, &l);
    json_decref(args);
    return code;
}
