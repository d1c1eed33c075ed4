/* tally: counts the attempts at each endpoint in the last hour, by outcome, status and duration.
 *
 * In memory only: the counts begin with the start of the process. A turn that was rolled back
 * has its results counted again. An endpoint without attempts costs nothing. The counts of at
 * most TALLIES_MAX endpoints are kept (about 15 MB); then those of the endpoint whose last attempt
 * ended the longest time ago are dropped. Of this process' own thread. */
#ifndef SEQUENCER_TALLY_H
#define SEQUENCER_TALLY_H

#include "wire.h"

enum {
    TALLIES_MAX = 10000,
    TALLY_SLOT_MS = 5 * 60 * 1000,
    TALLY_SLOTS = 13, /* an hour, and the part of a slot that has passed */
    TALLY_PERIOD_MAX_MS = (TALLY_SLOTS - 1) * TALLY_SLOT_MS,
    TALLY_BOUNDS = 15, /* the first of metric_latency_bounds_ms: up to 1 min */
};

enum tally_class {
    TALLY_NO_RESPONSE,
    TALLY_2XX,
    TALLY_3XX,
    TALLY_4XX,
    TALLY_5XX,
    TALLY_CLASSES
};

struct tallies;
struct tallies *tallies_open(int64_t now_ms);
void tallies_close(struct tallies *t);

/* An attempt has ended; `endpoint` is the id of its row. */
void tallies_add(struct tallies *t, int64_t endpoint,
                 const struct wire_result *r, int64_t now_ms);

struct tally_sum {
    /* The counts have all attempts that ended from this time on. It is the begin of the period,
     * rounded down to TALLY_SLOT_MS, or later if earlier ones are not known. */
    int64_t from_ms;
    int64_t outcomes[OUTCOME_DEAD + 1]; /* by enum outcome */
    int64_t classes[TALLY_CLASSES];
    int64_t
        delivered_ms; /* the sum of the durations of attempts that delivered */
    /* p50, p95 and p99 of attempts with a response, ms; NAN: there are none */
    double latency_ms[3];
    /* wall: when the last attempt of each kind began, in the period or before it; 0: not
     * known */
    int64_t success_ms, failure_ms;
};
/* `period_ms`: at most TALLY_PERIOD_MAX_MS. */
void tallies_sum(const struct tallies *t, int64_t endpoint, int64_t period_ms,
                 int64_t now_ms, struct tally_sum *out);

#endif
