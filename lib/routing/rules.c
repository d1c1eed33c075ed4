/* rules: judges each part of a subscription, and says it in words. */
#include "rules.h"
#include "glob.h"
#include "operational.h"
#include <string.h>

enum { SHOWN = 5 }; /* patterns in a sentence */

static struct rule of_list(const char *name, const struct string_list *patterns,
                           const char *value)
{
    struct rule r = {.name = name,
                     .value = value,
                     .patterns = patterns,
                     .result = patterns->count ? RULE_NOT_MET : RULE_MET};

    for (size_t i = 0; i < patterns->count && !r.pattern; i++)
        if (glob_match(patterns->items[i], value))
            r.pattern = patterns->items[i];
    if (r.pattern)
        r.result = RULE_MET;
    return r;
}

/* Operational events go only to those who name their source literally. */
static struct rule of_source(const struct string_list *patterns,
                             const char *value)
{
    struct rule r = of_list("source", patterns, value);

    if (strcmp(value, OPERATIONAL_SOURCE) == 0) {
        r.pattern = string_list_has(patterns, value) ? value : NULL;
        r.result = r.pattern ? RULE_MET : RULE_NOT_MET;
    }
    return r;
}

static void put_patterns(const struct string_list *patterns, struct buf *out)
{
    for (size_t i = 0; i < patterns->count && i < SHOWN; i++)
        buf_printf(out, "%s%s",
                   i == 0                     ? ""
                   : i + 1 == patterns->count ? " or "
                                              : ", ",
                   patterns->items[i]);
    if (patterns->count > SHOWN)
        buf_printf(out, " and %zu more", patterns->count - SHOWN);
}

static void say(const struct rule *r, struct buf *why)
{
    if (r->result == RULE_MET && !r->pattern) {
        buf_printf(why, "any %s", r->name);
        return;
    }
    buf_printf(why, "%s %s ", r->name, *r->value ? r->value : "(empty)");
    if (r->pattern && strcmp(r->pattern, r->value) == 0)
        buf_puts(why, "is named");
    else if (r->pattern)
        buf_printf(why, "matches %s", r->pattern);
    else if (!r->patterns->count)
        buf_puts(why, "has to be named in `sources`");
    else {
        buf_puts(why, "does not match ");
        put_patterns(r->patterns, why);
    }
}

static enum rule_result judge_where(const struct where *w, struct subject *s,
                                    struct buf *why)
{
    size_t at = why->len;

    if (!w->count)
        return RULE_MET;
    if (s->gone) {
        buf_printf(why, "%sit depends on the condition ", at ? "; " : "");
        where_print(w, why);
        return RULE_UNKNOWN;
    }
    buf_puts(why, at ? "; " : "");
    if (!where_holds(w, s, why))
        return RULE_NOT_MET;
    buf_puts(why, "the condition ");
    where_print(w, why);
    buf_puts(why, " is met");
    return RULE_MET;
}

enum rule_result rules_judge(const struct subscription *w, struct subject *s,
                             struct rule rules[RULES], struct buf *why)
{
    enum rule_result all = RULE_MET;
    bool said = false;

    rules[0] = of_source(w->sources, s->source);
    rules[1] = of_list("type", w->types, s->type);
    rules[2] = of_list("workspace", w->workspaces, s->workspace);
    rules[3] = (struct rule){.name = "where", .result = RULE_UNKNOWN};
    for (size_t i = 0; i < 3; i++)
        if (rules[i].result == RULE_NOT_MET)
            all = RULE_NOT_MET;
    for (size_t i = 0; i < 3; i++) {
        if (rules[i].result != all)
            continue; /* of a refusal, only what refuses it is said */
        buf_puts(why, said ? ", " : "");
        say(&rules[i], why);
        said = true;
    }
    if (all == RULE_NOT_MET) {
        rules[3].result = w->where->count ? RULE_UNKNOWN : RULE_MET;
        return all;
    }
    rules[3].result = judge_where(w->where, s, why);
    return rules[3].result;
}

bool rules_next(const struct settings *settings,
                const struct endpoint_settings *endpoint, size_t *n,
                struct subscription *out, size_t *route)
{
    if (*n == 0) {
        *n = 1;
        if (route_has_own(settings, endpoint)) {
            *out = route_own_subscription(endpoint);
            *route = 0;
            return true;
        }
    }
    for (; *n <= settings->route_count; ++*n) {
        const struct route *r = &settings->routes[*n - 1];

        if (route_names(r, endpoint->name)) {
            *out = route_subscription(r);
            *route = (*n)++;
            return true;
        }
    }
    return false;
}
