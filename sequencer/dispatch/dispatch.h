/* dispatch: decides which waiting delivery is sent to its endpoint's deliverer, and when.
 *
 * An endpoint has at most its window out (dispatch_window.h): a slow endpoint, or one that
 * is down, does not slow the others, as its further deliveries wait here, on disk.
 * Endpoints take turns, and so do the lanes of one endpoint (lane.h), a few deliveries of
 * each, so that neither an endpoint nor a workspace with a long backlog starves the rest.
 * Each choice is a search in the index of waiting deliveries, however many those are. */
#ifndef SEQUENCER_DISPATCH_H
#define SEQUENCER_DISPATCH_H

#include "alloc.h"

struct sequencer;
struct endpoint;
struct event_row;
struct event_content;
struct delivery;

/* A new delivery to this endpoint, or the new head of a lane, may be dispatched at once: no other one
 * waits for it. */
bool dispatch_at_once(const struct sequencer *q, const struct endpoint *e);
/* Once a turn, inside its transaction: dispatch a bounded number of deliveries. Returns 0:
 * there is more to do; -1: there is not. */
int dispatch_work(struct sequencer *q);
/* Dead-letter the deliveries whose event was found damaged as its task was encoded. */
void dispatch_damaged(struct sequencer *q);

/* Append a delivery's task: what its deliverer is to send, and where. `d` has its number in
 * the link's log. */
void dispatch_encode_task(struct sequencer *q, struct endpoint *e,
                          const struct event_row *ev, const struct delivery *d,
                          const struct event_content *content, struct buf *out);
/* Messages of the link to the deliverer `peer`, as they leave. `ref` is a delivery_ref(), `n`
 * the row's number in the link's log. false: the message no longer applies. */
bool dispatch_load(struct sequencer *q, const char *peer, uint64_t n,
                   int64_t ref, struct buf *out);
bool dispatch_load_dropped(struct sequencer *q, int64_t ref, struct buf *out);
bool dispatch_load_retry_now(struct sequencer *q, const char *peer, int64_t ref,
                             struct buf *out);

#endif
