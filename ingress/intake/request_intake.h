/* request_intake: one verified request becomes one row of the archive (a batch several:
 * batches.h), and that row's commit is the line where responsibility passes:
 * before it the provider owns the event (whatever goes wrong, it gets no 2xx and
 * sends the event again), after it we do. */
#ifndef INGRESS_REQUEST_INTAKE_H
#define INGRESS_REQUEST_INTAKE_H

#include "batches.h"
#include "http.h"

struct ingress;

/* Later than this the provider has given us up. */
enum { STORE_MAX_MS = 5000 };

struct intake {
    struct request_list pending; /* verified, in order of arrival */
    struct request_list stored;  /* inserted by the turn that is under way */
    struct batches batches;
    int64_t pending_count;
    /* Requests that wait to be stored, or to be stored to their end, and came before the
     * watermark request: those up to this arrival. */
    int64_t ahead_count;
    uint64_t arrivals, ahead_arrival;
    int64_t stored_count;   /* events of this turn */
    int64_t told_count;     /* requests that the last commit answered */
    int64_t lines_since_ms; /* mono: refusals are logged, but not a flood */
    int lines;
    struct buf message; /* to the sequencer, being made */
};

extern const struct http_ops intake_http_ops; /* self: struct ingress */

void intake_open(struct intake *t);
/* It has passed ingress: it is stored in this turn or a later one. */
void intake_take(struct ingress *g, struct request *r);
/* A watermark request has come: count what is ahead of it. */
void intake_watermark_requested(struct intake *t);
/* It waits no longer: its last row is inserted, or it was refused. */
void intake_leaves(struct intake *t, const struct request *r);
/* One row of a request. `head`: its request's headers are stored apart, and this is the
 * number of the first row; 0: they are stored with it. Without an id it gets one. One
 * that it brings, made of its idempotency key, may be there already: then it is the same
 * event, and there is nothing to do, or another, which is refused. What was written, or
 * compared, is subtracted from `*bytes`. */
enum response intake_store_row(struct ingress *g, const struct request *r,
                               struct bytes body, char id[EVENT_ID_BYTES + 1],
                               int64_t head, int64_t *bytes);
/* Inside the transaction: a bounded number of rows. */
void intake_work(struct ingress *g);
void intake_flush(struct ingress *g); /* 200 */
void intake_undo(struct ingress *g);  /* 503 */
/* While a commit is under way: 503 to those who have waited too long, to all when
 * `all`. Theirs may still be stored by it. */
void intake_give_up(struct ingress *g, bool all);
/* A group is so many that a commit of them is worth a thread, as we can read on
 * meanwhile. For a few the way there and back costs more. */
bool intake_has_group(const struct intake *t);    /* it waits to be stored */
bool intake_stored_group(const struct intake *t); /* by this turn */
/* Nobody is left waiting for us. */
bool intake_idle(const struct ingress *g);
/* The next turn has something to store, or to respond to. */
bool intake_has_more(const struct ingress *g);
void intake_close(struct ingress *g);

#endif
