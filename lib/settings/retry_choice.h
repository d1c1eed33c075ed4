/* retry_choice: how hard to try one delivery, when a route or a producer's event chooses it,
 * and what of that choice the endpoint allows. Its `priority` and `expires_in` are always
 * allowed. Pure. Routing makes choices; the sequencer
 * applies one each time it sends the delivery to a deliverer, so that a reload applies to
 * deliveries that wait; `grapnel check` shows with it what the sequencer would decide. */
#ifndef SETTINGS_RETRY_CHOICE_H
#define SETTINGS_RETRY_CHOICE_H

#include "settings.h"

bool retry_choice_is_empty(const struct retry_choice *choice);

enum retry_choice_verdict {
    CHOICE_OWN,   /* the endpoint's own policy applies */
    CHOICE_TAKEN, /* the chosen one does, as far as the endpoint allows */
};

/* Fills `out` in both cases; it borrows from `settings`. *unknown (may be NULL): the choice
 * names a policy that the configuration does not have, and the endpoint's replaces it. */
enum retry_choice_verdict retry_choice_apply(
    const struct settings *settings, const struct endpoint_settings *endpoint,
    const struct retry_choice *choice, struct retry_policy *out, bool *unknown);

#endif
