/* event_types: this ingress's copy of the sequencer's catalogue of event types, and the check of
 * producers' events against it.
 *
 * While a producer asks for checks, the sequencer is asked once a second whether the catalogue
 * has changed (command `event_catalogue`). The copy is stored, so that events are checked in
 * the same way while the sequencer is away and after a restart. Before the first copy, events
 * of such producers get a 503. */
#ifndef INGRESS_EVENT_TYPES_H
#define INGRESS_EVENT_TYPES_H

#include "alloc.h"
#include "response.h"

struct ingress;
struct event_types;
struct published;
struct producer;

struct event_types *event_types_open(struct ingress *g);
void event_types_close(struct event_types *t);
/* In the transaction of a turn: stores a changed catalogue. Returns the longest sleep, ms. */
int event_types_work(struct event_types *t);
/* After the commit: asks. */
void event_types_flush(struct event_types *t);
/* The turn was rolled back. */
void event_types_undo(struct event_types *t);

/* What is wrong with an event, for the response. */
struct event_types_wrong {
    const char *field; /* type or data */
    char path[300];    /* a JSON pointer into the event */
    const char *rule;  /* the keyword; "": none */
    char why[600];
};

/* Whether this producer's event has a known type, and data that fits it, as far as the producer
 * asks for that. `t` NULL: there is no catalogue. */
enum response event_types_judge(const struct event_types *t,
                                const struct producer *producer,
                                const struct published *event,
                                struct event_types_wrong *wrong);

#endif
