/* route: matches one event against subscriptions and routes. */
#include "route.h"
#include "glob.h"
#include "operational.h"
#include "retry_choice.h"
#include <string.h>

bool route_list_takes(const struct string_list *globs, const char *text)
{
    for (size_t i = 0; i < globs->count; i++)
        if (glob_match(globs->items[i], text))
            return true;
    return globs->count == 0;
}

bool route_lists_meet(const struct string_list *a, const struct string_list *b)
{
    for (size_t i = 0; i < a->count; i++)
        for (size_t k = 0; k < b->count; k++)
            if (glob_meets(a->items[i], b->items[k]))
                return true;
    return !a->count || !b->count;
}

static bool takes_source(const struct string_list *sources, const char *source)
{
    return strcmp(source, OPERATIONAL_SOURCE) == 0
               ? string_list_has(sources, source)
               : route_list_takes(sources, source);
}

bool subscription_meets(const struct subscription *w, const struct sender *s)
{
    return takes_source(w->sources, s->name) &&
           route_lists_meet(w->types, s->types) &&
           route_lists_meet(w->workspaces, s->workspaces);
}

/* It may send any type. */
struct sender route_source(const struct source *source)
{
    static const struct string_list all = {0};

    return (struct sender){source->name, &all, &source->workspaces};
}

struct sender route_producer(const struct producer *producer)
{
    return (struct sender){producer->name, &producer->types,
                           &producer->workspaces};
}

bool route_names(const struct route *route, const char *endpoint)
{
    for (size_t i = 0; i < route->endpoints.count; i++)
        if (strcmp(route->endpoints.items[i], endpoint) == 0)
            return true;
    return false;
}

bool route_has_conditions(const struct endpoint_settings *e)
{
    return e->types.count || e->sources.count || e->workspaces.count ||
           e->where.count;
}

bool route_has_own(const struct settings *settings,
                   const struct endpoint_settings *endpoint)
{
    if (route_has_conditions(endpoint))
        return true;
    for (size_t i = 0; i < settings->route_count; i++)
        if (route_names(&settings->routes[i], endpoint->name))
            return false;
    return true;
}

struct subscription route_subscription(const struct route *r)
{
    return (struct subscription){&r->sources, &r->types, &r->workspaces,
                                 &r->where};
}

struct subscription route_own_subscription(const struct endpoint_settings *e)
{
    return (struct subscription){&e->sources, &e->types, &e->workspaces,
                                 &e->where};
}

void route_choose(struct chosen_by *by, const struct route *r)
{
    if (r->choice.policy && (!by->policy || r < by->policy))
        by->policy = r;
    if (r->choice.max_attempts && (!by->max_attempts || r < by->max_attempts))
        by->max_attempts = r;
    if (r->choice.expires_in_ms && (!by->expires_in || r < by->expires_in))
        by->expires_in = r;
    if (r->choice.priority && (!by->priority || r < by->priority))
        by->priority = r;
}

struct retry_choice route_choice(const struct chosen_by *by)
{
    return (struct retry_choice){
        .policy = by->policy ? by->policy->choice.policy : NULL,
        .max_attempts = by->max_attempts ? by->max_attempts->choice.max_attempts
                                         : 0,
        .expires_in_ms = by->expires_in ? by->expires_in->choice.expires_in_ms
                                        : 0,
        .priority = by->priority ? by->priority->choice.priority : 0};
}

struct chosen_by route_chosen_by(const struct settings *settings,
                                 const char *endpoint, struct subject *s)
{
    struct chosen_by by = {0};

    for (size_t i = 0; i < settings->route_count; i++) {
        const struct route *r = &settings->routes[i];
        struct subscription w = route_subscription(r);

        if (!retry_choice_is_empty(&r->choice) && route_names(r, endpoint) &&
            subscription_takes(&w, s, NULL))
            route_choose(&by, r);
    }
    return by;
}

static void put_reason(struct buf *why, const char *label, const char *text)
{
    if (why)
        buf_printf(why, "%s%s", label, text);
}

bool subscription_takes(const struct subscription *w, struct subject *s,
                        struct buf *why)
{
    if (!takes_source(w->sources, s->source)) {
        put_reason(why, "not subscribed to source ", s->source);
        return false;
    }
    if (!route_list_takes(w->types, s->type)) {
        put_reason(why, "not subscribed to type ", s->type);
        return false;
    }
    if (!route_list_takes(w->workspaces, s->workspace)) {
        put_reason(why, "not subscribed to workspace ", s->workspace);
        return false;
    }
    return where_holds(w->where, s, why);
}

/* `why` ends with the reason of one subscription; that of a route begins with "route 2: ". */
static bool judge(const struct subscription *w, struct subject *s, size_t route,
                  struct buf *why)
{
    size_t at = why ? why->len : 0;

    if (why && at)
        buf_puts(why, "; ");
    if (why && route)
        buf_printf(why, "route %zu: ", route);
    if (!subscription_takes(w, s, why))
        return false;
    if (why) { /* reasons of other subscriptions are no longer needed */
        buf_reset(why);
        if (route)
            buf_printf(why, "by route %zu", route);
        else
            buf_puts(why, "by its own subscription");
    }
    return true;
}

bool route_is_subscribed(const struct settings *settings,
                         const struct endpoint_settings *endpoint,
                         struct subject *s, struct buf *why)
{
    struct subscription own = route_own_subscription(endpoint);

    if (!endpoint->enabled) {
        put_reason(why, "", "the endpoint is switched off (enabled: false)");
        return false;
    }
    if (route_has_own(settings, endpoint) && judge(&own, s, 0, why))
        return true;
    for (size_t i = 0; i < settings->route_count; i++) {
        const struct route *r = &settings->routes[i];
        struct subscription by_route = route_subscription(r);

        if (route_names(r, endpoint->name) && judge(&by_route, s, i + 1, why))
            return true;
    }
    return false;
}
