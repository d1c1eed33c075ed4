/* delivery: one event on its way to one endpoint. This module loads and saves the rows
 * of `deliveries` and is the only one that changes a delivery's status.
 *
 *   from       to         when
 *   WAITING    IN_FLIGHT  it is dispatched to its endpoint's deliverer
 *   WAITING    RETRYING   the same, before its scheduled retry is due
 *   IN_FLIGHT  RETRYING   an attempt failed, and another is scheduled
 *   RETRYING   RETRYING   the same again
 *   IN_FLIGHT  WAITING    its grant ended, or its deliverer returned it or lost it
 *   RETRYING   WAITING    the same
 *   any open   DELIVERED  an attempt succeeded
 *   DEAD       DELIVERED  an attempt succeeded, and its result came late
 *   any open   DEAD       no attempt is left, or a person abandoned it
 *   any open   ABANDONED  the same, for a temporary endpoint: it has no dead letter
 *   ABANDONED  DELIVERED  an attempt succeeded, and its result came late
 *   DELIVERED  WAITING    an operator sends it again
 *   DEAD       WAITING    the same
 *   ABANDONED  WAITING    the same
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
#include "lane.h"
#include "rc.h"
#include "row.h"

struct sequencer;
struct endpoint;
struct event_row;
struct event_content;

/* These numbers are stored: never change them. Those below DELIVERED are open. */
enum delivery_status {
    DELIVERY_WAITING = 0,
    DELIVERY_IN_FLIGHT = 1,
    DELIVERY_RETRYING = 2,
    DELIVERY_DELIVERED = 3,
    DELIVERY_DEAD = 4,
    DELIVERY_ABANDONED = 5, /* delivery_move() makes it of DEAD */
};

/* The columns that are set when a row is inserted and never change, … */
#define DELIVERY_FIXED(F, X) \
    F(i64, event)            \
    X(i64, endpoint)         \
    X(u64, previous)         \
    X(i64, route_order)
/* … those that are also set later, … */
#define DELIVERY_STATE(F, X) \
    F(number, status)        \
    X(u64, grant_id)         \
    X(u64, out_n)            \
    X(i64, generation)       \
    X(i64, lane)             \
    X(i64, lane_key)         \
    X(flag, behind)          \
    X(u64, action_id)        \
    X(flag, sent)            \
    X(i64, reopened_ms)      \
    X(own_or_null, retry_choice)
/* … and the results of its attempts. */
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
/* It owns its texts. After delivery_load() only `retry_choice` may be NULL. Only delivery.c writes
 * `status`. */
struct delivery {
    ROW_FIELDS(DELIVERY_COLUMNS)
    /* Not a column; "" until a log line needs it. */
    char event_id[EVENT_ID_BYTES + 1];
};

static inline struct lane delivery_lane(const struct delivery *d)
{
    return (struct lane){d->lane, d->lane_key};
}

/* The statements of `deliveries`; part of the sequencer's store. */
struct deliveries;
struct deliveries *deliveries_open(struct db *db);
void deliveries_close(struct deliveries *s);

/* After a turn that was rolled back: reads all rows from disk again. */
void deliveries_forget(struct deliveries *s);

/* false: there is none. Call delivery_fini() in any case. */
bool delivery_load(struct deliveries *s, int64_t event, int64_t endpoint,
                   struct delivery *d);
void delivery_fini(struct delivery *d);
/* Instead of delivery_fini(), for a row as it is on disk that its deliverer has: keeps it for
 * the result. */
void delivery_keep(struct deliveries *s, struct delivery *d,
                   const char *event_id);
/* As delivery_load(), by the id of the event. */
bool delivery_find(struct sequencer *q, struct bytes event_id, int64_t endpoint,
                   struct delivery *d);
/* Write all columns but DELIVERY_FIXED. For changes of status call delivery_move(), which
 * writes the row. */
void delivery_save(struct deliveries *s, const struct delivery *d);
bool delivery_exists(struct deliveries *s, int64_t event, int64_t endpoint);
/* For each delivery of an event, by the endpoint's name. `d` lives until `fn` returns. */
typedef void delivery_fn(void *arg, const struct delivery *d,
                         const char *endpoint);
void deliveries_of_event(struct deliveries *s, int64_t event, delivery_fn *fn,
                         void *arg);
/* The endpoints of up to `max` open deliveries of an event; returns how many. */
int deliveries_open_of_event(struct deliveries *s, int64_t event, int max,
                             int64_t *endpoints);

const char *delivery_status_name(int status);
/* DEAD or ABANDONED: it has a `reason`. */
bool delivery_has_failed(int status);
/* Its deliverer has it, or may have a copy of it. */
bool delivery_is_out(const struct endpoint *e, const struct delivery *d);
/* The number by which rows of the link's log refer to a delivery. */
int64_t delivery_ref(int64_t event, int64_t endpoint);

/* ---- new ones ---- */

/* Add a delivery to `e` in this lane (lanes_of()), and dispatch it at once if that is
 * permitted. `d` has its event, route_order, previous number and origin; the rest is filled
 * in. The task is made of the event and its content; without them (NULL), of the rows when
 * it is sent. */
void delivery_add(struct sequencer *q, struct endpoint *e, struct lane lane,
                  struct delivery *d, const struct event_row *ev,
                  const struct event_content *content);
/* Add a delivery that is dead: dlqd has its dead letter, and this database is older. */
void delivery_add_dead(struct sequencer *q, struct delivery *d);

/* ---- changes of status ---- */

struct delivery_cause {
    /* The endpoint's deliverer reported it under the present grant, and has no copy any
     * more. */
    bool reported;
    const char *reason; /* to DEAD: one word of docs/OUTCOMES.md */
    const char *error;  /* to DEAD: a sentence; NULL: keep the last attempt's */
    struct bytes response; /* to DEAD: the last response, for the dead letter */
};

/* Change its status and write the row. A delivery to a temporary endpoint becomes ABANDONED
 * instead of DEAD. Logs and counts the change, tells the deliverer to drop a copy that is out, sends a dead letter to dlqd, makes the next delivery the head of the
 * lane, and ends the event with its last delivery. A change that the table does not permit
 * is a bug, and ends the process before it is on disk. */
void delivery_move(struct sequencer *q, struct endpoint *e, struct delivery *d,
                   enum delivery_status to, const struct delivery_cause *why);
/* A final delivery begins a new generation, before all that wait in its lane. `ordered` may have
 * changed since it was added, so the caller computes the lane again (lanes_of_reopened()). `action_id`: the
 * operator's replay; 0: its dead letter was requeued. */
void delivery_reopen(struct sequencer *q, struct endpoint *e,
                     struct delivery *d, struct lane lane, uint64_t action_id);
/* The deliverer has dropped its copy of a final delivery. */
void delivery_copy_gone(struct sequencer *q, struct endpoint *e,
                        struct delivery *d);

/* ---- many at once ---- */

/* Dispatch a waiting delivery: as IN_FLIGHT, or as RETRYING if its retry is due later, at
 * `next_ms` (wall). */
void delivery_dispatch(struct sequencer *q, struct endpoint *e, int64_t event,
                       int64_t next_ms);
/* Take back deliveries that carry this ended grant, at most `max` (up to SWEEP_MAX): open ones
 * wait again, and final ones have no copy out any more. `lossy`: an attempt whose result
 * was lost may have reached the endpoint. Returns how many. */
enum { SWEEP_MAX = 256 };
int deliveries_sweep(struct sequencer *q, struct endpoint *e, uint64_t grant,
                     bool lossy, int max);

#endif
