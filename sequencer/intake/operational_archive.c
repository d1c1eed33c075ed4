/* operational_archive: lists, shows and sends again stored operational events. */
#include "operational_archive.h"
#include "encoding.h"
#include "headers.h"
#include "json_text.h"
#include "log.h"
#include "operational.h"
#include "replay.h"
#include "sequencer.h"
#include "show_endpoints.h"
#include "store.h"
#include <string.h>

enum { PAGE_MAX = 500 };

struct operational_archive {
    struct db *db;
    stmt *add, *find, *page;
};

struct operational_archive *operational_archive_open(struct db *db)
{
    struct operational_archive *a = gr_alloc(sizeof *a);

    a->db = db;
    a->add = db_prepare(db,
                        "INSERT INTO operational_bodies(event, received_ms, "
                        "headers, body) VALUES(?, ?, ?, ?)");
    a->find = db_prepare(
        db, "SELECT headers, body FROM operational_bodies WHERE event = ?");
    a->page = db_prepare(
        db, "SELECT b.event, e.id, b.received_ms FROM operational_bodies b "
            "JOIN events e ON e.n = b.event WHERE b.event > ?1 AND "
            "b.received_ms >= ?2 AND b.received_ms < ?3 ORDER BY b.event LIMIT "
            "?4");
    return a;
}

void operational_archive_close(struct operational_archive *a)
{
    free(a);
}

void operational_archive_add(struct operational_archive *a, int64_t event,
                             int64_t received_ms, struct bytes headers,
                             struct bytes body)
{
    bind_i64(a->add, 1, event);
    bind_i64(a->add, 2, received_ms);
    bind_blob(a->add, 3, headers);
    bind_blob(a->add, 4, body);
    db_run(a->db, a->add);
}

json_t *operational_archive_data(struct operational_archive *a, int64_t event)
{
    json_t *all = NULL, *data;

    bind_i64(a->find, 1, event);
    if (db_step(a->db, a->find)) {
        struct bytes body = col_blob(a->find, 1);

        all = json_loadb((const char *)body.p, body.n, 0, NULL);
    }
    db_done(a->find);
    data = json_incref(json_object_get(all, "data"));
    json_decref(all);
    return data;
}

/* One of the events that are stored here, with what its row borrows. */
struct archived {
    struct event_row ev;
    struct buf headers, body;
};

/* Call fini() in any case. */
static bool find(struct sequencer *q, const char *id, struct archived *out)
{
    struct operational_archive *a = q->operational_archive;
    bool there;

    *out = (struct archived){0};
    buf_init(&out->headers, BODY_MAX_BYTES);
    buf_init(&out->body, BODY_MAX_BYTES);
    if (!id || !store_event_by_id(q->store, wire_text(id), &out->ev))
        return false;
    bind_i64(a->find, 1, out->ev.n);
    there = db_step(a->db, a->find);
    if (there) {
        struct bytes headers = col_blob(a->find, 0),
                     body = col_blob(a->find, 1);

        buf_put(&out->headers, headers.p, headers.n);
        buf_put(&out->body, body.p, body.n);
    }
    db_done(a->find);
    return there;
}

static struct bytes bytes_of(const struct buf *b)
{
    return (struct bytes){b->len ? b->data : "", b->len};
}

static void fini(struct archived *a)
{
    event_fini(&a->ev);
    buf_fini(&a->headers);
    buf_fini(&a->body);
}

/* ---- list ---- */

json_t *operational_archive_list(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct operational_archive *a = q->operational_archive;
    const json_t *until = json_object_get(args, "until_ms");
    const char *source = json_string_value(json_object_get(args, "source"));
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    json_t *events = json_array(), *next = json_null();

    (void)why;
    if (!limit || limit > PAGE_MAX)
        limit = PAGE_MAX;
    bind_i64(a->page, 1, json_integer_value(json_object_get(args, "after")));
    bind_i64(a->page, 2, json_integer_value(json_object_get(args, "since_ms")));
    bind_i64(a->page, 3,
             json_is_integer(until) ? json_integer_value(until) : INT64_MAX);
    bind_i64(a->page, 4, limit);
    while ((!source || strcmp(source, OPERATIONAL_SOURCE) == 0) &&
           db_step(a->db, a->page)) {
        int64_t at_ms = col_i64(a->page, 2);

        json_array_append_new(
            events,
            json_pack("[o,I,s,o]", json_text_of(col_text(a->page, 1)),
                      (json_int_t)at_ms, OPERATIONAL_SOURCE, json_time(at_ms)));
        if (json_array_size(events) == (size_t)limit)
            next = json_integer(col_i64(a->page, 0));
    }
    db_done(a->page);
    return json_pack("{s:o,s:o}", "events", events, "next", next);
}

/* ---- show ---- */

static json_t *headers_json(struct bytes headers)
{
    json_t *list = json_array();
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(headers, &at, &name, &value))
        json_array_append_new(
            list, json_pack("[o,o]", json_text(name), json_text(value)));
    return list;
}

json_t *operational_archive_show(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    json_int_t offset = json_integer_value(json_object_get(args, "offset"));
    struct archived is;
    json_t *out = NULL;

    if (find(q, id, &is)) {
        struct bytes body = bytes_of(&is.body);
        size_t from = (uint64_t)offset < body.n ? (size_t)offset : body.n;
        struct bytes piece = {(const char *)body.p + from, body.n - from};

        out = json_pack("{s:s,s:s,s:o,s:s,s:s,s:I,s:I,s:o}", "id", is.ev.id,
                        "source", OPERATIONAL_SOURCE, "received_at",
                        json_time(is.ev.received_ms), "remote", "", "process",
                        q->d.name, "body_bytes", (json_int_t)body.n, "offset",
                        (json_int_t)from, "body_b64",
                        encoding_base64_json(piece));
        if (!offset) {
            json_object_set_new(out, "headers",
                                headers_json(bytes_of(&is.headers)));
            json_object_set_new(out, "masked", json_array());
        }
    } else {
        control_fail(why, CONTROL_NOT_FOUND,
                     "the sequencer does not have the body of %.40s: it keeps "
                     "those of Grapnel's own events for history.keep",
                     id);
    }
    fini(&is);
    return out;
}

/* ---- send again ---- */

json_t *operational_archive_resend(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *endpoint = json_string_value(json_object_get(args, "endpoint"));
    bool always = json_is_true(json_object_get(args, "always"));
    json_t *one, *resent, *missing;
    size_t i;

    if (json_is_true(json_object_get(args, "new_id"))) {
        control_fail(why, CONTROL_INVALID,
                     "args.new_id: Grapnel's own events keep their ids");
        return NULL;
    }
    if (endpoint && !endpoint_find(q, endpoint)) {
        endpoint_unknown(q, endpoint, why);
        return NULL;
    }
    if (q->disk_low) {
        control_fail(why, CONTROL_DISK_FULL,
                     "the sequencer's disk is nearly full: free disk space, "
                     "then send again");
        return NULL;
    }
    resent = json_array();
    missing = json_array();
    json_array_foreach(json_object_get(args, "events"), i, one)
    {
        const char *id = json_string_value(json_object_get(one, "id"));
        struct archived is;

        if (find(q, id, &is)) {
            replay_stored(q, &is.ev, bytes_of(&is.headers), bytes_of(&is.body),
                          endpoint ? endpoint : "", always);
            json_array_append_new(resent,
                                  json_pack("{s:s,s:n}", "id", id, "new_id"));
        } else {
            json_array_append_new(missing, json_text_of(id));
        }
        fini(&is);
    }
    return json_pack("{s:o,s:o}", "resent", resent, "missing", missing);
}
