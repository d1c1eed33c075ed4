/* endpoint_index: finds the endpoints made at run time that are subscribed to an event,
 * among thousands that come, change and end one by one. Pure, in memory only.
 *
 * subscriptions.h does the same for the endpoints of grapnel.yaml, which never change after
 * they were read; routes name only those. A subscription whose workspaces have no `*` is
 * found by the event's workspace; any other one is tried for every event. Adding and
 * dropping one takes time only for its own strings, however many others there are. */
#ifndef ROUTING_ENDPOINT_INDEX_H
#define ROUTING_ENDPOINT_INDEX_H

#include "string_list.h"
#include "where.h"

struct subject;

/* An endpoint's own subscription, as of route.h; it owns its contents. All zero matches
 * every event. */
struct own_subscription {
    struct string_list sources, types, workspaces;
    struct where where;
};
void own_subscription_fini(struct own_subscription *o);

struct endpoint_index;

struct endpoint_index *endpoint_index_new(void);
void endpoint_index_free(struct endpoint_index *all); /* may be NULL */
/* Adds the subscription of this endpoint, or replaces it. Takes the contents: `taken` is
 * empty afterwards. `number` is how the caller calls the endpoint; the index needs 8 bytes
 * for each number up to the largest. */
void endpoint_index_put(struct endpoint_index *all, size_t number,
                        struct own_subscription *taken);
/* Does nothing when there is none. */
void endpoint_index_drop(struct endpoint_index *all, size_t number);
/* Valid until the next put or drop of this number; the index owns it. NULL: there is none. */
const struct own_subscription *
endpoint_index_get(const struct endpoint_index *all, size_t number);
/* The numbers of the endpoints that are subscribed to the event, ascending, each once;
 * valid until the next call. `s` is as for route_is_subscribed(). */
const size_t *endpoint_index_ask(struct endpoint_index *all, struct subject *s,
                                 size_t *count);

#endif
