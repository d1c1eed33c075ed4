/* export_command: `grapnel endpoints export` and `grapnel endpoints import`: all endpoints made at
 * run time, as a JSON document, from one Grapnel to another. */
#include "ask.h"
#include "endpoint_document.h"
#include "managed.h"
#include "mask.h"
#include <string.h>

enum {
    PAGE = 1000, /* endpoints that are asked for at once */
    IMPORT_MAX_BYTES = 512 * 1024 * 1024,
};

/* A JSON list on standard output, one item after the other. */
struct listing {
    bool open;
};

static void print_item(struct listing *l, const json_t *item)
{
    printf("%s\n", l->open ? "," : "[");
    l->open = true;
    json_dumpf(item, stdout, JSON_INDENT(2));
    fflush(stdout);
}

static void end_list(const struct listing *l)
{
    printf("%s]\n", l->open ? "\n" : "[");
}

/* ---- export ---- */

static bool is_managed(const json_t *row)
{
    return strcmp(text_of(row, "managed_by"), "api") == 0 &&
           !json_is_true(json_object_get(row, "temporary")) &&
           strcmp(text_of(row, "state"), "removed") != 0;
}

/* {"name", "description", "settings"} of a row of the list; the caller's. NULL: the error was
 * printed, and *code is the exit code. */
static json_t *whole(struct ctl *c, json_t *row, bool secrets, int *code)
{
    bool unreachable;
    char why[200];
    json_t *reply;

    if (!secrets) {
        /* So that an import makes a new one. */
        json_object_del(json_object_get(row, "settings"), "signing_secrets");
        return json_incref(row);
    }
    reply = managed_ask(
        c, "endpoint_secrets",
        json_pack("{s:s}", "name",
                  json_string_value(json_object_get(row, "name"))),
        &unreachable, why);
    if (!reply && unreachable)
        *code = complain_away(c, "sequencer", why);
    else if (!reply)
        *code = complain(EXIT_REFUSED, "%s is left out: %s",
                         text_of(row, "name"), why);
    return reply;
}

static void export_one(struct ctl *c, struct listing *l, json_t *row,
                       bool secrets, int *code)
{
    json_t *is = whole(c, row, secrets, code), *description, *item;

    if (!is)
        return;
    description = json_object_get(is, "description");
    item = json_pack("{s:O,s:O,s:O}", "id", json_object_get(is, "name"),
                     "description", description, "settings",
                     json_object_get(is, "settings"));
    if (json_is_string(description) && !*json_string_value(description))
        json_object_set_new(item, "description", json_null());
    print_item(l, item);
    json_decref(item);
    endpoint_document_wipe(is);
    json_decref(is);
}

int run_endpoints_export(struct ctl *c)
{
    bool secrets = parsed_value(&c->parsed, "--secrets");
    struct listing l = {false};
    json_t *next = NULL, *reply, *row;
    int code = 0;
    size_t i;

    do {
        reply = ask_needed(
            c, "sequencer", "endpoints",
            json_pack("{s:i,s:o*}", "limit", PAGE, "after", next), ASK_MS,
            &code);
        if (!reply)
            return code;
        next = json_incref(json_object_get(reply, "next"));
        json_array_foreach(json_object_get(reply, "endpoints"), i, row)
        {
            if (is_managed(row) && code != EXIT_UNAVAILABLE)
                export_one(c, &l, row, secrets, &code);
        }
        json_decref(reply);
    } while (json_is_string(next) && code != EXIT_UNAVAILABLE);
    json_decref(next);
    /* A document that is not complete stays open, so that an import refuses it. */
    if (code != EXIT_UNAVAILABLE)
        end_list(&l);
    return code;
}

/* ---- import ---- */

/* Whether the item has the form of an export; NULL, or what is wrong. */
static const char *wrong_form(const json_t *item)
{
    static const char *const known[] = {"id", "description", "settings"};
    const json_t *settings = json_object_get(item, "settings");
    const json_t *description = json_object_get(item, "description");
    const char *url = json_string_value(json_object_get(settings, "url"));
    const char *key = json_string_value(
        json_object_get(json_object_get(settings, "tls"), "key"));
    size_t found = 0;

    for (size_t i = 0; i < COUNT_OF(known); i++)
        found += json_object_get(item, known[i]) != NULL;
    if (!json_is_object(item) || json_object_size(item) != found)
        return "it is not an object with the keys id, description and settings";
    if (!json_is_string(json_object_get(item, "id")))
        return "id is missing, or is not a text; `grapnel endpoints create` "
               "makes endpoints with new ids";
    if (description && !json_is_string(description) &&
        !json_is_null(description))
        return "description is not a text";
    if (!json_is_object(settings))
        return "settings is missing, or is not an object";
    if (managed_not_setting(settings))
        return "settings has id, name, version or secret, which are not "
               "settings";
    if (url && strstr(url, MASKED))
        return "settings.url has \"" MASKED "\", which stands for a secret "
               "that is not shown: write the URL, or export with --secrets";
    if (key && strcmp(key, MASKED) == 0)
        return "settings.tls.key is \"" MASKED "\", which stands for a secret "
               "that is not shown: write the key, or export with --secrets";
    return NULL;
}

struct importing {
    struct ctl *c;
    const char *path;
    struct listing list; /* of --json */
    size_t count, made;
    bool secrets; /* one was printed */
};

/* Makes the endpoint of item number `n`. false: the sequencer cannot be reached; `why` says the
 * reason. */
static bool import_one(struct importing *im, size_t n, json_t *item,
                       char why[200])
{
    const char *wrong = wrong_form(item);
    const char *id = text_of(item, "id");
    bool unreachable = false;
    json_t *reply = NULL;

    if (!wrong) {
        json_t *args = json_object_get(item, "settings");

        json_object_set(args, "id", json_object_get(item, "id"));
        if (json_object_get(item, "description"))
            json_object_set(args, "description",
                            json_object_get(item, "description"));
        reply = managed_ask(im->c, "endpoint_create", json_incref(args),
                            &unreachable, why);
        wrong = why;
    }
    if (unreachable)
        return false;
    if (!reply)
        complain(EXIT_REFUSED, "%s: item %zu%s%s%s: %s", im->path, n,
                 *id ? " (" : "", id, *id ? ")" : "", wrong);
    if (im->c->json) {
        json_t *row = json_pack(
            "{s:I,s:s,s:b,s:s?,s:s?}", "item", (json_int_t)n, "id", id, "made",
            reply != NULL, "secret",
            json_string_value(json_object_get(reply, "secret")), "error",
            reply ? NULL : wrong);

        print_item(&im->list, row);
        json_decref(row);
    } else if (reply) {
        im->secrets |= managed_print_made(reply);
        fflush(stdout); /* a secret is nowhere else */
    }
    im->made += reply != NULL;
    json_decref(reply);
    return true;
}

static int import(struct importing *im, const json_t *doc)
{
    json_t *item;
    char why[200];
    size_t i;

    json_array_foreach(doc, i, item)
    {
        if (import_one(im, i + 1, item, why))
            continue;
        complain(EXIT_UNAVAILABLE,
                 "%s: item %zu was not made, or its reply is lost; import "
                 "again, which leaves endpoints that exist. If this one exists "
                 "and its secret was not shown, use `grapnel endpoints rotate`",
                 im->path, i + 1);
        return complain_away(im->c, "sequencer", why);
    }
    if (im->c->json)
        end_list(&im->list);
    else
        fprintf(stderr, "%zu of %zu endpoints were made.%s\n", im->made,
                im->count,
                im->secrets ? " Their new signing secrets are shown only once."
                            : "");
    return im->made == im->count ? 0 : EXIT_REFUSED;
}

int run_endpoints_import(struct ctl *c)
{
    struct importing im = {.c = c, .path = c->parsed.args[0]};
    json_t *doc = managed_read_json(im.path, IMPORT_MAX_BYTES);
    int code;

    if (!doc)
        return EXIT_REFUSED;
    im.count = json_array_size(doc);
    code = json_is_array(doc)
               ? import(&im, doc)
               : complain(EXIT_REFUSED,
                          "%s: is not a JSON list, as `grapnel endpoints "
                          "export` prints it",
                          im.path);
    endpoint_document_wipe(doc);
    json_decref(doc);
    return code;
}
