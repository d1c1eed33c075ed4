/* jobs: long work that a process does in small steps, in its turns: a row of `jobs` each.
 *
 * A process that has jobs names their kinds in its plan (daemon.h) and makes one in the command
 * that asks for it. daemon.c calls jobs_work() once in each turn, inside the transaction. One job
 * runs at a time; the others wait in the order in which they were made. A step acts on a few items
 * and writes what it did, its position and its counts in one transaction, so after a crash or on a
 * full disk all of them are there or none, and the job continues behind the last item. What a
 * step sends to other processes carries job_action_id(), which is the same in each repetition.
 *
 * Cancelling takes effect between two steps. The audit has a row for the command that made the
 * job and one for its end. Ended jobs are kept up to JOBS_KEPT, and at most JOBS_WAITING wait. */
#ifndef DAEMON_JOBS_H
#define DAEMON_JOBS_H

#include "acts.h"
#include "command_spec.h"
#include "loop.h"
#include "row.h"

enum {
    JOBS_KEPT = 200,
    JOBS_WAITING = 20,
    JOB_ID_BYTES = 30, /* job_ and 26 */
};

#define JOB_COLUMNS(F, X) \
    F(own, id)            \
    X(own, kind)          \
    X(own, state)         \
    X(own, args)          \
    X(own, who)           \
    X(i64, made_ms)       \
    X(i64, started_ms)    \
    X(i64, ended_ms)      \
    X(own, position)      \
    X(i64, total)         \
    X(i64, done)          \
    X(i64, failed)        \
    X(i64, skipped)       \
    X(own, last_item)     \
    X(own, last_error)    \
    X(own, result)
/* jobs.sql says what each column means. A step changes total, the counts, and by the functions
 * below the texts. */
struct job {
    ROW_FIELDS(JOB_COLUMNS)
};

/* One step of a job, inside the turn's transaction; `args` are those of jobs_make(). It takes at
 * most a few milliseconds, and ends the job with job_end() when all is done. Returns ms until the
 * next one. */
typedef int job_step(void *self, struct job *job, const json_t *args);

struct job_kind {
    const char *name;                   /* NULL ends a table */
    const struct command_spec *command; /* that makes it, for the audit */
    job_step *step;
    bool stays; /* cannot be cancelled once it runs */
};

struct jobs;

/* `kinds` and `self` are borrowed until the end. NULL `kinds`: this process has no jobs, and its
 * database has no table of them; its lists are empty. */
struct jobs *jobs_open(struct db *db, struct acts *acts, const char *process,
                       const struct job_kind *kinds, void *self);
void jobs_close(struct jobs *j);

/* In a control_fn: makes a job, which runs from this turn on. `args`: borrowed, at most 64 KiB; members
 * whose names begin with _ are only for its steps, and not shown.
 * Returns its description, as `job` has it, the caller's; NULL: too many wait, and `why` says so. */
json_t *jobs_make(struct jobs *j, const char *kind, const json_t *args,
                  const char *who, int64_t now_ms, char why[200]);

/* In each turn, inside the transaction. Returns ms until it must be called again; negative: no job
 * is to be done. Costs one comparison then. */
int jobs_work(struct jobs *j, const struct loop *loop);
/* After a rollback. */
void jobs_undo(struct jobs *j);

/* For steps. */
bool job_wants_more(const struct job *job,
                    int64_t limit); /* of done; 0: no limit */
void job_set_position(struct job *job, json_t *position); /* takes it over */
json_t *job_position(const struct job *job); /* the caller's; an object */
void job_set_result(struct job *job, json_t *result); /* takes it over */
json_t *job_result(const struct job *job);        /* the caller's; an object */
void job_set_args(struct job *job, json_t *args); /* takes it over */
void job_set_item(struct job *job, const char *id);
void job_set_error(struct job *job, const char *error);
/* `error` NULL: all is done. Otherwise it failed. */
void job_end(struct job *job, const char *error);
/* 64 bits of a digest of job and item, never 0. */
uint64_t job_action_id(const struct job *job, const char *item);
/* The same as an id of an event: `evt_`, the time of the job, and 80 bits of the digest. */
void job_event_id(const struct job *job, const char *item, char out[31]);

/* Control commands. self: struct jobs. */
json_t *jobs_ask_list(void *self, json_t *args, char why[200]);
json_t *jobs_ask(void *self, json_t *args, char why[200]);
json_t *jobs_ask_cancel(void *self, json_t *args, char why[200]);

/* The table, which the schema of a process with jobs contains. */
extern const char daemon_jobs_sql[];

#endif
