/* openapi_page: the description of the HTTP API as a page for people: HTML without scripts, made
 * from the same declarations as the document. */
#include "commands.h"
#include "openapi.h"
#include <string.h>

const char openapi_page_style[] =
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;"
    "padding:0 1rem}"
    "code{font:0.9em ui-monospace,monospace;overflow-wrap:anywhere}"
    "nav{display:flex;flex-wrap:wrap;gap:.25rem 1rem}"
    "h2{margin-top:2.5rem;border-bottom:1px solid #8886}"
    "h3 code{font-size:1rem}"
    "table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}"
    "th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;"
    "border-bottom:1px solid #8883;overflow-wrap:anywhere}"
    "th{font-weight:600}td:first-child{width:16rem}"
    "td:nth-child(2){width:14rem}"
    "@media(max-width:40rem){tr{display:block;padding:.25rem 0;"
    "border-bottom:1px solid #8883}th{display:none}"
    "td,td:first-child,td:nth-child(2){display:block;width:auto;border:0;"
    "padding:0}}";

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>Grapnel API</title>\n<style>";

static const char introduction[] =
    "</style>\n</head>\n<body>\n<h1>Grapnel API</h1>\n"
    "<p>Send <code>Authorization: Bearer TOKEN</code> with each request; "
    "<code>grapnel tokens create NAME --role viewer</code> makes a token. "
    "Lists are newest first: pass <code>next_cursor</code> as "
    "<code>cursor</code> until it is null. Programs read "
    "<a href=\"/api/v1/openapi.json\">the OpenAPI 3.1 document</a>.</p>\n";

static const char errors_introduction[] =
    "<h2 id=\"errors\">errors</h2>\n<p>An error is "
    "<code>{\"error\":{\"code\",\"message\","
    "\"field\",\"request_id\"}}</code>: <code>code</code> is for programs, "
    "<code>message</code> for people, <code>field</code> names the parameter "
    "that is wrong, <code>request_id</code> the request in the log.</p>\n";

/* Escaped; what is between backticks is code. */
static void put_text(struct buf *out, const char *text)
{
    bool code = false;

    for (const char *p = text ? text : ""; *p; p++)
        switch (*p) {
        case '`':
            buf_puts(out, code ? "</code>" : "<code>");
            code = !code;
            break;
        case '<':
            buf_puts(out, "&lt;");
            break;
        case '>':
            buf_puts(out, "&gt;");
            break;
        case '&':
            buf_puts(out, "&amp;");
            break;
        case '"':
            buf_puts(out, "&quot;");
            break;
        default:
            buf_put(out, p, 1);
        }
}

/* "required", "string or null", "one of a, b", "integer, 1 to 1000": a schema in words. */
static void put_type(struct buf *out, json_t *schema)
{
    json_t *type = json_object_get(schema, "type"),
           *words = json_object_get(schema, "enum"), *v;
    const char *one = json_string_value(type);
    size_t i;

    json_array_foreach(words, i, v)
    {
        buf_puts(out, i ? ", " : "one of ");
        put_text(out, json_is_null(v) ? "null" : json_string_value(v));
    }
    if (json_is_array(type))
        one = json_string_value(json_array_get(type, 0));
    if (one && strcmp(one, "array") == 0) {
        buf_puts(out, "list of ");
        put_type(out, json_object_get(schema, "items"));
    } else if (json_object_get(schema, "anyOf")) {
        buf_puts(out, "time, or duration such as 24h");
    } else if (json_object_get(schema, "format")) {
        buf_puts(out, "time");
    } else if (one) {
        put_text(out, strcmp(one, "string") == 0 ? "text" : one);
    } else if (!words) {
        buf_puts(out, "any");
    }
    if (json_object_get(schema, "maximum"))
        buf_printf(
            out, ", %lld to %lld",
            (long long)json_integer_value(json_object_get(schema, "minimum")),
            (long long)json_integer_value(json_object_get(schema, "maximum")));
    if (json_object_get(schema, "default"))
        buf_printf(
            out, " (%lld)",
            (long long)json_integer_value(json_object_get(schema, "default")));
    if (json_is_array(type))
        buf_puts(out, ", or null");
}

static void put_row(struct buf *out, const char *path, const char *name,
                    json_t *schema, const char *note, json_t *help)
{
    buf_puts(out, "<tr><td><code>");
    put_text(out, path);
    put_text(out, name);
    buf_puts(out, "</code></td><td>");
    put_type(out, schema);
    buf_puts(out, "</td><td>");
    put_text(out, note);
    put_text(out, json_string_value(help));
    buf_puts(out, "</td></tr>\n");
}

/* The fields of an object and of the objects in it, as rows named a.b, a[].b. */
static void put_fields(struct buf *out, json_t *schema, const char *path)
{
    json_t *items = json_object_get(schema, "items"), *field;
    const char *name;
    char *deeper;

    if (items) {
        deeper = gr_printf("%s[]", path);
        put_fields(out, items, deeper);
        free(deeper);
    }
    json_object_foreach(json_object_get(schema, "properties"), name, field)
    {
        char *prefix = gr_printf("%s%s", path, *path ? "." : "");

        put_row(out, prefix, name, field, "",
                json_object_get(field, "description"));
        deeper = gr_printf("%s%s", prefix, name);
        put_fields(out, field, deeper);
        free(deeper);
        free(prefix);
    }
}

static json_t *json_schema_of(json_t *content)
{
    return json_object_get(json_object_get(content, "application/json"),
                           "schema");
}

static void put_arguments(struct buf *out, json_t *operation)
{
    json_t *p, *body, *sent;
    size_t i;

    body = json_object_get(operation, "requestBody");
    sent = json_schema_of(json_object_get(body, "content"));
    if (!json_array_size(json_object_get(operation, "parameters")) &&
        !json_object_size(json_object_get(sent, "properties")))
        return;
    buf_puts(out, "<table><tr><th>Parameter</th><th>Type</th><th></th></tr>\n");
    json_array_foreach(json_object_get(operation, "parameters"), i, p)
    {
        const char *name = json_string_value(json_object_get(p, "name"));
        const char *in = json_string_value(json_object_get(p, "in"));

        if (name && in)
            put_row(out, "", name, json_object_get(p, "schema"),
                    strcmp(in, "path") == 0 ? "In the path: " : "",
                    json_object_get(p, "description"));
    }
    put_fields(out, sent, "");
    buf_puts(out, "</table>\n");
}

static void put_operation(struct buf *out, const char *path, const char *method,
                          json_t *operation)
{
    json_t *ok = json_object_get(json_object_get(operation, "responses"),
                                 "200"),
           *schema = json_schema_of(json_object_get(ok, "content"));

    buf_puts(out, "<h3><code>");
    for (const char *p = method; *p; p++)
        buf_printf(out, "%c", *p - ('a' <= *p && *p <= 'z' ? 'a' - 'A' : 0));
    buf_puts(out, " /api/v1");
    put_text(out, path);
    buf_puts(out, "</code></h3>\n<p>");
    put_text(out, json_string_value(json_object_get(operation, "description")));
    buf_puts(out, "</p>\n");
    put_arguments(out, operation);
    if (!schema)
        return;
    buf_puts(out, "<details><summary>Response</summary>\n<table><tr><th>Field"
                  "</th><th>Type</th><th></th></tr>\n");
    put_fields(out, schema, "");
    buf_puts(out, "</table></details>\n");
}

static const char *tag_of(json_t *operation)
{
    return json_string_value(
        json_array_get(json_object_get(operation, "tags"), 0));
}

/* The tags of all operations, as keys in their order. The caller's. */
static json_t *tags_of(json_t *paths)
{
    json_t *out = json_object(), *methods, *operation;
    const char *path, *method;

    json_object_foreach(paths, path, methods)
        json_object_foreach(methods, method, operation)
            json_object_set_new(out, tag_of(operation), json_true());
    return out;
}

static void put_section(struct buf *out, json_t *paths, const char *tag)
{
    json_t *methods, *operation;
    const char *path, *method;

    buf_printf(out, "<h2 id=\"%s\">%s</h2>\n", tag, tag);
    json_object_foreach(paths, path, methods) json_object_foreach(
        methods, method, operation) if (strcmp(tag_of(operation), tag) == 0)
        put_operation(out, path, method, operation);
}

void openapi_page(struct buf *out, const struct openapi_error *errors)
{
    json_t *document = openapi_document(errors),
           *paths = json_object_get(document, "paths"), *tags = tags_of(paths),
           *v;
    const char *tag;

    buf_puts(out, head);
    buf_puts(out, openapi_page_style);
    buf_puts(out, introduction);
    buf_puts(out, "<nav>\n");
    json_object_foreach(tags, tag, v)
        buf_printf(out, "<a href=\"#%s\">%s</a>\n", tag, tag);
    buf_puts(out, "<a href=\"#errors\">errors</a>\n</nav>\n");
    json_object_foreach(tags, tag, v) put_section(out, paths, tag);
    buf_puts(out, errors_introduction);
    buf_puts(out, "<table><tr><th>Code</th><th>Status</th><th></th></tr>\n");
    for (const struct openapi_error *e = errors; e->status; e++) {
        buf_printf(out, "<tr><td><code>%s</code></td><td>%d</td><td>", e->code,
                   e->status);
        put_text(out, e->help);
        buf_puts(out, "</td></tr>\n");
    }
    buf_puts(out, "</table>\n");
    buf_puts(out, "</body>\n</html>\n");
    json_decref(tags);
    json_decref(document);
}
