/* routing: gives an event its number in its workspace, and a delivery for each endpoint that
 * is subscribed to it. event_intake.c calls it, inside the turn's transaction. */
#ifndef SEQUENCER_ROUTING_H
#define SEQUENCER_ROUTING_H

#include "alloc.h"
#include "parsed_event.h"

struct sequencer;
struct endpoint;
struct event_row;
struct event_content;
struct publication;
struct workspace;

/* What narrows the endpoints of an event, and what its deliveries are. All zero: a new event
 * for all endpoints that are subscribed to it. */
struct routing_options {
    /* of an operational event: the endpoint that it names; NULL: none */
    const char *about;
    const struct publication *published; /* its producer may list endpoints */
    const struct event_content *content; /* NULL: it is stored already */
    const char *only;   /* an operator sends it to this endpoint alone … */
    bool always;        /* … whether that is subscribed to it or not */
    int64_t generation; /* the last one of the event's dead letter; 0: none */
    uint64_t action_id; /* the operator's replay; 0: it is not replayed */
};

/* Route the event and set its status; it keeps pointers to `clock` and `reason`. `subject`
 * gets its type and workspace. Returns the number of deliveries; if there are none,
 * `reason` explains why. */
int routing_route(struct sequencer *q, struct event_row *ev,
                  struct subject *subject, const struct routing_options *o,
                  struct buf *clock, char reason[EVENT_REASON_BYTES]);
/* Whether any endpoint is subscribed to this event. `subject` has its type and workspace. */
bool routing_has_endpoints(struct sequencer *q, struct subject *subject);
/* Add one delivery. `route_order` is the event's; `choice` is that of choice.h, and may be
 * NULL. */
void routing_add_delivery(struct sequencer *q, struct endpoint *e,
                          const struct event_row *ev, struct workspace *ws,
                          int64_t route_order, const char *choice,
                          const struct routing_options *o);

#endif
