/* timeline: merges what several processes report of an event into one list, sorted by time. */
#include "timeline.h"
#include "alloc.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct timeline_entry {
    const char *at; /* RFC 3339, UTC, milliseconds: sorts as text */
    bool later;     /* not of the process that received the event */
    size_t n;
    json_t *doc;
};

void timeline_add(json_t *timeline, const json_t *reply)
{
    json_array_extend(timeline, json_object_get(reply, "timeline"));
}

static const char *text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "";
}

/* What tells an attempt from the others of its event; the caller's. */
static char *key_of(const char *endpoint, const json_t *attempt)
{
    return gr_printf(
        "%lld %s %s",
        (long long)json_integer_value(json_object_get(attempt, "n")),
        text(attempt, "at"), endpoint);
}

/* The sequencer's entries of attempts, by key_of(); the caller's. */
static json_t *stored_attempts(const json_t *event)
{
    json_t *out = json_object(), *delivery, *stored;
    size_t i, k;

    json_array_foreach(json_object_get(event, "deliveries"), i, delivery)
        json_array_foreach(json_object_get(delivery, "attempts"), k, stored)
    {
        char *key = key_of(text(delivery, "endpoint"), stored);

        json_object_set(out, key, stored);
        free(key);
    }
    return out;
}

void timeline_add_attempts(json_t *timeline, const json_t *event,
                           const json_t *reply)
{
    static const char *const keys[] = {"sends", "request", "timings",
                                       "response", "span_id"};
    json_t *all = stored_attempts(event), *attempt, *stored;
    size_t i, k;

    json_array_foreach(json_object_get(reply, "attempts"), i, attempt)
    {
        char *key = key_of(text(attempt, "endpoint"), attempt);

        stored = json_object_get(all, key);
        free(key);
        if (!stored) { /* "attempt 2 at crm: retrying, responded 503" */
            const char *error = text(attempt, "error");
            char *what = gr_printf(
                "attempt %lld at %s: %s%s%s",
                (long long)json_integer_value(json_object_get(attempt, "n")),
                text(attempt, "endpoint"), text(attempt, "outcome"),
                *error ? ", " : "", error);

            json_array_append_new(
                timeline, json_pack("{s:O?, s:s, s:s}", "at",
                                    json_object_get(attempt, "at"), "process",
                                    text(attempt, "deliverer"), "what", what));
            free(what);
        }
        for (k = 0; stored && k < COUNT_OF(keys); k++)
            if (json_object_get(attempt, keys[k]))
                json_object_set(stored, keys[k],
                                json_object_get(attempt, keys[k]));
    }
    json_decref(all);
}

static int compare(const void *a, const void *b)
{
    const struct timeline_entry *x = a, *y = b;
    int times = strcmp(x->at, y->at);

    if (times)
        return times;
    if (x->later != y->later)
        return x->later ? 1 : -1;
    return x->n < y->n ? -1 : 1;
}

static bool has_received(const json_t *entry)
{
    static const char *const kinds[] = {"ingress", "outbox", "reconcile"};
    const char *process = text(entry, "process");

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strncmp(process, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

json_t *timeline_sorted(json_t *timeline)
{
    size_t count = json_array_size(timeline), i;
    struct timeline_entry *entries = gr_alloc(count * sizeof *entries);
    json_t *doc, *out = json_array();

    json_array_foreach(timeline, i, doc)
    {
        const char *at = json_string_value(json_object_get(doc, "at"));

        entries[i] = (struct timeline_entry){at ? at : "", !has_received(doc),
                                             i, doc};
    }
    qsort(entries, count, sizeof *entries, compare);
    for (i = 0; i < count; i++)
        json_array_append(out, entries[i].doc);
    free(entries);
    json_decref(timeline);
    return out;
}
