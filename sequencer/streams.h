/* streams: each source's events in the order that its configuration asks for
 * (order.h decides), what is held back for that, and what is missing.
 *
 * All of it is rows in the turn's transaction; what is here in memory is a cache
 * of streams, not more than STREAMS_CACHED between two turns. What is held has
 * its body on disk like any other event. After a rolled back turn call
 * streams_undo(). */
#ifndef SEQUENCER_STREAMS_H
#define SEQUENCER_STREAMS_H

#include "order.h"
#include "rc.h"

struct sequencer;
struct streams;
struct event_row;
struct finding;
struct source;

struct streams *streams_open(struct sequencer *q);
void streams_close(struct streams *s);
void streams_undo(struct streams *s);
/* Inside a turn. The configuration may ask for another order than before: look
 * at all that is held. */
void streams_configure(struct streams *s);

/* What was found out about one event's place; texts for its row. */
struct placing {
    char gap[SPAN_BYTES];
    char note[SPAN_BYTES + 64];
};

/* Give the event its place: fills late, gap, note, source_sequence of its row.
 * true: it goes now. false: it is held back; its status is EVENT_BUFFERED, and
 * intake_let_go() is called with it, and `life`, when it may go. */
bool streams_place(struct streams *s, const struct source *source,
                   const struct finding *f, struct event_row *ev, int64_t life,
                   struct placing *p);

/* Let go what an event that came just now lets go. Bounded: the rest goes with
 * streams_work(). */
void streams_follow(struct streams *s);

/* Waits that are over, and what may go; `no_room`: nothing goes now. Bounded;
 * true: there is more. */
bool streams_work(struct streams *s, bool no_room);
/* Door time at which the next wait is over; INT64_MAX: none. */
int64_t streams_due(struct streams *s);
int64_t streams_held(const struct streams *s);

/* A person closes a gap: what it holds up goes. GR_REFUSE: `why`. */
GR_MUST_CHECK gr_rc streams_close_gap(struct streams *s, int64_t id,
                                      const char *note, char why[200]);

#endif
