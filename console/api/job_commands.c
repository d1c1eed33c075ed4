/* job_commands: jobs over HTTP: a list from all processes, one job of whichever process has it, and
 * replays, which are jobs of each ingress. */
#include "api_request.h"
#include "commands.h"
#include "json_text.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS_USUAL = 100 };

/* One that does not run may have jobs as well, and its archive has events. false: it has responded. */
static bool ask_all(struct api_request *r, const char *kinds,
                    const struct command_spec *command)
{
    struct processes p;

    if (!api_processes_with_data(r, kinds, &p))
        return false;
    for (size_t i = 0; i < p.count; i++)
        api_ask(r, p.names[i], command, json_incref(r->args));
    processes_fini(&p);
    return true;
}

/* The others have no jobs. */
static bool ask_with_jobs(struct api_request *r,
                          const struct command_spec *command)
{
    return ask_all(r, PROCESSES_WITH_ARCHIVE " dlqd sequencer", command);
}

/* ---- the list ---- */

static int newest_first(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;

    return strcmp(json_string_value(json_object_get(y, "id")),
                  json_string_value(json_object_get(x, "id")));
}

/* Ids are made from time, so a page of all is the first ones of all pages. */
static json_t *page_of_all(const struct api_request *r, json_t *unreachable)
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
    return json_pack("{s:o,s:o,s:o}", "jobs", out, "next", next, "unreachable",
                     unreachable);
}

void job_list(struct api_request *r)
{
    json_t *unreachable;

    if (r->stage++ == 0) {
        ask_with_jobs(r, &command_jobs);
        return;
    }
    unreachable = json_array();
    for (size_t i = 0; i < r->asked_count; i++)
        if (api_is_absent(r, i))
            json_array_append_new(unreachable, json_string(r->asked[i]->name));
    for (size_t i = 0; i < r->asked_count; i++)
        if ((!api_is_absent(r, i) ||
             json_array_size(unreachable) == r->asked_count) &&
            !api_answered(r, i)) {
            json_decref(unreachable);
            return;
        }
    api_respond(r, page_of_all(r, unreachable));
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
}

void job_cancel(struct api_request *r)
{
    size_t i;

    if (r->stage++ == 0) {
        ask_with_jobs(r, &command_job);
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

/* Why it is not known that a job was made. */
static const char *why_missing(const struct process_question *q)
{
    switch (q->end) {
    case QUESTION_REFUSED:
        return q->why;
    case QUESTION_BUSY:
        return "too many requests wait for it";
    case QUESTION_LOST:
        return "it ended before it replied: it may have made the job";
    case QUESTION_TIMEOUT:
        return "it did not reply in time: it may still make the job";
    case QUESTION_UNREADABLE:
        return "its reply is not valid";
    case QUESTION_UNHEARD:
        return "it did not respond in time";
    default:
        return *q->why ? q->why : "it does not run";
    }
}

/* No job was made: responds with the first refusal, or else says which process is away. */
static void fail(struct api_request *r)
{
    for (size_t i = 0; i < r->asked_count; i++)
        if (!api_is_absent(r, i)) {
            api_answered(r, i);
            return;
        }
    api_answered(r, 0);
}

void replays_make(struct api_request *r)
{
    json_t *jobs, *missing;

    if (r->stage++ == 0) {
        ask_all(r, PROCESSES_WITH_ARCHIVE, &command_replay);
        return;
    }
    jobs = json_array();
    missing = json_array();
    for (size_t i = 0; i < r->asked_count; i++)
        if (api_reply(r, i))
            json_array_append(jobs, api_reply(r, i));
        else
            json_array_append_new(
                missing,
                json_pack("{s:s,s:o}", "process", r->asked[i]->name, "why",
                          json_text_of(why_missing(r->asked[i]))));
    if (json_array_size(jobs)) {
        api_respond(r,
                    json_pack("{s:O,s:O}", "jobs", jobs, "missing", missing));
    } else {
        fail(r);
    }
    json_decref(jobs);
    json_decref(missing);
}
