/* types_command: `grapnel types`, `types show`, `types set` and `types delete`: the catalogue of
 * event types, which the sequencer has. */
#include "ask.h"
#include "conf.h"
#include "list.h"
#include "types.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>

enum {
    CONTENTS_MAX_BYTES = 1024 * 1024
}; /* the sequencer's limits are lower */

/* ---- asking ---- */

static void without_args(char why[200])
{
    size_t n = strlen("args.");

    if (strncmp(why, "args.", n) == 0)
        memmove(why, why + n, strlen(why + n) + 1);
}

json_t *types_read(struct ctl *c, const char *name, bool *unreachable,
                   char why[200])
{
    return ask(c, "sequencer", "event_type", json_pack("{s:s}", "name", name),
               ASK_MS, unreachable, why);
}

json_t *types_put(struct ctl *c, const char *name, const json_t *was,
                  const json_t *contents, bool *unreachable, char why[200])
{
    json_t *args = json_copy((json_t *)(uintptr_t)contents), *reply;

    json_object_set_new(args, "name", json_string(name));
    if (was)
        json_object_set(args, "version", json_object_get(was, "version"));
    reply = ask(c, "sequencer", was ? "event_type_change" : "event_type_create",
                args, ASK_MS, unreachable, why);
    if (!reply)
        without_args(why);
    return reply;
}

/* Prints why there is no reply. Returns the exit code. */
static int failed(struct ctl *c, const char *name, bool unreachable,
                  const char *why)
{
    return unreachable ? complain_away(c, "sequencer", why)
                       : complain(EXIT_REFUSED, "%s: %s", name, why);
}

/* ---- list, show ---- */

static void has_schema(struct table *t, const json_t *row)
{
    table_add(t, PLAIN, "%s",
              json_is_true(json_object_get(row, "has_schema")) ? "yes" : "-");
}

static const struct column columns[] = {
    {.head = "TYPE", .key = "name"},
    {.head = "SCHEMA", .cell = has_schema},
    {.head = "VERSION", .key = "version"},
    {.head = "CHANGED (UTC)", .key = "changed_at", .kind = COLUMN_TIME},
    {.head = "DESCRIPTION", .key = "description", .kind = COLUMN_OR_DASH},
    {0}};

int run_types(struct ctl *c)
{
    json_t *args = json_object();
    struct page_listing l = {.process = "sequencer",
                             .ask = "event_types",
                             .key = "event_types",
                             .next = "after",
                             .columns = columns,
                             .none = "The catalogue has no event types. "
                                     "`grapnel types set` adds one."};
    int code;

    if (!put_limit(c, args)) {
        json_decref(args);
        return EXIT_USAGE;
    }
    l.args = args;
    code = list_pages(c, &l);
    json_decref(args);
    return code;
}

/* Only printable ASCII reaches the terminal. */
static void print_value(const char *head, const json_t *value)
{
    if (json_is_null(value))
        return;
    printf("%s\n", head);
    json_dumpf(value, stdout,
               JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    printf("\n");
}

int run_types_show(struct ctl *c)
{
    const char *name = c->parsed.args[0];
    bool unreachable;
    char why[200];
    json_t *type;

    if (!is_utf8("TYPE", name))
        return EXIT_USAGE;
    type = types_read(c, name, &unreachable, why);
    if (!type)
        return failed(c, name, unreachable, why);
    if (c->json) {
        print_json(type);
        return 0;
    }
    printf("%s  version %s, changed %s %s by %s\n", text_of(type, "name"),
           text_of(type, "version"), time_of(type, "changed_at"), when_zone(),
           text_of(type, "changed_by"));
    if (json_is_string(json_object_get(type, "description")))
        printf("%s\n", text_of(type, "description"));
    print_value("Example:", json_object_get(type, "example"));
    print_value("Schema:", json_object_get(type, "schema"));
    json_decref(type);
    return 0;
}

/* ---- set ---- */

/* Puts the JSON of the option's file into `contents`; "" puts null. false: the error was printed,
 * and *code is the exit code. */
static bool put_file(struct ctl *c, const char *option, const char *key,
                     json_t *contents, int *code)
{
    const char *path = parsed_value(&c->parsed, option);
    json_error_t error;
    json_t *value;
    size_t n;
    char *text;

    if (!path)
        return true;
    *code = EXIT_REFUSED;
    if (!*path) {
        json_object_set_new(contents, key, json_null());
        return true;
    }
    text = read_file(path, CONTENTS_MAX_BYTES, &n);
    if (!text)
        return false;
    value = json_loadb(
        text, n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
        &error);
    free(text);
    if (value)
        json_object_set_new(contents, key, value);
    else
        complain(EXIT_REFUSED, "%s:%d:%d: is not JSON: %s", path, error.line,
                 error.column, error.text);
    return value;
}

/* The whole number of --if-version; 0: it was not given; -1: the error was printed. */
static int64_t given_version(struct ctl *c)
{
    const char *text = parsed_value(&c->parsed, "--if-version"), *wrong;
    int64_t version = 0;

    if (!text ||
        (conf_parse_int(text, &version, &wrong) == GR_OK && version > 0))
        return version;
    complain(EXIT_USAGE, "--if-version: \"%s\" is not a whole number from 1 on",
             text);
    return -1;
}

/* Exits 1 if the type has changed since it had `version`. */
static int set_type(struct ctl *c, const char *name, int64_t version,
                    const json_t *contents)
{
    bool unreachable;
    char why[200];
    json_t *was = types_read(c, name, &unreachable, why), *reply;
    int code = 0;

    if (!was && (unreachable || version))
        return failed(c, name, unreachable, why);
    if (version)
        json_object_set_new(was, "version", json_integer(version));
    reply = types_put(c, name, was, contents, &unreachable, why);
    if (!reply)
        code = failed(c, name, unreachable, why);
    else if (c->json)
        print_json(json_incref(reply));
    else
        printf("%s is %s; it has version %s now\n", text_of(reply, "name"),
               was ? "changed" : "added", text_of(reply, "version"));
    json_decref(was);
    json_decref(reply);
    return code;
}

int run_types_set(struct ctl *c)
{
    const char *name = c->parsed.args[0];
    const char *description = parsed_value(&c->parsed, "--description");
    int64_t version = given_version(c);
    json_t *contents;
    int code = EXIT_USAGE;

    if (version < 0 || !is_utf8("TYPE", name) ||
        !is_utf8("--description", description))
        return EXIT_USAGE;
    contents = json_object();
    if (description)
        json_object_set_new(contents, "description",
                            *description ? json_string(description)
                                         : json_null());
    if (put_file(c, "--schema", "schema", contents, &code) &&
        put_file(c, "--example", "example", contents, &code))
        code = set_type(c, name, version, contents);
    json_decref(contents);
    return code;
}

/* ---- delete ---- */

int run_types_delete(struct ctl *c)
{
    const char *name = c->parsed.args[0];
    int64_t version = given_version(c);
    json_t *args, *reply;
    bool unreachable;
    char why[200];

    if (version < 0 || !is_utf8("TYPE", name))
        return EXIT_USAGE;
    args = json_pack("{s:s}", "name", name);
    if (version)
        json_object_set_new(args, "version", json_integer(version));
    reply = ask(c, "sequencer", "event_type_delete", args, ASK_MS, &unreachable,
                why);
    if (!reply)
        return failed(c, name, unreachable, why);
    if (c->json) {
        print_json(reply);
        return 0;
    }
    printf("%s is deleted\n", text_of(reply, "name"));
    json_decref(reply);
    return 0;
}
