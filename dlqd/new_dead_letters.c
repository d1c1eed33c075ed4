#include "deaths.h"
#include "dlqd.h"
#include "json_text.h"
#include <stdio.h>
#include <string.h>

enum { LIMIT_MOST = 1000, SCAN_MOST = 5000 };

static json_t *death_json(struct dlqd *d, int64_t letter)
{
    struct letter l;
    json_t *out;

    if (!store_find_n(&d->store, letter, &l))
        return NULL; /* purged meanwhile */
    out = json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "id", json_text_of(l.id),
        "event_id", json_text_of(l.event_id), "endpoint",
        json_text_of(l.endpoint), "reason", json_text_of(l.reason),
        "http_status", (json_int_t)l.last_http_status, "error",
        json_text_of(l.last_error), "dead_at", json_time(l.dead_ms));
    letter_fini(&l);
    return out;
}

/* A file that was put back to an older copy has fewer changes than the asker has
 * seen: it goes on from what there is. An asker that has seen none says since when
 * it wants them. */
static int64_t begin_of(struct dlqd *d, json_t *args)
{
    json_t *after = json_object_get(args, "after"),
           *since = json_object_get(args, "since_ms");
    int64_t last = store_changes_last(&d->store),
            n = json_is_integer(after) ? json_integer_value(after) : -1;

    if (n < 0 && json_is_integer(since))
        return store_changes_before(&d->store, json_integer_value(since));
    return n < 0 || n > last ? last : n;
}

json_t *deaths_ask(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    json_t *limit = json_object_get(args, "limit"), *deaths;
    int64_t most = limit ? json_integer_value(limit) : LIMIT_MOST;
    int64_t next = begin_of(d, args);
    struct change_row row;
    bool more = false;

    if (most < 1 || most > LIMIT_MOST) {
        snprintf(why, 200, "\"limit\" must be a number from 1 to %d",
                 LIMIT_MOST);
        return NULL;
    }
    deaths = json_array();
    store_changes(&d->store, next);
    for (int i = 0; !more && store_changes_next(&d->store, &row); i++) {
        json_t *death = strcmp(row.to,
                               states_name(&letter_states, LETTER_DEAD)) == 0
                            ? death_json(d, row.letter)
                            : NULL;

        if (death)
            json_array_append_new(deaths, death);
        next = row.n;
        more = (int64_t)json_array_size(deaths) >= most || i >= SCAN_MOST;
    }
    store_changes_done(&d->store);
    return json_pack("{s:O?, s:o, s:I, s:b}", "after",
                     json_object_get(args, "after"), "deaths", deaths, "next",
                     (json_int_t)next, "more", more);
}
