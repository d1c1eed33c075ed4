/* route: which endpoints want an event. Pure; the sequencer decides with it,
 * and `grapnel check` tells with it what the sequencer would decide.
 *
 * An endpoint wants what its own subscription or any route that names it wants.
 * Its own subscription is its types, sources and workspaces, each of them "all"
 * when absent; it has none when all three are absent and a route names it
 * (else naming an endpoint in a route would narrow nothing). `enabled: false`
 * wants nothing. */
#ifndef PROTO_ROUTE_H
#define PROTO_ROUTE_H

#include "settings.h"

bool route_wants(const struct settings *settings,
                 const struct endpoint_settings *endpoint, const char *source,
                 const char *type, const char *workspace);

/* The endpoint's types, sources and workspaces are a subscription by
 * themselves (for `check`, which says where a wish comes from). */
bool route_has_own(const struct settings *settings,
                   const struct endpoint_settings *endpoint);
bool route_names(const struct route *route, const char *endpoint);
/* Any of the globs; an empty list takes everything. */
bool route_list_takes(const struct text_list *globs, const char *text);

#endif
