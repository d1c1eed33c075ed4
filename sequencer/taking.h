/* taking: one event at work, from its row or its request to what becomes of it.
 * Shared by intake.c (what comes), again.c (what is here already) and routing.c
 * (to whom) only. */
#ifndef SEQUENCER_TAKING_H
#define SEQUENCER_TAKING_H

#include "finding.h"
#include "publication.h"
#include "sequencer.h"
#include "store.h"
#include "streams.h"

enum { REASON_BYTES = 6 * (LABEL_MAX_BYTES + 1) };

struct taking {
    struct event_row *ev;
    struct subject *subject;
    const struct source *source; /* NULL: not configured any more */
    struct finding f;
    struct publication published; /* of a producer's */
    /* In which life of its letter it was refused or ignored; 0: it is new. */
    int64_t life;
    /* It is element `index` of a request of several events; NULL: of none. */
    const struct found_signed *whole;
    size_t index;
    bool released; /* a repeat that a person lets through */
    bool replayed; /* only what is signed of it shows that it came before */
    bool forced;   /* an invalid move likewise */
    uint64_t act;  /* an operator sends it again (replay.h); 0: it came */
    bool damaged;  /* what is stored of it is: it is not read */
    const char *refused; /* why it is, whatever it says; NULL: judge it */
    const char *only;    /* to this endpoint; NULL: to all that want it */
    bool always;         /* to that one, whether it wants it or not */
    char earlier_id[EVENT_ID_BYTES + 1];
    char reason[REASON_BYTES];
    struct placing placing;
    struct buf clock;
    int wanted;
};

/* intake.c. What its request says, by today's configuration. `unread`: it can't
 * be read at all. taking_end() in any case. */
void taking_find(struct sequencer *q, struct taking *t, const char *unread);
/* A repeat, held back, or it goes; without a look at whether it may: */
void taking_decide(struct sequencer *q, struct taking *t);
void taking_go(struct sequencer *q, struct taking *t);
/* Write what became of it into its row, which is there, and say so. */
void taking_end(struct sequencer *q, struct taking *t);
/* Of one that is new, or was refused in `life`: all of that. */
void taking_take(struct sequencer *q, struct event_row *ev,
                 struct subject *subject, int64_t life);

/* routing.c */
void routing_route(struct sequencer *q, struct taking *t);
/* One delivery. `life` is its generation: 1, or more for an event that was a dead
 * letter itself and was sent again. */
void routing_give(struct sequencer *q, struct endpoint *e,
                  const struct event_row *ev, struct workspace *ws,
                  int64_t place, int64_t life, uint64_t act);

#endif
