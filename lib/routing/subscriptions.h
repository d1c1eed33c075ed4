/* subscriptions: finds the endpoints that are subscribed to an event among thousands. Pure.
 *
 * The result equals that of route_is_subscribed() for each endpoint, but few endpoints are
 * tried. A subscription that names workspaces is indexed by each of them, so an event of one
 * customer costs only what that customer's endpoints cost. A subscription without workspaces,
 * or with a `*` in one, is tried for every event. A route is tried once for all endpoints
 * that it names. */
#ifndef ROUTING_SUBSCRIPTIONS_H
#define ROUTING_SUBSCRIPTIONS_H

#include "settings.h"

struct subscriptions;
struct chosen_by;

/* Makes an index of settings->endpoints, which must live longer. `numbers`: how the caller
 * calls each of them, all different, each below `end`. */
struct subscriptions *subscriptions_new(const struct settings *settings,
                                        const size_t *numbers, size_t end);
void subscriptions_free(struct subscriptions *all);
/* The numbers of the endpoints that are subscribed to the event, ascending, each once;
 * valid until the next call. `s` is as for route_is_subscribed(). */
const size_t *subscriptions_ask(struct subscriptions *all, struct subject *s,
                                size_t *count);
/* Whether any endpoint may be subscribed to operational events (OPERATIONAL_SOURCE). */
bool subscriptions_operational(const struct subscriptions *all);
/* The routes that choose for one of these endpoints, by its number (route.h); of another
 * endpoint it is empty. NULL: no route chooses for any. Valid until the next call of subscriptions_ask(). */
const struct chosen_by *subscriptions_chosen_by(const struct subscriptions *all,
                                                size_t number);

#endif
