/* route: decides which endpoints are subscribed to an event. Pure. The sequencer decides with
 * it, and `grapnel check` shows with it what the sequencer would decide.
 *
 * Operational events go only to a subscription whose `sources` name OPERATIONAL_SOURCE.
 *
 * An endpoint is subscribed to an event if its own subscription matches, or if any route that
 * names it matches. A subscription has types, sources, workspaces and `where`; a missing part
 * matches everything. An endpoint whose own subscription is empty and that a route names has
 * no subscription of its own: otherwise a route could narrow nothing. An endpoint with
 * `enabled: false` is subscribed to nothing. */
#ifndef ROUTING_ROUTE_H
#define ROUTING_ROUTE_H

#include "settings.h"

struct subscription {
    const struct string_list *sources, *types, *workspaces; /* globs */
    const struct where *where;
};

/* What a source or a producer may send; an empty list means all. */
struct sender {
    const char *name;
    const struct string_list *types, *workspaces;
};

/* `s` has source, type and workspace, and headers and body for `where`; its JSON is parsed
 * at most once. `why` (may be NULL) is an empty buffer that gets the reason in words, for
 * both results. */
bool route_is_subscribed(const struct settings *settings,
                         const struct endpoint_settings *endpoint,
                         struct subject *s, struct buf *why);

/* The routes from which the choice for one endpoint is taken; NULL: from none. */
struct chosen_by {
    const struct route *policy, *max_attempts, *expires_in, *priority;
};
/* Take from `route`, which matches the event and names the endpoint, what no route before it
 * in the file chooses. The order of the calls does not matter. */
void route_choose(struct chosen_by *by, const struct route *route);
/* It borrows from the routes. */
struct retry_choice route_choice(const struct chosen_by *by);
/* The same by all routes, for an endpoint that is subscribed to the event. */
struct chosen_by route_chosen_by(const struct settings *settings,
                                 const char *endpoint, struct subject *s);

/* Whether the endpoint's own settings are a subscription (for `check`, which says where a
 * subscription comes from). */
bool route_has_own(const struct settings *settings,
                   const struct endpoint_settings *endpoint);
/* Whether the endpoint's own settings restrict what it gets. */
bool route_has_conditions(const struct endpoint_settings *endpoint);
bool route_names(const struct route *route, const char *endpoint);
struct subscription route_subscription(const struct route *route);
struct subscription
route_own_subscription(const struct endpoint_settings *endpoint);
/* Whether the event matches. If not, `why` (may be NULL) gets the part that does not. */
bool subscription_takes(const struct subscription *w, struct subject *s,
                        struct buf *why);
/* Whether the sender may send an event that matches. `where` needs an event, and is taken
 * to match. */
bool subscription_meets(const struct subscription *w, const struct sender *s);
struct sender route_source(const struct source *source);
struct sender route_producer(const struct producer *producer);
/* Whether a text exists that matches both lists of globs. */
bool route_lists_meet(const struct string_list *a, const struct string_list *b);
/* Whether the text matches any of the globs; an empty list matches everything. */
bool route_list_takes(const struct string_list *globs, const char *text);

#endif
