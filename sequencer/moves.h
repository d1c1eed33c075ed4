/* moves: an object's events as moves of its state. Pure.
 *
 * Order stops mattering: of two events in the wrong order, the earlier one is
 * no valid move any more. */
#ifndef SEQUENCER_MOVES_H
#define SEQUENCER_MOVES_H

#include "alloc.h"
#include "settings.h"

/* May an object whose state is `from` (NULL: it was never seen) move to `to`? */
bool move_is_valid(const struct state_rules *r, const char *from,
                   const char *to);
/* The states that would have been valid, "a, b"; "no other state" for none. */
void moves_valid_from(const struct state_rules *r, const char *from,
                      struct buf *out);
/* No move leads out of it. */
bool state_is_last(const struct state_rules *r, const char *state);

#endif
