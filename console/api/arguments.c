/* arguments: reads the arguments of a request, one after the other. */
#include "arguments.h"
#include "clock.h"
#include "conf.h"
#include "json_text.h"
#include "sha256.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A workspace's name, as base64 of JSON. */
enum { CURSOR_MAX_BYTES = 12 * 1024, TAG_BYTES = 16 };

bool argument_is_public(const struct value *v)
{
    return !(v->flags & (VALUE_LOCAL | VALUE_IF_MATCH));
}

bool argument_is_cursor(const struct command_spec *c, const struct value *v)
{
    return c->rows &&
           (strcmp(v->name, "before") == 0 || strcmp(v->name, "after") == 0);
}

static char *public_name(const struct command_spec *c, const struct value *v)
{
    return argument_is_cursor(c, v) ? gr_strdup("cursor")
                                    : value_public_name(v);
}

GR_PRINTF(3, 4)
static bool refuse(struct arguments_wrong *wrong, const char *field,
                   const char *format, ...)
{
    va_list ap;

    snprintf(wrong->field, sizeof wrong->field, "%.60s", field);
    va_start(ap, format);
    vsnprintf(wrong->why, sizeof wrong->why, format, ap);
    va_end(ap);
    return false;
}

/* ---- cursors: the beginning of a hash of the token's owner, and base64url of the JSON text ---- */

static void owner_tag(const char *owner, char tag[TAG_BYTES + 1])
{
    uint8_t digest[SHA256_BYTES];

    sha256((struct bytes){owner, strlen(owner)}, digest);
    for (size_t i = 0; i < TAG_BYTES / 2; i++)
        snprintf(tag + 2 * i, 3, "%02x", digest[i]);
}

char *cursor_write(const json_t *next, const char *owner)
{
    char *text, *out, *tagged, tag[TAG_BYTES + 1];
    size_t n;

    if (!next || json_is_null(next))
        return NULL;
    text = json_dumps(next, JSON_COMPACT | JSON_ENCODE_ANY);
    n = strlen(text);
    out = gr_alloc(n * 4 / 3 + 8);
    EVP_EncodeBlock((unsigned char *)out, (unsigned char *)text, (int)n);
    free(text);
    out[strcspn(out, "=")] = 0;
    for (char *p = out; *p; p++)
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
    owner_tag(owner, tag);
    tagged = gr_printf("%s.%s", tag, out);
    free(out);
    return tagged;
}

/* NULL: it was not made by cursor_write(), or for another owner. */
static json_t *cursor_read(const char *text, const char *owner)
{
    char copy[CURSOR_MAX_BYTES + 4], tag[TAG_BYTES + 1];
    unsigned char raw[CURSOR_MAX_BYTES];
    json_t *next = NULL;
    size_t n;
    int bytes;

    owner_tag(owner, tag);
    if (strncmp(text, tag, TAG_BYTES) != 0 || text[TAG_BYTES] != '.')
        return NULL;
    text += TAG_BYTES + 1;
    n = strlen(text);
    if (n == 0 || n > CURSOR_MAX_BYTES)
        return NULL;
    for (size_t i = 0; i < n; i++)
        copy[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    for (; n % 4; n++)
        copy[n] = '=';
    bytes = EVP_DecodeBlock(raw, (unsigned char *)copy, (int)n);
    while (bytes > 0 && raw[bytes - 1] == 0) /* the padding */
        bytes--;
    if (bytes > 0)
        next = json_loadb((char *)raw, (size_t)bytes, JSON_DECODE_ANY, NULL);
    return next;
}

/* ---- one argument ---- */

/* "24h" ago (or, if that is what it declares, from now), or RFC 3339. */
static json_t *time_read(const struct value *v, const char *text,
                         int64_t now_ms)
{
    const char *why;
    int64_t ms, us;

    if (conf_parse_duration(text, &ms, &why) == GR_OK)
        return json_integer(!(v->flags & VALUE_AHEAD)
                                ? (now_ms > ms ? now_ms - ms : 0)
                            : ms < INT64_MAX - now_ms ? now_ms + ms
                                                      : INT64_MAX);
    if (rfc3339_parse(text, strlen(text), RFC3339_SHORT, &us))
        return json_integer(us / 1000);
    return NULL;
}

static json_t *integer_read(const char *text)
{
    char *end;
    long long n;

    errno = 0;
    n = strtoll(text, &end, 10);
    if (!*text || *end || errno || strspn(text, " \t\n+"))
        return NULL;
    return json_integer(n);
}

static json_t *number_read(const char *text)
{
    json_t *n = json_loads(text, JSON_DECODE_ANY, NULL);

    if (json_is_number(n))
        return n;
    json_decref(n);
    return NULL;
}

/* The value that a text of a path or a query stands for; NULL: it has the wrong form. */
static json_t *value_of_text(const struct value *v, const char *text)
{
    switch (v->type) {
    case VALUE_INTEGER:
        return integer_read(text);
    case VALUE_NUMBER:
        return number_read(text);
    case VALUE_BOOL:
        return strcmp(text, "true") == 0    ? json_true()
               : strcmp(text, "false") == 0 ? json_false()
                                            : NULL;
    default:
        return json_text_of(text);
    }
}

static bool refuse_range(const struct value *v, const char *name,
                         struct arguments_wrong *wrong)
{
    struct buf range;

    buf_init(&range, 100);
    buf_puts(&range, v->max ? "from " : "at least ");
    conf_put_duration(&range, v->min);
    if (v->max) {
        buf_puts(&range, " to ");
        conf_put_duration(&range, v->max);
    }
    refuse(wrong, name, "%s: %s is needed", name, range.data);
    buf_fini(&range);
    return false;
}

/* Stores one argument under its name in the control protocol. Takes `value` over; NULL: it has
 * the wrong form. */
static bool put(json_t *args, const struct command_spec *c,
                const struct value *v, const char *name, json_t *value,
                const char *owner, int64_t now_ms,
                struct arguments_wrong *wrong)
{
    const char *text = json_string_value(value);
    bool cursor = argument_is_cursor(c, v), fits;
    char why[200], where[100];

    if (json_object_get(args, v->name)) {
        json_decref(value);
        return refuse(wrong, name, "%s occurs twice", name);
    }
    if (value && v->type == VALUE_DURATION_MS) {
        const char *wrong_form = NULL;
        int64_t ms = 0;

        if (!text)
            refuse(wrong, name,
                   "%s: a duration as a text, such as \"20s\", is needed",
                   name);
        else if (conf_parse_duration(text, &ms, &wrong_form) != GR_OK)
            refuse(wrong, name, "%s: \"%.40s\" %s", name, text, wrong_form);
        json_decref(value);
        if (!text || wrong_form)
            return false;
        if (ms < v->min || (v->max && ms > v->max))
            return refuse_range(v, name, wrong);
        value = json_integer(ms);
    }
    if (value && (cursor || v->type == VALUE_TIME_MS)) {
        json_t *read = !text    ? NULL
                       : cursor ? cursor_read(text, owner)
                                : time_read(v, text, now_ms);

        if (!read) {
            refuse(wrong, name,
                   cursor ? "%s: write the next_cursor of the page before"
                   : v->flags & VALUE_AHEAD
                       ? "%s: write how long from now (24h, 90d) or an RFC "
                         "3339 time"
                       : "%s: write how long ago (30m, 24h, 7d) or an RFC 3339 "
                         "time",
                   name);
            json_decref(value);
            return false;
        }
        json_decref(value);
        value = read;
    }
    if (!value)
        return refuse(wrong, name, "%s: %s is needed", name,
                      value_type_name(v));
    snprintf(where, sizeof where, "args.%.60s", name);
    fits = value_fits(v, value, where, why);
    if (!fits)
        refuse(wrong, name, "%s", why + strlen("args."));
    json_object_set_new(args, v->name, value);
    return fits || (cursor && refuse(wrong, name,
                                     "%s: write the next_cursor of the page "
                                     "before",
                                     name));
}

static bool is_in_path(const struct route_match *route, const char *name)
{
    for (size_t i = 0; i < route->value_count; i++)
        if (strlen(name) == route->values[i].name_bytes &&
            memcmp(name, route->values[i].name, strlen(name)) == 0)
            return true;
    return false;
}

static bool refuse_unknown(const struct route_match *route, const char *name,
                           struct arguments_wrong *wrong)
{
    const struct command_spec *c = route->command;
    struct conf_near near = {.text = name};
    struct string_list known = {0};
    struct buf all;
    char hint[100];

    buf_init(&all, sizeof wrong->why);
    for (const struct value *v = c->args; v && v->name; v++) {
        if (!argument_is_public(v) || is_in_path(route, v->name))
            continue;
        string_list_give(&known, public_name(c, v));
        conf_near_try(&near, known.items[known.count - 1]);
        buf_printf(&all, "%s%s", known.count > 1 ? ", " : "",
                   known.items[known.count - 1]);
    }
    refuse(wrong, name, "there is no argument \"%.40s\" here%s; there %s %s",
           name, conf_near_hint(&near, hint), known.count ? "are" : "is",
           known.count ? all.data : "none");
    buf_fini(&all);
    string_list_fini(&known);
    return false;
}

/* The declaration of the argument that HTTP names so; NULL: there is none. */
static const struct value *find(const struct route_match *route,
                                const char *name)
{
    const struct command_spec *c = route->command;

    for (const struct value *v = c->args; v && v->name; v++) {
        char *known = public_name(c, v);
        bool same = strcmp(known, name) == 0;

        free(known);
        if (same && argument_is_public(v) && !is_in_path(route, v->name))
            return v;
    }
    return NULL;
}

/* ---- the three places ---- */

static bool take_path(json_t *args, const struct route_match *route,
                      const char *owner, int64_t now_ms,
                      struct arguments_wrong *wrong)
{
    for (size_t i = 0; i < route->value_count; i++) {
        char *name = gr_strndup(route->values[i].name,
                                route->values[i].name_bytes);
        const struct value *v = command_arg(route->command, name);
        bool good = v && put(args, route->command, v, name,
                             value_of_text(v, route->values[i].value), owner,
                             now_ms, wrong);

        free(name);
        if (!good)
            return false;
    }
    return true;
}

static bool take_pair(json_t *args, const struct route_match *route,
                      const char *owner, const char *pair, size_t n,
                      int64_t now_ms, struct arguments_wrong *wrong)
{
    const char *equals = memchr(pair, '=', n);
    size_t name_bytes = equals ? (size_t)(equals - pair) : n;
    char *name = percent_decode(pair, name_bytes, true), *text = NULL;
    const struct value *v;
    bool good = false;

    if (equals)
        text = percent_decode(equals + 1, n - name_bytes - 1, true);
    else
        text = gr_strdup("");
    if (!name || !text)
        refuse(wrong, name ? name : "",
               "the query is not encoded correctly: %%, two hex digits; the "
               "result is UTF-8 without NUL");
    else if (!(v = find(route, name)))
        refuse_unknown(route, name, wrong);
    else
        good = put(args, route->command, v, name, value_of_text(v, text), owner,
                   now_ms, wrong);
    free(name);
    free(text);
    return good;
}

static bool take_query(json_t *args, const struct route_match *route,
                       const char *owner, const char *query, int64_t now_ms,
                       struct arguments_wrong *wrong)
{
    while (*query) {
        size_t n = strcspn(query, "&");

        if (n && !take_pair(args, route, owner, query, n, now_ms, wrong))
            return false;
        query += n + (query[n] == '&');
    }
    return true;
}

static bool take_body(json_t *args, const struct route_match *route,
                      const char *owner, struct bytes body, int64_t now_ms,
                      struct arguments_wrong *wrong)
{
    json_error_t bad;
    json_t *doc = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, &bad), *v;
    bool good = json_is_object(doc);
    const char *name;

    wrong->body = !good;
    if (!doc)
        refuse(wrong, "", "the body is not JSON: %.150s", bad.text);
    else if (!good)
        refuse(wrong, "", "the body must be a JSON object");
    else
        json_object_foreach(doc, name, v)
        {
            const struct value *known = find(route, name);

            good = known ? put(args, route->command, known, name,
                               json_incref(v), owner, now_ms, wrong)
                         : refuse_unknown(route, name, wrong);
            if (!good)
                break;
        }
    json_decref(doc);
    return good;
}

static bool has_all(const json_t *args, const struct command_spec *c,
                    struct arguments_wrong *wrong)
{
    for (const struct value *v = c->args; v && v->name; v++)
        if (v->flags & VALUE_REQUIRED && argument_is_public(v) &&
            !json_object_get(args, v->name)) {
            char *name = public_name(c, v);

            refuse(wrong, name, "%s is missing: %.150s", name, v->help);
            free(name);
            return false;
        }
    return true;
}

json_t *arguments_read(const struct route_match *route, const char *owner,
                       const char *query, bool has_body, struct bytes body,
                       int64_t now_ms, struct arguments_wrong *wrong)
{
    json_t *args = json_object();
    bool good;

    *wrong = (struct arguments_wrong){.body = false};
    good = take_path(args, route, owner, now_ms, wrong);
    if (good && has_body && query && *query)
        good = refuse(wrong, "",
                      "write the arguments into the body, not into "
                      "the query");
    if (good && has_body && body.n)
        good = take_body(args, route, owner, body, now_ms, wrong);
    else if (good && query)
        good = take_query(args, route, owner, query, now_ms, wrong);
    if (good && has_all(args, route->command, wrong))
        return args;
    json_decref(args);
    return NULL;
}
