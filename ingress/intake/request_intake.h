/* request_intake: stores each verified request as a row of the archive (a batch as several:
 * batches.h). The commit of that row passes the responsibility: before it the provider owns the
 * event (it gets no 2xx, whatever happens, and sends the event again), after it Grapnel does.
 *
 * turn.c calls it in each turn: intake_work(), then intake_flush() after the commit, or
 * intake_undo() after a rollback. admission.c adds requests. A crash loses requests that have
 * no response yet. */
#ifndef INGRESS_REQUEST_INTAKE_H
#define INGRESS_REQUEST_INTAKE_H

#include "batches.h"
#include "http.h"

struct ingress;

/* Providers stop waiting after about this time. */
enum { STORE_MAX_MS = 5000 };

struct intake {
    struct request_list pending; /* verified, in order of arrival */
    struct request_list stored;  /* inserted by this turn */
    struct batches batches;
    int64_t pending_count;
    /* Set by turn.c: store all pending requests in one commit, not half of them. */
    bool whole;
    /* Requests received before the watermark request and not yet stored to their end: those up
     * to this arrival. */
    int64_t ahead_count;
    uint64_t arrivals, ahead_arrival;
    int64_t stored_count;    /* events of this turn */
    int64_t responded_count; /* requests that the last commit responded to */
    int64_t
        lines_since_ms; /* mono: refusals logged since, at most 50 a second */
    int lines;
    struct buf message; /* to the sequencer, being made */
    struct buf rest;    /* a body without the events of erased workspaces */
};

extern const struct http_ops intake_http_ops; /* self: struct ingress */

void intake_open(struct intake *t);
/* Queue a verified request; this turn or a later one stores it. */
void intake_take(struct ingress *g, struct request *r);
/* A watermark request has come: count the requests before it. */
void intake_watermark_requested(struct intake *t);
/* Its last row is inserted, or it was refused. */
void intake_leaves(struct intake *t, const struct request *r);
/* Store one row of a request. `head`: the request's headers are stored apart, and this is the
 * number of the first row; 0: the row has them. An event without an id gets one. An id made
 * from an idempotency key may be in the archive already: then it is the same event, and there
 * is nothing to do, or another one, which is refused. The bytes written or compared are
 * subtracted from `*bytes`. */
enum response intake_store_row(struct ingress *g, const struct request *r,
                               struct bytes body, char id[EVENT_ID_BYTES + 1],
                               int64_t head, int64_t *bytes);
/* Inside the transaction: store a limited number of rows. */
void intake_work(struct ingress *g);
void intake_flush(struct ingress *g); /* after the commit: respond 200 */
void intake_undo(struct ingress *g);  /* after a rollback: respond 503 */
/* During a commit: respond 503 to requests that have waited too long; to all if `all`. The
 * commit may still store them. */
void intake_give_up(struct ingress *g, bool all);
/* A group is large enough that committing it in a thread is worth it, as the loop reads on
 * meanwhile. For fewer requests the switch costs more. */
bool intake_has_group(const struct intake *t);    /* a group waits */
bool intake_stored_group(const struct intake *t); /* this turn stored one */
/* No request waits for storage or a response. */
bool intake_idle(const struct ingress *g);
/* The next turn has a request to store or to respond to. */
bool intake_has_more(const struct ingress *g);
void intake_close(struct ingress *g);

#endif
