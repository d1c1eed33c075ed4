/* deliverers: the deliverers that are known, and their heartbeats. */
#ifndef SEQUENCER_DELIVERERS_H
#define SEQUENCER_DELIVERERS_H

#include "bounds.h"
#include "rc.h"
#include "wire.h"

struct sequencer;

/* A deliverer as we see it; memory only but for name and store. */
struct deliverer_peer {
    char name[NAME_MAX_BYTES + 1];
    char inbox[INBOX_MAX_BYTES + 1];
    uint64_t store, epoch;
    int64_t stamp_ms;     /* of its last heartbeat, on its own clock */
    int64_t heartbeat_ms; /* mono: when that came; 0: not in this start */
    int64_t acked_ms;     /* mono: when we last answered; our start at least */
    int64_t
        healthy_ms; /* mono: since when it has sent heartbeats without a break */
    uint64_t
        leaving_epoch; /* this epoch of it released by itself: give it nothing */
    bool heartbeat_ack_pending;
    uint64_t *unconfigured; /* grants it asked about in the last heartbeat */
    size_t unconfigured_count;
    int64_t out;       /* tasks it has and has no scheduled retry for */
    int64_t out_bytes; /* about; of all its endpoints */
    /* watch.c: numbers below watch_n were given to it long ago; those below
     * watch_next were at watch_ms (awake). */
    uint64_t watch_n, watch_next;
    int64_t watch_ms;
};

/* Made, in memory only, when it was never here. */
struct deliverer_peer *deliverer_find_or_add(struct sequencer *q,
                                             const char *name);
/* It sends heartbeats within its lease, and does not leave. */
bool deliverer_is_here(const struct sequencer *q,
                       const struct deliverer_peer *d);
/* Which database each has, as our disk has it. */
void deliverers_load(struct sequencer *q);
void deliverers_close(struct sequencer *q);

void deliverers_heartbeat(struct sequencer *q, const struct wire_heartbeat *b);
/* After the commit: respond to heartbeats, and send grants. */
void deliverers_flush(struct sequencer *q);

#endif
