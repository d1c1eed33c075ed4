/* jobs_command: `grapnel jobs` and `jobs cancel`: the long work of all processes. */
#include "ask.h"
#include "list.h"
#include <stdlib.h>
#include <string.h>

static void job_state(struct table *t, const json_t *job)
{
    const char *state = text_of(job, "state");

    table_add(t,
              strcmp(state, "failed") == 0    ? RED
              : strcmp(state, "running") == 0 ? GREEN
                                              : PLAIN,
              "%s", state);
}

/* "120 of 400, 3 failed" */
static void job_progress(struct table *t, const json_t *job)
{
    json_int_t failed = integer_of(job, "failed");
    const json_t *total = json_object_get(job, "total");
    char of[40] = "", bad[40] = "";

    if (json_is_integer(total))
        snprintf(of, sizeof of, " of %lld",
                 (long long)json_integer_value(total));
    if (failed)
        snprintf(bad, sizeof bad, ", %lld failed", (long long)failed);
    table_add(t, PLAIN, "%lld%s%s", (long long)integer_of(job, "done"), of,
              bad);
}

static const struct column columns[] = {
    {.head = "ID", .key = "id"},
    {.head = "KIND", .key = "kind"},
    {.head = "STATE", .cell = job_state},
    {.head = "DONE", .cell = job_progress},
    {.head = "CREATED (UTC)", .key = "created_at", .kind = COLUMN_TIME},
    {.head = "WHO", .key = "who"},
    {.head = "PROCESS", .key = "process"},
    {.head = "LAST ERROR", .key = "last_error", .kind = COLUMN_OR_DASH},
    {0}};

static bool has_jobs(const char *process)
{
    return process_is(process, PROCESSES_WITH_ARCHIVE) ||
           process_is(process, "dlqd") || process_is(process, "sequencer");
}

int run_jobs(struct ctl *c)
{
    json_t *all = json_array(), *list, *reply;
    struct processes p;
    bool unreachable;
    char why[200];
    int code = 0;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        if (!has_jobs(p.names[i]))
            continue;
        reply = ask(c, p.names[i], "jobs",
                    json_pack("{s:I}", "limit", (json_int_t)list_limit(c)),
                    ASK_MS, &unreachable, why);
        if (!reply)
            code = complain_away(c, p.names[i], why);
        json_array_extend(all, json_object_get(reply, "jobs"));
        json_decref(reply);
    }
    list = list_newest(all, "created_at", (size_t)list_limit(c));
    print_list(c, columns, list, "There are no jobs.");
    processes_fini(&p);
    json_decref(list);
    json_decref(all);
    return code;
}

int run_jobs_cancel(struct ctl *c)
{
    const char *id = c->parsed.args[0];
    json_t *args = json_pack("{s:s}", "id", id), *reply = NULL;
    char why[200] = "", *owner = NULL;
    struct processes p;
    bool unreachable;
    int code = EXIT_REFUSED;

    if (!args)
        return complain(EXIT_USAGE, "the id is not UTF-8");
    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !owner; i++) {
        if (!has_jobs(p.names[i]))
            continue;
        reply = ask(c, p.names[i], "job", json_incref(args), ASK_MS,
                    &unreachable, why);
        if (reply)
            owner = gr_strdup(p.names[i]);
        else if (unreachable)
            code = complain_away(c, p.names[i], why);
        json_decref(reply);
    }
    processes_fini(&p);
    reply = owner ? ask_needed(c, owner, "job_cancel", json_incref(args),
                               ASK_MS, &code)
                  : NULL;
    json_decref(args);
    free(owner);
    if (!reply)
        return *why && code == EXIT_REFUSED ? complain(code, "%s", why) : code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    printf("%s is cancelled: %lld done%s%s.\n", id,
           (long long)integer_of(reply, "done"),
           *text_of(reply, "last_item") ? "; the last item was " : "",
           text_of(reply, "last_item"));
    json_decref(reply);
    return 0;
}
