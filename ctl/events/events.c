/* events: `grapnel events`: searches events in the sequencer, or with --status accepted in
 * ingress. Accepted events have no type and no workspace yet. */
#include "ask.h"
#include "list.h"
#include "names.h"
#include <stdlib.h>
#include <string.h>

enum { FACTS_MAX = 500 }; /* ids in one request to the sequencer */

static void status_cell(struct table *t, const json_t *event)
{
    table_add(t, PLAIN, "%s%s", text_of(event, "status"),
              json_is_true(json_object_get(event, "reconciled"))
                  ? ", reconciled"
                  : "");
}

static const struct column columns[] = {
    {.head = "RECEIVED (UTC)", .key = "received_at", .kind = COLUMN_TIME},
    {.head = "ID", .key = "id"},
    {.head = "SOURCE", .key = "source"},
    {.head = "TYPE", .key = "type"},
    {.head = "WORKSPACE", .key = "workspace"},
    {.head = "NUMBER", .key = "sequence", .kind = COLUMN_OR_DASH},
    {.head = "STATUS", .cell = status_cell},
    {0}};

/* With --id: shows which of the two ids of the provider matches. */
static const struct column columns_by_id[] = {
    {.head = "RECEIVED (UTC)", .key = "received_at", .kind = COLUMN_TIME},
    {.head = "ID", .key = "id"},
    {.head = "SOURCE", .key = "source"},
    {.head = "TYPE", .key = "type"},
    {.head = "WORKSPACE", .key = "workspace"},
    {.head = "NUMBER", .key = "sequence", .kind = COLUMN_OR_DASH},
    {.head = "STATUS", .cell = status_cell},
    {.head = "PROVIDER ID", .key = "provider_id", .kind = COLUMN_OR_DASH},
    {.head = "DELIVERY ID", .key = "delivery_id", .kind = COLUMN_OR_DASH},
    {0}};

/* Appends the stored events of one ingress to `out`, page by page; keeps only the newest `max`.
 * Returns the exit code. */
static int collect(struct ctl *c, const char *ingress, json_t *args, size_t max,
                   json_t *out)
{
    json_t *reply, *e, *next;
    bool more = true;
    int code = 0;
    size_t i;

    while (more) {
        reply = ask_needed(c, ingress, "archive", json_incref(args), ASK_MS,
                           &code);
        json_array_foreach(json_object_get(reply, "events"), i, e)
        {
            json_array_append_new(
                out,
                json_pack("{s:O,s:O,s:n,s:n,s:n,s:n,s:n,s:n,s:O,s:s,s:n,s:n,"
                          "s:b,s:n,s:b}",
                          "id", json_array_get(e, 0), "source",
                          json_array_get(e, 2), "provider_id", "delivery_id",
                          "type", "workspace", "sequence", "source_sequence",
                          "received_at", json_array_get(e, 3), "status",
                          "accepted", "reason", "duplicate_of", "late", false,
                          "gap", "reconciled", false));
            if (json_array_size(out) > max)
                json_array_remove(out, 0);
        }
        next = json_object_get(reply, "next");
        more = json_is_integer(next);
        if (more)
            json_object_set(args, "after", next);
        json_decref(reply);
    }
    return code;
}

/* Removes the events that the sequencer has, although ingress has not seen it acknowledge them. */
static void leave_out_taken(struct ctl *c, json_t *events)
{
    for (size_t at = json_array_size(events); at > 0;) {
        size_t first = at > FACTS_MAX ? at - FACTS_MAX : 0;
        json_t *ids = json_array(), *reply, *facts;
        bool unreachable;
        char why[200];

        for (size_t i = first; i < at; i++)
            json_array_append(ids,
                              json_object_get(json_array_get(events, i), "id"));
        reply = ask(c, "sequencer", "facts", json_pack("{s:o}", "ids", ids),
                    ASK_MS, &unreachable, why);
        facts = json_object_get(reply, "events");
        for (size_t i = at; facts && i-- > first;)
            if (json_is_object(json_array_get(facts, i - first)))
                json_array_remove(events, i);
        json_decref(reply);
        at = first;
    }
}

/* Lists the events that ingress has stored and the sequencer has not processed. Returns the
 * exit code. */
static int list_accepted(struct ctl *c, const json_t *filters,
                         const struct page_listing *l)
{
    static const char *const unknown[] = {"workspace", "type", "endpoint",
                                          "id"};
    json_t *events, *newest, *args, *copy;
    size_t max = (size_t)list_limit(c), i;
    struct processes p;
    int code = 0;

    for (i = 0; i < COUNT_OF(unknown); i++)
        if (json_object_get(filters, unknown[i]))
            return complain(
                EXIT_USAGE,
                "--%s cannot be used with --status accepted: the sequencer has "
                "not processed these events; use --source, --since and --until",
                unknown[i]);
    events = json_array();
    args = json_copy((json_t *)(uintptr_t)filters);
    json_object_del(args, "status");
    json_object_del(args, "limit");
    json_object_set_new(args, "waiting", json_true());
    processes_find(c, &p);
    for (i = 0; i < p.count && !code; i++) {
        if (!process_is(p.names[i], PROCESSES_WITH_ARCHIVE))
            continue;
        copy = json_deep_copy(args);
        code = collect(c, p.names[i], copy, max, events);
        json_decref(copy);
    }
    processes_fini(&p);
    json_decref(args);
    if (!code)
        leave_out_taken(c, events);
    newest = list_newest(events, "received_at", max);
    json_decref(events);
    if (!code && c->json)
        print_json(json_incref(newest));
    else if (!code && json_array_size(newest))
        print_rows(c, l->columns, newest, 0);
    if (!code && !json_array_size(newest)) {
        fflush(stdout);
        code = unknown_filter(c, l->filters);
        if (!code && !c->json)
            printf("%s\n", l->none);
    }
    json_decref(newest);
    return code;
}

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

    if (status)
        json_object_set_new(args, "status", json_string(status));
    if (is_choice(c, "--status") && put_filters(c, args))
        code = status && strcmp(status, "accepted") == 0
                   ? list_accepted(c, args, &l)
                   : list_pages(c, &l);
    json_decref(args);
    return code;
}
