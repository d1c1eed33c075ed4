/* batches: requests of several lines. They are judged and stored in pieces, one per turn, so
 * that a large one delays neither single requests nor batches of other sources.
 *
 * No line is stored before all are judged and fit the rate of the producer. Then each turn
 * stores a piece, in the commit of that turn, and the response follows the commit of the last
 * piece. A crash in between leaves the committed pieces; the client has no response and sends
 * the batch again. If ingress must stop in between (the disk is full or stalls, shutdown), the
 * response says for each line whether it is stored.
 *
 * Sources take turns; the batches of one source follow each other in order of arrival. A batch
 * whose storing has begun is stored to its end, even if its client disconnects. */
#ifndef INGRESS_BATCHES_H
#define INGRESS_BATCHES_H

#include "http.h"

struct ingress;

struct batches {
    TAILQ_HEAD(batch_queues, batch_queue)
    queues;        /* of sources; the next one first */
    int64_t count; /* requests not yet stored to their end */
    /* The batch of which this turn stored a piece that is not its last; or NULL. */
    struct request *piece;
};

void batches_open(struct batches *b);
/* Queue a verified batch; `r->lines` is new. */
void batches_take(struct ingress *g, struct request *r);
/* Inside the transaction: a limited number of bytes and rows. Batches stored to their end are
 * then in intake.stored. */
void batches_work(struct ingress *g);
/* After the turn's commit; after its rollback. */
void batches_committed(struct ingress *g);
void batches_undo(struct ingress *g);
/* Respond to all: lines not yet committed are refused for this reason. */
void batches_give_up(struct ingress *g, enum response why);
/* Respond to a batch that is stored to its end (RESPONSE_ACCEPTED), or whose uncommitted lines
 * are refused for this reason. */
void batch_respond(struct ingress *g, struct request *r, enum response a);

#endif
