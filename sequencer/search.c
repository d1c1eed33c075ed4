/* search: deliveries, newest first, a bounded number of rows for each question;
 * the asker goes on from "next". */
#include "glob.h"
#include "json_text.h"
#include "store.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    LIMIT_USUAL = 100,
    LIMIT_MOST = 1000,
    LOOK_MOST = 5000, /* rows looked at, some 10 ms */
};

struct wanted {
    const char *workspace, *source, *type, *endpoint, *status;
    int64_t since_ms, until_ms, limit;
    int64_t event, endpoint_id; /* go on below */
};

static bool read_before(struct wanted *w, const char *text)
{
    int end = 0;

    return sscanf(text, "%" SCNd64 ".%" SCNd64 "%n", &w->event, &w->endpoint_id,
                  &end) == 2 &&
           end > 0 && !text[end];
}

static bool is_status(const char *text)
{
    bool found = strcmp(text, "open") == 0;

    for (int i = DELIVERY_WAITING; i <= DELIVERY_DEAD; i++)
        found |= strcmp(text, delivery_status_name(i)) == 0;
    return found;
}

static bool read_wanted(struct wanted *w, json_t *args, char why[200])
{
    const char *before = json_string_value(json_object_get(args, "before"));

    *w = (struct wanted){
        .workspace = json_string_value(json_object_get(args, "workspace")),
        .source = json_string_value(json_object_get(args, "source")),
        .type = json_string_value(json_object_get(args, "type")),
        .endpoint = json_string_value(json_object_get(args, "endpoint")),
        .status = json_string_value(json_object_get(args, "status")),
        .since_ms = json_integer_value(json_object_get(args, "since_ms")),
        .until_ms = json_integer_value(json_object_get(args, "until_ms")),
        .limit = json_integer_value(json_object_get(args, "limit")),
        .event = INT64_MAX,
        .endpoint_id = INT64_MAX};
    if (w->limit < 1)
        w->limit = LIMIT_USUAL;
    if (w->limit > LIMIT_MOST)
        w->limit = LIMIT_MOST;
    if (w->status && !is_status(w->status)) {
        snprintf(why, 200,
                 "status: it is waiting, in_flight, retrying, open (any of "
                 "these), delivered or dead, not \"%.40s\"",
                 w->status);
        return false;
    }
    if (before && !read_before(w, before)) {
        snprintf(why, 200, "\"before\" must be the \"next\" of an answer");
        return false;
    }
    return true;
}

static bool takes(const char *glob, const char *text)
{
    return !glob || glob_match(glob, text);
}

static bool has_status(const struct wanted *w, int status)
{
    return !w->status ||
           (strcmp(w->status, "open") == 0
                ? status < DELIVERY_DELIVERED
                : strcmp(w->status, delivery_status_name(status)) == 0);
}

static bool is_wanted(const struct wanted *w, const struct found_row *r)
{
    return has_status(w, r->status) && takes(w->endpoint, r->endpoint) &&
           takes(w->workspace, r->workspace) && takes(w->source, r->source) &&
           takes(w->type, r->type) && r->received_ms >= w->since_ms &&
           (!w->until_ms || r->received_ms < w->until_ms);
}

static json_t *text_or_null(const char *text)
{
    return *text ? json_text_of(text) : json_null();
}

static json_t *number_or_null(int64_t v)
{
    return v ? json_integer(v) : json_null();
}

static json_t *row_json(const struct found_row *r)
{
    bool open = r->status < DELIVERY_DELIVERED;

    return json_pack(
        "{s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o,s:o}", "event_id",
        r->event_id, "endpoint", r->endpoint, "status",
        delivery_status_name(r->status), "source", r->source, "type",
        json_text_of(r->type), "workspace", json_text_of(r->workspace),
        "sequence", number_or_null(r->sequence), "attempts",
        (json_int_t)r->attempts, "last_http_status",
        number_or_null(r->http_status), "last_error", text_or_null(r->error),
        "reason", text_or_null(r->status == DELIVERY_DEAD ? r->reason : ""),
        "received_at", json_time(r->received_ms), "next_attempt_at",
        json_time(open ? r->next_ms : 0));
}

json_t *deliveries_search(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    json_t *list;
    struct found_row r;
    struct wanted w;
    bool more;
    int n = 0;
    char next[64] = "";

    if (!read_wanted(&w, args, why))
        return NULL;
    list = json_array();
    store_walk(q->store, w.event, w.endpoint_id);
    while ((more = store_walk_next(q->store, &r))) {
        snprintf(next, sizeof next, "%" PRId64 ".%" PRId64, r.event,
                 r.endpoint_id);
        if (is_wanted(&w, &r))
            json_array_append_new(list, row_json(&r));
        if (++n >= LOOK_MOST || (int64_t)json_array_size(list) >= w.limit)
            break;
    }
    store_walk_done(q->store);
    return json_pack("{s:o,s:o}", "deliveries", list, "next",
                     more ? json_string(next) : json_null());
}
