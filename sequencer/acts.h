/* acts: what an operator does with a single open delivery: try it now, or give it up.
 *
 * Both are rows before they are answered, so a kill -9 after the answer loses
 * neither. A retry makes the delivery due: here if it waits here, and by a message of
 * the durable hop at the deliverer that has it; its budget and its attempts stay as
 * they are, and in an ordered lane it stays behind those before it. An abandoned
 * delivery is dead at once, with a dead letter; an attempt that is under way is waited
 * for before its lane goes on (P5), and still counts if it succeeds. */
#ifndef SEQUENCER_ACTS_H
#define SEQUENCER_ACTS_H

#include "control.h"

struct sequencer;
struct endpoint;
struct delivery_row;

/* Make an open delivery due now. Changes the row on disk and `d`. */
void acts_try_now(struct sequencer *q, struct endpoint *e,
                  struct delivery_row *d);

/* Makes an open delivery a dead letter with this reason; a copy that is out is dropped at
 * its deliverer. It halts no lane. Returns true when an attempt may be under way. */
bool acts_give_up(struct sequencer *q, struct endpoint *e,
                  struct delivery_row *d, const char *reason,
                  const char *error);

/* The control commands `retry` and `abandon`. */
json_t *acts_retry(void *self, json_t *args, char why[200]);
json_t *acts_abandon(void *self, json_t *args, char why[200]);

#endif
