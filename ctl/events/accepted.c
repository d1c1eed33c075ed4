/* accepted: events that ingress has stored and the sequencer has not: they have no
 * type and no workspace yet, so only ingress has them. */
#include "accepted.h"
#include "ask.h"
#include "list.h"
#include "names.h"
#include <stdlib.h>
#include <string.h>

enum { FACTS_MAX = 500 };

static json_t *event_json(const json_t *entry)
{
    return json_pack(
        "{s:O,s:O,s:n,s:n,s:n,s:n,s:n,s:n,s:O,s:s,s:n,s:n,s:b,s:n}", "id",
        json_array_get(entry, 0), "source", json_array_get(entry, 2),
        "provider_id", "delivery_id", "type", "workspace", "sequence",
        "source_sequence", "received_at", json_array_get(entry, 3), "status",
        "accepted", "reason", "duplicate_of", "late", false, "gap");
}

/* All pages of one ingress, oldest first; of `out` only the newest `max` are
 * kept. */
static int collect(struct ctl *c, const char *ingress, json_t *args, size_t max,
                   json_t *out)
{
    json_t *reply, *entry, *next;
    bool unreachable, more = true;
    char why[200];
    size_t i;

    while (more) {
        reply = ask(c, ingress, "archive", json_incref(args), ASK_MS,
                    &unreachable, why);
        if (!reply)
            return unreachable ? complain_away(c, ingress, why)
                               : complain(EXIT_REFUSED, "%s: %s", ingress, why);
        json_array_foreach(json_object_get(reply, "events"), i, entry)
        {
            json_array_append_new(out, event_json(entry));
            if (json_array_size(out) > max)
                json_array_remove(out, 0);
        }
        next = json_object_get(reply, "next");
        more = json_is_integer(next);
        if (more)
            json_object_set(args, "after", next);
        json_decref(reply);
    }
    return 0;
}

/* What the sequencer has by now, though ingress does not know it yet. */
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

static int by_time(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;

    return -strcmp(json_string_value(json_object_get(x, "received_at")),
                   json_string_value(json_object_get(y, "received_at")));
}

/* Newest first, at most `max`. Takes `events` over. */
static json_t *newest(json_t *events, size_t max)
{
    size_t n = json_array_size(events);
    json_t **all = gr_alloc((n + 1) * sizeof *all), *out = json_array();

    for (size_t i = 0; i < n; i++)
        all[i] = json_array_get(events, i);
    qsort(all, n, sizeof *all, by_time);
    for (size_t i = 0; i < n && i < max; i++)
        json_array_append(out, all[i]);
    free(all);
    json_decref(events);
    return out;
}

int list_accepted(struct ctl *c, const json_t *filters,
                  const struct page_listing *l)
{
    static const char *const unknown[] = {"workspace", "type", "endpoint",
                                          "id"};
    json_t *events = json_array(), *copy, *args = json_object();
    size_t max = (size_t)list_limit(c);
    struct processes p;
    const char *key;
    int code = 0;

    for (size_t i = 0; i < COUNT_OF(unknown) && !code; i++)
        if (json_object_get(filters, unknown[i]))
            code = complain(
                EXIT_USAGE,
                "--%s cannot be used with --status accepted: the sequencer has "
                "not processed these events; use --source, --since and --until",
                unknown[i]);
    json_object_foreach((json_t *)(uintptr_t)filters, key,
                        copy) if (strcmp(key, "status") && strcmp(key, "limit"))
        json_object_set(args, key, copy);
    json_object_set_new(args, "waiting", json_true());
    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !code; i++) {
        if (process_rank(p.names[i]) != process_rank("ingress"))
            continue;
        copy = json_deep_copy(args);
        code = collect(c, p.names[i], copy, max, events);
        json_decref(copy);
    }
    processes_fini(&p);
    json_decref(args);
    if (!code)
        leave_out_taken(c, events);
    events = newest(events, max);
    if (!code && c->json)
        print_json(json_incref(events));
    else if (!code && json_array_size(events))
        print_rows(c, l->columns, events, 0);
    if (!code && !json_array_size(events)) {
        fflush(stdout);
        code = unknown_filter(c, l->filters);
        if (!code && !c->json)
            printf("%s\n", l->none);
    }
    json_decref(events);
    return code;
}
