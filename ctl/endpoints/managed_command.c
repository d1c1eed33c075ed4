/* managed_command: `grapnel endpoints create`, `change`, `rotate` and `delete`: endpoints that are
 * made at run time, which the sequencer has. */
#include "ask.h"
#include "conf.h"
#include "endpoint_document.h"
#include "managed.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>

enum {
    SETTINGS_FILE_MAX_BYTES = 1024 * 1024,
    /* With description and id; a process closes the connection at 1 MiB. */
    ARGS_MAX_BYTES = 2 * ENDPOINT_DOCUMENT_MAX_BYTES,
};

json_t *managed_read_json(const char *path, size_t max)
{
    size_t n;
    char *text = read_file(path, max, &n);
    json_error_t error;
    json_t *doc;

    if (!text)
        return NULL;
    doc = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!doc)
        complain(EXIT_REFUSED, "%s:%d:%d: is not JSON: %s", path, error.line,
                 error.column, error.text);
    explicit_bzero(text, n);
    free(text);
    return doc;
}

const char *managed_not_setting(const json_t *settings)
{
    static const char *const keys[] = {"id", "name", "version", "secret"};

    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (json_object_get(settings, keys[i]))
            return keys[i];
    return NULL;
}

json_t *managed_ask(struct ctl *c, const char *what, json_t *args,
                    bool *unreachable, char why[200])
{
    bool fits = json_dumpb(args, NULL, 0, JSON_COMPACT) <= ARGS_MAX_BYTES;
    json_t *reply = NULL;
    size_t n = strlen("args.");

    *unreachable = false;
    if (fits)
        reply = ask(c, "sequencer", what, json_incref(args), ASK_MS,
                    unreachable, why);
    else
        snprintf(why, 200, "the settings are larger than %d KiB",
                 ENDPOINT_DOCUMENT_MAX_BYTES / 1024);
    endpoint_document_wipe(args);
    json_decref(args);
    if (!reply && strncmp(why, "args.", n) == 0)
        memmove(why, why + n, strlen(why + n) + 1);
    return reply;
}

bool managed_print_made(const json_t *reply)
{
    const char *secret = text_of(reply, "secret");

    printf("%s%s%s\n", text_of(reply, "name"), *secret ? " " : "", secret);
    return *secret;
}

/* As managed_ask(). NULL: the reason was printed, and *code is the exit code. */
static json_t *ask_printing(struct ctl *c, const char *what, json_t *args,
                            int *code)
{
    bool unreachable;
    char why[200];
    json_t *reply = managed_ask(c, what, args, &unreachable, why);

    if (!reply)
        *code = unreachable ? complain_away(c, "sequencer", why)
                            : complain(EXIT_REFUSED, "%s", why);
    return reply;
}

/* The object of --settings, or an empty one; the caller's. NULL: the error was printed. */
static json_t *given_settings(struct ctl *c)
{
    const char *path = parsed_value(&c->parsed, "--settings"), *wrong;
    json_t *doc = path ? managed_read_json(path, SETTINGS_FILE_MAX_BYTES)
                       : json_object();

    if (!doc)
        return NULL;
    wrong = managed_not_setting(doc);
    if (json_is_object(doc) && !wrong)
        return doc;
    if (wrong)
        complain(EXIT_REFUSED, "%s: \"%s\" is not a setting: remove it", path,
                 wrong);
    else
        complain(EXIT_REFUSED, "%s: is not a JSON object with settings", path);
    endpoint_document_wipe(doc);
    json_decref(doc);
    return NULL;
}

/* {"name"} of the command's word, and the version of --if-version. NULL: the error was printed;
 * the command exits 64. */
static json_t *named(struct ctl *c, bool versions)
{
    const char *text = versions ? parsed_value(&c->parsed, "--if-version")
                                : NULL;
    const char *wrong;
    int64_t version = 0;
    json_t *args;

    if (!is_utf8("the id of the endpoint", c->parsed.args[0]))
        return NULL;
    if (text &&
        (conf_parse_int(text, &version, &wrong) != GR_OK || version < 1)) {
        complain(EXIT_USAGE,
                 "--if-version: \"%s\" is not a whole number from "
                 "1 on",
                 text);
        return NULL;
    }
    args = json_pack("{s:s}", "name", c->parsed.args[0]);
    if (version)
        json_object_set_new(args, "version", json_integer(version));
    return args;
}

static void print_warnings(const json_t *reply)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(reply, "warnings"), i, one)
        fprintf(stderr, "warning: %s\n", json_string_value(one));
}

/* ---- create ---- */

static json_t *split_at_commas(const char *text)
{
    json_t *out = json_array();

    for (;;) {
        size_t n = strcspn(text, ",");

        json_array_append_new(out, json_stringn(text, n));
        if (!text[n])
            return out;
        text += n + 1;
    }
}

int run_endpoints_create(struct ctl *c)
{
    const char *url = c->parsed.arg_count ? c->parsed.args[0] : NULL;
    const char *workspace = parsed_value(&c->parsed, "--workspace");
    const char *types = parsed_value(&c->parsed, "--type");
    const char *description = parsed_value(&c->parsed, "--description");
    json_t *args, *reply;
    int code = 0;

    if (!url && !parsed_value(&c->parsed, "--settings"))
        return complain(EXIT_USAGE, "endpoints create needs URL, or --settings "
                                    "with the settings");
    if (!is_utf8("URL", url) || !is_utf8("--workspace", workspace) ||
        !is_utf8("--type", types) || !is_utf8("--description", description))
        return EXIT_USAGE;
    args = given_settings(c);
    if (!args)
        return EXIT_REFUSED;
    if (url)
        json_object_set_new(args, "url", json_string(url));
    if (workspace)
        json_object_set_new(args, "workspaces", json_pack("[s]", workspace));
    if (types)
        json_object_set_new(args, "types", split_at_commas(types));
    if (description)
        json_object_set_new(args, "description", json_string(description));
    reply = ask_printing(c, "endpoint_create", args, &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    if (managed_print_made(reply))
        fprintf(stderr, "This signing secret is shown only once. ");
    fprintf(stderr, "The endpoint gets events from number %s on.\n",
            text_of(reply, "effective_from"));
    print_warnings(reply);
    json_decref(reply);
    return 0;
}

/* ---- change, rotate, delete ---- */

int run_endpoints_change(struct ctl *c)
{
    json_t *args, *settings, *reply;
    int code = 0;

    if (!parsed_value(&c->parsed, "--settings"))
        return complain(EXIT_USAGE, "--settings is missing: a file with a JSON "
                                    "object, or - for standard input");
    args = named(c, true);
    if (!args)
        return EXIT_USAGE;
    settings = given_settings(c);
    if (!settings) {
        json_decref(args);
        return EXIT_REFUSED;
    }
    json_object_update(args, settings);
    json_decref(settings);
    reply = ask_printing(c, "endpoint_change", args, &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    printf("%s is changed; it has version %s now\n", text_of(reply, "name"),
           text_of(reply, "version"));
    print_warnings(reply);
    json_decref(reply);
    return 0;
}

int run_endpoints_rotate(struct ctl *c)
{
    const char *overlap = parsed_value(&c->parsed, "--overlap");
    json_t *args = is_utf8("--overlap", overlap) ? named(c, false) : NULL;
    json_t *reply;
    int code = 0;

    if (!args)
        return EXIT_USAGE;
    if (overlap)
        json_object_set_new(args, "overlap", json_string(overlap));
    reply = ask_printing(c, "endpoint_rotate", args, &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    printf("%s\n", text_of(reply, "secret"));
    fprintf(stderr, "This signing secret is shown only once. ");
    if (json_is_string(json_object_get(reply, "old_secrets_end_at")))
        fprintf(stderr, "Until %s %s the old secrets sign, too.\n",
                time_of(reply, "old_secrets_end_at"), when_zone());
    else
        fprintf(stderr, "The old secrets sign no more requests.\n");
    json_decref(reply);
    return 0;
}

int run_endpoints_delete(struct ctl *c)
{
    json_t *args = named(c, true), *reply;
    int code = 0;

    if (!args)
        return EXIT_USAGE;
    reply = ask_printing(c, "endpoint_delete", args, &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    printf("%s is deleted; %s waiting deliveries become dead letters "
           "(endpoint_removed)\n",
           text_of(reply, "name"), text_of(reply, "waiting"));
    json_decref(reply);
    return 0;
}
