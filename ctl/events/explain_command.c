/* explain_command: `grapnel explain`: which endpoints get an event, or would get one, and why. */
#include "ask.h"
#include "list.h"
#include <string.h>

enum { PAGE = 100, SHOWN_MAX = 1000 };

static void add_verdict(struct table *t, const json_t *e)
{
    const json_t *yes = json_object_get(e, "subscribed");

    table_add(t,
              json_is_true(yes)    ? GREEN
              : json_is_false(yes) ? DIM
                                   : YELLOW,
              "%s",
              json_is_true(yes)    ? "yes"
              : json_is_false(yes) ? "no"
                                   : "depends");
}

static const struct column would_get[] = {
    {.head = "ENDPOINT", .key = "endpoint"},
    {.head = "GETS IT", .cell = add_verdict},
    {.head = "BECAUSE", .key = "why"},
    {.head = "THEN", .key = "then", .kind = COLUMN_OR_DASH},
    {0}};

static const struct column became[] = {
    {.head = "ENDPOINT", .key = "endpoint"},
    {.head = "STATUS", .key = "status"},
    {.head = "BECAUSE", .key = "why"},
    {.head = "UNTIL (UTC)", .key = "until", .kind = COLUMN_OR_DASH},
    {0}};

/* All pages; NULL: the reason was printed, and *code is the exit code. Takes `args` over. */
static json_t *ask_pages(struct ctl *c, const char *what, json_t *args,
                         int *code)
{
    json_t *list = json_array(), *next = NULL, *reply;

    json_object_set_new(args, "limit", json_integer(PAGE));
    do {
        if (next)
            json_object_set(args, "after", next);
        json_decref(next);
        reply = ask_needed(c, "sequencer", what, json_incref(args), ASK_MS,
                           code);
        next = json_incref(json_object_get(reply, "next"));
        json_array_extend(list, json_object_get(reply, "endpoints"));
        json_decref(reply);
    } while (json_is_string(next) && json_array_size(list) < SHOWN_MAX);
    json_decref(next);
    json_decref(args);
    if (!*code)
        return list;
    json_decref(list);
    return NULL;
}

/* false: the error was printed. */
static bool add_options(struct ctl *c, json_t *args)
{
    static const char *const names[] = {"--endpoint", "--source", "--type",
                                        "--workspace"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *value = parsed_value(&c->parsed, names[i]);

        if (value && !is_utf8(names[i], value))
            return false;
        if (value)
            json_object_set_new(args, names[i] + 2, json_string(value));
    }
    return true;
}

static void print_notes(const json_t *list)
{
    const char *note = text_of(json_array_get(list, 0), "note");
    json_t *e;
    size_t i;

    if (*note)
        printf("%s\n", note);
    json_array_foreach(list, i,
                       e) if (json_is_true(json_object_get(e, "changed_since")))
    {
        printf("The settings of some of these endpoints changed after the "
               "event was routed; `--json` says of which.\n");
        return;
    }
}

int run_explain(struct ctl *c)
{
    const char *id = c->parsed.arg_count ? c->parsed.args[0] : NULL;
    bool about = parsed_value(&c->parsed, "--source") ||
                 parsed_value(&c->parsed, "--type") ||
                 parsed_value(&c->parsed, "--workspace");
    json_t *args, *list;
    int code = 0;

    if (id ? about
           : !parsed_value(&c->parsed, "--source") ||
                 !parsed_value(&c->parsed, "--type"))
        return complain(EXIT_USAGE, "explain needs either the id of an event, "
                                    "or --source and --type");
    if (id && !is_utf8("the id", id))
        return EXIT_USAGE;
    args = json_object();
    if (!add_options(c, args)) {
        json_decref(args);
        return EXIT_USAGE;
    }
    if (id)
        json_object_set_new(args, "id", json_string(id));
    list = ask_pages(c, id ? "event_routing" : "routing", args, &code);
    if (!list)
        return code;
    print_list(c, id ? became : would_get, list, "no endpoint has this name");
    if (!c->json)
        print_notes(list);
    json_decref(list);
    return 0;
}
