/* state_rules: which transitions of an object's state a source permits. Pure. The sequencer decides with
 * it, and `grapnel check --against` shows with it what the sequencer would decide. */
#ifndef INTAKE_STATE_RULES_H
#define INTAKE_STATE_RULES_H

#include "alloc.h"
#include "settings.h"

/* May an object whose state is `from` (NULL: it was never seen) change to `to`? */
bool transition_is_valid(const struct state_rules *r, const char *from,
                         const char *to);
/* The states that are valid after `from`, "a, b"; "no other state" for none. */
void transitions_valid_from(const struct state_rules *r, const char *from,
                            struct buf *out);
/* No transition leads out of this state. */
bool state_is_last(const struct state_rules *r, const char *state);

#endif
