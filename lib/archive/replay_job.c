/* replay_job: reads the archive page by page, asks the sequencer about its events, and sends those
 * that match again.
 *
 * Position: {"after": n, "row": m, "part": k}: the rows up to n are done, and of row m, which carried
 * several events, the first k. */
#include "replay_job.h"
#include "archive.h"
#include "clock.h"
#include "commands.h"
#include "glob.h"
#include "resend.h"
#include <czmq.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_ROWS = 100,
    LOOK_MAX = 1000, /* rows read for a page */
    ASK_MAX = 500,   /* events in one question */
    REPLY_MS = 10 * 1000,
    AGAIN_MS = 1000, /* until something that did not work is tried again */
    RATE_USUAL = 500,
    STEP_MS = 50,
};

/* The part of the archive that the running job has read. Only in memory: it is read again when it
 * does not belong to the position of the job. */
struct replay_reading {
    char job[JOB_ID_BYTES + 1];
    char *position;    /* of the job, behind which `at` is */
    json_t *entries;   /* {"row","part","last","id","request"?,"facts"?} */
    size_t at;         /* all before it are done */
    int64_t page_n;    /* the last row that was read */
    bool end;          /* there are no rows behind it */
    int64_t row, part; /* events of `row` before `part` are done */
    zsock_t *asked;    /* the question to the sequencer, or NULL */
    int64_t asked_ms;  /* mono */
    size_t asked_count;
};

void replay_reading_free(struct replay_reading *r)
{
    if (!r)
        return;
    zsock_destroy(&r->asked);
    json_decref(r->entries);
    free(r->position);
    free(r);
}

static int64_t number(const json_t *args, const char *name, int64_t otherwise)
{
    const json_t *v = json_object_get(args, name);

    return v ? json_integer_value(v) : otherwise;
}

static const char *text(const json_t *args, const char *name)
{
    return json_string_value(json_object_get(args, name));
}

static bool is_dry(const json_t *args)
{
    return json_is_true(json_object_get(args, "dry_run"));
}

/* ---- a page of the archive ---- */

struct page {
    struct replay_reading *r;
    int64_t since_ms, until_ms, last_n;
    const char *source;
    int looked;
};

static bool on_row(void *arg, const struct archive_entry *e)
{
    struct page *p = arg;

    p->looked++;
    if (e->n > p->last_n ||
        e->received_ms >= p->until_ms + REPLAY_OUT_OF_ORDER_MS) {
        p->r->end = true;
        return false;
    }
    p->r->page_n = e->n;
    if (e->received_ms >= p->since_ms && e->received_ms < p->until_ms &&
        (!p->source || glob_match(p->source, e->source)))
        json_array_append_new(p->r->entries,
                              json_pack("{s:I,s:i,s:b,s:s}", "row",
                                        (json_int_t)e->n, "part", 0, "last", 1,
                                        "id", e->event_id));
    return json_array_size(p->r->entries) < PAGE_ROWS && p->looked < LOOK_MAX;
}

static struct replay_reading *
read_page(struct archive *a, const struct job *job, const json_t *args)
{
    struct replay_reading *r = gr_alloc(sizeof *r);
    json_t *position = job_position(job);
    struct page p = {.r = r,
                     .since_ms = number(args, "since_ms", 0),
                     .until_ms = number(args, "until_ms", 0),
                     .last_n = number(args, "last_row", INT64_MAX),
                     .source = text(args, "source")};
    int64_t after = number(position, "after", -1), n, ms;

    if (after < 0)
        after = replay_row_before(a, p.since_ms);
    snprintf(r->job, sizeof r->job, "%s", job->id);
    r->position = gr_strdup(job->position);
    r->entries = json_array();
    r->page_n = after;
    r->row = number(position, "row", 0);
    r->part = number(position, "part", 0);
    archive_page(&a->store.replays, after, on_row, &p);
    r->end = r->end || !archive_from(&a->store.replays, r->page_n + 1, &n, &ms);
    json_decref(position);
    return r;
}

/* ---- what the sequencer knows ---- */

static void ask(struct archive *a, struct replay_reading *r, const json_t *args)
{
    json_t *ids = json_array(), *question = json_pack("{s:o}", "ids", ids);
    size_t count = json_array_size(r->entries);

    for (size_t i = r->at; i < count && json_array_size(ids) < ASK_MAX; i++) {
        json_t *entry = json_array_get(r->entries, i);

        if (json_object_get(entry, "facts"))
            break;
        json_array_append(ids, json_object_get(entry, "id"));
    }
    if (text(args, "endpoint"))
        json_object_set(question, "endpoint",
                        json_object_get(args, "endpoint"));
    r->asked_count = json_array_size(ids);
    r->asked_ms = a->daemon->loop.mono_ms;
    r->asked = control_send(a->daemon->settings->run_dir, SEQUENCER,
                            command_facts.name, question, NULL, 0);
    json_decref(question);
}

/* The events of a request that carried several, in its place. */
static void append_parts(struct replay_reading *r, json_t *out,
                         const json_t *entry, const json_t *ids)
{
    int64_t row = number(entry, "row", 0);
    size_t count = json_array_size(ids);

    for (size_t i = row == r->row ? (size_t)r->part : 0; i < count; i++)
        json_array_append_new(
            out, json_pack("{s:I,s:I,s:b,s:O,s:O}", "row", (json_int_t)row,
                           "part", (json_int_t)i, "last", i + 1 == count, "id",
                           json_array_get(ids, i), "request",
                           json_object_get(entry, "id")));
}

static void take_facts(struct replay_reading *r, const json_t *reply)
{
    json_t *out = json_array(), *entry, *all = json_object_get(reply, "events");
    size_t i;

    json_array_foreach(r->entries, i, entry)
    {
        json_t *facts = i >= r->at && i < r->at + r->asked_count
                            ? json_array_get(all, i - r->at)
                            : NULL;
        const char *status = text(facts, "status");

        if (i < r->at)
            continue;
        if (facts)
            json_object_set(entry, "facts", facts);
        if (status && strcmp(status, "split") == 0)
            append_parts(r, out, entry, json_object_get(facts, "events"));
        else
            json_array_append(out, entry);
    }
    json_decref(r->entries);
    r->entries = out;
    r->at = 0;
    r->asked_count = 0;
}

/* ---- judge ---- */

static bool fits(const json_t *args, const json_t *facts, const char *name)
{
    const char *glob = text(args, name), *value = text(facts, name);

    return !glob || (value && glob_match(glob, value));
}

static bool has_reason(const json_t *args, const json_t *facts)
{
    const char *glob = text(args, "reason");
    json_t *reason;
    size_t i;

    json_array_foreach(
        json_object_get(facts, "reasons"), i,
        reason) if (glob &&
                    glob_match(glob, json_string_value(reason))) return true;
    return !glob;
}

/* Whether to send the event with these facts. If not, *why is the reason, or NULL if it does not
 * match. Of an event that only the archive has, just time and source are known. */
static bool is_chosen(const json_t *args, const json_t *facts, const char **why)
{
    const char *status = text(facts, "status");

    *why = NULL;
    if (status && strcmp(status, "routed") != 0)
        *why = status;
    else if (!status && (text(args, "workspace") || text(args, "type") ||
                         text(args, "reason")))
        *why = "unknown";
    if (*why ||
        (status &&
         (!fits(args, facts, "workspace") || !fits(args, facts, "source") ||
          !fits(args, facts, "type") || !has_reason(args, facts))))
        return false;
    if (json_is_false(json_object_get(facts, "subscribed")))
        *why = "not subscribed";
    return !*why;
}

/* ---- send ---- */

static void count_up(json_t *counts, const char *key)
{
    json_object_set_new(
        counts, key,
        json_integer(json_integer_value(json_object_get(counts, key)) + 1));
}

static bool send_one(struct archive *a, struct job *job, const json_t *args,
                     const json_t *entry)
{
    const char *id = text(entry, "id"), *request = text(entry, "request");
    char new_id[EVENT_ID_BYTES + 1] = "";
    char *who = gr_printf("%.150s (%s)", job->who, job->id);
    struct replay_row row = {
        .archived = archive_number(&a->store, request ? request : id),
        .action_id = job_action_id(job, id),
        .event_id = id,
        .new_id = new_id,
        .endpoint = text(args, "endpoint") ? text(args, "endpoint") : "",
        .who = who};

    if (json_is_true(json_object_get(args, "new_id")))
        job_event_id(job, id, new_id);
    if (row.archived)
        replay_put(a, &row);
    free(who);
    return row.archived;
}

static void act_on(struct archive *a, struct job *job, const json_t *args,
                   const json_t *entry, json_t *result)
{
    const json_t *facts = json_object_get(entry, "facts");
    const char *why;

    if (!is_chosen(args, facts, &why)) {
        if (why) {
            job->skipped++;
            count_up(json_object_get(result, "left_out"), why);
        }
        return;
    }
    if (text(args, "endpoint") &&
        !json_is_true(json_object_get(facts, "subscribed")))
        count_up(result, "unsure");
    if (is_dry(args)) {
        job->total = job->total < 0 ? 1 : job->total + 1;
    } else if (send_one(a, job, args, entry)) {
        job->done++;
    } else {
        job->failed++;
        job_set_error(job, "deleted from the archive meanwhile");
    }
    job_set_item(job, text(entry, "id"));
}

static int64_t matched(const struct job *job, const json_t *args)
{
    return is_dry(args) ? (job->total < 0 ? 0 : job->total)
                        : job->done + job->failed;
}

/* Acts on entries whose facts are known, at most as many as the rate permits in a step. Returns how
 * many matched. */
static int64_t act_on_some(struct archive *a, struct replay_reading *r,
                           struct job *job, const json_t *args)
{
    int64_t before = matched(job, args),
            limit = number(args, "limit", INT64_MAX),
            most = before +
                   (number(args, "rate", RATE_USUAL) * STEP_MS + 999) / 1000;
    json_t *result = job_result(job);
    const json_t *entry = NULL, *next;

    if (!json_object_get(result, "left_out"))
        json_object_set_new(result, "left_out", json_object());
    while ((next = json_array_get(r->entries, r->at)) &&
           json_object_get(next, "facts") && matched(job, args) < limit &&
           matched(job, args) < most) {
        entry = next;
        act_on(a, job, args, entry, result);
        r->at++;
    }
    if (entry) {
        int64_t row = number(entry, "row", 0);

        job_set_result(job, json_incref(result));
        job_set_position(
            job,
            json_is_true(json_object_get(entry, "last"))
                ? json_pack("{s:I}", "after", (json_int_t)row)
                : json_pack("{s:I,s:I,s:I}", "after", (json_int_t)(row - 1),
                            "row", (json_int_t)row, "part",
                            (json_int_t)number(entry, "part", 0) + 1));
    }
    json_decref(result);
    return matched(job, args) - before;
}

/* ---- the step ---- */

/* Whether the facts are there now. */
static bool replied(struct archive *a, struct replay_reading *r,
                    struct job *job)
{
    bool unreachable;
    char why[200];
    json_t *reply;

    if (!(zsock_events(r->asked) & ZMQ_POLLIN)) {
        if (a->daemon->loop.mono_ms - r->asked_ms < REPLY_MS)
            return false;
        job_set_error(job, "waits: the sequencer does not respond");
        zsock_destroy(&r->asked);
        return false;
    }
    reply = control_take(r->asked, &unreachable, why);
    r->asked = NULL;
    if (reply) {
        take_facts(r, reply);
        job_set_error(job, "");
    } else {
        job_end(job, why); /* such as: no endpoint has this name */
    }
    json_decref(reply);
    return reply;
}

static void forget(struct archive *a)
{
    replay_reading_free(a->replaying);
    a->replaying = NULL;
}

static void finish(struct archive *a, struct job *job, const json_t *args)
{
    forget(a);
    job->total = matched(job, args);
    job_end(job, NULL);
}

static int step(void *self, struct job *job, const json_t *args)
{
    struct archive *a = self;
    int64_t limit = number(args, "limit", INT64_MAX),
            rate = number(args, "rate", RATE_USUAL), sent;
    struct replay_reading *r = a->replaying;

    if (!is_dry(args) && a->space.refusal) {
        char *error = gr_printf("waits: %s stores no events now, because "
                                "there is little disk space",
                                a->daemon->plan->process);

        job_set_error(job, error);
        free(error);
        return AGAIN_MS;
    }
    if (r && (strcmp(r->job, job->id) != 0 ||
              strcmp(r->position, job->position) != 0))
        forget(a);
    if (!a->replaying)
        a->replaying = read_page(a, job, args);
    r = a->replaying;
    if (r->asked && !replied(a, r, job)) {
        if (strcmp(job->state, "running") != 0)
            forget(a);
        return 0;
    }
    sent = act_on_some(a, r, job, args);
    free(r->position);
    r->position = gr_strdup(job->position);
    if (matched(job, args) >= limit) {
        finish(a, job, args);
    } else if (r->at < json_array_size(r->entries)) {
        if (!json_object_get(json_array_get(r->entries, r->at), "facts"))
            ask(a, r, args);
    } else if (r->end) {
        finish(a, job, args);
    } else {
        job_set_position(job,
                         json_pack("{s:I}", "after", (json_int_t)r->page_n));
        forget(a);
    }
    return is_dry(args) ? 0 : (int)(sent * 1000 / rate);
}

const struct job_kind replay_jobs[] = {
    {"replay", &command_replay, step, false},
    {0},
};

json_t *replay_job_make(void *self, json_t *args, char why[200])
{
    struct archive *a = self;
    int64_t now_ms = a->daemon->loop.now_ms;
    json_t *bounded, *out;

    if (text(args, "endpoint") &&
        strlen(text(args, "endpoint")) > NAME_MAX_BYTES) {
        control_fail(why, CONTROL_INVALID,
                     "args.endpoint: at most %d bytes are allowed",
                     NAME_MAX_BYTES);
        return NULL;
    }
    if (number(args, "until_ms", now_ms) < number(args, "since_ms", 0)) {
        control_fail(why, CONTROL_INVALID,
                     "args.until_ms: the time is before that of since_ms");
        return NULL;
    }
    bounded = json_copy(args);
    if (number(args, "until_ms", INT64_MAX) > now_ms)
        json_object_set_new(bounded, "until_ms", json_integer(now_ms));
    json_object_set_new(bounded, "last_row", json_integer(a->space.last_n));
    out = jobs_make(a->daemon->jobs, "replay", bounded,
                    control_actor(a->daemon->control), now_ms, why);
    json_decref(bounded);
    return out;
}
