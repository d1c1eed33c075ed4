/* request: writes the header lines of an attempt, and signs them. */
#include "request.h"
#include "bounds.h"
#include "clock.h"
#include "headers.h"
#include "hops.h"
#include "json_text.h"
#include "log.h"
#include "trace_context.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* More than any message needs, so a request always fits. */
enum { LINES_MAX_BYTES = 2 * MESSAGE_MAX_BYTES };

void request_init(struct outgoing_request *r)
{
    *r = (struct outgoing_request){0};
    buf_init(&r->text, LINES_MAX_BYTES);
    buf_init(&r->covered, LINES_MAX_BYTES);
}

void request_fini(struct outgoing_request *r)
{
    buf_fini(&r->text);
    buf_fini(&r->covered);
    free(r->lines);
    free(r->nodes);
    *r = (struct outgoing_request){0};
}

/* A new line begins here: a node of its own, or, if `joining`, one more line of the last node. */
static void begin_line(struct outgoing_request *r)
{
    if (r->joining) {
        buf_puts(&r->text, "\r\n");
        return;
    }
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 32;
        r->lines = gr_realloc(r->lines, r->capacity * sizeof *r->lines);
        r->nodes = gr_realloc(r->nodes, r->capacity * sizeof *r->nodes);
    }
    r->lines[r->count++] = r->text.len;
}

static void end_line(struct outgoing_request *r)
{
    if (!r->joining)
        buf_put(&r->text, "", 1);
}

static void put(struct outgoing_request *r, const struct wire_task *t,
                const char *name, struct bytes value)
{
    const unsigned char *p = value.p;
    char id[EVENT_ID_BYTES + 1];

    for (size_t i = 0; i < value.n; i++)
        if (p[i] == '\r' || p[i] == '\n' || p[i] == 0) {
            wire_copy(id, sizeof id, t->event_id);
            log_warn(id, "a header with a line break is not sent",
                     LS("header", name));
            return;
        }
    begin_line(r);
    buf_puts(&r->text, name);
    /* To libcurl "name:" means: not this header; "name;" means: with an empty value. */
    if (value.n) {
        buf_puts(&r->text, ": ");
        buf_put(&r->text, value.p, value.n);
    } else {
        buf_puts(&r->text, r->joining ? ":" : ";");
    }
    end_line(r);
}

static void put_text(struct outgoing_request *r, const struct wire_task *t,
                     const char *name, const char *value)
{
    put(r, t, name, wire_text(value));
}

static void put_number(struct outgoing_request *r, const struct wire_task *t,
                       const char *name, uint64_t value)
{
    char text[20], *first = text + sizeof text;

    do
        *--first = (char)('0' + value % 10);
    while (value /= 10);
    put(r, t, name,
        (struct bytes){first, (size_t)(text + sizeof text - first)});
}

/* Headers that only Grapnel, libcurl or the connection may set. */
static bool reserved(const char *name)
{
    static const char *const names[] = {"connection",
                                        "content-length",
                                        "expect",
                                        "host",
                                        "keep-alive",
                                        "proxy-authenticate",
                                        "proxy-authorization",
                                        "proxy-connection",
                                        "te",
                                        "trailer",
                                        "upgrade",
                                        "transfer-encoding",
                                        "webhook-id",
                                        "webhook-timestamp",
                                        "webhook-signature"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return strncasecmp(name, "grapnel-", 8) == 0;
}

/* Headers of the endpoint or the event, packed. Those also in `except` are skipped, and those of
 * put_trace() if it adds them. */
static void put_packed(struct outgoing_request *r, const struct wire_task *t,
                       struct bytes packed, struct bytes except, bool traced)
{
    char name[256], id[EVENT_ID_BYTES + 1];
    struct bytes n, value, other;
    size_t at = 0;

    while (headers_next(packed, &at, &n, &value)) {
        if (n.n && *(const char *)n.p == ':') /* not a header (headers.h) */
            continue;
        wire_copy(name, sizeof name, n);
        if (n.n >= sizeof name || !headers_name_valid(name)) {
            wire_copy(id, sizeof id, t->event_id);
            log_warn(id, "a header with an invalid name is not sent");
            continue;
        }
        if (reserved(name) || headers_get(except, name, &other, NULL) ||
            (traced && (strcasecmp(name, TRACEPARENT_HEADER) == 0 ||
                        strcasecmp(name, TRACESTATE_HEADER) == 0)))
            continue;
        put(r, t, name, value);
    }
}

static void put_signature(struct outgoing_request *r, const struct wire_task *t,
                          const struct signer *signer, int64_t timestamp_s)
{
    char *id = wire_dup(t->event_id);

    put_number(r, t, "webhook-timestamp", (uint64_t)timestamp_s);
    if (signer->count > 0) {
        begin_line(r);
        buf_puts(&r->text, "webhook-signature: ");
        signer_sign(signer, id, timestamp_s, t->body, &r->text);
        end_line(r);
    }
    free(id);
}

/* Sorted by name, as grapnel-signature covers them. */
static void put_ours(struct outgoing_request *r, const struct wire_task *t,
                     uint64_t attempt)
{
    char time[RFC3339_BYTES];
    struct bytes hops, drill;

    if (!headers_get(t->headers, HOPS_HEADER, &hops, NULL))
        hops = wire_text("1"); /* a test, or a task of an earlier version */
    rfc3339(time, t->received_ms);
    put_number(r, t, "grapnel-attempt", attempt);
    if (t->clock.n)
        put(r, t, "grapnel-clock", t->clock);
    if (headers_get(t->headers, DRILL_STEP, &drill, NULL))
        put(r, t, "grapnel-drill", drill);
    if (t->gap.n)
        put(r, t, "grapnel-gap", t->gap);
    put(r, t, HOPS_HEADER, hops);
    if (t->late)
        put_text(r, t, "grapnel-late", "1");
    if (t->sequence)
        put_number(r, t, "grapnel-previous", t->previous);
    if (t->replay)
        put_text(r, t, "grapnel-replay", "1");
    if (t->sequence)
        put_number(r, t, "grapnel-sequence", t->sequence);
    if (t->series)
        put_number(r, t, "grapnel-series", t->series);
    put(r, t, "grapnel-source", t->source);
    if (t->source_sequence.n)
        put(r, t, "grapnel-source-sequence", t->source_sequence);
    put_text(r, t, "grapnel-time", time);
    put(r, t, "grapnel-type", t->type);
    put(r, t, "grapnel-workspace", t->workspace);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* "name value\n" for a line "name: value", without the blanks around the value, which HTTP
 * removes. */
static void put_signed_line(struct buf *out, const char *line, size_t n)
{
    const char *colon = memchr(line, ':', n), *value = colon + 1,
               *end = line + n;

    while (value < end && is_space(*value))
        value++;
    while (end > value && is_space(end[-1]))
        end--;
    buf_put(out, line, (size_t)(colon - line));
    buf_puts(out, " ");
    buf_put(out, value, (size_t)(end - value));
    buf_puts(out, "\n");
}

/* Signs Grapnel's lines from `from` on. It reads the text back, so that exactly the sent
 * lines are signed. */
static void put_header_signature(struct outgoing_request *r,
                                 const struct wire_task *t,
                                 const struct signer *signer,
                                 int64_t timestamp_s, size_t from)
{
    char *id;

    if (!signer->count)
        return;
    buf_reset(&r->covered);
    while (from < r->text.len) {
        const char *line = r->text.data + from + 2; /* after CR LF */
        size_t left = r->text.len - from - 2;
        const char *end = memmem(line, left, "\r\n", 2);
        size_t n = end ? (size_t)(end - line) : left;

        put_signed_line(&r->covered, line, n);
        from += 2 + n;
    }
    id = wire_dup(t->event_id);
    begin_line(r);
    buf_puts(&r->text, "grapnel-signature: ");
    signer_sign_headers(signer, id, timestamp_s, t->body,
                        (struct bytes){r->covered.data, r->covered.len},
                        &r->text);
    end_line(r);
    free(id);
}

static bool has(struct bytes own, struct bytes others, const char *name)
{
    struct bytes value;

    return headers_get(own, name, &value, NULL) ||
           headers_get(others, name, &value, NULL);
}

/* The trace of the event, with a span of this attempt. */
static void put_trace(struct outgoing_request *r, const struct wire_task *t,
                      uint64_t attempt)
{
    char text[TRACEPARENT_CHARS + 1];
    struct bytes came, state;

    if (!headers_get(t->headers, TRACEPARENT_HEADER, &came, NULL))
        came = (struct bytes){"", 0};
    traceparent_of_attempt(text, came, t->event_id, t->endpoint, attempt);
    put_text(r, t, TRACEPARENT_HEADER, text);
    if (headers_get(t->headers, TRACESTATE_HEADER, &state, NULL))
        put(r, t, TRACESTATE_HEADER, state);
}

/* All of Grapnel's lines are one node. libcurl sends a node unchanged, but compares the name of
 * each node with a dozen names that it handles itself: a tenth of a request's time, and none of
 * Grapnel's names is among them. put() refuses values with a line break, so that strangers
 * cannot add lines. */
static void put_joined(struct outgoing_request *r, const struct wire_task *t,
                       struct bytes own, const struct signer *signer,
                       bool traced, uint64_t attempt, int64_t now_ms)
{
    size_t ours;

    put(r, t, "webhook-id", t->event_id);
    r->text.data[--r->text.len] = 0; /* the node does not end here */
    r->joining = true;
    if (!has(own, t->headers, "user-agent"))
        put_text(r, t, "User-Agent", "Grapnel/" GRAPNEL_VERSION);
    if (traced)
        put_trace(r, t, attempt);
    put_signature(r, t, signer, now_ms / SECOND_MS);
    ours = r->text.len;
    put_ours(r, t, attempt);
    put_header_signature(r, t, signer, now_ms / SECOND_MS, ours);
    r->joining = false;
    end_line(r);
}

struct curl_slist *request_headers(struct outgoing_request *r,
                                   const struct wire_task *t, struct bytes own,
                                   const struct signer *signer, bool traced,
                                   uint64_t attempt, int64_t now_ms)
{
    struct bytes value;
    /* A tracestate belongs to the traceparent that it came with. */
    bool ours = traced && !headers_get(own, TRACEPARENT_HEADER, &value, NULL);

    buf_reset(&r->text);
    r->count = 0;
    put_packed(r, t, own, (struct bytes){0}, ours);
    put_packed(r, t, t->headers, own, traced);
    if (!has(own, t->headers,
             "content-type")) { /* libcurl's default is a form */
        begin_line(r);
        buf_puts(&r->text, "content-type:");
        end_line(r);
    }
    begin_line(r);
    buf_puts(&r->text, "expect:"); /* no waiting for a 100 */
    end_line(r);
    put_joined(r, t, own, signer, ours, attempt, now_ms);
    assert(!r->text.failed && !r->covered.failed);
    /* Only now: the text may have moved while it grew. */
    for (size_t i = 0; i < r->count; i++) {
        r->nodes[i].data = r->text.data + r->lines[i];
        r->nodes[i].next = i + 1 < r->count ? &r->nodes[i + 1] : NULL;
    }
    return r->nodes;
}

/* A line as libcurl gets it: "name: value", "name;" (the value is empty), or "name:" (libcurl
 * must not send this header). */
/* `joined`: not the first line of its node, so libcurl sends it also without a value. */
static void add_line(json_t *out, struct bytes hidden, const char *line,
                     bool joined)
{
    size_t n = strcspn(line, ":;");
    char *name = gr_strndup(line, n);
    const char *value = strncmp(line + n, ": ", 2) == 0 ? line + n + 2 : "";
    struct bytes found;
    bool hide = headers_get(hidden, name, &found, NULL);

    if (line[n] == ';' || *value || joined)
        json_array_append_new(out, json_pack("[o,o]", json_text_of(name),
                                             json_text_of(hide ? "…" : value)));
    free(name);
}

json_t *request_headers_json(const struct outgoing_request *r,
                             struct bytes hidden)
{
    json_t *out = json_array();

    for (size_t i = 0; i < r->count; i++) {
        char *copy = gr_strdup(r->text.data + r->lines[i]);
        char *rest = copy, *line;

        while ((line = strsep(&rest, "\r"))) /* a node may have several lines */
            add_line(out, hidden, *line == '\n' ? line + 1 : line,
                     *line == '\n');
        free(copy);
    }
    return out;
}
