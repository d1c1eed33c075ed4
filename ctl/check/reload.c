/* reload: `grapnel reload` and `check --running`: the errors and warnings that the running
 * processes find in the configuration, each with the environment of its start, and what a
 * reload changes. */
#include "ask.h"
#include "json_text.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN = 8, /* changes of a process in the table; --json prints all */
};

/* One row for each process: the fields of its reply, and `process reached ok error`. */
static json_t *ask_each(struct ctl *c, const char *what)
{
    json_t *rows = json_array();
    struct processes p;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        bool unreachable;
        char why[200];
        json_t *reply = ask(c, p.names[i], what, NULL, ASK_MS, &unreachable,
                            why);
        bool ok = reply && !json_array_size(json_object_get(reply, "errors"));
        json_t *row = json_pack("{s:s, s:b, s:b, s:o}", "process", p.names[i],
                                "ok", (int)ok, "reached", (int)!unreachable,
                                "error",
                                reply ? json_null() : json_text_of(why));

        json_object_update(row, reply);
        json_array_append_new(rows, row);
        json_decref(reply);
    }
    processes_fini(&p);
    return rows;
}

static bool is_true(const json_t *row, const char *key)
{
    return json_is_true(json_object_get(row, key));
}

/* ---- errors ---- */

/* {"an error":["ingress","dlqd"], …}: for each text in the lists `key` of the rows, the
 * processes that have it. */
static json_t *by_item(const json_t *rows, const char *key)
{
    json_t *out = json_object(), *row, *item;
    size_t i, k;

    json_array_foreach(rows, i, row)
        json_array_foreach(json_object_get(row, key), k, item)
    {
        const char *text = json_string_value(item);

        if (!json_object_get(out, text))
            json_object_set_new(out, text, json_array());
        json_array_append(json_object_get(out, text),
                          json_object_get(row, "process"));
    }
    return out;
}

/* Each line of the lists `key` once; with the names of the processes that have it, unless all
 * that responded have it. */
static void print_lines(const json_t *rows, const char *key)
{
    json_t *lines = by_item(rows, key), *processes, *row;
    size_t reached = 0, i;
    const char *line;

    json_array_foreach(rows, i, row) reached += is_true(row, "reached");
    json_object_foreach(lines, line, processes)
    {
        char *safe = harmless(line), *names = join_strings(processes, SIZE_MAX);
        bool all = json_array_size(processes) == reached;

        fprintf(stderr, "%s%s%s%s\n", safe, all ? "" : " (in ",
                all ? "" : names, all ? "" : ")");
        free(safe);
        free(names);
    }
    json_decref(lines);
}

static void print_unset(const json_t *rows)
{
    json_t *unset = by_item(rows, "unset"), *processes;
    const char *name;

    json_object_foreach(unset, name, processes)
    {
        char *names = join_strings(processes, SIZE_MAX);

        complain(0,
                 "%s is not set in the environment of %s, which a process gets "
                 "at its start: set it and restart, or use file:PATH",
                 name, names);
        free(names);
    }
    json_decref(unset);
}

/* ---- text output ---- */

static void print_row(struct ctl *c, const json_t *row, const char *done)
{
    const json_t *changed = json_object_get(row, "changed");
    const json_t *restart = json_object_get(row, "restart");
    bool ok = is_true(row, "ok");
    char *changes, *waiting;

    if (!is_true(row, "reached"))
        return;
    changes = join_strings(changed, SHOWN);
    waiting = join_strings(restart, SIZE_MAX);
    printf("%-14s %s%s%s", text_of(row, "process"),
           colour_on(ok ? GREEN : RED, c->colour), ok ? done : "errors",
           colour_off(ok ? GREEN : RED, c->colour));
    if (ok)
        printf(": %s", json_array_size(changed) ? changes : "no changes");
    printf("\n");
    if (json_array_size(restart))
        printf("%-14s needs a restart for %s\n", "", waiting);
    free(changes);
    free(waiting);
}

/* Prints the replies; takes `rows` over. Returns the exit code. */
static int report(struct ctl *c, json_t *rows, const char *done)
{
    json_t *variables = by_item(rows, "variables"), *row;
    const char *name, *comma = "";
    size_t i;
    int code;

    if (c->json) {
        print_json(json_incref(rows));
    } else {
        json_array_foreach(rows, i, row) print_row(c, row, done);
        if (json_object_size(variables)) {
            printf("\nFrom the environment of each process's start: ");
            json_object_foreach(variables, name, row)
            {
                printf("%s%s", comma, name);
                comma = ", ";
            }
            printf(". A new value needs a restart;\nwith file:PATH, a reload "
                   "is enough.\n");
        }
    }
    fflush(stdout);
    print_lines(rows, "warnings");
    print_lines(rows, "errors");
    print_unset(rows);
    code = complain_all_away(c, rows, "reached");
    json_array_foreach(rows, i, row)
    {
        if (!is_true(row, "reached") || is_true(row, "ok"))
            continue;
        code = EXIT_CONFIG;
        if (*text_of(row, "error"))
            complain(0, "%s: %s", text_of(row, "process"),
                     text_of(row, "error"));
    }
    json_decref(variables);
    json_decref(rows);
    return code;
}

int check_running(struct ctl *c)
{
    return report(c, ask_each(c, "check"), "no errors");
}

/* All processes reload, or none, so that they never run with different configurations because
 * one of them found errors. */
int run_reload(struct ctl *c)
{
    json_t *rows = ask_each(c, "check"), *row;
    bool good = true;
    size_t i;
    int code;

    json_array_foreach(rows, i, row)
        good &= !is_true(row, "reached") || is_true(row, "ok");
    if (good) {
        json_decref(rows);
        return report(c, ask_each(c, "reload"), "reloaded");
    }
    code = report(c, rows, "no errors");
    complain(0, "nothing was reloaded: every process keeps its configuration");
    return code;
}
