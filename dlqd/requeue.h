/* requeue: requeues a dead letter on an operator's request. */
#ifndef DLQD_REQUEUE_H
#define DLQD_REQUEUE_H

#include "dlqd.h"

/* dead → requeued, and the message to the sequencer, in the open transaction: both or neither.
 * `who`: the operator's name, or NULL. false: it is in another state, and `why` says so. */
bool requeue_dead_letter(struct dlqd *d, const char *id, const char *who,
                         char why[200]);

/* The stored headers and body of a dead letter, valid until store_content_done(). false: they are
 * missing or damaged. */
bool letter_content(struct dlqd *d, const struct dead_letter *l,
                    struct bytes *headers, struct bytes *body);
/* Whether the stored event, here or where it came from, differs from what was accepted: then it
 * must not be sent to any endpoint. `why` says so. */
bool letter_damaged(struct dlqd *d, const struct dead_letter *l, char why[200]);

/* Callbacks of links.h for the log of this process: requeues, decisions and redirects. */
bool requeue_load(void *self, const char *peer, uint64_t n, int kind,
                  int64_t ref, struct buf *out);
/* The link was rewound: put all open requeues into the log again. The sequencer accepts one only
 * for a delivery that is dead in that generation. */
void requeue_rewound(void *self, const char *peer, bool we_are_older);

/* Give requeues that are to be sent again to the link, a limited number. Returns ms until it
 * must be called again, negative: not needed. */
int requeue_work(struct dlqd *d);

#endif
