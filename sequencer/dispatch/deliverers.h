/* deliverers: the known deliverers, and their heartbeats.
 *
 * deliverers_heartbeat() is called for each heartbeat, inside the turn's transaction;
 * deliverers_flush() responds after its commit. A deliverer is known from its first
 * heartbeat, or from a row that names it, until the process ends. After a crash the times
 * of heartbeats are unknown: silence counts from the start. */
#ifndef SEQUENCER_DELIVERERS_H
#define SEQUENCER_DELIVERERS_H

#include "bounds.h"
#include "rc.h"
#include "wire.h"

struct sequencer;

/* One deliverer. Only its name and store are on disk. */
struct deliverer_peer {
    char name[NAME_MAX_BYTES + 1];
    char inbox[INBOX_MAX_BYTES + 1];
    uint64_t store, epoch;
    int64_t stamp_ms;     /* of its last heartbeat, on its own clock */
    int64_t heartbeat_ms; /* awake: when that came; 0: not in this start */
    int64_t acked_ms;     /* awake: our last heartbeat_ack, or our start */
    /* awake: since when it has sent heartbeats without a break */
    int64_t healthy_ms;
    /* in this epoch it released grants by itself: grant it nothing */
    uint64_t leaving_epoch;
    bool heartbeat_ack_pending;
    bool second;            /* another database under its name was refused */
    uint64_t *unconfigured; /* grants of which it needs the configuration */
    size_t unconfigured_count;
    int64_t in_window; /* its tasks, without scheduled retries */
    int64_t pulled;    /* of these, those of pull endpoints */
    int64_t out_bytes; /* of the others, estimated */
    /* watch.c: tasks with link numbers below watch_n were queued long ago; those below
     * watch_next had been queued at watch_ms (awake). */
    uint64_t watch_n, watch_next;
    int64_t watch_ms;
};

/* Adds an unknown deliverer, in memory only. */
struct deliverer_peer *deliverer_find_or_add(struct sequencer *q,
                                             const char *name);
/* It sends heartbeats within its lease, and is not leaving. */
bool deliverer_is_here(const struct sequencer *q,
                       const struct deliverer_peer *d);
/* It is on another host. */
bool deliverer_is_elsewhere(const struct deliverer_peer *d);
/* Read from disk which database each deliverer has. */
void deliverers_load(struct sequencer *q);
void deliverers_close(struct sequencer *q);

void deliverers_heartbeat(struct sequencer *q, const struct wire_heartbeat *b);
/* A consumer takes from a temporary endpoint of the deliverer. */
void deliverers_taken(struct sequencer *q, const struct wire_taken *t);
/* After the commit: respond to heartbeats, and send grants. */
void deliverers_flush(struct sequencer *q);

#endif
