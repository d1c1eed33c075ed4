/* sent: packs a request without its secrets, and shows a packed one as JSON. */
#include "sent.h"
#include "clock.h"
#include "granted_endpoint.h"
#include "headers.h"
#include "json_text.h"
#include "request.h"
#include "store.h"
#include "task.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Names of packed values that are not headers; no header has such a name. */
static const char method[] = ":method", url[] = ":url";

static void put(struct buf *out, const char *name, struct bytes value)
{
    if (out->len + strlen(name) + value.n + 8 <= SENT_MAX_BYTES)
        headers_put(out, name, value);
}

static bool is(struct bytes name, const char *text)
{
    return name.n == strlen(text) && strncasecmp(name.p, text, name.n) == 0;
}

bool sent_is_constant(struct bytes name, struct bytes value)
{
    static const char json[] = "application/json",
                      agent[] = "Grapnel/" GRAPNEL_VERSION;
    static const char *const ours[] = {"grapnel-source", "grapnel-series",
                                       "grapnel-late", "grapnel-replay"};

    for (size_t i = 0; i < COUNT_OF(ours); i++)
        if (is(name, ours[i]))
            return true;
    return (is(name, "content-type") && wire_is(value, json)) ||
           (is(name, "user-agent") && wire_is(value, agent));
}

/* A line as libcurl gets it, of `n` bytes: "name: value", "name;" (the value is empty), or
 * "name:" (libcurl must not send this header). */
static void put_line(struct buf *out, const struct endpoint_config *c,
                     const char *line, size_t n, bool template)
{
    char mark[257] = "=", *name = mark + 1;
    size_t at = strcspn(line, ":;"), from = at + 2;
    struct bytes value = {line + from, n > from ? n - from : 0}, own;

    if (at >= n || at >= sizeof mark - 1 || (!value.n && line[at] == ':'))
        return;
    memcpy(name, line, at);
    name[at] = 0;
    /* A header that the endpoint's configuration adds may be a token. */
    if (headers_secret((struct bytes){name, at}) ||
        headers_get((struct bytes){c->headers, c->headers_bytes}, name, &own,
                    NULL)) {
        put(out, name, (struct bytes){"…", strlen("…")});
    } else if (template && !sent_is_constant((struct bytes){name, at}, value)) {
        /* In lower case, so that strangers who choose names make fewer templates. */
        for (char *p = name; *p; p++)
            *p = (char)tolower((unsigned char)*p);
        put(out, mark, (struct bytes){"", 0});
    } else {
        put(out, name, value);
    }
}

/* Without its query, which may be a secret. */
static void put_url(struct buf *out, struct bytes to)
{
    const char *query = memchr(to.p, '?', to.n);
    size_t n = query ? (size_t)(query - (const char *)to.p) : to.n;
    struct buf text;

    buf_init(&text, to.n + 8);
    buf_put(&text, to.p, n);
    buf_puts(&text, query ? "?…" : "");
    put(out, url, (struct bytes){text.data, text.len});
    buf_fini(&text);
}

static void pack(const struct transfer *f, struct buf *out, bool template)
{
    const struct wire_task *t = &f->task->w;

    put(out, method, wire_text(f->config->put ? "PUT" : "POST"));
    put_url(out, t->url.n ? t->url : wire_text(f->config->settings.url));
    for (size_t i = 0; i < f->request.count; i++) {
        const char *line = f->request.text.data + f->request.lines[i];

        while (*line) { /* a node of libcurl's list may have several lines */
            const char *end = strstr(line, "\r\n");
            size_t n = end ? (size_t)(end - line) : strlen(line);

            put_line(out, f->config, line, n, template);
            line += end ? n + 2 : n;
        }
    }
}

void sent_pack(const struct transfer *f, struct buf *out)
{
    pack(f, out, false);
}

void sent_pack_template(const struct transfer *f, struct buf *out)
{
    pack(f, out, true);
}

/* A value that a template does not have, by the attempt's row; null: it is the event's. */
static json_t *value_json(const struct attempt_row *row, struct bytes name)
{
    char text[24];

    if (is(name, "webhook-id"))
        return json_text_of(row->event_id);
    if (is(name, "webhook-timestamp"))
        snprintf(text, sizeof text, "%lld",
                 (long long)(row->at_ms / SECOND_MS + row->stamp_s));
    else if (is(name, "grapnel-attempt"))
        snprintf(text, sizeof text, "%llu", (unsigned long long)row->attempts);
    else
        return json_null();
    return json_string(text);
}

json_t *sent_json(const struct attempt_row *row, struct bytes packed)
{
    json_t *headers, *out;
    struct bytes name, value;
    size_t at = 0;

    if (!packed.n)
        return json_null();
    headers = json_array();
    out = json_pack("{s:b,s:o}", "rebuilt", (int)!row->request.n, "headers",
                    headers);
    while (headers_next(packed, &at, &name, &value)) {
        const char *p = name.p;

        if (!name.n)
            continue;
        if (*p == ':') {
            json_object_set_new(out,
                                name.n == sizeof url - 1 ? "url" : "method",
                                json_text(value));
        } else if (*p == '=') {
            name = (struct bytes){p + 1, name.n - 1};
            json_array_append_new(headers, json_pack("[o,o]", json_text(name),
                                                     value_json(row, name)));
        } else {
            json_array_append_new(
                headers, json_pack("[o,o]", json_text(name), json_text(value)));
        }
    }
    return out;
}
