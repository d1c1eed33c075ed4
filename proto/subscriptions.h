/* subscriptions: who wants an event, of thousands of endpoints. Pure.
 *
 * The same answer as route_wants() asked of each endpoint, but few are asked: a
 * subscription that names its workspaces stands under each of them, so that a
 * product with an endpoint for each of its customers judges, for an event of
 * one, what that one has subscribed to. One that names no workspace, or one with
 * a `*`, is judged for every event. A route is judged once, for all endpoints
 * that it names. */
#ifndef PROTO_SUBSCRIPTIONS_H
#define PROTO_SUBSCRIPTIONS_H

#include "settings.h"

struct subscriptions;

/* Of settings->endpoints, which must not go before it. `numbers`: by which the
 * caller knows each of them, all different, each below `end`. */
struct subscriptions *subscriptions_new(const struct settings *settings,
                                        const size_t *numbers, size_t end);
void subscriptions_free(struct subscriptions *all);
/* The numbers of those who want it, ascending, each once, until the next call.
 * `s` is as for route_wants(). */
const size_t *subscriptions_ask(struct subscriptions *all, struct subject *s,
                                size_t *count);

#endif
