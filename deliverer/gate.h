/* gate: when an endpoint may be asked, by all that speaks to it: its window,
 * its breaker, its rate limit, and the ramp. Pure; one for each endpoint's
 * grant, in memory only: a new start knows of no trouble and soon does. What it
 * finds parked is in doubt: the first success is taken for a recovery, or it
 * would wait for its own time, hours perhaps.
 *
 * Two ramps are one: after the endpoint's trouble all that waits goes by it;
 * after ours (we were away, or another home was) only retries that are late do,
 * for nothing says that the endpoint is weak. */
#ifndef DELIVERER_GATE_H
#define DELIVERER_GATE_H

#include "breaker.h"
#include "hold.h"
#include "ramp.h"
#include "rate.h"
#include "window.h"

struct endpoint_config;

/* What the end of an attempt says about its endpoint. */
enum health {
    HEALTH_GOOD,    /* 2xx */
    HEALTH_BAD,     /* no response, or one that says: not now */
    HEALTH_EVENT,   /* it rejects this event alone: the endpoint works */
    HEALTH_REFUSED, /* any other final status: it says nothing good */
    HEALTH_UNKNOWN, /* our own failure, or we interrupted it */
    HEALTH_UNSENT,  /* nothing was sent: the event had expired */
};

enum gate_news {
    GATE_NOTHING,
    GATE_OPENED,
    GATE_RECOVERED,
    GATE_WELL, /* it was in doubt */
    GATE_HELD, /* it refuses everything: from now on refusals end nothing */
};

struct gate {
    struct window window;
    struct breaker breaker;
    struct hold hold;
    bool restored; /* gate_restore() was called */
    struct ramp ramp;
    bool ramp_late;          /* the ramp is for late retries only */
    struct bucket rate_pace; /* of rate_limit */
    struct bucket ramp_pace;
    bool rated; /* there is a rate limit */
    bool doubt; /* retries are parked of a time that we know nothing of */
};

void gate_configure(struct gate *g, const struct endpoint_config *c);

/* When the next attempt may begin, if the window lets it; INT64_MAX: not
 * before one ends. `late`: it comes from the queue of rows that are due. */
int64_t gate_ready_us(const struct gate *g, const struct endpoint_config *c,
                      bool late);
/* It began. Returns the breaker's number for it. */
uint64_t gate_began(struct gate *g, const struct endpoint_config *c, bool late,
                    int64_t now_us);

struct gate_end {
    enum health health;
    bool refused;     /* a final status, but not 410; or blocked */
    int64_t status;   /* of it; 0: there was no response */
    uint64_t probe;   /* what gate_began() said */
    int64_t asked_ms; /* Retry-After; 0 */
    uint64_t random;
    int64_t now_us;
    int64_t wall_ms;
};
enum gate_news gate_ended(struct gate *g, const struct endpoint_config *c,
                          const struct gate_end *end);

/* After gate_ended(): the endpoint is held, and this refusal does not end its
 * delivery. */
bool gate_keeps(const struct gate *g, const struct endpoint_config *c,
                const struct gate_end *end);
/* What the sequencer knows of the endpoint (hold_restore()). Only the first call
 * counts: after that we know better. */
void gate_restore(struct gate *g, const struct endpoint_config *c, bool healthy,
                  int64_t status, int64_t since_ms, int64_t past_ms,
                  int64_t now_us);

/* Such retries are there. */
void gate_doubt(struct gate *g);

/* Retries could not be tried for so long, by no fault of the endpoint. */
void gate_late(struct gate *g, int64_t lost_ms, int64_t now_us);

#endif
