/* request_trace: what the archive holds about one event, and a search for ids of a provider. */
#include "request_trace.h"
#include "archive.h"
#include "clock.h"
#include "config.h"
#include "headers.h"
#include "json_text.h"
#include "mask.h"
#include "published.h"
#include "resend.h"
#include "show_request.h"
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The console has made it (console/source_test.c). */
static bool is_test(const struct archived *row)
{
    static const char agent[] = "grapnel-test/";
    struct bytes value;

    return headers_get(row->headers, "User-Agent", &value, NULL) &&
           value.n > strlen(agent) &&
           memcmp(value.p, agent, strlen(agent)) == 0;
}

/* It was taken from the list of its provider, which signs nothing there. */
static bool is_reconciled(const struct archived *row)
{
    struct bytes value;

    return headers_get(row->headers, RECONCILED_HEADER, &value, NULL);
}

/* The scheme; NULL: the sender is not configured any more, or nothing was signed. */
static const char *verified_by(const struct settings *s,
                               const struct archived *row)
{
    const struct source *of = settings_source(s, row->source);

    if (is_reconciled(row) || settings_relay(s, row->source))
        return NULL;
    if (of)
        return settings_scheme_name(of->verify.scheme);
    return settings_producer(s, row->source) ? "its bearer token" : NULL;
}

/* The sender, and by which scheme it was verified. */
static char *received_text(struct archive *a, const struct archived *row)
{
    const struct settings *s = a->daemon->settings;
    const struct source *source = settings_source(s, row->source);
    const struct relay *relay = settings_relay(s, row->source);
    const char *by = verified_by(s, row);
    bool producer = !source && settings_producer(s, row->source);

    if (relay)
        return gr_printf("made of row %s by relay %s (%lld bytes)", row->remote,
                         row->source, (long long)row->body_bytes);
    if (is_reconciled(row))
        return gr_printf("taken from %s by source %s (%lld bytes), not signed",
                         row->remote, row->source, (long long)row->body_bytes);
    return gr_printf(
        "%sreceived from %s by %s %s (%lld bytes), verified by %s, %s %lld",
        is_test(row) ? "a test of the console, " : "", row->remote,
        producer ? "producer" : "source", row->source,
        (long long)row->body_bytes,
        by ? by : "a scheme that is no longer configured",
        producer ? "token" : "secret", (long long)row->secret + 1);
}

json_t *trace_event(void *self, json_t *args, char why[200])
{
    struct archive *a = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    const char *event = json_string_value(json_object_get(args, "event"));
    struct archived row;
    json_t *out, *timeline;
    bool handed_on;
    char *what;

    if (!archive_find(&a->store, id, &row)) {
        /* Perhaps under another id only: made by a replay, or one of a request of several. */
        timeline = json_array();
        if (replay_timeline(a, id, timeline))
            return json_pack("{s:s,s:o}", "id", id, "timeline", timeline);
        control_fail(why, CONTROL_NOT_FOUND, "the archive has no event %.40s",
                     id);
        json_decref(timeline);
        return NULL;
    }
    handed_on = (uint64_t)row.n <= links_cursor(a->daemon->links, SEQUENCER);
    what = received_text(a, &row);
    timeline = json_pack("[{s:o,s:s,s:o}]", "at", json_time(row.received_ms),
                         "process", a->daemon->name, "what",
                         json_text_of(what));
    free(what);
    out = json_pack(
        "{s:s,s:s,s:o,s:s,s:I,s:b,s:I,s:o,s:o,s:o}", "id", id, "source",
        row.source, "received_at", json_time(row.received_ms), "remote",
        row.remote, "body_bytes", (json_int_t)row.body_bytes, "handed_on",
        handed_on, "secret", (json_int_t)row.secret, "verified_by",
        json_text_of(verified_by(a->daemon->settings, &row)), "headers",
        mask_json(a->daemon->settings, row.source, row.headers), "timeline",
        timeline);
    archive_found_done(&a->store);
    replay_timeline(a, event ? event : id, json_object_get(out, "timeline"));
    return out;
}

/* ---- by an id of the provider's ---- */

enum {
    FIND_ROWS = 2000, /* of the newest; with FIND_BYTES about 10 ms */
    FIND_BYTES = 8 * 1024 * 1024,
    FIND_SHOWN = 20,
};

struct find {
    struct bytes id, quoted;
    json_t *events;
    int64_t back_to_ms;
    size_t rows, bytes;
};

/* Whether the id is the value of a header, or a JSON string in the body. */
static bool carries(const struct find *f, struct bytes headers,
                    struct bytes body)
{
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(headers, &at, &name, &value))
        if (value.n == f->id.n && memcmp(value.p, f->id.p, value.n) == 0)
            return true;
    return body.n && memmem(body.p, body.n, f->quoted.p, f->quoted.n);
}

static bool on_row(void *arg, const struct archive_entry *e,
                   struct bytes headers, struct bytes body)
{
    struct find *f = arg;

    f->back_to_ms = e->received_ms;
    f->bytes += headers.n + body.n;
    if (carries(f, headers, body))
        json_array_append_new(f->events,
                              json_pack("[s,I,s,o]", e->event_id,
                                        (json_int_t)e->received_ms, e->source,
                                        json_time(e->received_ms)));
    return ++f->rows < FIND_ROWS && f->bytes < FIND_BYTES &&
           json_array_size(f->events) < FIND_SHOWN;
}

/* For when the sequencer does not respond: it finds events by them; the archive has no index
 * and reads the newest requests. */
json_t *trace_find(void *self, json_t *args, char why[200])
{
    struct archive *a = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    struct find f = {.events = NULL};
    char *quoted = gr_printf("\"%s\"", id);

    (void)why;
    f.id = wire_text(id);
    f.quoted = wire_text(quoted);
    f.events = json_array();
    archive_newest(&a->store.replays, on_row, &f);
    free(quoted);
    return json_pack("{s:o,s:I,s:o}", "events", f.events, "looked_at",
                     (json_int_t)f.rows, "back_to", json_time(f.back_to_ms));
}
