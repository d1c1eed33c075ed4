/* delivery: one event on its way to one endpoint. This module loads and saves the rows
 * of `deliveries` and is the only one that changes a delivery's status.
 *
 *   from       to         when
 *   WAITING    IN_FLIGHT  it is given out to its endpoint's deliverer
 *   WAITING    RETRYING   the same, before its scheduled retry is due
 *   IN_FLIGHT  RETRYING   an attempt failed, and another is scheduled
 *   RETRYING   RETRYING   the same again
 *   IN_FLIGHT  WAITING    its grant ended, or its deliverer released it or lost it
 *   RETRYING   WAITING    the same
 *   any open   DELIVERED  an attempt succeeded
 *   DEAD       DELIVERED  an attempt succeeded, and its result came late
 *   any open   DEAD       no attempt is left, or somebody gave it up
 *   DELIVERED  WAITING    an operator sends it again
 *   DEAD       WAITING    the same
 *
 * A copy of a delivery is out when the delivery carries its endpoint's present grant: its
 * deliverer has it. A delivery that becomes final while a copy is out keeps the grant,
 * and with it its lane and its slot of the window, until the deliverer has dropped the
 * copy or the grant has ended.
 *
 * Everything happens inside the turn's transaction; a crash before its commit leaves
 * the row as it was. */
#ifndef SEQUENCER_DELIVERY_H
#define SEQUENCER_DELIVERY_H

#include "alloc.h"
#include "bounds.h"
#include "rc.h"
#include "row.h"

struct sequencer;
struct endpoint;
struct workspace;

/* On disk forever; those below DELIVERED are open. */
enum delivery_status {
    DELIVERY_WAITING = 0,
    DELIVERY_IN_FLIGHT = 1,
    DELIVERY_RETRYING = 2,
    DELIVERY_DELIVERED = 3,
    DELIVERY_DEAD = 4,
};

/* The columns of a row that are set when it is inserted and never change … */
#define DELIVERY_FIXED(F, X) \
    F(i64, event)            \
    X(i64, endpoint)         \
    X(u64, previous)         \
    X(i64, route_order)
/* … what it is made of and what changes, … */
#define DELIVERY_STATE(F, X) \
    F(number, status)        \
    X(u64, grant_id)         \
    X(u64, out_n)            \
    X(i64, generation)       \
    X(i64, lane)             \
    X(flag, behind)          \
    X(u64, action_id)        \
    X(flag, sent)            \
    X(i64, reopened_ms)
/* … and what its attempts came to. */
#define DELIVERY_ATTEMPTS(F, X) \
    F(i64, attempts)            \
    X(i64, earlier)             \
    X(i64, first_ms)            \
    X(i64, next_ms)             \
    X(i64, at_ms)               \
    X(i64, duration_ms)         \
    X(i64, http_status)         \
    X(own, error)               \
    X(own, reason)              \
    X(own, deliverer)           \
    X(i64, paused_ms)           \
    X(i64, died)
#define DELIVERY_NEW(F, X)     DELIVERY_FIXED(F, X) DELIVERY_STATE(X, X)
#define DELIVERY_CHANGES(F, X) DELIVERY_STATE(F, X) DELIVERY_ATTEMPTS(X, X)
#define DELIVERY_COLUMNS(F, X) DELIVERY_FIXED(F, X) DELIVERY_CHANGES(X, X)
/* The texts belong to it, and are not NULL after delivery_load(). `status` is written by
 * delivery_move() alone. */
struct delivery {
    ROW_FIELDS(DELIVERY_COLUMNS)
    /* No column; "" until somebody needs it. */
    char event_id[EVENT_ID_BYTES + 1];
};

/* The statements of `deliveries`; part of the sequencer's store. */
struct deliveries;
struct deliveries *deliveries_open(struct db *db);
void deliveries_close(struct deliveries *s);

/* false: there is none. Call delivery_fini() in any case. */
bool delivery_load(struct deliveries *s, int64_t event, int64_t endpoint,
                   struct delivery *d);
void delivery_fini(struct delivery *d);
/* Write all but event, endpoint, previous and route_order. For what is no change of status:
 * delivery_move() writes the row, too. */
void delivery_save(struct deliveries *s, const struct delivery *d);
bool delivery_exists(struct deliveries *s, int64_t event, int64_t endpoint);
/* For each delivery of an event, by the endpoint's name. `d` lives until `fn` returns. */
typedef void delivery_fn(void *arg, const struct delivery *d,
                         const char *endpoint);
void deliveries_of_event(struct deliveries *s, int64_t event, delivery_fn *fn,
                         void *arg);

const char *delivery_status_name(int status);
/* A copy of it is out. */
bool delivery_is_out(const struct endpoint *e, const struct delivery *d);
/* How messages of the link refer to a delivery. */
int64_t delivery_ref(int64_t event, int64_t endpoint);

/* ---- new ones ---- */

/* Add a delivery to `e` of an event of this workspace, and give it out if it may go now.
 * `d` has its event, route_order, previous number and origin; the rest is filled in. */
void delivery_add(struct sequencer *q, struct endpoint *e, struct workspace *ws,
                  struct delivery *d);
/* Add one that is dead already: dlqd has its dead letter, this database is older. */
void delivery_add_dead(struct sequencer *q, const struct delivery *d);

/* ---- changes of status ---- */

struct delivery_cause {
    /* The deliverer of the endpoint reported it under the present grant. A copy that it
     * had has ended with that. */
    bool reported;
    const char *reason; /* to DEAD: one word of docs/OUTCOMES.md */
    const char *error; /* to DEAD: a sentence; NULL: that of the last attempt */
    struct bytes response; /* to DEAD: the last one, for the dead letter */
};

/* Change its status and write the row. Logs and counts it, tells the deliverer to drop a
 * copy that is out, hands a dead letter to dlqd, lets the next of its lane go, and ends
 * the event with its last delivery. A change that the table does not allow is a bug, and
 * ends the process before it is on disk. */
void delivery_move(struct sequencer *q, struct endpoint *e, struct delivery *d,
                   enum delivery_status to, const struct delivery_cause *why);
/* A final delivery begins a new generation, in front of all that wait in its lane.
 * `action_id` is the operator's action; 0: its dead letter was requeued. */
void delivery_reopen(struct sequencer *q, struct endpoint *e,
                     struct delivery *d, const char *workspace,
                     uint64_t action_id);
/* The copy of a final delivery that was out is gone. */
void delivery_copy_gone(struct sequencer *q, struct endpoint *e,
                        struct delivery *d);

/* ---- many at once ---- */

/* Give out one that waits: as IN_FLIGHT, or as RETRYING if its retry is due only at
 * `next_ms` (wall). */
void delivery_dispatch(struct sequencer *q, struct endpoint *e, int64_t event,
                       int64_t next_ms);
/* Deliveries that carry an ended grant of this endpoint, at most `max` (up to
 * SWEEP_MAX): open ones wait again, and of final ones no copy is out any more. `lossy`:
 * an attempt whose result never came may have reached the endpoint. Returns how many. */
enum { SWEEP_MAX = 256 };
int deliveries_sweep(struct sequencer *q, struct endpoint *e, uint64_t grant,
                     bool lossy, int max);

#endif
