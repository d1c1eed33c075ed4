/* granted_endpoint: an endpoint for which this deliverer has a grant: its configuration,
 * its queues, and when its next attempt may begin.
 *
 * The configuration arrives with the grant and is kept in memory only, because it
 * contains secrets. Tasks wait in two queues: new ones and due retries. The queues take
 * turns, so that neither new tasks nor a large number of due retries stops the other.
 * The throttle (throttle.h) says when an attempt may begin. An endpoint that can begin
 * one now is in the schedule's list of runnable endpoints; one whose throttle opens later
 * is in the heap of throttles. */
#ifndef DELIVERER_GRANTED_ENDPOINT_H
#define DELIVERER_GRANTED_ENDPOINT_H

#include "bounds.h"
#include "busy_lanes.h"
#include "classify.h"
#include "guard.h"
#include "heap.h"
#include "settings.h"
#include "sign.h"
#include "throttle.h"
#include <curl/curl.h>

struct task;

/* Counted: a transfer keeps the one that it began with. */
struct endpoint_config {
    int users;
    uint64_t id;                       /* no other of this process has it */
    struct endpoint_settings settings; /* what the grant carried … */
    struct retry_policy policy;        /* … and settings.policy */
    CURLU *parsed;                     /* settings.url */
    bool put;                          /* PUT instead of POST */
    char *headers;                     /* the endpoint's own, packed */
    size_t headers_bytes;
    struct signer signer;
    struct guard address_guard;
};

/* GR_REFUSE and `why` (a static sentence): the configuration can't be applied. */
GR_MUST_CHECK gr_rc endpoint_config_new(struct endpoint_config **out,
                                        struct bytes wire, const char **why);
struct endpoint_config *endpoint_config_use(struct endpoint_config *c);
void endpoint_config_drop(struct endpoint_config *c); /* NULL: nothing */

struct queue {
    struct task *first, *last;
    int count;
};

struct granted_endpoint {
    struct endpoint_config *config; /* NULL: not confirmed, begin nothing */
    struct throttle throttle;
    struct queue fresh, due;
    bool due_next;             /* the next attempt is of `due` */
    bool blocked;              /* all waiting tasks are in busy lanes */
    int in_flight;             /* begun, and not yet committed as ended */
    int ended;                 /* of them: answered, waiting for the commit */
    int64_t rows;              /* on disk; those in memory included … */
    int64_t rows_here;         /* … and how many of them are in memory */
    int64_t scheduled_retries; /* of them, those that wait for a retry */
    int64_t due_ms;            /* no row that is not in memory is due before */
    char failure[ERROR_TEXT_BYTES]; /* the last while the breaker was open */
    int64_t recovered_ms; /* wall: pull forward retries scheduled by then; 0 */
    struct heap_item alarm; /* in the schedule's heap of rows to come */
    struct heap_item throttle_alarm; /* … and of throttles that open by time */
    struct granted_endpoint *runnable_next, *runnable_prev;
    bool runnable;
};

struct schedule {
    struct granted_endpoint *first,
        *last;             /* can begin something now, in turn */
    struct heap alarms;    /* wait for a row to be due; wall, ms */
    struct heap throttles; /* wait for their throttle; mono, us */
};

void endpoint_push(struct granted_endpoint *e, struct task *t, bool due);
void endpoint_remove(struct granted_endpoint *e,
                     struct task *t); /* it was WAITING */
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
/* It could begin more attempts if its due rows were in memory. */
bool endpoint_needs_rows(const struct granted_endpoint *e);
int endpoint_waiting(const struct granted_endpoint *e);
/* A row that is not in memory will be due at `ms`. */
void endpoint_row_due(struct granted_endpoint *e, int64_t ms);
/* The same for a task that failed just now: an open breaker waits no longer than that. */
void endpoint_retry_due(struct granted_endpoint *e, int64_t ms);

/* Put it into the lists and heaps in which it belongs now, and take it out of others. */
void endpoint_schedule(struct granted_endpoint *e, struct schedule *s);
/* Move it to the end of the list of runnable endpoints. */
void endpoint_rotate(struct granted_endpoint *e, struct schedule *s);
/* Schedule endpoints whose throttle has opened by now. */
void schedule_wake(struct schedule *s, int64_t now_us);
/* How long until the next throttle opens; -1: no throttle waits for a time. */
int schedule_wait_ms(const struct schedule *s);
void schedule_fini(struct schedule *s);

#endif
