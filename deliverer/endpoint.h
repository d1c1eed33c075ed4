/* endpoint: what an attempt needs to know, and whose turn it is.
 *
 * Its configuration comes with the grant and lives in memory only (it holds
 * secrets). Two queues wait for room in flight: those that came just now, and
 * rows that are due; they take turns, so that neither new work nor a backlog
 * that comes due at once keeps the other from being tried. */
#ifndef DELIVERER_ENDPOINT_H
#define DELIVERER_ENDPOINT_H

#include "bounds.h"
#include "guard.h"
#include "heap.h"
#include "settings.h"
#include "sign.h"

struct task;

/* Counted: a flight keeps the one that it began with. */
struct endpoint_config {
    int users;
    uint64_t id; /* no other of this process has it */
    char *url;
    bool put; /* PUT instead of POST */
    char *headers;
    size_t headers_bytes;
    struct signer signer;
    struct guard guard;
    struct tls tls; /* PEM; NULL where not set */
    int64_t timeout_ms, connect_timeout_ms;
    int max_in_flight;
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
    struct queue fresh, due;
    bool due_next;          /* whose turn it is */
    int in_flight;          /* begun, and not yet committed as ended */
    int ended;              /* of them: answered, waiting for the commit */
    int64_t rows;           /* on disk; those in memory included … */
    int64_t rows_here;      /* … and how many of them are in memory */
    int64_t parked;         /* of them, those that wait for a retry */
    int64_t due_ms;         /* no row that is not in memory is due before */
    struct heap_item alarm; /* in the deliverer's heap of rows to come */
    struct endpoint *runnable_next, *runnable_prev;
    bool runnable;
};

/* Endpoints that can begin something now, in turn. */
struct runnable {
    struct endpoint *first, *last;
};

void endpoint_push(struct endpoint *e, struct task *t, bool due);
void endpoint_remove(struct endpoint *e, struct task *t); /* it was WAITING */
/* The next to begin; NULL: none, or no room. */
struct task *endpoint_next(struct endpoint *e);
bool endpoint_can_begin(const struct endpoint *e);
/* It would begin more if its due rows were in memory. */
bool endpoint_wants_rows(const struct endpoint *e);
int endpoint_waiting(const struct endpoint *e);
/* A row that is not in memory will be due at `ms`. */
void endpoint_row_due(struct endpoint *e, int64_t ms);
/* Put it into, or take it off, both lists, as it is now. */
void endpoint_schedule(struct endpoint *e, struct runnable *runnable,
                       struct heap *alarms);
/* Go to the end of the line. */
void endpoint_rotate(struct endpoint *e, struct runnable *runnable);

#endif
