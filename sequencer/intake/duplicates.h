/* duplicates: finds the earlier event of which an event is a duplicate, by its idempotency
 * keys or by the signed part of its request. event_intake.c calls it once for each event, inside
 * the turn's transaction. */
#ifndef SEQUENCER_DUPLICATES_H
#define SEQUENCER_DUPLICATES_H

#include "rc.h"

struct sequencer;
struct source;
struct parsed_event;
struct event_row;

/* The number of the event that `ev` repeats; 0: it is the first. Stores the keys of `ev`,
 * so that later events are compared with it. *replayed: only its signed part shows that it
 * was received before. */
int64_t duplicates_find(struct sequencer *q, const struct source *source,
                        const struct parsed_event *f,
                        const struct event_row *ev, bool *replayed);

#endif
