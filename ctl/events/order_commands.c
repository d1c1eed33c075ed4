/* order_commands: `grapnel gaps`, `gaps close`, `workspaces` and `release`: the order of events. */
#include "ask.h"
#include "list.h"
#include <stdlib.h>

/* ---- gaps ---- */

static void gap_note(struct table *t, const json_t *gap)
{
    const char *missing = text_of(gap, "waits_for");

    if (*missing)
        table_add(t, PLAIN, "waits for %s, which does not respond", missing);
    else
        table_add(t, PLAIN, "%s", text_or_dash(gap, "note"));
}

static const struct column gap_columns[] = {
    {.head = "OPENED (UTC)", .key = "opened_at", .kind = COLUMN_TIME},
    {.head = "ID", .key = "id"},
    {.head = "SOURCE", .key = "source"},
    {.head = "WORKSPACE", .key = "workspace"},
    {.head = "FROM", .key = "from"},
    {.head = "TO", .key = "to"},
    {.head = "STATUS", .key = "status"},
    {.head = "NOTE", .cell = gap_note},
    {0}};

int run_gaps(struct ctl *c)
{
    static const char *const filters[] = {"--source", "--workspace", NULL};
    json_t *args = json_object();
    int code = EXIT_USAGE;

    if (put_filters(c, args)) {
        code = list_pages(c, &(struct page_listing){.process = "sequencer",
                                                    .ask = "gaps",
                                                    .key = "gaps",
                                                    .args = args,
                                                    .filters = filters,
                                                    .columns = gap_columns,
                                                    .none = "No gaps."});
    }
    json_decref(args);
    return code;
}

int run_gaps_close(struct ctl *c)
{
    const char *note = parsed_value(&c->parsed, "--note");
    json_t *reply;
    int code;

    if (!note || !*note)
        return complain(EXIT_USAGE,
                        "--note TEXT is missing: it tells others why "
                        "the events will not arrive");
    if (!is_utf8("--note", note) ||
        !is_utf8("the id of the gap", c->parsed.args[0]))
        return EXIT_USAGE;
    reply = ask_needed(c, "sequencer", "close_gap",
                       json_pack("{s:s,s:s,s:s}", "id", c->parsed.args[0],
                                 "note", note, "who", user_name()),
                       ASK_MS, &code);
    if (!reply)
        return code;
    if (c->json)
        print_json(json_incref(reply));
    else
        printf("%s is closed; the events that waited for it are released.\n",
               text_of(reply, "id"));
    json_decref(reply);
    return 0;
}

/* ---- workspaces ---- */

static void count_types(struct table *t, const json_t *workspace)
{
    table_add(t, PLAIN, "%zu",
              json_object_size(json_object_get(workspace, "clock")));
}

static const struct column workspace_columns[] = {
    {.head = "WORKSPACE", .key = "workspace"},
    {.head = "NUMBER", .key = "sequence"},
    {.head = "OPEN GAPS", .key = "open_gaps"},
    {.head = "BUFFERED", .key = "buffered"},
    {.head = "TYPES", .cell = count_types},
    {0}};

static int show_workspace(struct ctl *c, const char *name)
{
    json_t *list, *reply, *clock, *n;
    const char *type;
    int code;

    if (!is_utf8("the name of the workspace", name))
        return EXIT_USAGE;
    reply = ask_needed(c, "sequencer", "workspace",
                       json_pack("{s:s}", "workspace", name), ASK_MS, &code);
    if (!reply)
        return code;
    list = json_pack("[o]", reply);
    print_list(c, workspace_columns, list, "");
    clock = json_object_get(reply, "clock");
    if (!c->json)
        json_object_foreach(clock, type, n)
        {
            char *safe = harmless(type);

            printf("  %s  %s\n", text_of(clock, type), safe);
            free(safe);
        }
    json_decref(list);
    return 0;
}

int run_workspaces(struct ctl *c)
{
    json_t *args = json_object();
    int code = EXIT_USAGE;

    if (!put_limit(c, args))
        ;
    else if (c->parsed.arg_count)
        code = show_workspace(c, c->parsed.args[0]);
    else
        code = list_pages(c,
                          &(struct page_listing){.process = "sequencer",
                                                 .ask = "workspaces",
                                                 .key = "workspaces",
                                                 .args = args,
                                                 .next = "after",
                                                 .columns = workspace_columns,
                                                 .none = "No workspaces yet."});
    json_decref(args);
    return code;
}

int run_workspaces_erase(struct ctl *c)
{
    const char *name = c->parsed.args[0];
    json_t *reply;
    int code;

    if (!is_utf8("the name of the workspace", name))
        return EXIT_USAGE;
    reply = ask_needed(c, "sequencer", "workspace_erase",
                       json_pack("{s:s}", "workspace", name), ASK_MS, &code);
    if (!reply)
        return code;
    if (c->json)
        print_json(json_incref(reply));
    else
        printf("%s erases it; `grapnel jobs` shows the progress.\n",
               text_of(reply, "id"));
    json_decref(reply);
    return 0;
}

/* ---- duplicates ---- */

int run_release(struct ctl *c)
{
    int code;
    json_t *reply = ask_needed(
        c, "sequencer", "release",
        json_pack("{s:s,s:s}", "event", c->parsed.args[0], "who", user_name()),
        ASK_MS, &code);

    if (!reply)
        return code;
    if (c->json)
        print_json(json_incref(reply));
    else
        printf("%s is released and will be delivered.\n", text_of(reply, "id"));
    json_decref(reply);
    return 0;
}
