/* intake_rate: how fast requests are taken while events arrive faster than the sequencer
 * takes them. Pure.
 *
 * What waits for the sequencer, divided by the rate at which it takes events, is how long
 * the next event will wait. Up to `ingress.target_delay` nothing is done, so a burst is
 * taken at full speed. Beyond it ingress reads requests, and writes responses, only as
 * fast as events are taken: clients that wait for their response before they send more
 * slow down, and the processor and the disk are left to deliveries. Nothing is refused.
 *
 * A pause is short and bounded, so that even with `ingress.max_connections` requests
 * waiting a response is late by about a second at most. While the sequencer does not
 * respond the rate has no limit: events are safe here, and slower clients would not
 * help. */
#ifndef INGRESS_INTAKE_RATE_H
#define INGRESS_INTAKE_RATE_H

#include "rc.h"

struct intake_rate {
    bool on;
    int64_t per_s; /* events the sequencer takes; an average; 0: not known */
    int64_t looked_ms; /* mono: last look; 0: none yet */
    uint64_t cursor;   /* taken by then */
    int64_t wait_ms;   /* of the next event, about */
    int64_t allowed;   /* events a second, while on */
    int64_t next_us;   /* mono: no request is read before, while on */
};

/* What is known at a look; ten times a second is enough. */
struct intake_rate_facts {
    int64_t now_ms;    /* mono */
    uint64_t cursor;   /* the last event that the sequencer has */
    uint64_t backlog;  /* events behind it */
    bool responds;     /* the sequencer was heard lately */
    int64_t target_ms; /* ingress.target_delay */
};

void intake_rate_look(struct intake_rate *p, const struct intake_rate_facts *f);
/* A turn has stored `events`, with so many connections open: when to read on. */
void intake_rate_stored(struct intake_rate *p, int64_t now_us, int64_t events,
                        int64_t connections);
/* How long requests are left alone, in ms, rounded up; 0: read them. */
int intake_rate_pause_ms(const struct intake_rate *p, int64_t now_us);

#endif
