/* new_dead_letters: finds dead letters that became dead after a row of the history. */
#include "new_dead_letters.h"
#include "dlqd.h"
#include "json_text.h"
#include <stdio.h>
#include <string.h>

enum { LIMIT_DEFAULT = 1000, SCAN_MAX = 5000 };

static json_t *new_dead_letter_json(struct dlqd *d, int64_t dead_letter)
{
    struct dead_letter l;
    json_t *out;

    if (!store_find_n(&d->store, dead_letter, &l))
        return NULL; /* deleted meanwhile */
    out = json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "id", json_text_of(l.id),
        "event_id", json_text_of(l.event_id), "endpoint",
        json_text_of(l.endpoint), "reason", json_text_of(l.reason),
        "http_status", (json_int_t)l.last_http_status, "error",
        json_text_of(l.last_error), "dead_at", json_time(l.dead_ms));
    dead_letter_fini(&l);
    return out;
}

/* A database restored from an older copy has fewer changes than the caller has seen: continue
 * from its last. A caller that has seen none says since when it needs them. */
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

json_t *new_dead_letters_ask(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    json_t *limit = json_object_get(args, "limit"), *dead_letters;
    int64_t max = limit ? json_integer_value(limit) : LIMIT_DEFAULT;
    int64_t next = begin_of(d, args);
    struct change_row row;
    bool more = false;

    (void)why;
    dead_letters = json_array();
    store_changes(&d->store, next);
    for (int i = 0; !more && store_changes_next(&d->store, &row); i++) {
        json_t *dead_letter = strcmp(row.to, states_name(&dead_letter_states,
                                                         DEAD_LETTER_DEAD)) == 0
                                  ? new_dead_letter_json(d, row.dead_letter)
                                  : NULL;

        if (dead_letter)
            json_array_append_new(dead_letters, dead_letter);
        next = row.n;
        more = (int64_t)json_array_size(dead_letters) >= max || i >= SCAN_MAX;
    }
    store_changes_done(&d->store);
    return json_pack("{s:O?, s:o, s:I, s:b}", "after",
                     json_object_get(args, "after"), "dead_letters",
                     dead_letters, "next", (json_int_t)next, "more", more);
}
