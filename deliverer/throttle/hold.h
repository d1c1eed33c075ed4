/* hold: stops sending to an endpoint that accepted events before and now refuses each one
 * with the same final status: most often a bad deployment, not bad events. Pure.
 *
 * HOLD_REFUSALS refusals with the same status, without a success between them, begin a
 * hold. While it lasts the breaker is open (breaker.h), and a refusal does not end its
 * delivery: it is tried again later and spends none of its budget. A success ends the
 * hold, and so does a status about one event alone that is not the status of the hold.
 *
 * An endpoint that never delivered is not held: its deliveries become dead letters at
 * once. The sequencer stores which endpoints have delivered and which are held, and sends
 * that with `granted`; the count below the limit is forgotten at a restart. throttle.h calls
 * these functions. */
#ifndef DELIVERER_HOLD_H
#define DELIVERER_HOLD_H

#include "rc.h"

enum { HOLD_REFUSALS = 10 };

struct hold {
    bool healthy;     /* the endpoint has accepted an event before */
    bool on;          /* it is held */
    int refusals;     /* in a row, with this status … */
    int64_t status;   /* … or 0: without a response */
    int64_t since_ms; /* wall: when the hold began */
    int64_t past_ms;  /* sum of all earlier holds */
};

/* Take over what the sequencer knows: `since_ms` is 0 if the endpoint is not held. */
void hold_restore(struct hold *h, bool healthy, int64_t status,
                  int64_t since_ms, int64_t past_ms);
/* The endpoint refused an event for good. true: the hold begins now. */
bool hold_refused(struct hold *h, int64_t status, int64_t now_ms);
/* The endpoint accepted an event (`delivered`), or rejected one event alone. */
void hold_end(struct hold *h, bool delivered, int64_t now_ms);
/* How long it has been held in all. The difference of two such numbers is time in which
 * no attempt was made on purpose; it does not count toward a delivery's budget. */
int64_t hold_total_ms(const struct hold *h, int64_t now_ms);

#endif
