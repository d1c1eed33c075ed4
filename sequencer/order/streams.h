/* streams: releases each source's events in the order that its configuration asks for (order.h
 * decides), and buffers events until missing ones have arrived or are skipped.
 *
 * All state is in rows of the turn's transaction; memory only caches streams, at most
 * STREAMS_CACHED between two turns. Buffered events have their bodies on disk like all
 * others. After a rolled back turn call streams_undo(). */
#ifndef SEQUENCER_STREAMS_H
#define SEQUENCER_STREAMS_H

#include "order.h"
#include "rc.h"

struct sequencer;
struct streams;
struct event_row;
struct parsed_event;
struct source;

struct streams *streams_open(struct sequencer *q);
void streams_close(struct streams *s);
void streams_undo(struct streams *s);
/* Inside a turn: the configuration may ask for another order than before, so look at all
 * buffered events. */
void streams_configure(struct streams *s);

/* Texts about an event's position, for its row. */
struct position_strings {
    char gap[SPAN_BYTES];
    char note[SPAN_BYTES + 64];
};

/* Give the event its position in its stream: fills late, gap, note, source_sequence of
 * its row. true: it is released now. false: it is buffered; its status is
 * EVENT_BUFFERED, and intake_release_buffered() is called with it, and `generation`,
 * when it may go. */
bool streams_admit(struct streams *s, const struct source *source,
                   const struct parsed_event *f, struct event_row *ev,
                   int64_t generation, struct position_strings *p);

/* Release the events that waited for the one that arrived just now. Bounded; streams_work()
 * releases the rest. */
void streams_follow(struct streams *s);

/* Once a turn: end waits that have expired, and release events; `disk_low`: release nothing.
 * Bounded; true: there is more. */
bool streams_work(struct streams *s, bool disk_low);
/* The watermark clock at which the next wait ends; INT64_MAX: no event waits. */
int64_t streams_due(struct streams *s);
int64_t streams_buffered(const struct streams *s);

/* A person closes a gap: the events that waited for it are released. GR_REFUSE: `why`. */
GR_MUST_CHECK gr_rc streams_close_gap(struct streams *s, int64_t id,
                                      const char *note, char why[200]);

#endif
