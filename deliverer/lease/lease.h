/* lease: until when this deliverer may begin attempts: it sends heartbeats to the
 * sequencer, and the responses extend the lease and bring the endpoints' configurations.
 *
 * A grant is confirmed by a `granted` frame of this epoch, and as long as the sequencer
 * responds within grant_lease_ms(). These frames are outside the durable link: a lost one
 * does no harm, since the next heartbeat asks again. All of it is in memory; after a crash
 * no grant is confirmed until the sequencer responds. */
#ifndef DELIVERER_LEASE_H
#define DELIVERER_LEASE_H

#include "bounds.h"
#include "rc.h"

struct deliverer;

struct lease {
    int64_t until_ms;          /* mono: attempts may begin before this */
    int64_t heartbeat_ms;      /* mono: when the next heartbeat is sent */
    int64_t heartbeat_sent_ms; /* mono: when the last one was */
    bool ask; /* a grant needs its configuration: send a heartbeat soon */
    /* Where the sequencer receives heartbeats, by its last heartbeat_ack. */
    char inbox[INBOX_MAX_BYTES + 1];
};

/* Frames from the sequencer; inside the transaction. */
void lease_heartbeat_ack(struct deliverer *d, struct bytes frame);
void lease_granted(struct deliverer *d, struct bytes frame);
void lease_revoked(struct deliverer *d, struct bytes frame);

/* Once a turn, inside the transaction: if the lease has expired, no grant is confirmed
 * until the sequencer responds to a later heartbeat. */
void lease_expire(struct deliverer *d);
/* The lease has not expired at this moment. */
bool lease_may_begin(const struct deliverer *d);

/* After the commit: send a heartbeat if it is time. */
void lease_flush(struct deliverer *d);
/* How long until lease_flush() or lease_expire() has something to do; -1: nothing. */
int lease_wait_ms(const struct deliverer *d);

#endif
