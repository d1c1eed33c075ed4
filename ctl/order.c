/* order: gaps, workspaces, and repeats that are let through. */
#include "ask.h"
#include "pages.h"
#include "table.h"
#include <stdlib.h>

/* One question to the sequencer; NULL: `*code` says how to end. */
static json_t *ask_sequencer(struct ctl *c, const char *what, json_t *args,
                             int *code)
{
    bool unreachable;
    char why[200];
    json_t *answer = ask(c, "sequencer", what, args, ASK_MS, &unreachable, why);

    if (unreachable)
        *code = complain_away(c, "sequencer", why);
    else if (!answer)
        *code = complain(EXIT_REFUSED, "%s", why);
    return answer;
}

/* A list as it is, or as a table. */
static int show_list(struct ctl *c, json_t *list, const char *none,
                     void (*print)(struct ctl *c, const json_t *list))
{
    if (c->json)
        print_json(json_incref(list));
    else if (json_array_size(list))
        print(c, list);
    else
        printf("%s\n", none);
    json_decref(list);
    return 0;
}

/* ---- gaps ---- */

static void print_gaps(struct ctl *c, const json_t *gaps)
{
    static const char *const heads[] = {"OPENED (UTC)", "ID",   "SOURCE",
                                        "WORKSPACE",    "FROM", "TO",
                                        "STATUS",       "NOTE", NULL};
    struct table t;
    json_t *g;
    size_t i;

    table_init(&t, heads);
    json_array_foreach(gaps, i, g)
    {
        const char *missing = text_of(g, "waits_for"),
                   *note = text_of(g, "note");

        table_add(&t, PLAIN, "%s", time_of(g, "opened_at"));
        table_add(&t, PLAIN, "%s", text_of(g, "id"));
        table_add(&t, PLAIN, "%s", text_of(g, "source"));
        table_add(&t, PLAIN, "%s", text_of(g, "workspace"));
        table_add(&t, PLAIN, "%s", text_of(g, "from"));
        table_add(&t, PLAIN, "%s", text_of(g, "to"));
        table_add(&t, PLAIN, "%s", text_of(g, "status"));
        if (*missing)
            table_add(&t, PLAIN, "waits for %s, which does not answer",
                      missing);
        else
            table_add(&t, PLAIN, "%s", *note ? note : "-");
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

int run_gaps(struct ctl *c)
{
    static const char *const filters[] = {"--source", "--workspace", NULL};
    json_t *args = json_object();
    int code = EXIT_USAGE;

    if (put_filters(c, args, filters)) {
        json_object_set_new(args, "open",
                            json_boolean(parsed_value(&c->parsed, "--open")));
        code = list_pages(c, &(struct listing){.process = "sequencer",
                                               .ask = "gaps",
                                               .key = "gaps",
                                               .args = args,
                                               .filters = filters,
                                               .print = print_gaps,
                                               .none = "No gaps."});
    }
    json_decref(args);
    return code;
}

int run_gaps_close(struct ctl *c)
{
    const char *note = parsed_value(&c->parsed, "--note");
    json_t *answer;
    int code;

    if (!note || !*note)
        return complain(EXIT_USAGE,
                        "gaps close: --note is needed: why is nothing more to "
                        "come?");
    answer = ask_sequencer(c, "close_gap",
                           json_pack("{s:s,s:s,s:s}", "id", c->parsed.args[0],
                                     "note", note, "who", user_name()),
                           &code);
    if (!answer)
        return code;
    if (c->json)
        print_json(json_incref(answer));
    else
        printf("%s is closed: what it held up goes.\n", text_of(answer, "id"));
    json_decref(answer);
    return 0;
}

/* ---- workspaces ---- */

static void print_workspaces(struct ctl *c, const json_t *spaces)
{
    static const char *const heads[] = {"WORKSPACE", "NUMBER", "OPEN GAPS",
                                        "BUFFERED",  "TYPES",  NULL};
    struct table t;
    json_t *w;
    size_t i;

    table_init(&t, heads);
    json_array_foreach(spaces, i, w)
    {
        table_add(&t, PLAIN, "%s", text_of(w, "workspace"));
        table_add(&t, PLAIN, "%s", text_of(w, "sequence"));
        table_add(&t, PLAIN, "%s", text_of(w, "open_gaps"));
        table_add(&t, PLAIN, "%s", text_of(w, "buffered"));
        table_add(&t, PLAIN, "%zu",
                  json_object_size(json_object_get(w, "clock")));
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

static void print_clock(const json_t *spaces)
{
    json_t *clock = json_object_get(json_array_get(spaces, 0), "clock"), *n;
    const char *type;

    json_object_foreach(clock, type, n)
    {
        char *safe = harmless(type);

        printf("  %s  %s\n", text_of(clock, type), safe);
        free(safe);
    }
}

static void print_workspace(struct ctl *c, const json_t *spaces)
{
    print_workspaces(c, spaces);
    print_clock(spaces);
}

int run_workspaces(struct ctl *c)
{
    const char *name = c->parsed.arg_count ? c->parsed.args[0] : NULL;
    json_t *args = json_object(), *answer;
    int code;

    if (!put_limit(c, args)) {
        json_decref(args);
        return EXIT_USAGE;
    }
    if (name)
        json_object_set_new(args, "workspace", json_string(name));
    answer = ask_sequencer(c, "workspaces", args, &code);
    return answer ? show_list(c, answer, "No workspaces yet.",
                              name ? print_workspace : print_workspaces)
                  : code;
}

/* ---- repeats ---- */

int run_release(struct ctl *c)
{
    int code;
    json_t *answer = ask_sequencer(
        c, "release",
        json_pack("{s:s,s:s}", "event", c->parsed.args[0], "who", user_name()),
        &code);

    if (!answer)
        return code;
    if (c->json)
        print_json(json_incref(answer));
    else
        printf("%s is let through.\n", text_of(answer, "id"));
    json_decref(answer);
    return 0;
}
