#include "route.h"
#include "glob.h"
#include <string.h>

bool route_list_takes(const struct text_list *globs, const char *text)
{
    for (size_t i = 0; i < globs->count; i++)
        if (glob_match(globs->items[i], text))
            return true;
    return globs->count == 0;
}

bool route_names(const struct route *route, const char *endpoint)
{
    for (size_t i = 0; i < route->endpoints.count; i++)
        if (strcmp(route->endpoints.items[i], endpoint) == 0)
            return true;
    return false;
}

bool route_has_own(const struct settings *settings,
                   const struct endpoint_settings *endpoint)
{
    if (endpoint->types.count || endpoint->sources.count ||
        endpoint->workspaces.count)
        return true;
    for (size_t i = 0; i < settings->route_count; i++)
        if (route_names(&settings->routes[i], endpoint->name))
            return false;
    return true;
}

bool route_wants(const struct settings *settings,
                 const struct endpoint_settings *endpoint, const char *source,
                 const char *type, const char *workspace)
{
    if (!endpoint->enabled)
        return false;
    if (route_has_own(settings, endpoint) &&
        route_list_takes(&endpoint->types, type) &&
        route_list_takes(&endpoint->sources, source) &&
        route_list_takes(&endpoint->workspaces, workspace))
        return true;
    for (size_t i = 0; i < settings->route_count; i++) {
        const struct route *r = &settings->routes[i];

        if (route_names(r, endpoint->name) &&
            route_list_takes(&r->sources, source) &&
            route_list_takes(&r->types, type) &&
            route_list_takes(&r->workspaces, workspace))
            return true;
    }
    return false;
}
