/* events: search what came in. */
#include "accepted.h"
#include "names.h"
#include "table.h"
#include <string.h>

static void print_events(struct ctl *c, const json_t *events)
{
    static const char *const heads[] = {"RECEIVED (UTC)", "ID",        "SOURCE",
                                        "TYPE",           "WORKSPACE", "NUMBER",
                                        "STATUS",         NULL};
    struct table t;
    json_t *e;
    size_t i;

    table_init(&t, heads);
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
