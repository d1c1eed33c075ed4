/* lanes: which delivery of an ordered endpoint waits for which.
 *
 * In an ordered lane (lane.h) at most one delivery is not `behind`: the head. It waits to be
 * dispatched, or is at the deliverer, or is final while a dropped copy of it may still be
 * there. When the head is final and no copy is out, the next delivery by `route_order`
 * becomes the head. This is one half of promise P5 (docs/PROMISES.md) in the sequencer; the
 * other half is in grants.c: a delivery with an ended grant is not out.
 * tests/model/grants.pml has both.
 *
 * In a halted lane (`on_dead: halt`) only deliveries up to the dead letter that halts it
 * become the head: those that an operator requeues.
 *
 * All state is in rows of the turn's transaction; memory has only the number of halting
 * dead letters of each endpoint. */
#ifndef SEQUENCER_LANES_H
#define SEQUENCER_LANES_H

#include "lane.h"

struct sequencer;
struct endpoint;
struct delivery;
struct workspace;

/* The workspace of this name, with the number of its lanes; added if it is new. */
struct workspace *lanes_workspace(struct sequencer *q, const char *name);
/* The lane of a delivery of an event with this workspace and ordering key (NULL, "": none). If the
 * endpoint is not ordered, call this once for each delivery that is added: the workspace's next one
 * is behind it. */
struct lane lanes_of(struct sequencer *q, struct endpoint *e,
                     struct workspace *ws, const char *ordering_key,
                     enum priority priority);
/* The same for a delivery that is sent again: in a queue, those of all workspaces have a share
 * together, so that it is before the backlog of its workspace and never stops the others. */
struct lane lanes_of_reopened(struct endpoint *e, const struct workspace *ws,
                              const char *ordering_key, enum priority priority);
/* A delivery in this lane is dispatched, or ends without that. In a queue, the round of the last one
 * is the present one. */
void lanes_reached(struct sequencer *q, struct endpoint *e, int64_t lane);
/* The last lane of a round that begins now. Lanes of later workspaces are above it, so a
 * round ends, however many workspaces are added meanwhile. */
int64_t lanes_round_end(const struct sequencer *q, const struct endpoint *e);
/* A new delivery in this lane has to wait for others. */
bool lanes_busy(struct sequencer *q, const struct endpoint *e,
                struct lane lane);
/* A delivery has left this lane: which one is its next head? 0: the lane has a head, is halted there, or
 * has no delivery. `*next_ms` (wall) is when the retry of that one is due. Changes nothing. */
int64_t lanes_next(struct sequencer *q, const struct endpoint *e,
                   struct lane lane, int64_t *next_ms);
/* The same, and it becomes the head, which waits to be dispatched. May be called for any lane,
 * and more than once. */
void lanes_freed(struct sequencer *q, struct endpoint *e, struct lane lane);

/* A delivery was dead-lettered: halt its lane if the settings say so. */
void lanes_halt(struct sequencer *q, struct endpoint *e, const char *event_id,
                const struct delivery *d);
/* It was delivered, or a person has decided: its lane continues. */
void lanes_unhalt(struct sequencer *q, struct endpoint *e, int64_t event,
                  struct lane lane);

/* The endpoint has new settings, perhaps with another `ordered`. */
void lanes_configure(struct sequencer *q, struct endpoint *e);
/* Continue moving an endpoint's deliveries to other lanes; returns how many rows that
 * took, at most `max`. */
int lanes_work(struct sequencer *q, struct endpoint *e, int max);

#endif
