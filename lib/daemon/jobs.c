/* jobs: makes, runs, lists and cancels the long work of a process. */
#include "jobs.h"
#include "clock.h"
#include "control.h"
#include "json_text.h"
#include "log.h"
#include "sha256.h"
#include "ulid.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_USUAL = 100,
    ERROR_MAX_BYTES = 400,
    SLICE_MS = 20, /* the shortest wait between two steps: other work goes on */
};

struct jobs {
    struct db *db;
    struct acts *acts;
    char *process;
    const struct job_kind *kinds; /* NULL: there are none */
    void *self;
    struct ulid ids;
    stmt *add, *save, *next, *find, *page, *open_count, *cut, *last;
    bool open;      /* a job may be to be done */
    int64_t due_ms; /* mono */
};

struct jobs *jobs_open(struct db *db, struct acts *acts, const char *process,
                       const struct job_kind *kinds, void *self)
{
    struct jobs *j = gr_alloc(sizeof *j);

    *j = (struct jobs){.db = db,
                       .acts = acts,
                       .process = gr_strdup(process),
                       .kinds = kinds,
                       .self = self,
                       .open = kinds != NULL};
    if (!kinds)
        return j;
    j->add = db_prepare(db, ROW_INSERT("jobs", JOB_COLUMNS));
    j->save = db_prepare(
        db, "UPDATE jobs SET " ROW_SETS(JOB_COLUMNS) " WHERE id = :id");
    j->next = db_prepare(
        db, "SELECT " ROW_NAMES(JOB_COLUMNS) " FROM jobs WHERE ended_ms = 0 "
                                             "ORDER BY n LIMIT 1");
    j->find = db_prepare(
        db, "SELECT " ROW_NAMES(JOB_COLUMNS) " FROM jobs WHERE id = ?");
    j->page = db_prepare(db,
                         "SELECT " ROW_NAMES(JOB_COLUMNS) " FROM jobs WHERE id "
                                                          "< ? ORDER BY id "
                                                          "DESC LIMIT ?");
    j->open_count = db_prepare(db,
                               "SELECT count(*) FROM jobs WHERE ended_ms = 0");
    j->cut = db_prepare(db,
                        "DELETE FROM jobs WHERE n IN (SELECT n FROM jobs WHERE "
                        "ended_ms > 0 ORDER BY n DESC LIMIT -1 OFFSET ?)");
    j->last = db_prepare(db, "SELECT id FROM jobs ORDER BY id DESC LIMIT 1");
    if (db_step(db, j->last) && strlen(col_text(j->last, 0)) == JOB_ID_BYTES &&
        ulid_resume(&j->ids, col_text(j->last, 0) + 4) != GR_OK)
        log_warn(NULL, "the newest job has an id that Grapnel did not make",
                 LS("job", col_text(j->last, 0)));
    db_done(j->last);
    return j;
}

void jobs_close(struct jobs *j)
{
    if (!j)
        return;
    free(j->process);
    free(j);
}

/* ---- one job ---- */

static void set(char **text, char *fresh)
{
    free(*text);
    *text = fresh;
}

static void set_json(char **text, json_t *value)
{
    char *dumped = json_dumps(value, JSON_COMPACT);

    set(text, dumped ? dumped : gr_strdup("{}"));
    json_decref(value);
}

static json_t *object_of(const char *text)
{
    json_t *out = json_loads(text, 0, NULL);

    if (json_is_object(out))
        return out;
    json_decref(out);
    return json_object();
}

bool job_wants_more(const struct job *job, int64_t limit)
{
    return limit <= 0 || job->done < limit;
}

void job_set_position(struct job *job, json_t *position)
{
    set_json(&job->position, position);
}

json_t *job_position(const struct job *job)
{
    return object_of(job->position);
}

void job_set_result(struct job *job, json_t *result)
{
    set_json(&job->result, result);
}

json_t *job_result(const struct job *job)
{
    return object_of(job->result);
}

void job_set_args(struct job *job, json_t *args)
{
    set_json(&job->args, args);
}

void job_set_item(struct job *job, const char *id)
{
    set(&job->last_item, gr_strdup(id));
}

void job_set_error(struct job *job, const char *error)
{
    set(&job->last_error, gr_printf("%.*s", ERROR_MAX_BYTES, error));
}

void job_end(struct job *job, const char *error)
{
    set(&job->state, gr_strdup(error ? "failed" : "done"));
    if (error)
        job_set_error(job, error);
}

static void digest(const struct job *job, const char *item,
                   uint8_t out[SHA256_BYTES])
{
    char *text = gr_printf("%s %s", job->id, item);

    sha256((struct bytes){text, strlen(text)}, out);
    free(text);
}

uint64_t job_action_id(const struct job *job, const char *item)
{
    uint8_t d[SHA256_BYTES];
    uint64_t id;

    digest(job, item, d);
    memcpy(&id, d, sizeof id);
    return id ? id : 1;
}

void job_event_id(const struct job *job, const char *item, char out[31])
{
    struct ulid u = {.ms = (uint64_t)job->made_ms};
    uint8_t d[SHA256_BYTES];

    digest(job, item, d);
    memcpy(u.random, d, sizeof u.random);
    u.random[0] &= 0x7f; /* counting up does not overflow */
    memcpy(out, "evt_", 4);
    ulid_next(&u, job->made_ms, out + 4);
}

static void read_job(stmt *q, struct job *job)
{
    int i = 0;

    ROW_READ(JOB_COLUMNS, q, i, job);
}

static bool load(struct jobs *j, stmt *q, struct job *job)
{
    bool found = db_step(j->db, q);

    if (found)
        read_job(q, job);
    db_done(q);
    return found;
}

static void save(struct jobs *j, const struct job *job)
{
    int i = 0;

    ROW_BIND(JOB_COLUMNS, j->save, i, job);
    db_run(j->db, j->save);
}

static json_t *shown_args(const char *text)
{
    json_t *args = object_of(text), *v;
    const char *name;
    void *next;

    json_object_foreach_safe(args, next, name, v)
    {
        if (*name == '_')
            json_object_del(args, name);
    }
    return args;
}

static json_t *count_json(int64_t n)
{
    return n < 0 ? json_null() : json_integer(n);
}

static json_t *job_json(const struct jobs *j, const struct job *job)
{
    return json_pack(
        "{s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:o,s:o,s:o}",
        "id", job->id, "kind", job->kind, "process", j->process, "state",
        job->state, "args", shown_args(job->args), "who",
        json_text_of(job->who), "created_at", json_time(job->made_ms),
        "started_at",
        job->started_ms ? json_time(job->started_ms) : json_null(), "ended_at",
        job->ended_ms ? json_time(job->ended_ms) : json_null(), "total",
        count_json(job->total), "done", (json_int_t)job->done, "failed",
        (json_int_t)job->failed, "skipped", (json_int_t)job->skipped,
        "last_item", json_text_or_null(job->last_item), "last_error",
        json_text_or_null(job->last_error), "result", object_of(job->result));
}

static const struct job_kind *kind_of(const struct jobs *j, const char *name)
{
    for (const struct job_kind *k = j->kinds; k && k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

/* The second row of the audit: how the job has ended. */
static void note_end(struct jobs *j, const struct job *job, int64_t now_ms)
{
    const struct job_kind *kind = kind_of(j, job->kind);
    json_t *args = shown_args(job->args);
    char *outcome = gr_printf(
        "%s %s: done %" PRId64 ", failed %" PRId64 ", left out %" PRId64 "%s%s",
        job->id, job->state, job->done, job->failed, job->skipped,
        *job->last_error ? "; " : "", job->last_error);

    if (kind)
        acts_done(j->acts,
                  &(struct act){.spec = kind->command,
                                .args = args,
                                .by = {.actor = job->who,
                                       .role = "",
                                       .request_id = "",
                                       .owner = "",
                                       .key = "",
                                       .digest = ""},
                                .now_ms = now_ms},
                  outcome, NULL);
    log_info(NULL, "a job has ended", LS("job", job->id), LS("kind", job->kind),
             LS("state", job->state), LI("done", job->done),
             LI("failed", job->failed), LI("left_out", job->skipped),
             LO("error", job->last_error));
    free(outcome);
    json_decref(args);
}

static void end(struct jobs *j, struct job *job, int64_t now_ms)
{
    job->ended_ms = now_ms > 0 ? now_ms : 1;
    save(j, job);
    note_end(j, job, now_ms);
    bind_i64(j->cut, 1, JOBS_KEPT);
    db_run(j->db, j->cut);
}

/* ---- make ---- */

json_t *jobs_make(struct jobs *j, const char *kind, const json_t *args,
                  const char *who, int64_t now_ms, char why[200])
{
    struct job job = {0};
    char id[JOB_ID_BYTES + 1] = "job_";
    json_t *out;
    int i = 0;

    if (db_number(j->db, j->open_count, 0) > JOBS_WAITING) {
        control_fail(why, CONTROL_LIMITED,
                     "%d jobs of %s wait already: try again when one has "
                     "ended, or cancel one; `grapnel jobs` lists them",
                     JOBS_WAITING, j->process);
        return NULL;
    }
    ulid_next(&j->ids, now_ms, id + 4);
    job.id = gr_strdup(id);
    job.kind = gr_strdup(kind);
    job.state = gr_strdup("waiting");
    job.args = json_dumps(args, JSON_COMPACT);
    job.who = gr_strdup(who);
    job.made_ms = now_ms;
    job.position = gr_strdup("{}");
    job.total = -1;
    job.last_item = gr_strdup("");
    job.last_error = gr_strdup("");
    job.result = gr_strdup("{}");
    ROW_BIND(JOB_COLUMNS, j->add, i, &job);
    db_run(j->db, j->add);
    out = job_json(j, &job);
    ROW_FREE(JOB_COLUMNS, &job);
    if (!j->open) /* else the running one keeps its rate */
        j->due_ms = 0;
    j->open = true;
    return out;
}

/* ---- the turn ---- */

int jobs_work(struct jobs *j, const struct loop *loop)
{
    const struct job_kind *kind;
    struct job job = {0};
    json_t *args;
    int wait_ms = 0;

    if (!j->open)
        return -1;
    if (loop->mono_ms < j->due_ms)
        return (int)(j->due_ms - loop->mono_ms);
    if (loop->stopping || db_full(j->db))
        return SLICE_MS;
    if (!load(j, j->next, &job)) {
        j->open = false;
        return -1;
    }
    kind = kind_of(j, job.kind);
    if (!job.started_ms) {
        job.started_ms = loop->now_ms > 0 ? loop->now_ms : 1;
        set(&job.state, gr_strdup("running"));
        log_info(NULL, "a job has started", LS("job", job.id),
                 LS("kind", job.kind), LS("who", job.who));
    }
    args = object_of(job.args);
    if (kind)
        wait_ms = kind->step(j->self, &job, args);
    else
        job_end(&job, "this version of Grapnel has no such job");
    if (strcmp(job.state, "running") == 0)
        save(j, &job);
    else
        end(j, &job, loop->now_ms);
    json_decref(args);
    ROW_FREE(JOB_COLUMNS, &job);
    if (wait_ms < SLICE_MS)
        wait_ms = SLICE_MS;
    j->due_ms = loop->mono_ms + wait_ms;
    return wait_ms;
}

void jobs_undo(struct jobs *j)
{
    j->open = j->kinds != NULL;
}

/* ---- commands ---- */

static json_t *unknown(const struct jobs *j, const char *id, char why[200])
{
    control_fail(why, CONTROL_NOT_FOUND,
                 "%s has no job %.60s: `grapnel jobs` lists the last %d",
                 j->process, id, JOBS_KEPT);
    return NULL;
}

static bool find(struct jobs *j, const char *id, struct job *job)
{
    if (!j->kinds)
        return false;
    bind_text(j->find, 1, id);
    return load(j, j->find, job);
}

json_t *jobs_ask_list(void *self, json_t *args, char why[200])
{
    struct jobs *j = self;
    const char *before = json_string_value(json_object_get(args, "before"));
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    json_t *list = json_array(), *next = json_null();
    struct job job = {0};
    char last[JOB_ID_BYTES + 1] = "";

    (void)why;
    limit = limit ? limit : PAGE_USUAL;
    if (j->kinds) {
        bind_text(j->page, 1, before ? before : "k"); /* behind job_ */
        bind_i64(j->page, 2, limit + 1);
        while (db_step(j->db, j->page)) {
            if ((json_int_t)json_array_size(list) == limit) {
                next = json_string(last);
                break;
            }
            read_job(j->page, &job);
            snprintf(last, sizeof last, "%s", job.id);
            json_array_append_new(list, job_json(j, &job));
            ROW_FREE(JOB_COLUMNS, &job);
        }
        db_done(j->page);
    }
    return json_pack("{s:o,s:o}", "jobs", list, "next", next);
}

json_t *jobs_ask(void *self, json_t *args, char why[200])
{
    struct jobs *j = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    struct job job = {0};
    json_t *out;

    if (!find(j, id, &job))
        return unknown(j, id, why);
    out = job_json(j, &job);
    ROW_FREE(JOB_COLUMNS, &job);
    return out;
}

/* No step is in progress while a request is handled, so a job ends here between two items. */
json_t *jobs_ask_cancel(void *self, json_t *args, char why[200])
{
    struct jobs *j = self;
    const char *id = json_string_value(json_object_get(args, "id"));
    const struct job_kind *kind;
    struct job job = {0};
    json_t *out = NULL;

    if (!find(j, id, &job))
        return unknown(j, id, why);
    kind = kind_of(j, job.kind);
    if (job.ended_ms) {
        control_fail(why, CONTROL_REFUSED, "the job has ended: it is %s",
                     job.state);
    } else if (kind && kind->stays && job.started_ms) {
        control_fail(why, CONTROL_REFUSED,
                     "a job of the kind %s cannot be cancelled once it has "
                     "started",
                     job.kind);
    } else {
        set(&job.state, gr_strdup("cancelled"));
        end(j, &job, now_ms());
        out = job_json(j, &job);
    }
    ROW_FREE(JOB_COLUMNS, &job);
    return out;
}
