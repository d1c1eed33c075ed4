#include "sent.h"
#include "endpoint.h"
#include "headers.h"
#include "json_text.h"
#include "request.h"
#include "task.h"
#include <string.h>
#include <strings.h>

/* Our own marks in what is packed; no header has such a name. */
static const char method[] = ":method", url[] = ":url";

static void put(struct buf *out, const char *name, struct bytes value)
{
    if (out->len + strlen(name) + value.n + 8 <= SENT_MAX_BYTES)
        headers_put(out, name, value);
}

/* What the endpoint's own configuration adds is as likely a token as not. */
static bool is_secret(const struct endpoint_config *c, const char *name)
{
    struct bytes value;

    return headers_secret((struct bytes){name, strlen(name)}) ||
           headers_get((struct bytes){c->headers, c->headers_bytes}, name,
                       &value, NULL);
}

/* "name: value" of `n` bytes, "name;" of an empty one, or "name:" of one that
 * libcurl is not to send. */
static void put_line(struct buf *out, const struct endpoint_config *c,
                     const char *line, size_t n)
{
    char name[256];
    size_t at = strcspn(line, ":;"), from = at + 2;
    struct bytes value = {line + from, n > from ? n - from : 0};

    if (at >= n || at >= sizeof name || (!value.n && line[at] == ':'))
        return;
    memcpy(name, line, at);
    name[at] = 0;
    if (is_secret(c, name))
        value = (struct bytes){"…", strlen("…")};
    put(out, name, value);
}

/* One line, or several. */
static void put_node(struct buf *out, const struct endpoint_config *c,
                     const char *node)
{
    while (*node) {
        const char *end = strstr(node, "\r\n");
        size_t n = end ? (size_t)(end - node) : strlen(node);

        put_line(out, c, node, n);
        node += end ? n + 2 : n;
    }
}

void sent_pack(const struct flight *f, struct buf *out)
{
    const struct wire_task *t = &f->task->w;
    struct bytes to = t->url.n ? t->url : wire_text(f->config->url);
    const char *query = memchr(to.p, '?', to.n);

    if (query)
        to.n = (size_t)(query - (const char *)to.p);
    put(out, method, wire_text(f->config->put ? "PUT" : "POST"));
    put(out, url, to);
    for (size_t i = 0; i < f->request.count; i++)
        put_node(out, f->config, f->request.text.data + f->request.lines[i]);
}

json_t *sent_json(struct bytes packed)
{
    json_t *headers, *out;
    struct bytes name, value;
    size_t at = 0;

    if (!packed.n)
        return json_null();
    headers = json_array();
    out = json_pack("{s:o}", "headers", headers);
    while (headers_next(packed, &at, &name, &value)) {
        if (name.n && *(const char *)name.p == ':')
            json_object_set_new(out,
                                name.n == sizeof url - 1 ? "url" : "method",
                                json_text(value));
        else
            json_array_append_new(
                headers, json_pack("[o,o]", json_text(name), json_text(value)));
    }
    return out;
}
