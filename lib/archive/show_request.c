/* show_request: shows archived requests, a piece of the body at a time. */
#include "show_request.h"
#include "archive.h"
#include "encoding.h"
#include "json_text.h"
#include "mask.h"
#include "published.h"
#include "request_trace.h"
#include "split.h"
#include <stdio.h>
#include <string.h>

/* Of a body, as base64 in one response. A body may be as large as ingress.max_body. */
enum { CHUNK_BYTES = 256 * 1024 };

void request_put_body(json_t *out, struct bytes body, int64_t offset)
{
    size_t from = (uint64_t)offset < body.n ? (size_t)offset : body.n;
    size_t n = body.n - from < CHUNK_BYTES ? body.n - from : CHUNK_BYTES;

    json_object_set_new(out, "body_bytes", json_integer((json_int_t)body.n));
    json_object_set_new(out, "offset", json_integer((json_int_t)from));
    json_object_set_new(
        out, "body_b64",
        encoding_base64_json((struct bytes){(const char *)body.p + from, n}));
}

/* The body that endpoints get, made of a producer's object. */
static bool put_published(const struct archive_row *row, const char *id,
                          struct buf *out)
{
    struct published_wrong wrong;
    struct published p;
    bool good = published_read(&p, row->body, &wrong) == GR_OK;

    if (good)
        published_sent(&p, row->headers, id, row->received_ms, out);
    published_fini(&p);
    return good;
}

/* The body of this event in a request of several. false: it has no such event. */
static bool find_part(struct bytes *body, const char *request,
                      const char *event)
{
    char id[EVENT_ID_BYTES + 1];
    struct split parts;
    const char *why;
    bool found = false;

    if (split_body(*body, &parts, &why) == GR_OK)
        for (size_t i = 0; i < parts.count && !found; i++) {
            split_id(id, request, i);
            found = strcmp(id, event) == 0;
            if (found)
                *body = parts.parts[i];
        }
    split_fini(&parts);
    return found;
}

static json_t *describe(struct archive *a, const char *id,
                        const struct archive_row *row, struct bytes body,
                        int64_t offset)
{
    json_t *out = json_pack("{s:s,s:s,s:o,s:s,s:s}", "id", id, "source",
                            row->source, "received_at",
                            json_time(row->received_ms), "remote", row->remote,
                            "process", a->daemon->name);

    const struct settings *s = a->daemon->settings;

    if (!offset) {
        json_object_set_new(out, "headers",
                            mask_json(s, row->source, row->headers));
        json_object_set_new(
            out, "masked",
            mask_places(settings_source(s, row->source), row->headers));
    }
    request_put_body(out, body, offset);
    return out;
}

static json_t *describe_as(struct archive *a, const char *id,
                           const struct archive_row *row, json_t *args)
{
    const char *as_sent = json_string_value(json_object_get(args, "as_sent"));
    struct bytes body = row->body;
    struct buf made;
    json_t *out;

    buf_init(&made, body.n + 4096);
    if (as_sent && settings_producer(a->daemon->settings, row->source) &&
        put_published(row, as_sent, &made))
        body = (struct bytes){made.data, made.len};
    out = describe(a, id, row, body,
                   json_integer_value(json_object_get(args, "offset")));
    buf_fini(&made);
    return out;
}

json_t *show_request(void *self, json_t *args, char why[200])
{
    struct archive *a = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    const char *event = json_string_value(json_object_get(args, "event"));
    struct archive_row row;
    json_t *out = NULL;
    int64_t n;

    n = archive_number(&a->store, id);
    if (!n) /* a replay made it of another one */
        n = archive_replay_made_of(&a->store.replays, id);
    if (!archive_request(&a->store, n, &row))
        control_fail(why, CONTROL_NOT_FOUND, "the archive has no request %.40s",
                     id);
    else if (row.damaged)
        snprintf(why, 200, "the stored data of request %.40s is damaged", id);
    else if (event && !find_part(&row.body, row.event_id, event))
        control_fail(why, CONTROL_NOT_FOUND, "request %.40s has no event %.40s",
                     id, event);
    else
        out = describe_as(a, event ? event : id, &row, args);
    archive_request_done(&a->store);
    return out;
}
