/* subscriptions: an index of endpoints by the workspaces that they name. */
#include "subscriptions.h"
#include "lookup.h"
#include "operational.h"
#include "retry_choice.h"
#include "route.h"
#include <stdlib.h>
#include <string.h>

/* One subscription: an endpoint's own, or a route's. */
struct entry {
    struct subscription is;
    size_t first, count;         /* its endpoints: a part of `numbers` */
    const struct route *chooses; /* the route, if it chooses; or NULL */
};

struct under {
    const char *workspace;
    size_t entry;
};

struct subscriptions {
    struct entry *entries;
    size_t entry_count;
    size_t *numbers; /* of all entries' endpoints */
    size_t number_count;
    struct under *unders; /* by workspace, then by entry */
    size_t under_count;
    size_t *always; /* entries that are tried for every event */
    size_t always_count;
    bool *marked; /* by number: it is in `subscribed` */
    size_t *subscribed;
    size_t subscribed_count;
    struct chosen_by *chosen; /* by number; NULL: no route chooses */
    size_t end;               /* of `chosen` */
    bool operational;         /* a subscription names OPERATIONAL_SOURCE */
};

/* ---- making it ---- */

struct making {
    struct subscriptions *all;
    const struct settings *settings;
    const size_t *numbers;
    struct lookup names;
    size_t *named; /* by endpoint: the last route that names it; 0: none */
};

/* Entries that are found by a workspace match it, so the workspace is not compared again. */
static const struct string_list any = {0};

static bool is_literal(const struct string_list *globs)
{
    for (size_t i = 0; i < globs->count; i++)
        if (strchr(globs->items[i], '*'))
            return false;
    return globs->count > 0;
}

/* Its endpoints are the last ones of `numbers`, from `first` on. */
static void add_entry(struct subscriptions *all, struct subscription is,
                      size_t first, const struct route *route)
{
    const struct string_list *in = is.workspaces;

    if (first == all->number_count) /* no endpoint */
        return;
    all->operational |= string_list_has(is.sources, OPERATIONAL_SOURCE);
    if (is_literal(in)) {
        all->unders = gr_realloc(all->unders, (all->under_count + in->count) *
                                                  sizeof *all->unders);
        for (size_t i = 0; i < in->count; i++)
            all->unders[all->under_count++] = (struct under){in->items[i],
                                                             all->entry_count};
        is.workspaces = &any;
    } else {
        all->always[all->always_count++] = all->entry_count;
    }
    all->entries[all->entry_count++] = (struct entry){
        is, first, all->number_count - first,
        route && !retry_choice_is_empty(&route->choice) ? route : NULL};
}

static void add_endpoint(struct making *m, size_t i)
{
    const struct endpoint_settings *e = &m->settings->endpoints[i];

    if (e->enabled && !e->internal)
        m->all->numbers[m->all->number_count++] = m->numbers[i];
}

/* Names are unique, because the settings were checked. */
static size_t endpoint_named(const struct making *m, const char *name)
{
    size_t i, at = 0;

    while ((i = lookup_next(&m->names, lookup_text(name), &at)) != LOOKUP_END)
        if (strcmp(m->settings->endpoints[i].name, name) == 0)
            break;
    return i;
}

static void add_route(struct making *m, size_t route)
{
    const struct route *r = &m->settings->routes[route];
    struct subscriptions *all = m->all;
    size_t first = all->number_count;

    all->numbers = gr_realloc(all->numbers, (first + r->endpoints.count) *
                                                sizeof *all->numbers);
    for (size_t k = 0; k < r->endpoints.count; k++) {
        size_t i = endpoint_named(m, r->endpoints.items[k]);

        if (i == LOOKUP_END || m->named[i] == route + 1)
            continue;
        m->named[i] = route + 1;
        add_endpoint(m, i);
    }
    add_entry(all, route_subscription(r), first, r);
}

static int compare_unders(const void *a, const void *b)
{
    const struct under *x = a, *y = b;
    int order = strcmp(x->workspace, y->workspace);

    return order ? order : (x->entry > y->entry) - (x->entry < y->entry);
}

/* Routes first: an endpoint that a route names may have no subscription of its own. */
static void add_all(struct making *m)
{
    const struct settings *s = m->settings;
    struct subscriptions *all = m->all;
    size_t n = 0;

    for (size_t i = 0; i < s->endpoint_count; i++)
        lookup_put(&m->names, lookup_text(s->endpoints[i].name), i);
    for (size_t i = 0; i < s->route_count; i++)
        add_route(m, i);
    all->numbers = gr_realloc(all->numbers,
                              (all->number_count + s->endpoint_count) *
                                  sizeof *all->numbers);
    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];
        size_t first = all->number_count;

        if (m->named[i] && !route_has_conditions(e))
            continue;
        add_endpoint(m, i);
        add_entry(all, route_own_subscription(e), first, NULL);
    }
    if (all->under_count)
        qsort(all->unders, all->under_count, sizeof *all->unders,
              compare_unders);
    for (size_t i = 0; i < all->under_count; i++)
        if (!n || compare_unders(&all->unders[n - 1], &all->unders[i]) != 0)
            all->unders[n++] = all->unders[i];
    all->under_count = n;
}

struct subscriptions *subscriptions_new(const struct settings *s,
                                        const size_t *numbers, size_t end)
{
    struct subscriptions *all = gr_alloc(sizeof *all);
    size_t max = s->route_count + s->endpoint_count;
    struct making m = {.all = all, .settings = s, .numbers = numbers};

    all->entries = gr_alloc(max * sizeof *all->entries);
    all->always = gr_alloc(max * sizeof *all->always);
    all->marked = gr_alloc(end * sizeof *all->marked);
    all->subscribed = gr_alloc(s->endpoint_count * sizeof *all->subscribed);
    m.named = gr_alloc(s->endpoint_count * sizeof *m.named);
    all->end = end;
    add_all(&m);
    for (size_t i = 0; i < all->entry_count && !all->chosen; i++)
        if (all->entries[i].chooses)
            all->chosen = gr_alloc(end * sizeof *all->chosen);
    lookup_fini(&m.names);
    free(m.named);
    return all;
}

void subscriptions_free(struct subscriptions *all)
{
    if (!all)
        return;
    free(all->entries);
    free(all->numbers);
    free(all->unders);
    free(all->always);
    free(all->marked);
    free(all->subscribed);
    free(all->chosen);
    free(all);
}

/* ---- asking ---- */

static void judge(struct subscriptions *all, size_t entry, struct subject *s)
{
    const struct entry *e = &all->entries[entry];

    if (!subscription_takes(&e->is, s, NULL))
        return;
    for (size_t i = e->first; i < e->first + e->count; i++) {
        if (e->chooses)
            route_choose(&all->chosen[all->numbers[i]], e->chooses);
        if (all->marked[all->numbers[i]])
            continue;
        all->marked[all->numbers[i]] = true;
        all->subscribed[all->subscribed_count++] = all->numbers[i];
    }
}

static size_t first_under(const struct subscriptions *all,
                          const char *workspace)
{
    size_t lo = 0, hi = all->under_count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (strcmp(all->unders[mid].workspace, workspace) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int compare_numbers(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

const size_t *subscriptions_ask(struct subscriptions *all, struct subject *s,
                                size_t *count)
{
    for (size_t i = 0; all->chosen && i < all->subscribed_count; i++)
        all->chosen[all->subscribed[i]] = (struct chosen_by){0};
    all->subscribed_count = 0;
    for (size_t i = 0; i < all->always_count; i++)
        judge(all, all->always[i], s);
    for (size_t i = first_under(all, s->workspace);
         i < all->under_count &&
         strcmp(all->unders[i].workspace, s->workspace) == 0;
         i++)
        judge(all, all->unders[i].entry, s);
    for (size_t i = 0; i < all->subscribed_count; i++)
        all->marked[all->subscribed[i]] = false;
    if (all->subscribed_count > 1)
        qsort(all->subscribed, all->subscribed_count, sizeof *all->subscribed,
              compare_numbers);
    *count = all->subscribed_count;
    return all->subscribed;
}

bool subscriptions_operational(const struct subscriptions *all)
{
    return all->operational;
}

const struct chosen_by *subscriptions_chosen_by(const struct subscriptions *all,
                                                size_t number)
{
    return all->chosen && number < all->end ? &all->chosen[number] : NULL;
}
