/* accepted: events that ingress has stored and the sequencer has not: they have no
 * type and no workspace yet, so only the doors can tell of them. */
#include "accepted.h"
#include "ask.h"
#include "names.h"
#include "pages.h"
#include <stdlib.h>
#include <string.h>

enum { FACTS_MOST = 500 };

static json_t *event_json(const json_t *entry)
{
    return json_pack(
        "{s:O,s:O,s:n,s:n,s:n,s:n,s:n,s:n,s:O,s:s,s:n,s:n,s:b,s:n}", "id",
        json_array_get(entry, 0), "source", json_array_get(entry, 2),
        "provider_id", "delivery_id", "type", "workspace", "sequence",
        "source_sequence", "received_at", json_array_get(entry, 3), "status",
        "accepted", "reason", "duplicate_of", "late", false, "gap");
}

/* All pages of one ingress, oldest first; of `out` only the newest `most` are
 * kept. */
static int gather(struct ctl *c, const char *door, json_t *args, size_t most,
                  json_t *out)
{
    json_t *answer, *entry, *next;
    bool unreachable, more = true;
    char why[200];
    size_t i;

    while (more) {
        answer = ask(c, door, "archive", json_incref(args), ASK_MS,
                     &unreachable, why);
        if (!answer)
            return unreachable ? complain_away(c, door, why)
                               : complain(EXIT_REFUSED, "%s: %s", door, why);
        json_array_foreach(json_object_get(answer, "events"), i, entry)
        {
            json_array_append_new(out, event_json(entry));
            if (json_array_size(out) > most)
                json_array_remove(out, 0);
        }
        next = json_object_get(answer, "next");
        more = json_is_integer(next);
        if (more)
            json_object_set(args, "after", next);
        json_decref(answer);
    }
    return 0;
}

/* What the sequencer has by now, though ingress does not know it yet. */
static void leave_out_taken(struct ctl *c, json_t *events)
{
    for (size_t at = json_array_size(events); at > 0;) {
        size_t first = at > FACTS_MOST ? at - FACTS_MOST : 0;
        json_t *ids = json_array(), *answer, *facts;
        bool unreachable;
        char why[200];

        for (size_t i = first; i < at; i++)
            json_array_append(ids,
                              json_object_get(json_array_get(events, i), "id"));
        answer = ask(c, "sequencer", "facts", json_pack("{s:o}", "ids", ids),
                     ASK_MS, &unreachable, why);
        facts = json_object_get(answer, "events");
        for (size_t i = at; facts && i-- > first;)
            if (json_is_object(json_array_get(facts, i - first)))
                json_array_remove(events, i);
        json_decref(answer);
        at = first;
    }
}

static int by_time(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;

    return -strcmp(json_string_value(json_object_get(x, "received_at")),
                   json_string_value(json_object_get(y, "received_at")));
}

/* Newest first, at most `most`. Takes `events` over. */
static json_t *newest(json_t *events, size_t most)
{
    size_t n = json_array_size(events);
    json_t **all = gr_alloc((n + 1) * sizeof *all), *out = json_array();

    for (size_t i = 0; i < n; i++)
        all[i] = json_array_get(events, i);
    qsort(all, n, sizeof *all, by_time);
    for (size_t i = 0; i < n && i < most; i++)
        json_array_append(out, all[i]);
    free(all);
    json_decref(events);
    return out;
}

int list_accepted(struct ctl *c, const json_t *filters, const struct listing *l)
{
    static const char *const unknown[] = {"workspace", "type", "endpoint",
                                          "id"};
    json_t *events = json_array(), *door, *args = json_object();
    size_t most = (size_t)list_limit(c);
    struct processes p;
    const char *key;
    int code = 0;

    for (size_t i = 0; i < COUNT_OF(unknown) && !code; i++)
        if (json_object_get(filters, unknown[i]))
            code = complain(EXIT_USAGE,
                            "--%s: an event has none before the sequencer has "
                            "taken it; accepted ones are found by --source, "
                            "--since and --until",
                            unknown[i]);
    json_object_foreach((json_t *)(uintptr_t)filters, key,
                        door) if (strcmp(key, "status") && strcmp(key, "limit"))
        json_object_set(args, key, door);
    json_object_set_new(args, "waiting", json_true());
    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !code; i++) {
        if (process_rank(p.names[i]) != process_rank("ingress"))
            continue;
        door = json_deep_copy(args);
        code = gather(c, p.names[i], door, most, events);
        json_decref(door);
    }
    processes_fini(&p);
    json_decref(args);
    if (!code)
        leave_out_taken(c, events);
    events = newest(events, most);
    if (!code && c->json)
        print_json(json_incref(events));
    else if (!code && json_array_size(events))
        l->print(c, events);
    if (!code && !json_array_size(events)) {
        fflush(stdout);
        code = unknown_filter(c, l->filters);
        if (!code && !c->json)
            printf("%s\n", l->none);
    }
    json_decref(events);
    return code;
}
