/* transitions: an object's events as transitions of its state (`states` of a source). With
 * them the order of arrival does not matter: of two events that arrive in the wrong order,
 * the earlier one is no longer a valid transition. */
#ifndef SEQUENCER_TRANSITIONS_H
#define SEQUENCER_TRANSITIONS_H

#include "alloc.h"
#include "parsed_event.h"
#include "settings.h"
#include "state_rules.h"

struct sequencer;
struct event_row;

/* Store the state that the event gives its object, inside the turn's transaction. false: the
 * transition is invalid, and `reason` says why. A source without `states` permits all;
 * `forced`: an operator has permitted it. */
bool transition_apply(struct sequencer *q, const struct source *source,
                      const struct event_row *ev, const struct parsed_event *f,
                      bool forced, char reason[EVENT_REASON_BYTES]);

#endif
