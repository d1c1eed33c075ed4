/* types_import: `grapnel types export` and `grapnel types import`: the whole catalogue as a JSON
 * document, which can be kept under version control. */
#include "ask.h"
#include "types.h"
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 1000,
    /* 1000 types: 1 MiB of schemas in all, 16 KiB each for examples, and spaces */
    IMPORT_MAX_BYTES = 64 * 1024 * 1024,
};

static const char *const keys[] = {"description", "example", "schema"};

/* The names of all types as an object; NULL: the error was printed. */
static json_t *all_names(struct ctl *c, int *code)
{
    json_t *names = json_object(), *next = NULL, *reply, *row;
    size_t i;

    do {
        reply = ask_needed(
            c, "sequencer", "event_types",
            json_pack("{s:i,s:o*}", "limit", PAGE, "after", next), ASK_MS,
            code);
        if (!reply) {
            json_decref(names);
            return NULL;
        }
        next = json_incref(json_object_get(reply, "next"));
        json_array_foreach(json_object_get(reply, "event_types"), i, row)
            json_object_set_new(names,
                                json_string_value(json_object_get(row, "name")),
                                json_null());
        json_decref(reply);
    } while (json_is_string(next));
    json_decref(next);
    return names;
}

/* ---- export ---- */

int run_types_export(struct ctl *c)
{
    json_t *out = json_array(), *names, *ignored;
    bool unreachable;
    const char *name;
    char why[200];
    int code = 0;

    names = all_names(c, &code);
    json_object_foreach(names, name, ignored)
    {
        json_t *type = types_read(c, name, &unreachable, why), *item;

        if (!type && unreachable) {
            code = complain_away(c, "sequencer", why);
            break;
        }
        if (!type) /* it was deleted just now */
            continue;
        item = json_pack("{s:O}", "name", json_object_get(type, "name"));
        for (size_t i = 0; i < COUNT_OF(keys); i++)
            if (!json_is_null(json_object_get(type, keys[i])))
                json_object_set(item, keys[i], json_object_get(type, keys[i]));
        json_array_append_new(out, item);
        json_decref(type);
    }
    if (names && !code)
        print_json(json_incref(out));
    json_decref(names);
    json_decref(out);
    return code;
}

/* ---- import ---- */

static json_t *read_list(const char *path)
{
    size_t n;
    char *text = read_file(path, IMPORT_MAX_BYTES, &n);
    json_error_t error;
    json_t *list;

    if (!text)
        return NULL;
    list = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    free(text);
    if (!list)
        complain(EXIT_REFUSED, "%s:%d:%d: is not JSON: %s", path, error.line,
                 error.column, error.text);
    else if (!json_is_array(list))
        complain(EXIT_REFUSED,
                 "%s: is not a JSON list, as `grapnel types export` prints it",
                 path);
    if (json_is_array(list))
        return list;
    json_decref(list);
    return NULL;
}

/* NULL, or what is wrong. */
static const char *wrong_form(const json_t *item)
{
    size_t found = json_object_get(item, "name") != NULL;

    for (size_t i = 0; i < COUNT_OF(keys); i++)
        found += json_object_get(item, keys[i]) != NULL;
    if (!json_is_object(item) || json_object_size(item) != found)
        return "it is not an object with the keys name, description, example "
               "and schema";
    if (!json_is_string(json_object_get(item, "name")) ||
        strlen(json_string_value(json_object_get(item, "name"))) !=
            json_string_length(json_object_get(item, "name")))
        return "name is missing, or is not a text";
    return NULL;
}

/* Whether the list has the form of an export. It is asked before anything is changed. */
static bool is_good(const char *path, const json_t *list)
{
    json_t *seen = json_object(), *item;
    bool good = true;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *wrong = wrong_form(item);

        if (!wrong && json_object_get(seen, name))
            wrong = "its name occurs twice";
        if (wrong)
            complain(EXIT_REFUSED, "%s: item %zu: %s", path, i + 1, wrong);
        else
            json_object_set_new(seen, name, json_null());
        good = good && !wrong;
    }
    json_decref(seen);
    return good;
}

struct importing {
    struct ctl *c;
    json_t *report; /* of --json */
    size_t added, changed, same, deleted, failed;
    bool away; /* the sequencer does not respond; it was printed */
};

static void report(struct importing *im, const char *name, const char *result,
                   const char *error)
{
    json_array_append_new(im->report,
                          json_pack("{s:s,s:s?,s:s?}", "name", name, "result",
                                    result, "error", error));
    if (error)
        complain(EXIT_REFUSED, "%s: %s", name, error);
    else if (!im->c->json && strcmp(result, "same") != 0)
        printf("%s %s\n", name, result);
}

static bool is_same(const json_t *was, const json_t *contents)
{
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (!json_equal(json_object_get(was, keys[i]),
                        json_object_get(contents, keys[i])))
            return false;
    return true;
}

/* Also what the item lacks is set, to null. */
static void import_one(struct importing *im, const json_t *item)
{
    const char *name = json_string_value(json_object_get(item, "name"));
    json_t *contents = json_object(), *was, *reply = NULL;
    bool unreachable;
    char why[200];

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        json_t *value = json_object_get(item, keys[i]);

        json_object_set_new(contents, keys[i],
                            value ? json_incref(value) : json_null());
    }
    was = types_read(im->c, name, &unreachable, why);
    if (was && is_same(was, contents)) {
        im->same++;
        report(im, name, "same", NULL);
    } else if (was || !unreachable) {
        reply = types_put(im->c, name, was, contents, &unreachable, why);
        if (reply) {
            im->changed += was != NULL;
            im->added += !was;
            report(im, name, was ? "changed" : "added", NULL);
        } else if (!unreachable) {
            im->failed++;
            report(im, name, NULL, why);
        }
    }
    if (unreachable) {
        im->away = true;
        complain_away(im->c, "sequencer", why);
    }
    json_decref(contents);
    json_decref(was);
    json_decref(reply);
}

static void delete_others(struct importing *im, const json_t *list)
{
    bool unreachable;
    int code = 0;
    json_t *names = all_names(im->c, &code), *item, *reply;
    const char *name;
    char why[200];
    size_t i;

    im->away = !names;
    json_array_foreach((json_t *)(uintptr_t)list, i, item) json_object_del(
        names, json_string_value(json_object_get(item, "name")));
    json_object_foreach(names, name, item)
    {
        reply = ask(im->c, "sequencer", "event_type_delete",
                    json_pack("{s:s}", "name", name), ASK_MS, &unreachable,
                    why);
        if (reply) {
            im->deleted++;
            report(im, name, "deleted", NULL);
        } else if (unreachable) {
            im->away = true;
            complain_away(im->c, "sequencer", why);
            break;
        } else {
            im->failed++;
            report(im, name, NULL, why);
        }
        json_decref(reply);
    }
    json_decref(names);
}

int run_types_import(struct ctl *c)
{
    const char *path = c->parsed.args[0];
    struct importing im = {.c = c, .report = json_array()};
    json_t *list = read_list(path), *item;
    size_t i;

    if (!list || !is_good(path, list)) {
        json_decref(im.report);
        json_decref(list);
        return EXIT_REFUSED;
    }
    json_array_foreach(list, i, item)
    {
        if (!im.away)
            import_one(&im, item);
    }
    /* A type that could not be added is in the file, so it is not deleted. */
    if (!im.away && parsed_value(&c->parsed, "--delete-others"))
        delete_others(&im, list);
    json_decref(list);
    if (c->json)
        print_json(json_incref(im.report));
    else
        fprintf(stderr,
                "%zu added, %zu changed, %zu as they were, %zu deleted, %zu "
                "refused.\n",
                im.added, im.changed, im.same, im.deleted, im.failed);
    json_decref(im.report);
    return im.away ? EXIT_UNAVAILABLE : im.failed ? EXIT_REFUSED : 0;
}
