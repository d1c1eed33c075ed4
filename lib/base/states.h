/* states: a state machine as one enum, one table of permitted transitions, and one function
 * that makes them.
 *
 * The table is indexed by the enum and holds the names too, so that no second list can
 * disagree. A transition that a peer or an operator asks for is checked with states_allow()
 * and refused with a reason. states_transition() is for transitions that must be permitted:
 * any other is a bug, and ends the process before the row is written. */
#ifndef BASE_STATES_H
#define BASE_STATES_H

#include "rc.h"

#define STATE_TO(s) (1u << (s))

struct state {
    const char *name; /* as users and the database see it */
    unsigned next;    /* STATE_TO(a) | STATE_TO(b) … */
};

struct states {
    const char *what; /* the noun that has these states: "dead letter" */
    const struct state *table;
    int count; /* at most 32 */
};

bool states_allow(const struct states *s, int from, int to);
const char *states_name(const struct states *s, int state);
/* -1: there is no state of that name. */
int states_find(const struct states *s, const char *name);

/* Changes *state to `to`: checks it, logs it with the event's id (at level debug; `event`
 * may be NULL; `who` is the name of the object) and, if `moved` is not NULL, counts it in
 * moved[to]. The caller writes the row, in the open transaction. */
void states_transition(const struct states *s, int *state, int to,
                       const char *event, const char *who, int64_t *moved);

#endif
