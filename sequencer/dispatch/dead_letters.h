/* dead_letters: messages about dead letters: those to dlqd, and what dlqd sends back.
 *
 * A message to dlqd is a row of `dead_letters`, written in the transaction that ends the
 * delivery. It is kept for a day after dlqd has acknowledged it, so that a dlqd that was
 * restored from an older copy gets it again. */
#ifndef SEQUENCER_DEAD_LETTERS_H
#define SEQUENCER_DEAD_LETTERS_H

#include "alloc.h"
#include "bounds.h"
#include "wire.h"

struct sequencer;
struct delivery;
struct event_row;

/* The id by which people name a dead letter; `endpoint` "": of an event that was refused. */
enum { DEAD_LETTER_ID_BYTES = 4 + EVENT_ID_BYTES + 1 + NAME_MAX_BYTES + 1 };
void dead_letter_id(char out[DEAD_LETTER_ID_BYTES], const char *event_id,
                    const char *endpoint);

/* ---- to dlqd ---- */

/* This delivery is dead; its row has the generation and the reason. */
void dead_letters_dead(struct sequencer *q, const struct delivery *d,
                       struct bytes response);
/* This event is refused or ignored, and has no deliveries. */
void dead_letters_refused(struct sequencer *q, const struct event_row *ev,
                          int64_t generation);
/* The dead letter of this generation was delivered after all. `endpoint` 0: the event was
 * refused, and is not any more. */
void dead_letters_recovered(struct sequencer *q, int64_t event,
                            int64_t endpoint, int64_t generation);
/* A message of the link to dlqd, as it leaves; false: its row or its event is gone. */
bool dead_letters_load(struct sequencer *q, int kind, int64_t ref,
                       struct buf *out);
/* Once a turn: delete rows that dlqd has acknowledged: after a day, after dlq.keep if that is
 * shorter, or at once if the database is above its share of the disk. true: there is more
 * to delete. */
bool dead_letters_work(struct sequencer *q);

/* ---- from dlqd ---- */

/* A person requeued a dead letter. */
gr_rc dead_letters_requeued(struct sequencer *q, const struct wire_requeued *m);
/* A person resolved or discarded a dead letter: a lane that it halts continues. */
gr_rc dead_letters_decided(struct sequencer *q, const struct wire_decided *m);
/* Add the event of a dead letter that is unknown here, as this database is older. Returns
 * its number. */
int64_t dead_letters_adopt(struct sequencer *q, const struct wire_requeued *m);

#endif
