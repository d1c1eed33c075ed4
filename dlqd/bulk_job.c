/* bulk_job: counts the dead letters of a filter, then acts on each, oldest first, at a rate.
 *
 * The upper bound of a job is the time at which it was made. Its position is the time of death and
 * number of the last dead letter that it looked at, first for the count and then for the
 * action. A dead letter that has changed since is refused by its state, and counted as failed. */
#include "bulk_job.h"
#include "bulk.h"
#include "commands.h"
#include "dead_letter_list.h"
#include "decide.h"
#include "dlqd.h"
#include <stdlib.h>
#include <string.h>

enum {
    LOOKED_AT_MOST = 5000,
    STEP_MS = 50,
    STEPS_PER_S = 1000 / STEP_MS,
    RATE_USUAL = 100,
};

static int64_t number(const json_t *args, const char *name, int64_t otherwise)
{
    const json_t *v = json_object_get(args, name);

    return v ? json_integer_value(v) : otherwise;
}

/* The filter of the next page. `page` keeps what it borrows. */
static bool read_filter(struct list_filter *f, const json_t *args,
                        const json_t *after, json_t **page, char why[200])
{
    *page = json_copy((json_t *)(uintptr_t)args);
    if (json_is_string(after))
        json_object_set(*page, "after", (json_t *)(uintptr_t)after);
    return list_filter_read(f, *page, why);
}

static int count(struct dlqd *d, struct job *job, const json_t *args,
                 json_t *position)
{
    struct list_filter f;
    json_t *page, *next = NULL;
    int64_t limit = number(args, "limit", INT64_MAX),
            so_far = number(position, "counted", 0);
    char why[200];

    if (read_filter(&f, args, json_object_get(position, "after"), &page, why))
        so_far += bulk_walk(d, &f, LOOKED_AT_MOST, NULL, &next);
    if (json_is_string(next)) {
        job_set_position(job, json_pack("{s:I,s:O}", "counted",
                                        (json_int_t)so_far, "after", next));
    } else {
        job->total = so_far < limit ? so_far : limit;
        job_set_position(job, json_pack("{s:b}", "acts", 1));
        if (json_is_true(json_object_get(args, "dry_run")) || !job->total)
            job_end(job, NULL);
    }
    json_decref(page);
    json_decref(next);
    return 0;
}

static bool act(struct dlqd *d, const struct job *job, const char *id,
                const struct list_filter *f, char why[200])
{
    char *who = gr_printf("%.150s (%s)", job->who, job->id);
    bool good = strcmp(job->kind, "dead_letters_retry") == 0
                    ? list_retry(d, id, f->to, job_action_id(job, id), who, why)
                    : decide_dead_letter(
                          d, id,
                          strcmp(job->kind, "dead_letters_resolve") == 0
                              ? DEAD_LETTER_RESOLVED
                              : DEAD_LETTER_DISCARDED,
                          f->note, who, why);

    free(who);
    return good;
}

static void act_on(struct dlqd *d, struct job *job, int64_t n,
                   const struct list_filter *f)
{
    struct dead_letter l;
    char why[200];

    if (!store_find_n(&d->store, n, &l))
        return;
    if (act(d, job, l.id, f, why)) {
        job->done++;
    } else {
        job->failed++;
        job_set_error(job, why);
    }
    job_set_item(job, l.id);
    dead_letter_fini(&l);
}

static int act_on_page(struct dlqd *d, struct job *job, const json_t *args,
                       const json_t *position)
{
    int64_t n[RATE_USUAL * 10 / STEPS_PER_S + 1];
    int64_t rate = number(args, "rate", RATE_USUAL),
            left = number(args, "limit", INT64_MAX) - job->done - job->failed;
    int max = (int)((rate + STEPS_PER_S - 1) / STEPS_PER_S), count;
    struct list_filter f;
    json_t *page, *next = NULL;
    char why[200];

    max = left < max ? (int)left : max;
    if (!read_filter(&f, args, json_object_get(position, "after"), &page,
                     why)) {
        job_end(job, why);
        json_decref(page);
        return 0;
    }
    count = bulk_walk(d, &f, max, n, &next);
    for (int i = 0; i < count; i++)
        act_on(d, job, n[i], &f);
    if (json_is_string(next) && count < left)
        job_set_position(job, json_pack("{s:b,s:O}", "acts", 1, "after", next));
    else
        job_end(job, NULL);
    json_decref(page);
    json_decref(next);
    return (int)(count * 1000 / rate);
}

static int step(void *self, struct job *job, const json_t *args)
{
    json_t *position = job_position(job);
    int wait_ms = json_is_true(json_object_get(position, "acts"))
                      ? act_on_page(self, job, args, position)
                      : count(self, job, args, position);

    json_decref(position);
    return wait_ms;
}

const struct job_kind bulk_jobs[] = {
    {"dead_letters_retry", &command_dlq_bulk, step, false},
    {"dead_letters_resolve", &command_dlq_bulk, step, false},
    {"dead_letters_discard", &command_dlq_bulk, step, false},
    {0},
};

json_t *bulk_job_make(void *self, json_t *args, char why[200])
{
    struct dlqd *d = self;
    const char *action = json_string_value(json_object_get(args, "action"));
    const char *note = json_string_value(json_object_get(args, "note"));
    int64_t now_ms = d->daemon.loop.now_ms;
    bool retries = strcmp(action, "retry") == 0;
    json_t *bounded, *out;
    struct list_filter f;
    char *kind;

    if (retries == (note != NULL)) {
        control_fail(why, CONTROL_INVALID,
                     retries ? "args.note: retry takes none"
                             : "args.note is missing: write what was done, "
                               "or the reason");
        return NULL;
    }
    if (!retries && json_object_get(args, "to")) {
        control_fail(why, CONTROL_INVALID, "args.to: only retry takes it");
        return NULL;
    }
    if (!list_filter_read(&f, args, why) || !list_to_good(d, f.to, why) ||
        (note && !list_note_good(note, why)))
        return NULL;
    bounded = json_copy(args);
    if (number(args, "until_ms", INT64_MAX) > now_ms)
        json_object_set_new(bounded, "until_ms", json_integer(now_ms));
    kind = gr_printf("dead_letters_%s", action);
    out = jobs_make(d->daemon.jobs, kind, bounded,
                    control_actor(d->daemon.control), now_ms, why);
    free(kind);
    json_decref(bounded);
    return out;
}
