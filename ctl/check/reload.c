/* reload, and check --running: the errors and warnings that the running processes
 * find in the configuration, each with the environment of its start, and what
 * would change. */
#include "ask.h"
#include "json_text.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN = 8, /* changes of a process in the text output; --json has all */
};

/* One row for each process: what it answered, and `process reached ok error`. */
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

static bool has(const json_t *list, const json_t *item)
{
    json_t *each;
    size_t i;

    json_array_foreach(list, i, each) if (json_equal(each, item)) return true;
    return false;
}

/* ---- what is wrong ---- */

/* {"an error":["ingress","dlqd"], …}: for each item of the lists `key` the
 * processes that have it, in the order of the rows. */
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

static size_t reached(const json_t *rows)
{
    json_t *row;
    size_t i, n = 0;

    json_array_foreach(rows, i, row) n += is_true(row, "reached");
    return n;
}

/* Each line of the lists `key` once and whole; with the names of the processes
 * unless all of them have it. */
static void print_lines(const json_t *rows, const char *key)
{
    json_t *lines = by_item(rows, key), *processes;
    const char *line;

    json_object_foreach(lines, line, processes)
    {
        char *safe = harmless(line), *names = join_strings(processes, SIZE_MAX);
        bool all = json_array_size(processes) == reached(rows);

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

/* The exit code. */
static int judge(struct ctl *c, const json_t *rows)
{
    int away = complain_all_away(c, rows, "reached"), code = 0;
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        if (!is_true(row, "reached") || is_true(row, "ok"))
            continue;
        code = EXIT_CONFIG;
        if (*text_of(row, "error"))
            complain(0, "%s: %s", text_of(row, "process"),
                     text_of(row, "error"));
    }
    return code ? code : away;
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

/* Every variable that any of them uses. */
static void print_variables(const json_t *rows)
{
    json_t *all = json_array(), *row, *name;
    char *names;
    size_t i, k;

    json_array_foreach(rows, i, row) json_array_foreach(
        json_object_get(row, "variables"), k, name) if (!has(all, name))
        json_array_append(all, name);
    names = join_strings(all, SIZE_MAX);
    if (json_array_size(all))
        printf("\nFrom the environment of each process's start: %s. A new "
               "value needs a restart;\nwith file:PATH, a reload is enough.\n",
               names);
    free(names);
    json_decref(all);
}

static int report(struct ctl *c, json_t *rows, const char *done)
{
    json_t *row;
    size_t i;
    int code;

    if (c->json) {
        print_json(json_incref(rows));
    } else {
        json_array_foreach(rows, i, row) print_row(c, row, done);
        print_variables(rows);
    }
    fflush(stdout);
    print_lines(rows, "warnings");
    print_lines(rows, "errors");
    print_unset(rows);
    code = judge(c, rows);
    json_decref(rows);
    return code;
}

int check_running(struct ctl *c)
{
    return report(c, ask_each(c, "check"), "no errors");
}

static bool all_ok(const json_t *rows)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row) if (is_true(row, "reached") &&
                                         !is_true(row, "ok")) return false;
    return true;
}

/* All processes or none: one that would refuse must not be left with an older
 * configuration than the others. */
int run_reload(struct ctl *c)
{
    json_t *rows = ask_each(c, "check");
    int code;

    if (all_ok(rows)) {
        json_decref(rows);
        return report(c, ask_each(c, "reload"), "reloaded");
    }
    code = report(c, rows, "no errors");
    complain(0, "nothing was reloaded: every process keeps its configuration");
    return code;
}
