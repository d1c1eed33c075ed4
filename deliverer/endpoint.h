/* endpoint: what an attempt needs to know, and whose turn it is.
 *
 * Its configuration comes with the grant and lives in memory only (it holds
 * secrets). Two queues wait for room in flight: those that came just now, and
 * retries that are due; they take turns, so that neither new work nor a backlog
 * that comes due at once keeps the other from being tried. The gate (gate.h)
 * says when. An endpoint that may begin something now is in the line of the
 * runnable; one that must wait for a time, in the heap of gates. */
#ifndef DELIVERER_ENDPOINT_H
#define DELIVERER_ENDPOINT_H

#include "bounds.h"
#include "classify.h"
#include "gate.h"
#include "guard.h"
#include "heap.h"
#include "lanes.h"
#include "settings.h"
#include "sign.h"
#include <curl/curl.h>

struct task;

/* Counted: a flight keeps the one that it began with. */
struct endpoint_config {
    int users;
    uint64_t id; /* no other of this process has it */
    char *url;
    CURLU *parsed; /* the same */
    bool put;      /* PUT instead of POST */
    char *headers;
    size_t headers_bytes;
    struct signer signer;
    struct guard guard;
    struct tls tls; /* PEM; NULL where not set */
    int64_t timeout_ms, connect_timeout_ms;
    int max_in_flight;
    int ordered; /* enum order_lanes */
    struct rate rate;
    bool breaker;
    bool holds; /* `guard`: hold.h */
    struct retry_policy policy;
};

/* GR_REFUSE and `why` (a static sentence): we could not do what it says. */
GR_MUST_CHECK gr_rc endpoint_config_new(struct endpoint_config **out,
                                        struct bytes wire, const char **why);
struct endpoint_config *endpoint_config_use(struct endpoint_config *c);
void endpoint_config_drop(struct endpoint_config *c); /* NULL: nothing */

struct queue {
    struct task *first, *last;
    int count;
};

struct endpoint {
    struct endpoint_config *config; /* NULL: not confirmed, begin nothing */
    struct gate gate;
    struct queue fresh, due;
    bool due_next;     /* whose turn it is */
    bool blocked;      /* what waits is in lanes that are busy */
    int in_flight;     /* begun, and not yet committed as ended */
    int ended;         /* of them: answered, waiting for the commit */
    int64_t rows;      /* on disk; those in memory included … */
    int64_t rows_here; /* … and how many of them are in memory */
    int64_t parked;    /* of them, those that wait for a retry */
    int64_t due_ms;    /* no row that is not in memory is due before */
    char failure[ERROR_TEXT_BYTES]; /* the last while the breaker was open */
    int64_t recovered_ms;   /* wall: pull forward what was parked by then; 0 */
    struct heap_item alarm; /* in the schedule's heap of rows to come */
    struct heap_item gate_alarm; /* … and of gates that open by time */
    struct endpoint *runnable_next, *runnable_prev;
    bool runnable;
};

struct schedule {
    struct endpoint *first, *last; /* can begin something now, in turn */
    struct heap alarms;            /* wait for a row to be due; wall, ms */
    struct heap gates;             /* wait for their gate; mono, us */
};

void endpoint_push(struct endpoint *e, struct task *t, bool due);
void endpoint_remove(struct endpoint *e, struct task *t); /* it was WAITING */
/* Move a WAITING task to the front of the queue of due retries. */
void endpoint_put_first(struct endpoint *e, struct task *t);
/* The next to begin, of those that came before this turn; NULL: none, or no
 * room, or not now. */
struct task *endpoint_next(struct endpoint *e, const struct lanes *lanes,
                           uint64_t turn, int64_t now_us);
/* This one, which waits, may begin now. */
bool endpoint_may_begin(const struct endpoint *e, const struct task *t,
                        const struct lanes *lanes, int64_t now_us);
/* The lane of its task, which is confirmed; 0: it is in none. */
uint64_t endpoint_lane(const struct endpoint *e, const struct task *t);
/* It would begin more if its due rows were in memory. */
bool endpoint_wants_rows(const struct endpoint *e);
int endpoint_waiting(const struct endpoint *e);
/* A row that is not in memory will be due at `ms`. */
void endpoint_row_due(struct endpoint *e, int64_t ms);
/* The same of one that failed just now: an open breaker waits no longer. */
void endpoint_retry_due(struct endpoint *e, int64_t ms);

/* Put it into, or take it off, what it belongs to, as it is now. */
void endpoint_schedule(struct endpoint *e, struct schedule *s);
/* Go to the end of the line. */
void endpoint_rotate(struct endpoint *e, struct schedule *s);
/* Whose gate has opened by now. */
void schedule_wake(struct schedule *s, int64_t now_us);
/* Until the next does; -1: none. */
int schedule_wait_ms(const struct schedule *s);
void schedule_fini(struct schedule *s);

#endif
