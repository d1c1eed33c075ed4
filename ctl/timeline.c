#include "timeline.h"
#include "alloc.h"
#include <stdlib.h>
#include <string.h>

struct entry {
    const char *at; /* RFC 3339, UTC, milliseconds: sorts as text */
    size_t n;
    json_t *doc;
};

void timeline_add(json_t *timeline, const json_t *answer)
{
    json_array_extend(timeline, json_object_get(answer, "timeline"));
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int times = strcmp(x->at, y->at);

    return times ? times : x->n < y->n ? -1 : 1;
}

json_t *timeline_sorted(json_t *timeline)
{
    size_t count = json_array_size(timeline), i;
    struct entry *entries = gr_alloc(count * sizeof *entries);
    json_t *doc, *out = json_array();

    json_array_foreach(timeline, i, doc)
    {
        const char *at = json_string_value(json_object_get(doc, "at"));

        entries[i] = (struct entry){at ? at : "", i, doc};
    }
    qsort(entries, count, sizeof *entries, compare);
    for (i = 0; i < count; i++)
        json_array_append(out, entries[i].doc);
    free(entries);
    json_decref(timeline);
    return out;
}
