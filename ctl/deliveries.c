/* deliveries: search what is delivered, or on its way. */
#include "ask.h"
#include "table.h"

enum { PAGE = 1000 };

static const char sequencer[] = "sequencer";

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

/* Page by page, as one answer is bounded. NULL: *code says what to exit with,
 * and a sentence was printed. */
static json_t *all_pages(struct ctl *c, json_t *args, int *code)
{
    json_t *list = json_array(), *answer, *next;
    int64_t limit = list_limit(c), missing;
    bool unreachable, more = true;
    char why[200];

    while (more && (missing = limit - (int64_t)json_array_size(list)) > 0) {
        json_object_set_new(args, "limit",
                            json_integer(missing < PAGE ? missing : PAGE));
        answer = ask(c, sequencer, "deliveries", json_incref(args), ASK_MS,
                     &unreachable, why);
        if (!answer) {
            *code = unreachable ? complain_away(c, sequencer, why)
                                : complain(EXIT_REFUSED, "%s", why);
            json_decref(list);
            return NULL;
        }
        json_array_extend(list, json_object_get(answer, "deliveries"));
        next = json_object_get(answer, "next");
        more = json_is_string(next);
        if (more)
            json_object_set(args, "before", next);
        json_decref(answer);
    }
    return list;
}

int run_deliveries(struct ctl *c)
{
    static const char *const filters[] = {"--workspace", "--source", "--type",
                                          "--endpoint",  "--status", NULL};
    json_t *args = json_object(), *list = NULL;
    int code = EXIT_USAGE;

    if (put_filters(c, args, filters))
        list = all_pages(c, args, &code);
    json_decref(args);
    if (!list)
        return code;
    if (c->json)
        print_json(json_incref(list));
    else if (json_array_size(list))
        print_deliveries(c, list);
    else
        printf("No such deliveries.\n");
    json_decref(list);
    return 0;
}
