/* transitions: an object's events as transitions of its state. Pure.
 *
 * The order of arrival stops mattering: of two events that arrive in the wrong order, the
 * earlier one is no longer a valid transition. */
#ifndef SEQUENCER_TRANSITIONS_H
#define SEQUENCER_TRANSITIONS_H

#include "alloc.h"
#include "settings.h"

/* May an object whose state is `from` (NULL: it was never seen) move to `to`? */
bool transition_is_valid(const struct state_rules *r, const char *from,
                         const char *to);
/* The states that would have been valid, "a, b"; "no other state" for none. */
void transitions_valid_from(const struct state_rules *r, const char *from,
                            struct buf *out);
/* No transition leads out of it. */
bool state_is_last(const struct state_rules *r, const char *state);

#endif
