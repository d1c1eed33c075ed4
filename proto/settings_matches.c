/* Warnings: subscriptions that no source or producer can match, and sources and
 * producers to which no endpoint is subscribed. */
#include "glob.h"
#include "route.h"
#include "settings_types.h"
#include <stdlib.h>

struct matching {
    struct conf *conf;
    const struct settings *settings;
    struct sender *senders;
    size_t sender_count;
};

/* A list of one, which is not copied. */
static struct text_list only(char **item)
{
    return (struct text_list){item, 1};
}

/* ---- a subscription, and who can match it ---- */

static bool any_meets(const struct matching *m, const struct subscription *w)
{
    for (size_t i = 0; i < m->sender_count; i++)
        if (subscription_meets(w, &m->senders[i]))
            return true;
    return false;
}

/* Each pattern of one list of `w` by itself: `part` points to the list. true: none
 * was warned of. */
static bool check_patterns(const struct matching *m,
                           const struct subscription *w,
                           const struct text_list **part, const char *what)
{
    const struct text_list *all = *part;
    bool good = true;

    for (size_t i = 0; i < all->count; i++) {
        struct text_list one = only(&all->items[i]);

        *part = &one;
        if (any_meets(m, w))
            continue;
        conf_warn_at(m->conf, all->items[i],
                     "no event can match %.100s: the sources and producers of "
                     "this subscription send no such %s. Compare it with their "
                     "`%ss`",
                     all->items[i], what, what);
        good = false;
    }
    *part = all;
    return good;
}

static bool check_sources(const struct matching *m,
                          const struct text_list *sources)
{
    bool good = true;

    for (size_t i = 0; i < sources->count; i++) {
        struct text_list one = only(&sources->items[i]);
        bool found = false;

        for (size_t k = 0; k < m->sender_count && !found; k++)
            found = route_list_takes(&one, m->senders[k].name);
        if (!found)
            conf_warn_at(m->conf, sources->items[i],
                         "no source or producer has a name like %.100s: "
                         "nothing is delivered for it",
                         sources->items[i]);
        good = good && found;
    }
    return good;
}

/* `name` is where to say what no single list explains. */
static void check_subscription(const struct matching *m, struct subscription *w,
                               const char *name)
{
    static const struct text_list all = {0};
    struct subscription types = {w->sources, w->types, &all, w->where};
    struct subscription workspaces = {w->sources, &all, w->workspaces,
                                      w->where};
    bool good = check_sources(m, w->sources);

    if (!good &&
        !any_meets(m, &(struct subscription){w->sources, &all, &all, w->where}))
        return; /* the rest follows from it */
    good = check_patterns(m, &types, &types.types, "type") && good;
    good = check_patterns(m, &workspaces, &workspaces.workspaces,
                          "workspace") &&
           good;
    if (good && !any_meets(m, w))
        conf_warn_at(m->conf, name,
                     "no source or producer can send an event with these "
                     "types and these workspaces: nothing is delivered for "
                     "this subscription");
}

static void check_subscriptions(const struct matching *m)
{
    const struct settings *s = m->settings;

    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];
        struct subscription own = route_own_subscription(e);

        if (e->enabled && route_has_conditions(e))
            check_subscription(m, &own, e->name);
    }
    for (size_t i = 0; i < s->route_count; i++) {
        const struct route *r = &s->routes[i];
        struct subscription w = route_subscription(r);

        if (r->endpoints.count)
            check_subscription(m, &w, r->endpoints.items[0]);
    }
}

/* ---- a sender, and who is subscribed to it ---- */

static bool route_is_used(const struct settings *s, const struct route *r)
{
    for (size_t i = 0; i < s->endpoint_count; i++)
        if (s->endpoints[i].enabled && route_names(r, s->endpoints[i].name))
            return true;
    return false;
}

static bool is_wanted(const struct settings *s, const struct sender *sender)
{
    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];
        struct subscription own = route_own_subscription(e);

        if (e->enabled && route_has_own(s, e) &&
            subscription_meets(&own, sender))
            return true;
    }
    for (size_t i = 0; i < s->route_count; i++) {
        struct subscription w = route_subscription(&s->routes[i]);

        if (subscription_meets(&w, sender) && route_is_used(s, &s->routes[i]))
            return true;
    }
    return false;
}

static void check_sender(const struct matching *m, const struct sender *all)
{
    struct sender sender = *all;

    if (!is_wanted(m->settings, all)) {
        conf_warn_at(m->conf, all->name,
                     "no endpoint is subscribed to it: its events are stored "
                     "and numbered, not delivered");
        return;
    }
    for (size_t i = 0; i < all->types->count; i++) {
        struct text_list one = only(&all->types->items[i]);

        sender.types = &one;
        if (!is_wanted(m->settings, &sender))
            conf_warn_at(m->conf, one.items[0],
                         "no endpoint is subscribed to %.100s of %s: such "
                         "events are stored and numbered, not delivered",
                         one.items[0], all->name);
    }
}

/* A file with one side only is being written: `check` says of it in its plan what is
 * not delivered. */
void settings_warn_matches(struct conf *c, const struct settings *s)
{
    struct matching m = {.conf = c, .settings = s};

    if (!s->endpoint_count || !(s->source_count + s->producer_count))
        return;
    m.senders = gr_alloc((s->source_count + s->producer_count) *
                         sizeof *m.senders);
    for (size_t i = 0; i < s->source_count; i++)
        m.senders[m.sender_count++] = route_source(&s->sources[i]);
    for (size_t i = 0; i < s->producer_count; i++)
        m.senders[m.sender_count++] = route_producer(&s->producers[i]);
    check_subscriptions(&m);
    for (size_t i = 0; i < m.sender_count; i++)
        check_sender(&m, &m.senders[i]);
    free(m.senders);
}
