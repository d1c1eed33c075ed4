/* job_commands: jobs over HTTP: a list from all processes, one job of whichever process has it, and
 * replays, which are jobs of each ingress. */
#include "api_request.h"
#include "commands.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS_USUAL = 100 };

static void ask_all(struct api_request *r, const char *kind,
                    const struct command_spec *command)
{
    struct processes p;

    api_processes(r, kind, &p);
    for (size_t i = 0; i < p.count; i++)
        api_ask(r, p.names[i], command, json_incref(r->args));
    processes_fini(&p);
}

/* The others have no jobs. */
static void ask_with_jobs(struct api_request *r,
                          const struct command_spec *command)
{
    ask_all(r, PROCESSES_WITH_ARCHIVE, command);
    ask_all(r, "dlqd", command);
    ask_all(r, "sequencer", command);
}

static bool all_answered(struct api_request *r)
{
    for (size_t i = 0; i < r->asked_count; i++)
        if (!api_answered(r, i))
            return false;
    return true;
}

/* ---- the list ---- */

static int newest_first(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;

    return strcmp(json_string_value(json_object_get(y, "id")),
                  json_string_value(json_object_get(x, "id")));
}

/* Ids are made from time, so a page of all is the first ones of all pages. */
static json_t *page_of_all(struct api_request *r)
{
    json_int_t limit = json_integer_value(json_object_get(r->args, "limit"));
    size_t count = 0, most = limit > 0 ? (size_t)limit : ROWS_USUAL, i;
    json_t **all = NULL, *out = json_array(), *job, *next = json_null();
    bool more = false;

    for (size_t k = 0; k < r->asked_count; k++) {
        json_t *jobs = json_object_get(api_reply(r, k), "jobs");

        all = gr_realloc(all,
                         (count + json_array_size(jobs) + 1) * sizeof *all);
        json_array_foreach(jobs, i, job) all[count++] = job;
        more = more || json_is_string(json_object_get(api_reply(r, k), "next"));
    }
    if (count)
        qsort(all, count, sizeof *all, newest_first);
    more = more || count > most;
    for (i = 0; i < count && i < most; i++)
        json_array_append(out, all[i]);
    if (more && i)
        next = json_incref(json_object_get(all[i - 1], "id"));
    free(all);
    return json_pack("{s:o,s:o}", "jobs", out, "next", next);
}

void job_list(struct api_request *r)
{
    if (r->stage++ == 0)
        ask_with_jobs(r, &command_jobs);
    if (r->stage == 1 && !r->asked_count)
        api_respond(r, page_of_all(r));
    else if (r->stage == 2 && all_answered(r))
        api_respond(r, page_of_all(r));
}

/* ---- one ---- */

/* The number of the process that has the job. false: none has it, or a process that may have it did
 * not reply; the response says so. */
static bool find(struct api_request *r, size_t *found)
{
    for (size_t i = 0; i < r->asked_count; i++)
        if (api_reply(r, i)) {
            *found = i;
            return true;
        }
    for (size_t i = 0; i < r->asked_count; i++)
        if (strcmp(r->asked[i]->code, "not_found") != 0 && !api_answered(r, i))
            return false;
    api_fail(r, WEB_NOT_FOUND, NULL,
             "no process has this job: GET /jobs lists the last ones");
    return false;
}

void job_read(struct api_request *r)
{
    size_t i;

    if (r->stage++ == 0)
        ask_with_jobs(r, &command_job);
    else if (find(r, &i))
        api_respond(r, json_incref(api_reply(r, i)));
    if (r->stage == 1 && !r->asked_count)
        find(r, &i);
}

void job_cancel(struct api_request *r)
{
    size_t i;

    if (r->stage++ == 0) {
        ask_with_jobs(r, &command_job);
        if (!r->asked_count)
            find(r, &i);
    } else if (r->stage == 2) {
        if (find(r, &i)) {
            char *name = gr_strdup(r->asked[i]->name);

            api_forget(r);
            api_ask(r, name, &command_job_cancel, json_incref(r->args));
            free(name);
        }
    } else if (api_answered(r, 0)) {
        api_respond(r, json_incref(api_reply(r, 0)));
    }
}

/* ---- replays ---- */

void replays_make(struct api_request *r)
{
    json_t *jobs;

    if (r->stage++ == 0) {
        ask_all(r, PROCESSES_WITH_ARCHIVE, &command_replay);
        if (!r->asked_count)
            api_fail(r, WEB_PROCESS_UNAVAILABLE, NULL,
                     "no ingress runs: start it; `grapnel status` shows the "
                     "processes");
        return;
    }
    if (!all_answered(r))
        return;
    jobs = json_array();
    for (size_t i = 0; i < r->asked_count; i++)
        json_array_append(jobs, api_reply(r, i));
    api_respond(r, json_pack("{s:o}", "jobs", jobs));
}
