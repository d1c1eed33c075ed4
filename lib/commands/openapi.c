/* openapi: the OpenAPI 3.1 document of the HTTP API, made from the declarations of commands. */
#include "openapi.h"
#include "commands.h"
#include <ctype.h>
#include <string.h>

/* ---- values ---- */

static json_t *object(const struct value *v, bool request)
{
    json_t *properties = json_object(), *required = json_array(), *out;

    for (const struct value *f = v->fields; f && f->name; f++) {
        bool needed = request ? f->flags & VALUE_REQUIRED
                              : !(f->flags & VALUE_ABSENT);
        char *name = request ? value_public_name(f) : gr_strdup(f->name);

        json_object_set_new(properties, name, openapi_schema(f, request));
        if (needed)
            json_array_append_new(required, json_string(name));
        free(name);
    }
    out = json_pack("{s:s,s:o}", "type", "object", "properties", properties);
    if (json_array_size(required))
        json_object_set(out, "required", required);
    if (request)
        json_object_set_new(out, "additionalProperties", json_false());
    json_decref(required);
    return out;
}

static void put_number(json_t *out, const char *key, int64_t n)
{
    json_object_set_new(out, key, json_integer(n));
}

static void put_bounds(json_t *out, const struct value *v, bool request)
{
    bool text = v->type == VALUE_TEXT || v->type == VALUE_PATTERN;

    if (v->type == VALUE_INTEGER && v->max) {
        put_number(out, "minimum", v->min);
        put_number(out, "maximum", v->max);
    }
    if (v->type == VALUE_INTEGER && v->otherwise)
        put_number(out, "default", v->otherwise);
    if (v->type == VALUE_LIST && v->max) {
        put_number(out, "minItems", v->min);
        put_number(out, "maxItems", v->max);
    }
    if (!text || !request)
        return;
    if (v->min)
        put_number(out, "minLength", v->min);
    put_number(out, "maxLength", value_text_max(v));
    json_object_set_new(out, "pattern", json_string("^[^\\u0000]*$"));
}

static json_t *choices(const struct value *v)
{
    json_t *words = json_array();

    for (size_t i = 0; v->choices[i]; i++)
        json_array_append_new(words, json_string(v->choices[i]));
    if (v->flags & VALUE_NULL)
        json_array_append_new(words, json_null());
    return json_pack("{s:o}", "enum", words);
}

static json_t *plain_schema(const struct value *v, bool request)
{
    switch (v->type) {
    case VALUE_TEXT:
    case VALUE_PATTERN:
        return json_pack("{s:s}", "type", "string");
    case VALUE_CHOICE:
        return choices(v);
    case VALUE_INTEGER:
        return json_pack("{s:s}", "type", "integer");
    case VALUE_NUMBER:
        return json_pack("{s:s}", "type", "number");
    case VALUE_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case VALUE_TIME:
        return json_pack("{s:s,s:s}", "type", "string", "format", "date-time");
    case VALUE_TIME_MS:
        return json_pack("{s:[{s:s,s:s},{s:s,s:s}]}", "anyOf", "type", "string",
                         "format", "date-time", "type", "string", "pattern",
                         "^[0-9]{1,6}(ms|s|m|h|d)$");
    case VALUE_DURATION_MS:
        return json_pack("{s:s,s:s}", "type", "string", "pattern",
                         "^[0-9]{1,6}(ms|s|m|h|d)$");
    case VALUE_BASE64:
        return json_pack("{s:s,s:s}", "type", "string", "contentEncoding",
                         "base64");
    case VALUE_OBJECT:
        return object(v, request);
    case VALUE_LIST:
        return json_pack("{s:s,s:o}", "type", "array", "items",
                         openapi_schema(v->item, request));
    case VALUE_MAP:
        return json_pack("{s:s,s:o}", "type", "object", "additionalProperties",
                         openapi_schema(v->item, request));
    case VALUE_ANY:
        break;
    }
    return json_object();
}

json_t *openapi_schema(const struct value *v, bool request)
{
    json_t *out = plain_schema(v, request),
           *type = json_object_get(out, "type");

    put_bounds(out, v, request);
    if (v->flags & VALUE_NULL && type)
        json_object_set_new(out, "type", json_pack("[O,s]", type, "null"));
    if (v->help && *v->help)
        json_object_set_new(out, "description", json_string(v->help));
    return out;
}

/* ---- routes ---- */

static bool in_path(const char *path, const char *name)
{
    char *braces = gr_printf("{%s}", name);
    bool found = strstr(path, braces);

    free(braces);
    return found;
}

static bool is_cursor(const struct command_spec *c, const struct value *v)
{
    return c->rows &&
           (strcmp(v->name, "before") == 0 || strcmp(v->name, "after") == 0);
}

static bool is_sent(const struct command_route *r, const struct value *v)
{
    return !(v->flags & (VALUE_LOCAL | VALUE_IF_MATCH)) &&
           !in_path(r->path, v->name);
}

static json_t *parameter(const char *name, const char *in, const char *help,
                         bool required, json_t *schema)
{
    return json_pack("{s:s,s:s,s:s,s:b,s:o}", "name", name, "in", in,
                     "description", help ? help : "", "required", required,
                     "schema", schema);
}

static json_t *parameters(const struct command_spec *c,
                          const struct command_route *r)
{
    bool get = strcmp(r->method, "GET") == 0;
    json_t *out = json_array();

    for (const struct value *v = c->args; v && v->name; v++) {
        char *name = value_public_name(v);

        if (in_path(r->path, v->name))
            json_array_append_new(out, parameter(name, "path", v->help, true,
                                                 openapi_schema(v, true)));
        else if (v->flags & VALUE_IF_MATCH)
            json_array_append_new(
                out,
                json_pack("{s:s}", "$ref", "#/components/parameters/IfMatch"));
        else if (get && is_cursor(c, v))
            json_array_append_new(
                out, parameter("cursor", "query",
                               "the `next_cursor` of the page before", false,
                               json_pack("{s:s,s:i}", "type", "string",
                                         "maxLength", 12 * 1024)));
        else if (get && is_sent(r, v))
            json_array_append_new(out, parameter(name, "query", v->help,
                                                 v->flags & VALUE_REQUIRED,
                                                 openapi_schema(v, true)));
        free(name);
    }
    if (c->flags & COMMAND_ACTS && strcmp(r->method, "POST") == 0)
        json_array_append_new(
            out, json_pack("{s:s}", "$ref",
                           "#/components/parameters/IdempotencyKey"));
    return out;
}

/* NULL: the route takes no body. */
static json_t *body(const struct command_spec *c, const struct command_route *r)
{
    json_t *properties = json_object(), *required = json_array(), *schema, *out;

    for (const struct value *v = c->args; v && v->name; v++) {
        char *name = value_public_name(v);

        if (is_sent(r, v)) {
            json_object_set_new(properties, name, openapi_schema(v, true));
            if (v->flags & VALUE_REQUIRED)
                json_array_append_new(required, json_string(name));
        }
        free(name);
    }
    schema = json_pack("{s:s,s:O,s:b}", "type", "object", "properties",
                       properties, "additionalProperties", 0);
    if (json_array_size(required))
        json_object_set(schema, "required", required);
    out = json_pack("{s:b,s:{s:{s:o}}}", "required",
                    json_array_size(required) > 0, "content",
                    "application/json", "schema", schema);
    json_decref(properties);
    json_decref(required);
    return out;
}

static json_t *page_of(const struct command_spec *c)
{
    const struct value *rows = NULL, *unreachable = NULL;

    for (const struct value *f = c->reply.fields; f && f->name; f++) {
        if (strcmp(f->name, c->rows) == 0)
            rows = f;
        if (strcmp(f->name, "unreachable") == 0)
            unreachable = f;
    }
    return json_pack("{s:s,s:{s:o,s:{s:[s,s],s:s},s:o*},s:[s,s]}", "type",
                     "object", "properties", "items",
                     rows ? openapi_schema(rows, false) : json_object(),
                     "next_cursor", "type", "string", "null", "description",
                     "for the next page; null: there is none", "unreachable",
                     unreachable ? openapi_schema(unreachable, false) : NULL,
                     "required", "items", "next_cursor");
}

static bool has_version(const struct command_spec *c)
{
    for (const struct value *v = c->args; v && v->name; v++)
        if (v->flags & VALUE_IF_MATCH)
            return true;
    return false;
}

static json_t *responses(const struct command_spec *c,
                         const struct openapi_error *errors)
{
    json_t *out = json_object(), *content, *schema;

    schema = c->rows ? page_of(c) : openapi_schema(&c->reply, false);
    if (c->or_reply)
        schema = json_pack("{s:[o,o]}", "anyOf", schema,
                           openapi_schema(c->or_reply, false));
    content = json_pack("{s:{s:o}}",
                        c->media_type ? c->media_type : "application/json",
                        "schema", schema);
    json_object_set_new(
        out, "200",
        json_pack("{s:s,s:o}", "description", "Done.", "content", content));
    for (const struct openapi_error *e = errors; e->status; e++) {
        char *status = gr_printf("%d", e->status);
        char *ref = gr_printf("#/components/responses/%d", e->status);
        bool of_acts = e->status == 411 || e->status == 413 ||
                       e->status == 415 || e->status == 422;

        bool of_versions = e->status == 412 || e->status == 428;

        if ((!of_acts || c->flags & COMMAND_ACTS) &&
            (!of_versions || has_version(c)))
            json_object_set_new(out, status, json_pack("{s:s}", "$ref", ref));
        free(status);
        free(ref);
    }
    json_object_set_new(
        out, "414", json_pack("{s:s}", "$ref", "#/components/responses/414"));
    return out;
}

/* "get_endpoints_name_pause": a name for functions of generated clients. */
static char *operation_id(const struct command_route *r)
{
    struct buf b;

    buf_init(&b, 256);
    for (const char *p = r->method; *p; p++)
        buf_printf(&b, "%c", tolower((unsigned char)*p));
    for (const char *p = r->path; *p; p++)
        if (*p != '}' && *p != '{')
            buf_put(&b, isalnum((unsigned char)*p) ? p : "_", 1);
    return buf_take(&b);
}

static json_t *operation(const struct command_spec *c,
                         const struct command_route *r,
                         const struct openapi_error *errors)
{
    char *id = operation_id(r);
    char *help = gr_printf("%s Role: %s%s.", c->help, role_name(c->role),
                           c->tenant ? ", or workspace, for what is its own"
                                     : "");
    size_t tag = strcspn(r->path + 1, "/.");
    json_t *out = json_pack(
        "{s:s,s:s,s:[s%],s:o,s:o,s:s,s:b}", "operationId", id, "description",
        help, "tags", r->path + 1, tag, "parameters", parameters(c, r),
        "responses", responses(c, errors), "x-grapnel-role", role_name(c->role),
        "x-grapnel-workspace-token", c->tenant != TENANT_NONE);

    if (strcmp(r->method, "POST") == 0 || strcmp(r->method, "PATCH") == 0)
        json_object_set_new(out, "requestBody", body(c, r));
    free(id);
    free(help);
    return out;
}

static void put_route(json_t *paths, const struct command_spec *c,
                      const struct command_route *r,
                      const struct openapi_error *errors)
{
    json_t *path = json_object_get(paths, r->path);
    char method[8] = "";

    for (size_t i = 0; r->method[i] && i + 1 < sizeof method; i++)
        method[i] = (char)tolower((unsigned char)r->method[i]);
    if (!path) {
        path = json_object();
        json_object_set_new(paths, r->path, path);
    }
    json_object_set_new(path, method, operation(c, r, errors));
}

/* ---- the document ---- */

/* One for each status: its codes and what they mean. */
static json_t *error_responses(const struct openapi_error *errors)
{
    json_t *out = json_object();
    char *help = NULL;

    for (const struct openapi_error *e = errors; e->status; e++) {
        char *longer = gr_printf("%s%s`%s`: %s.", help ? help : "",
                                 help ? " " : "", e->code, e->help);
        char *status;

        free(help);
        help = longer;
        if (e[1].status == e->status)
            continue;
        status = gr_printf("%d", e->status);
        json_object_set_new(out, status,
                            json_pack("{s:s,s:{s:{s:{s:s}}}}", "description",
                                      help, "content", "application/json",
                                      "schema", "$ref",
                                      "#/components/schemas/Error"));
        free(status);
        free(help);
        help = NULL;
    }
    /* The HTTP library itself responds with it, before the server sees the request. */
    json_object_set_new(
        out, "414",
        json_pack("{s:s}", "description",
                  "The request line is much longer than 16 KiB. The response "
                  "is HTML without a Content-Type."));
    return out;
}

static json_t *components(const struct openapi_error *errors)
{
    json_t *error = json_pack(
        "{s:s,s:[s],s:{s:{s:s,s:[s,s,s,s],s:{s:{s:s,s:s},s:{s:s,s:s},"
        "s:{s:[s,s],s:s},s:{s:s,s:s}}}}}",
        "type", "object", "required", "error", "properties", "error", "type",
        "object", "required", "code", "message", "field", "request_id",
        "properties", "code", "type", "string", "description",
        "a word for programs", "message", "type", "string", "description",
        "a sentence for people", "field", "type", "string", "null",
        "description", "the parameter that is wrong", "request_id", "type",
        "string", "description", "names the request in the log");
    json_t *key = json_pack(
        "{s:s,s:s,s:s,s:{s:s,s:i,s:i,s:s}}", "name", "Idempotency-Key", "in",
        "header", "description",
        "any text of your choice: a repeat with the same key within 24 hours "
        "gets the same response and changes nothing",
        "schema", "type", "string", "minLength", 1, "maxLength", 128, "pattern",
        "^[!-~]+$");

    json_t *version = json_pack(
        "{s:s,s:s,s:b,s:s,s:{s:s,s:s}}", "name", "If-Match", "in", "header",
        "required", 1, "description",
        "the `ETag` of the response that showed what is changed, or `*`",
        "schema", "type", "string", "pattern", "^(\\*|\"[1-9][0-9]{0,17}\")$");

    return json_pack("{s:{s:{s:s,s:s}},s:{s:o},s:{s:o,s:o},s:o}",
                     "securitySchemes", "bearer", "type", "http", "scheme",
                     "bearer", "schemas", "Error", error, "parameters",
                     "IdempotencyKey", key, "IfMatch", version, "responses",
                     error_responses(errors));
}

json_t *openapi_document(const struct openapi_error *errors)
{
    json_t *paths = json_object();

    for (size_t i = 0; command_lists[i].commands; i++)
        for (const struct command_spec *const *c = command_lists[i].commands;
             *c; c++)
            for (size_t r = 0;
                 r < COUNT_OF((*c)->routes) && (*c)->routes[r].path; r++)
                put_route(paths, *c, &(*c)->routes[r], errors);
    return json_pack(
        "{s:s,s:{s:s,s:s,s:s},s:[{s:s}],s:[{s:[]}],s:o,s:o}", "openapi",
        "3.1.0", "info", "title", "Grapnel", "version", GRAPNEL_VERSION,
        "description",
        "The management API of Grapnel. Lists are newest first; pass "
        "`next_cursor` as `cursor` for the next page, until it is null.",
        "servers", "url", "/api/v1", "security", "bearer", "paths", paths,
        "components", components(errors));
}
