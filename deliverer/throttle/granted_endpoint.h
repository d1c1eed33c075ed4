/* granted_endpoint: an endpoint for which this deliverer has a grant: its configuration,
 * its waiting tasks, and when its next attempt may begin.
 *
 * The configuration arrives with the grant and is kept in memory only, because it
 * contains secrets. Tasks wait in two queues: new ones and due retries. The queues take
 * turns, so that neither new tasks nor a large number of due retries stops the other. In each,
 * tasks of `priority: high` are before the others. These do not wait for ever: the sequencer gives
 * out high ones in turns with others, and those fill the window when they wait here (priority.h).
 * The throttle (throttle.h) says when an attempt may begin. An endpoint that can begin
 * one now is in the schedule's list of runnable endpoints; one whose throttle opens later
 * is in the queue of throttles. After each change call endpoint_schedule().
 *
 * Memory only: own_grants.h owns the endpoints, and reads `rows` and `due_ms` from the
 * disk at a start. */
#ifndef DELIVERER_GRANTED_ENDPOINT_H
#define DELIVERER_GRANTED_ENDPOINT_H

#include "bounds.h"
#include "busy_lanes.h"
#include "classify.h"
#include "due_queue.h"
#include "guard.h"
#include "settings.h"
#include "sign.h"
#include "throttle.h"
#include <curl/curl.h>
#include <sys/queue.h>

struct task;

/* Reference-counted: a transfer keeps the configuration that it began with. */
struct endpoint_config {
    int users;
    uint64_t id;                       /* unique in this process */
    struct endpoint_settings settings; /* what the grant carried … */
    struct retry_policy policy;        /* … and settings.policy */
    int64_t chosen_wait_ms; /* the longest wait of policies of tasks; 0 */
    CURLU *parsed;          /* settings.url */
    bool put;               /* PUT instead of POST */
    char *headers;          /* the endpoint's own, packed */
    size_t headers_bytes;
    struct signer signer;
    struct guard address_guard; /* which addresses and ports are allowed */
};

/* GR_REFUSE and `why` (a static sentence): the configuration can't be applied. */
GR_MUST_CHECK gr_rc endpoint_config_new(struct endpoint_config **out,
                                        struct bytes wire, const char **why);
struct endpoint_config *endpoint_config_use(struct endpoint_config *c);
void endpoint_config_drop(struct endpoint_config *c); /* NULL: does nothing */

struct task_queue {
    TAILQ_HEAD(task_list, task) tasks;
    struct task
        *last_high; /* behind which the next high one comes; NULL: first */
    int count;
};

struct granted_endpoint {
    struct endpoint_config *config; /* NULL: not confirmed, begin nothing */
    struct throttle throttle;
    struct task_queue fresh, due; /* WAITING tasks: new ones, due retries */
    bool due_next;                /* the next attempt is of `due` */
    bool blocked;                 /* all waiting tasks are in busy lanes */
    int in_flight;                /* begun, and the outcome is not committed */
    int ended;                    /* of these, those that wait for the commit */
    int64_t taken;                /* deliveries that consumers have (takes.h) */
    bool temporary, report_use; /* pull.h: a consumer takes, so send `taken` */
    int64_t reported_ms;        /* mono: when that was sent; 0: never */
    int64_t rows;      /* its tasks on disk; some are in memory too … */
    int64_t rows_here; /* … so many */
    int64_t scheduled_retries; /* rows that wait for a retry */
    int64_t due_ms; /* wall: no row that is not in memory is due earlier */
    char failure[ERROR_TEXT_BYTES]; /* the last while the breaker was open */
    int64_t recovered_ms;  /* wall: pull forward retries scheduled by then; 0 */
    struct due_item alarm; /* in schedule.alarms */
    struct due_item throttle_alarm; /* in schedule.throttles */
    TAILQ_ENTRY(granted_endpoint) runnable_link;
    bool runnable; /* it is in schedule.runnable */
};

struct schedule {
    /* Endpoints that can begin an attempt now, the next one first. */
    TAILQ_HEAD(, granted_endpoint) runnable;
    struct due_queue alarms; /* endpoints with rows to read; wall, ms */
    struct due_queue
        throttles; /* endpoints whose throttle opens later; mono, us */
};

/* Its consumers take its deliveries: no attempt begins here, and tasks are rows only. */
bool endpoint_is_pulled(const struct granted_endpoint *e);
/* Of zeroed memory: no tasks, no rows. */
void endpoint_init(struct granted_endpoint *e);

/* Put it at the end of a queue, or of its high tasks: it is WAITING now. `due`: it is a due retry. */
void endpoint_push(struct granted_endpoint *e, struct task *t, bool due);
/* Take a WAITING task out of its queue. */
void endpoint_remove(struct granted_endpoint *e, struct task *t);
/* Any WAITING task; NULL: there is none. */
struct task *endpoint_first(const struct granted_endpoint *e);
/* Move a WAITING task to the front of the queue of due retries. */
void endpoint_put_first(struct granted_endpoint *e, struct task *t);
/* The next task to begin, of those received before this turn; NULL: there is none, the
 * window is full, or the throttle is closed. */
struct task *endpoint_next(struct granted_endpoint *e,
                           const struct busy_lanes *lanes, uint64_t turn,
                           int64_t now_us);
/* May this waiting task begin now? */
bool endpoint_may_begin(const struct granted_endpoint *e, const struct task *t,
                        const struct busy_lanes *lanes, int64_t now_us);
/* The lane of this task; 0: it is in no lane. Only if the endpoint is confirmed. */
uint64_t endpoint_lane(const struct granted_endpoint *e, const struct task *t);
/* How many tasks are WAITING. */
int endpoint_waiting(const struct granted_endpoint *e);
/* A row that is not in memory will be due at `ms`. */
void endpoint_row_due(struct granted_endpoint *e, int64_t ms);
/* The same for a task that has failed just now: an open breaker lets a probe begin by then. */
void endpoint_retry_due(struct granted_endpoint *e, int64_t ms);

/* Put it into the lists and queues in which it belongs now, and take it out of others. */
void endpoint_schedule(struct granted_endpoint *e, struct schedule *s);
/* Move it to the end of the list of runnable endpoints. */
void endpoint_rotate(struct granted_endpoint *e, struct schedule *s);
/* Schedule endpoints whose throttle has opened by now. */
void schedule_wake(struct schedule *s, int64_t now_us);
/* How long until the next throttle opens; -1: no throttle waits for a time. */
int schedule_wait_ms(const struct schedule *s);
void schedule_init(struct schedule *s);
void schedule_fini(struct schedule *s);

#endif
