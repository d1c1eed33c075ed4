/* last_events: when each source and producer last sent an event that was accepted, for a metric: a source
 * that has become silent is seen by it. Used by turn.c and request_intake.c, from the loop.
 *
 * It is in memory. A start reads the newest requests of the archive, so a source whose last event is older
 * than these is unknown until its next event. */
#ifndef INGRESS_LAST_EVENTS_H
#define INGRESS_LAST_EVENTS_H

#include "bounds.h"
#include "rc.h"

struct db;

struct last_event {
    char source[NAME_MAX_BYTES + 1];
    int64_t at_ms; /* wall clock */
};

struct last_events {
    struct last_event *all;
    size_t count;
};

/* Reads the newest requests of the archive. */
void last_events_open(struct last_events *l, struct db *db);
void last_events_fini(struct last_events *l);
/* An event of this source was accepted. An earlier time than the known one changes nothing. */
void last_events_note(struct last_events *l, const char *source, int64_t at_ms);

#endif
