/* intake_context: one event being taken in, from its row or its request to its status.
 * Shared by event_intake.c (new events), reprocess.c (stored events) and routing.c (their
 * endpoints) only. */
#ifndef SEQUENCER_INTAKE_CONTEXT_H
#define SEQUENCER_INTAKE_CONTEXT_H

#include "parsed_event.h"
#include "publication.h"
#include "sequencer.h"
#include "store.h"
#include "streams.h"

enum { REASON_BYTES = 6 * (LABEL_MAX_BYTES + 1) };

struct intake_context {
    struct event_row *ev;
    struct subject *subject;
    const struct source *source; /* NULL: not configured any more */
    struct parsed_event f;
    struct publication published; /* of a producer's */
    /* In which generation of its dead letter it was refused or ignored; 0: it is new. */
    int64_t generation;
    /* It is element `index` of a request of several events; NULL: of none. */
    const struct parsed_signed *whole;
    size_t index;
    bool released; /* a duplicate that a person releases */
    bool replayed; /* only its signed part shows that it was received before */
    bool forced;   /* an invalid transition likewise */
    uint64_t action_id;  /* an operator sends it again (replay.h); 0: it came */
    bool damaged;        /* what is stored of it is: it is not read */
    const char *refused; /* why it is, whatever it says; NULL: judge it */
    const char
        *only;   /* to this endpoint; NULL: to all that are subscribed to it */
    bool always; /* to that one, whether it is subscribed to it or not */
    char earlier_id[EVENT_ID_BYTES + 1];
    char reason[REASON_BYTES];
    struct position_strings strings;
    struct buf clock;
    int endpoints;
};

/* event_intake.c. Parse its request by the current configuration. `unread`: why it can't
 * be parsed. Call intake_finish() in any case. */
void intake_parse(struct sequencer *q, struct intake_context *t,
                  const char *unread);
/* Decide whether it is a duplicate, is buffered, or is routed now. */
void intake_decide(struct sequencer *q, struct intake_context *t);
void intake_route(struct sequencer *q, struct intake_context *t);
/* Write its status into its row, which exists, and log it. */
void intake_finish(struct sequencer *q, struct intake_context *t);
/* Of one that is new, or was refused in `generation`: all of that. */
void intake_take_event(struct sequencer *q, struct event_row *ev,
                       struct subject *subject, int64_t generation);

/* routing.c */
void routing_route(struct sequencer *q, struct intake_context *t);
/* One delivery. `generation` is its generation: 1, or more for an event that was a dead
 * letter itself and was sent again. */
void routing_give(struct sequencer *q, struct endpoint *e,
                  const struct event_row *ev, struct workspace *ws,
                  int64_t route_order, int64_t generation, uint64_t action_id);

#endif
