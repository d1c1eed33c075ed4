/* recent_events: the newest events, for the console while somebody listens to its live stream.
 *
 * One request reads at most 250 rows, about a millisecond, whatever has arrived since the one
 * before. */
#include "event.h"
#include "json_text.h"
#include "managed_endpoints.h"
#include "search.h"
#include "sequencer.h"
#include "store_search.h"
#include "tenants.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECENT_MAX = 250 };

/* What attempts of these events do not have. */
static json_t *facts_of(struct sequencer *q, const json_t *ids)
{
    json_t *out = json_array(), *id;
    struct event_row e;
    size_t i;

    json_array_foreach(ids, i, id)
    {
        if (!store_event_by_id(
                q->store,
                (struct bytes){json_string_value(id), json_string_length(id)},
                &e))
            continue;
        json_array_append_new(
            out,
            json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "id", e.id, "source",
                      json_text_of(e.source), "type", json_text_of(e.type),
                      "workspace", json_text_of(e.workspace), "traceparent",
                      json_text_or_null(e.traceparent), "taken_at",
                      json_time(e.taken_ms), "released_at",
                      json_time(e.released_ms)));
        event_fini(&e);
    }
    return out;
}

static json_t *owners_of(struct sequencer *q, const json_t *endpoints)
{
    json_t *out = json_array(), *name;
    size_t i;

    json_array_foreach(endpoints, i, name)
    {
        const struct endpoint *e = endpoint_find(q, json_string_value(name));
        char *workspace = e ? managed_workspace(q, e->id) : NULL;

        if (workspace)
            json_array_append_new(out, json_pack("{s:O,s:o}", "endpoint", name,
                                                 "workspace",
                                                 json_text_of(workspace)));
        free(workspace);
    }
    return out;
}

json_t *events_recent(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *after = json_string_value(json_object_get(args, "after"));
    int64_t last = store_event_below(q->search, INT64_MAX),
            from = after ? strtoll(after, NULL, 10) : last;
    bool skipped = from < last - RECENT_MAX;
    json_t *list = json_array(), *hidden = json_array();
    struct event_row e;
    char text[24];

    (void)why;
    if (from < last) {
        store_events(q->search, -1, (skipped ? last - RECENT_MAX : from) + 1,
                     last + 1);
        while (store_events_next(q->search, &e)) { /* newest first */
            if (!store_event(q->store, e.n, &e))
                continue;
            json_array_insert_new(
                list, 0, event_json(&e, store_event_end(q->store, e.n)));
            if (!tenant_has_event(q, e.workspace, &e))
                json_array_append_new(hidden, json_string(e.id));
            event_fini(&e);
        }
        store_events_done(q->search);
    }
    snprintf(text, sizeof text, "%" PRId64, last);
    return json_pack(
        "{s:o,s:s,s:b,s:o,s:o,s:o}", "events", list, "last", text, "skipped",
        (int)skipped, "of", facts_of(q, json_object_get(args, "ids")), "owners",
        owners_of(q, json_object_get(args, "endpoints")), "hidden", hidden);
}
