/* command_values: checks requests and replies against their declarations. */
#include "command_spec.h"
#include "json_text.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {
    [VALUE_TEXT] = "a text",
    [VALUE_PATTERN] = "a text, in which * stands for any text",
    [VALUE_CHOICE] = "a word",
    [VALUE_INTEGER] = "a whole number",
    [VALUE_NUMBER] = "a number",
    [VALUE_BOOL] = "true or false",
    [VALUE_TIME] = "a time (RFC 3339)",
    [VALUE_TIME_MS] = "a time in milliseconds since 1970",
    [VALUE_DURATION_MS] = "a duration in milliseconds",
    [VALUE_BASE64] = "bytes in base64",
    [VALUE_OBJECT] = "an object",
    [VALUE_LIST] = "a list",
    [VALUE_MAP] = "an object",
    [VALUE_ANY] = "a value",
};

const char *role_name(enum role role)
{
    static const char *const names[] = {[ROLE_VIEWER] = "viewer",
                                        [ROLE_OPERATOR] = "operator",
                                        [ROLE_ADMIN] = "admin"};

    return role == ROLE_WORKSPACE ? "workspace" : names[role];
}

const char *value_type_name(const struct value *v)
{
    return v->flags & VALUE_DURATION ? "a duration as a text, such as \"24h\","
                                     : type_names[v->type];
}

static bool refuse(char why[200], const char *where, const char *what)
{
    snprintf(why, 200, "%.80s: %.110s", where, what);
    return false;
}

static bool refuse_type(const struct value *v, const char *where, char why[200])
{
    char what[110];

    snprintf(what, sizeof what, "%s is needed", value_type_name(v));
    return refuse(why, where, what);
}

static bool is_type(const struct value *v, const json_t *j)
{
    switch (v->type) {
    case VALUE_TEXT:
    case VALUE_PATTERN:
    case VALUE_CHOICE:
    case VALUE_TIME:
    case VALUE_BASE64:
        return json_is_string(j);
    case VALUE_INTEGER:
    case VALUE_TIME_MS:
    case VALUE_DURATION_MS:
        return json_is_integer(j);
    case VALUE_NUMBER:
        return json_is_number(j);
    case VALUE_BOOL:
        return json_is_boolean(j);
    case VALUE_OBJECT:
    case VALUE_MAP:
        return json_is_object(j);
    case VALUE_LIST:
        return json_is_array(j);
    case VALUE_ANY:
        return true;
    }
    return false;
}

static bool is_choice(const struct value *v, const char *word)
{
    for (size_t i = 0; v->choices[i]; i++)
        if (strcmp(v->choices[i], word) == 0)
            return true;
    return false;
}

static bool refuse_choice(const struct value *v, const char *word,
                          const char *where, char why[200])
{
    struct buf b;

    buf_init(&b, 199);
    buf_printf(&b, "%s: \"%.40s\" is unknown; it is", where, word);
    for (size_t i = 0; v->choices[i]; i++)
        buf_printf(&b, "%s %s",
                   i == 0              ? ""
                   : v->choices[i + 1] ? ","
                                       : " or",
                   v->choices[i]);
    snprintf(why, 200, "%s", b.data);
    buf_fini(&b);
    return false;
}

static bool in_request(const char *where)
{
    return strncmp(where, "args", 4) == 0;
}

int64_t value_text_max(const struct value *v)
{
    return v->max                     ? v->max
           : v->type == VALUE_PATTERN ? VALUE_PATTERN_MAX
                                      : VALUE_TEXT_MAX;
}

/* Sizes of texts and lists, and the values of numbers. */
static bool within(const struct value *v, int64_t n, const char *unit,
                   const char *where, char why[200])
{
    bool text = v->type == VALUE_TEXT || v->type == VALUE_PATTERN;
    int64_t max = text && in_request(where) ? value_text_max(v)
                  : v->max                  ? v->max
                                            : INT64_MAX;
    char what[110];

    if (n >= v->min && n <= max)
        return true;
    if (max == INT64_MAX)
        snprintf(what, sizeof what, "at least %" PRId64 "%s is needed", v->min,
                 unit);
    else if (v->min == max)
        snprintf(what, sizeof what, "%" PRId64 "%s are needed", max, unit);
    else
        snprintf(what, sizeof what,
                 "from %" PRId64 " to %" PRId64 "%s is needed", v->min, max,
                 unit);
    return refuse(why, where, what);
}

/* Of a JSON string, which is UTF-8: its bytes without continuation bytes. JSON Schema counts
 * so, too. */
static int64_t characters(const json_t *j)
{
    const char *text = json_string_value(j);
    int64_t count = 0;

    for (size_t i = 0; i < json_string_length(j); i++)
        count += (text[i] & 0xc0) != 0x80;
    return count;
}

static bool fields_fit(const struct value *fields, const json_t *j,
                       const char *where, char why[200])
{
    const struct value *f;
    const char *key;
    json_t *v;
    char path[120];

    json_object_foreach((json_t *)(uintptr_t)j, key, v)
    {
        for (f = fields; f && f->name && strcmp(f->name, key) != 0; f++)
            ;
        snprintf(path, sizeof path, "%.60s.%.50s", where, key);
        if (!f || !f->name)
            return refuse(why, path, "it is not declared");
        if (!value_fits(f, v, path, why))
            return false;
    }
    for (f = fields; f && f->name; f++) {
        bool needed = in_request(where) ? f->flags & VALUE_REQUIRED
                                        : !(f->flags & VALUE_ABSENT);

        snprintf(path, sizeof path, "%.60s.%.50s", where, f->name);
        if (!needed || json_object_get(j, f->name))
            continue;
        if (!f->help || !*f->help)
            return refuse_type(f, path, why);
        snprintf(why, 200, "%.80s is missing: %.100s", path, f->help);
        return false;
    }
    return true;
}

static bool items_fit(const struct value *v, const json_t *j, const char *where,
                      char why[200])
{
    char path[120];
    json_t *item;
    size_t i;

    if (!within(v, (int64_t)json_array_size(j), " items", where, why))
        return false;
    json_array_foreach((json_t *)(uintptr_t)j, i, item)
    {
        snprintf(path, sizeof path, "%.90s[%zu]", where, i);
        if (!value_fits(v->item, item, path, why))
            return false;
    }
    return true;
}

bool value_fits(const struct value *v, const json_t *j, const char *where,
                char why[200])
{
    const char *key;
    char path[120];
    json_t *item;

    if (json_is_null(j) && v->flags & VALUE_NULL)
        return true;
    if (!is_type(v, j))
        return refuse_type(v, where, why);
    switch (v->type) {
    case VALUE_TEXT:
    case VALUE_PATTERN:
        return within(v, characters(j), " characters", where, why);
    case VALUE_CHOICE:
        return is_choice(v, json_string_value(j)) ||
               refuse_choice(v, json_string_value(j), where, why);
    case VALUE_INTEGER:
    case VALUE_TIME_MS:
    case VALUE_DURATION_MS:
        return within(v, json_integer_value(j), "", where, why);
    case VALUE_OBJECT:
        return fields_fit(v->fields, j, where, why);
    case VALUE_LIST:
        return items_fit(v, j, where, why);
    case VALUE_MAP:
        json_object_foreach((json_t *)(uintptr_t)j, key, item)
        {
            snprintf(path, sizeof path, "%.60s.%.50s", where, key);
            if (!value_fits(v->item, item, path, why))
                return false;
        }
        return true;
    default:
        return true;
    }
}

static json_t *fields_without_secrets(const struct value *fields,
                                      const json_t *j)
{
    json_t *out = json_object(), *v;
    const struct value *f;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)j, key, v)
    {
        for (f = fields; f && f->name && strcmp(f->name, key) != 0; f++)
            ;
        json_object_set_new(out, key,
                            f && f->name ? value_without_secrets(f, v)
                                         : json_deep_copy(v));
    }
    return out;
}

json_t *value_without_secrets(const struct value *v, const json_t *j)
{
    json_t *out, *item;
    const char *key;
    size_t i;

    if (v->flags & VALUE_SECRET)
        return json_null();
    if (v->type == VALUE_OBJECT && json_is_object(j))
        return fields_without_secrets(v->fields, j);
    if (v->type == VALUE_LIST && json_is_array(j)) {
        out = json_array();
        json_array_foreach((json_t *)(uintptr_t)j, i, item)
            json_array_append_new(out, value_without_secrets(v->item, item));
        return out;
    }
    if (v->type == VALUE_MAP && json_is_object(j)) {
        out = json_object();
        json_object_foreach((json_t *)(uintptr_t)j, key, item)
            json_object_set_new(out, key, value_without_secrets(v->item, item));
        return out;
    }
    return json_deep_copy(j);
}

/* ---- requests and replies ---- */

const struct value *command_arg(const struct command_spec *c, const char *name)
{
    for (const struct value *v = c->args; v && v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

/* An unknown filter is an error: without the filter, a command would act on everything. */
static bool refuse_unknown(const struct command_spec *c, const char *name,
                           char why[200])
{
    struct buf b;

    buf_init(&b, 199);
    buf_printf(&b, "%s has no argument \"%.40s\"; it has", c->name, name);
    for (const struct value *v = c->args; v && v->name; v++)
        buf_printf(&b, " %s", v->name);
    if (!c->args)
        buf_puts(&b, " none");
    snprintf(why, 200, "%s", b.data);
    buf_fini(&b);
    return false;
}

bool command_args_fit(const struct command_spec *c, const json_t *args,
                      char why[200])
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)args, key, v)
    {
        if (!command_arg(c, key))
            return refuse_unknown(c, key, why);
    }
    return fields_fit(c->args, args, "args", why);
}

bool command_reply_fits(const struct command_spec *c, const json_t *reply,
                        char why[200])
{
    return (c->or_reply && value_fits(c->or_reply, reply, "reply", why)) ||
           value_fits(&c->reply, reply, "reply", why);
}

char *value_public_name(const struct value *v)
{
    size_t n = strlen(v->name);
    bool time = (v->type == VALUE_TIME_MS || v->type == VALUE_DURATION_MS) &&
                n > 3;

    return gr_printf("%.*s", (int)(time ? n - 3 : n), v->name);
}
