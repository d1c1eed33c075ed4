/* intake_rate: how fast ingress accepts requests while events arrive faster than the sequencer
 * processes them. Pure.
 *
 * The number of events that wait for the sequencer, divided by the rate at which it processes
 * them, is how long the next event will wait. Up to `ingress.target_delay` nothing is done, so
 * a burst is accepted at full speed. Beyond it ingress reads requests and writes responses only
 * as fast as events are processed: clients that wait for a response before they send the next
 * request slow down, and processor and disk are left to deliveries. Nothing is refused.
 *
 * A pause is short and limited, so that even with `ingress.max_connections` waiting requests a
 * response is late by about a second at most. While the sequencer does not respond there is no
 * limit: events are safe in the archive, and slower clients would not help. */
#ifndef INGRESS_INTAKE_RATE_H
#define INGRESS_INTAKE_RATE_H

#include "rc.h"

struct intake_rate {
    bool on;
    int64_t
        per_s; /* events per second that the sequencer processes, averaged; 0: unknown */
    int64_t looked_ms; /* mono: last look; 0: none yet */
    uint64_t cursor;   /* acknowledged by then */
    int64_t wait_ms;   /* estimated, of the next event */
    int64_t allowed;   /* events per second, while on */
    int64_t next_us;   /* mono: read no request before, while on */
};

/* The figures of a look; ten looks a second are enough. */
struct intake_rate_facts {
    int64_t now_ms;    /* mono */
    uint64_t cursor;   /* the last event that the sequencer acknowledged */
    uint64_t backlog;  /* events after it */
    bool responds;     /* the sequencer responded lately */
    int64_t target_ms; /* ingress.target_delay */
};

void intake_rate_look(struct intake_rate *p, const struct intake_rate_facts *f);
/* A turn has stored `events`, with so many connections open: decide when to read again. */
void intake_rate_stored(struct intake_rate *p, int64_t now_us, int64_t events,
                        int64_t connections);
/* How long to read no requests, in ms, rounded up; 0: read them. */
int intake_rate_pause_ms(const struct intake_rate *p, int64_t now_us);

#endif
