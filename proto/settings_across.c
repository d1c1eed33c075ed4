/* What must hold across sections: names that are taken, names that are meant. */
#include "alloc.h"
#include "settings_types.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct named {
    const char *name;
    size_t nth;
};

static int by_name(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    if (order)
        return order;
    return a->nth < b->nth ? -1 : a->nth > b->nth;
}

/* `first` points at the first struct's name; structs are `size` apart. */
static const char *name_at(const void *first, size_t size, size_t i)
{
    return *(const char *const *)((const char *)first + i * size);
}

static void check_doubles(struct conf *c, const struct named *all, size_t n,
                          const char *what)
{
    struct buf where;

    buf_init(&where, PATH_MAX + 32);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(all[i - 1].name, all[i].name) != 0)
            continue;
        buf_reset(&where);
        conf_where(c, all[i - 1].name, &where);
        conf_error_at(c, all[i].name, "another %s has this name (%s)", what,
                      where.data);
    }
    buf_fini(&where);
}

static void check_names(struct conf *c, const void *first, size_t size,
                        size_t count, const char *what)
{
    struct named *all = gr_alloc(count * sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (name_at(first, size, i))
            all[n++] = (struct named){name_at(first, size, i), i};
    qsort(all, n, sizeof *all, by_name);
    check_doubles(c, all, n, what);
    free(all);
}

static bool names_any(const void *first, size_t size, size_t count,
                      const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (name_at(first, size, i) && !strcmp(name_at(first, size, i), name))
            return true;
    return false;
}

/* The name at `text` must be one of these. */
static void check_reference(struct conf *c, const char *text, const void *first,
                            size_t size, size_t count, const char *what)
{
    struct conf_near near = {.text = text};
    char hint[100];

    if (names_any(first, size, count, text))
        return;
    for (size_t i = 0; i < count; i++)
        if (name_at(first, size, i))
            conf_near_try(&near, name_at(first, size, i));
    conf_error_at(c, text, "there is no %s \"%.63s\"%s", what, text,
                  conf_near_hint(&near, hint));
}

static void check_source_names(struct conf *c, const struct settings *s,
                               const struct text_list *names)
{
    for (size_t i = 0; i < names->count; i++)
        if (!strchr(names->items[i], '*') &&
            !settings_producer(s, names->items[i]))
            check_reference(c, names->items[i], s->sources, sizeof *s->sources,
                            s->source_count, "source");
}

static void check_route(struct conf *c, const struct settings *s,
                        const struct route *r)
{
    check_source_names(c, s, &r->sources);
    for (size_t i = 0; i < r->endpoints.count; i++)
        check_reference(c, r->endpoints.items[i], s->endpoints,
                        sizeof *s->endpoints, s->endpoint_count, "endpoint");
}

static void check_policy_name(struct conf *c, const struct settings *s,
                              const char *name)
{
    if (name)
        check_reference(c, name, s->policies, sizeof *s->policies,
                        s->policy_count, "retry policy");
}

/* Each is a source of its name, and a token says which one speaks. */
static void check_producers(struct conf *c, const struct settings *s)
{
    for (size_t i = 0; i < s->producer_count; i++) {
        const struct producer *p = &s->producers[i];

        if (p->name && settings_source(s, p->name))
            conf_error_at(c, p->name, "a source has this name");
        for (size_t j = 0; j < i; j++)
            for (size_t k = 0; k < p->tokens.count; k++)
                if (text_list_has(&s->producers[j].tokens, p->tokens.items[k]))
                    conf_error_at(c, p->tokens.items[k],
                                  "another producer has this token");
    }
}

static void check_alerts(struct conf *c, const struct settings *s)
{
    for (size_t i = 0; i < s->alert_count; i++) {
        const struct alert_rule *r = &s->alerts[i];

        check_source_names(c, s, &r->sources);
        for (size_t k = 0; k < r->endpoints.count; k++)
            if (!strchr(r->endpoints.items[k], '*'))
                check_reference(c, r->endpoints.items[k], s->endpoints,
                                sizeof *s->endpoints, s->endpoint_count,
                                "endpoint");
        for (size_t k = 0; k < r->notify.count; k++)
            check_reference(c, r->notify.items[k], s->notifiers,
                            sizeof *s->notifiers, s->notifier_count,
                            "notifier");
    }
}

void settings_check_policies(struct conf *c, const struct settings *s,
                             size_t declared)
{
    check_names(c, s->policies, sizeof *s->policies, declared, "retry policy");
    check_policy_name(c, s, s->defaults.retry_policy);
    for (size_t i = 0; i < s->endpoint_count; i++)
        check_policy_name(c, s, s->endpoints[i].retry_policy);
}

void settings_check_across(struct conf *c, const struct settings *s,
                           size_t declared_alerts)
{
    check_names(c, s->sources, sizeof *s->sources, s->source_count, "source");
    check_names(c, s->producers, sizeof *s->producers, s->producer_count,
                "producer");
    check_producers(c, s);
    check_names(c, s->endpoints, sizeof *s->endpoints, s->endpoint_count,
                "endpoint");
    check_names(c, s->alerts, sizeof *s->alerts, declared_alerts, "alert");
    check_names(c, s->notifiers, sizeof *s->notifiers, s->notifier_count,
                "notifier");
    check_alerts(c, s);
    for (size_t i = 0; i < s->endpoint_count; i++)
        check_source_names(c, s, &s->endpoints[i].sources);
    for (size_t i = 0; i < s->route_count; i++)
        check_route(c, s, &s->routes[i]);
}

void settings_drop_hidden(const struct conf_section *section, void *items,
                          size_t declared, size_t *count)
{
    size_t size = section->size, kept = declared;
    char *all = items;

    for (size_t i = declared; i < *count; i++) {
        if (names_any(all, size, declared, name_at(all, size, i)))
            conf_fini(section, all + i * size);
        else
            memmove(all + kept++ * size, all + i * size, size);
    }
    *count = kept;
}
