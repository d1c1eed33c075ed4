/* reconcile_command: `grapnel reconcile`: how far the lists of providers were compared, and reading one now. */
#include "ask.h"
#include "clock.h"
#include "list.h"
#include "when.h"
#include <stdio.h>

static void state_cell(struct table *t, const json_t *row)
{
    const char *error = text_of(row, "error");

    if (*error)
        table_add(t, RED, "%s", error);
    else
        table_add(t, PLAIN, "%s", text_of(row, "state"));
}

static const struct column columns[] = {
    {.head = "SOURCE", .key = "source"},
    {.head = "COMPARED UNTIL (UTC)",
     .key = "covered_until",
     .kind = COLUMN_TIME},
    {.head = "NEXT (UTC)", .key = "next_at", .kind = COLUMN_TIME},
    {.head = "LISTED", .key = "listed"},
    {.head = "FOUND", .key = "found"},
    {.head = "STATE", .cell = state_cell},
    {0}};

static int show(struct ctl *c)
{
    int code;
    json_t *reply = ask_needed(c, "reconcile", "reconciled", NULL,
                               ASK_STATUS_MS, &code);

    if (!reply)
        return code;
    print_list(c, columns, json_object_get(reply, "sources"),
               "No source has `reconcile`.");
    json_decref(reply);
    return 0;
}

int run_reconcile(struct ctl *c)
{
    const char *source = c->parsed.args[0];
    const char *since = parsed_value(&c->parsed, "--since");
    json_t *args, *reply;
    int64_t since_ms;
    char why[200];
    int code;

    if (!source && since)
        return complain(EXIT_USAGE, "--since needs the name of a source");
    if (!source)
        return show(c);
    if (!is_utf8("the name of the source", source))
        return EXIT_USAGE;
    args = json_pack("{s:s}", "source", source);
    if (since && when_parse(since, now_ms(), &since_ms, why) != GR_OK) {
        json_decref(args);
        return complain(EXIT_USAGE, "--since: %s", why);
    }
    if (since)
        json_object_set_new(args, "since_ms", json_integer(since_ms));
    reply = ask_needed(c, "reconcile", "reconcile", args, ASK_MS, &code);
    if (!reply)
        return code;
    if (c->json)
        print_json(json_incref(reply));
    else
        printf("The list of %s is read now; `grapnel reconcile` shows the "
               "progress.\n",
               source);
    json_decref(reply);
    return 0;
}
