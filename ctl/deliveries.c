/* deliveries: search what is delivered, or on its way. */
#include "names.h"
#include "pages.h"
#include "table.h"

static void print_deliveries(struct ctl *c, const json_t *list)
{
    static const char *const heads[] = {
        "RECEIVED (UTC)", "EVENT", "ENDPOINT",  "STATUS",         "TRIES",
        "ANSWER",         "TYPE",  "WORKSPACE", "NEXT TRY (UTC)", NULL};
    struct table t;
    json_t *d;
    size_t i;

    table_init(&t, heads);
    json_array_foreach(list, i, d)
    {
        const char *answer = text_of(d, "last_http_status");

        table_add(&t, PLAIN, "%s", time_of(d, "received_at"));
        table_add(&t, PLAIN, "%s", text_of(d, "event_id"));
        table_add(&t, PLAIN, "%s", text_of(d, "endpoint"));
        table_add(&t, PLAIN, "%s", text_of(d, "status"));
        table_add(&t, PLAIN, "%s", text_of(d, "attempts"));
        table_add(&t, PLAIN, "%s", *answer ? answer : "-");
        table_add(&t, PLAIN, "%s", text_of(d, "type"));
        table_add(&t, PLAIN, "%s", text_of(d, "workspace"));
        table_add(&t, PLAIN, "%s", time_of(d, "next_attempt_at"));
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

int run_deliveries(struct ctl *c)
{
    static const char *const filters[] = {"--workspace", "--source", "--type",
                                          "--endpoint",  "--status", NULL};
    json_t *args = json_object();
    int code = EXIT_USAGE;

    if (is_choice(c, "--status") && put_filters(c, args, filters))
        code = list_pages(c, &(struct listing){.process = "sequencer",
                                               .ask = "deliveries",
                                               .key = "deliveries",
                                               .args = args,
                                               .filters = filters,
                                               .print = print_deliveries,
                                               .none = "No such deliveries."});
    json_decref(args);
    return code;
}
