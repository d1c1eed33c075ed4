/* measure: the metrics that are not plain counters: states of endpoints, ages, and the time
 * from acceptance to delivery. */
#ifndef SEQUENCER_MEASURE_H
#define SEQUENCER_MEASURE_H

#include "rc.h"

struct sequencer;
struct endpoint;

/* Once per metrics.interval, as these metrics need to read rows. */
void measure(void *self);
/* A delivery that nobody has reopened was delivered at `at_ms` (wall). */
void measure_delivered(struct sequencer *q, const struct endpoint *e,
                       int64_t event, const char *event_id, int64_t at_ms);

#endif
