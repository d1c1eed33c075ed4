/* batches: requests of several lines. They are judged and stored in pieces, one a turn, so
 * that a large one keeps neither single requests nor other sources' batches waiting.
 *
 * Nothing of a batch is stored before all of it is judged and fits into its producer's
 * rate. Then each turn stores a piece, in that turn's commit, and the response follows the
 * commit of the last. A crash in between leaves the pieces that are committed; the client
 * has no response, and sends the batch again. When ingress must stop in between (the disk
 * is full or stalls, shutdown), the response says of each line whether it is stored.
 *
 * Sources take turns; the batches of one source follow each other in order of arrival. One
 * that has begun is stored to its end, also when its client is gone. */
#ifndef INGRESS_BATCHES_H
#define INGRESS_BATCHES_H

#include "http.h"

struct ingress;

struct batches {
    TAILQ_HEAD(batch_queues, batch_queue)
    queues;        /* of sources, the next first */
    int64_t count; /* requests that are not stored to their end */
    /* The one of which the turn under way has stored a piece, and not its last; or NULL. */
    struct request *piece;
};

void batches_open(struct batches *b);
/* Its head is judged; `r->lines` is new. */
void batches_take(struct ingress *g, struct request *r);
/* Inside the transaction: a bounded number of bytes and rows. Those that are stored to
 * their end are in intake.stored. */
void batches_work(struct ingress *g);
/* The turn's commit has ended; it was rolled back. */
void batches_committed(struct ingress *g);
void batches_undo(struct ingress *g);
/* Respond to all: what is not stored will not be, for this reason. */
void batches_give_up(struct ingress *g, enum response why);
/* Respond to one that is stored to its end (RESPONSE_ACCEPTED), or of which the lines that
 * are not committed will not be stored. */
void batch_respond(struct ingress *g, struct request *r, enum response a);

#endif
