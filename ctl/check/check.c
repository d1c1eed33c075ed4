/* check: `grapnel check`: the errors and warnings of the configuration, and which events go to
 * which endpoints, by route.c, with which the sequencer decides, too. */
#include "audit_key.h"
#include "check_replicate.h"
#include "conf.h"
#include "config.h"
#include "ctl.h"
#include "json_text.h"
#include "operational.h"
#include "own_folder.h"
#include "profile.h"
#include "profile_doc.h"
#include "route.h"
#include "table.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERRORS_MAX_BYTES = 1024 * 1024 };

/* ---- errors ---- */

/* Reads the whole configuration and prints its errors. true: it has none. */
static bool load(struct ctl *c)
{
    struct buf errors;

    buf_init(&errors, ERRORS_MAX_BYTES);
    buf_put(&errors, "", 0);
    c->settings = settings_load(c->config, &errors);
    if (!c->settings)
        fwrite(errors.data, 1, errors.len, stderr);
    if (!c->settings && c->json) {
        json_t *lines = json_array();

        for (const char *at = errors.data; *at;) {
            size_t n = strcspn(at, "\n");

            json_array_append_new(lines, json_text((struct bytes){at, n}));
            at += n + (at[n] == '\n');
        }
        print_json(json_pack("{s:s, s:b, s:o}", "file", c->config, "ok", 0,
                             "errors", lines));
    }
    buf_fini(&errors);
    return c->settings != NULL;
}

/* ---- which events go where ---- */

static json_t *strings_json(const struct string_list *l)
{
    json_t *out = json_array();

    for (size_t i = 0; i < l->count; i++)
        json_array_append_new(out, json_text_of(l->items[i]));
    return out;
}

/* One subscription; an equal one that is in the list already gets the endpoint instead.
 * `known` finds them by their text. No types, no workspaces: all, written "*". */
static void add_subscription(json_t *subscriptions, json_t *known,
                             const struct string_list *types,
                             const struct string_list *workspaces,
                             const struct where *where, const char *endpoint)
{
    json_t *subscription = json_pack(
        "{s:o, s:o, s:n}", "types",
        types->count ? strings_json(types) : json_pack("[s]", "*"),
        "workspaces",
        workspaces->count ? strings_json(workspaces) : json_pack("[s]", "*"),
        "where");
    json_t *equal;
    struct buf condition;
    char *text;

    if (where->count) {
        buf_init(&condition, ERRORS_MAX_BYTES);
        where_print(where, &condition);
        json_object_set_new(
            subscription, "where",
            json_text((struct bytes){condition.data, condition.len}));
        buf_fini(&condition);
    }
    text = json_dumps(subscription, JSON_COMPACT);
    equal = json_object_get(known, text);
    if (!equal) {
        equal = subscription;
        json_object_set_new(subscription, "endpoints", json_array());
        json_array_append(subscriptions, subscription);
        json_object_set(known, text, subscription);
    }
    json_array_append_new(json_object_get(equal, "endpoints"),
                          json_string(endpoint));
    free(text);
    json_decref(subscription);
}

/* A sender with every subscription that its events can match. A producer or a relay is a source
 * of its name, without a provider. */
static void add_sender(json_t *sources, const struct settings *s,
                       const struct sender *sender, const char *kind,
                       const char *provider)
{
    json_t *subscriptions = json_array(), *known = json_object();

    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];
        struct subscription own = route_own_subscription(e);

        if (!e->enabled)
            continue;
        if (route_has_own(s, e) && subscription_meets(&own, sender))
            add_subscription(subscriptions, known, &e->types, &e->workspaces,
                             &e->where, e->name);
        for (size_t k = 0; k < s->route_count; k++) {
            const struct route *r = &s->routes[k];
            struct subscription w = route_subscription(r);

            if (route_names(r, e->name) && subscription_meets(&w, sender))
                add_subscription(subscriptions, known, &r->types,
                                 &r->workspaces, &r->where, e->name);
        }
    }
    json_decref(known);
    json_array_append_new(
        sources, json_pack("{s:s, s:s, s:s?, s:b, s:o}", "source", sender->name,
                           "kind", kind, "provider", provider, "producer",
                           strcmp(kind, "producer") == 0, "subscriptions",
                           subscriptions));
}

static json_t *plan_json(struct ctl *c)
{
    const struct settings *s = c->settings;
    static const struct string_list all = {0};
    json_t *sources = json_array(), *endpoints = json_array();

    for (size_t i = 0; i < s->source_count; i++) {
        struct sender sender = route_source(&s->sources[i]);

        add_sender(sources, s, &sender, "source", s->sources[i].provider);
    }
    for (size_t i = 0; i < s->producer_count; i++) {
        struct sender sender = route_producer(&s->producers[i]);

        add_sender(sources, s, &sender, "producer", NULL);
    }
    for (size_t i = 0; i < s->relay_count; i++) {
        struct sender sender = route_producer(&s->relays[i].producer);

        add_sender(sources, s, &sender, "relay", NULL);
    }
    /* Nobody has to be subscribed to operational events. */
    add_sender(sources, s,
               &(struct sender){OPERATIONAL_SOURCE, &operational_types, &all},
               "source", OPERATIONAL_SOURCE);
    if (!json_array_size(json_object_get(
            json_array_get(sources, json_array_size(sources) - 1),
            "subscriptions")))
        json_array_remove(sources, json_array_size(sources) - 1);
    for (size_t i = 0; i < s->endpoint_count; i++)
        json_array_append_new(
            endpoints,
            json_pack("{s:s, s:o, s:b}", "endpoint", s->endpoints[i].name,
                      "url", json_text_of(s->endpoints[i].url), "enabled",
                      (int)s->endpoints[i].enabled));
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "file", s->path,
                     "ok", 1, "sources", sources, "endpoints", endpoints,
                     "variables", strings_json(&s->variables), "warnings",
                     strings_json(&s->warnings), "audit_key_file",
                     s->audit.key ? json_null()
                                  : json_sprintf("%s/audit.key", s->state_dir));
}

static bool is_all(const json_t *strings)
{
    const char *first = json_string_value(json_array_get(strings, 0));

    return json_array_size(strings) == 1 && first && strcmp(first, "*") == 0;
}

static void print_subscription(const char *kind, const char *source,
                               const json_t *subscription)
{
    const json_t *t = json_object_get(subscription, "types");
    const json_t *w = json_object_get(subscription, "workspaces");
    char *types = join_strings(t, SIZE_MAX),
         *workspaces = join_strings(w, SIZE_MAX);
    char *endpoints = join_strings(json_object_get(subscription, "endpoints"),
                                   SIZE_MAX);

    printf("%s %s → %s", kind, source, is_all(t) ? "all types" : types);
    if (!is_all(w))
        printf(" of workspaces %s", workspaces);
    if (*text_of(subscription, "where"))
        printf(" where %s", text_of(subscription, "where"));
    printf(" → %s\n", endpoints);
    free(types);
    free(workspaces);
    free(endpoints);
}

static void print_plan(const json_t *plan)
{
    json_t *source, *subscription, *endpoint, *name, *reached = json_object();
    size_t i, k, n;

    json_array_foreach(json_object_get(plan, "sources"), i, source)
    {
        json_t *subscriptions = json_object_get(source, "subscriptions");
        const char *from = json_string_value(json_object_get(source, "source"));
        const char *kind = text_of(source, "kind");

        json_array_foreach(subscriptions, k, subscription)
        {
            print_subscription(kind, from, subscription);
            json_array_foreach(json_object_get(subscription, "endpoints"), n,
                               name)
                json_object_set_new(reached, json_string_value(name),
                                    json_true());
        }
        if (!json_array_size(subscriptions))
            printf("%s %s → no endpoint is subscribed: its events are stored "
                   "and numbered, not delivered\n",
                   kind, from);
    }
    json_array_foreach(json_object_get(plan, "endpoints"), i, endpoint)
    {
        const char *to = json_string_value(
            json_object_get(endpoint, "endpoint"));

        if (!json_is_true(json_object_get(endpoint, "enabled")))
            printf("endpoint %s is switched off (enabled: false): it gets no "
                   "events\n",
                   to);
        else if (!json_object_get(reached, to))
            printf("endpoint %s: no source, producer or relay sends what it is "
                   "subscribed to\n",
                   to);
    }
    json_decref(reached);
}

/* ---- the key of the audit chain ---- */

/* Where it is, as text for people; the caller's. NULL: the configuration has it. */
static char *audit_key_text(const struct settings *s)
{
    char *path = audit_key_path(s->state_dir), why[200], *text;
    char *key = s->audit.key ? NULL : audit_key_read(path, why);

    if (s->audit.key)
        text = NULL;
    else if (key)
        text = gr_printf("Audit rows are chained with the key in %s, which "
                         "`grapnel backup` does not copy:\nkeep a copy of it "
                         "elsewhere, or set audit.key.",
                         path);
    else if (errno == ENOENT)
        text = gr_printf("The first process that starts makes %s, the key of "
                         "the audit chain.\n`grapnel backup` does not copy it: "
                         "keep a copy of it elsewhere, or set audit.key.",
                         path);
    else
        text = gr_printf("The key of the audit chain, %s, cannot be used: %s",
                         path, why);
    free(key);
    free(path);
    return text;
}

/* ---- what is outside of the configuration ---- */

static void check_folder(const char *key, const char *path,
                         struct string_list *errors,
                         struct string_list *warnings)
{
    char *trouble = own_folder_trouble(path);

    if (trouble)
        string_list_give(errors, gr_printf("%s: %s", key, trouble));
    else if (own_folder_lacks_parent(path))
        string_list_give(warnings,
                         gr_printf("%s: on this machine no process can create "
                                   "%s: the folder above it does not exist",
                                   key, path));
    free(trouble);
}

/* Prints the errors. true: there are none; warnings are among those of the configuration. */
static bool is_usable(struct ctl *c)
{
    struct string_list errors = {0};
    bool good;

    check_folder("state_dir", c->settings->state_dir, &errors,
                 &c->settings->warnings);
    check_folder("run_dir", c->settings->run_dir, &errors,
                 &c->settings->warnings);
    check_replicate(c->settings, &errors, &c->settings->warnings);
    good = !errors.count;
    for (size_t i = 0; i < errors.count; i++)
        fprintf(stderr, "%s\n", errors.items[i]);
    if (!good && c->json)
        print_json(json_pack("{s:s, s:b, s:o}", "file", c->config, "ok", 0,
                             "errors", strings_json(&errors)));
    string_list_fini(&errors);
    return good;
}

/* ---- a profile ---- */

static int check_provider(struct ctl *c, const char *name)
{
    const struct profile *p = profile_find(name);
    struct conf_near near = {.text = name};
    struct buf text, yaml;
    char hint[100];

    for (size_t i = 0; profile_name(i); i++)
        conf_near_try(&near, profile_name(i));
    if (!p)
        return complain(EXIT_REFUSED, "there is no provider \"%.60s\"%s", name,
                        conf_near_hint(&near, hint));
    buf_init(&text, 1024 * 1024);
    buf_init(&yaml, 1024 * 1024);
    buf_puts(&yaml, "");
    profile_describe(p, &text);
    if (!profile_is_custom(p))
        profile_as_custom(p, &yaml);
    if (c->json)
        print_json(json_pack("{s:s, s:o, s:o}", "provider", name, "text",
                             json_text_of(text.data), "custom",
                             json_text_of(yaml.len ? yaml.data : "")));
    else
        printf("%s%s%s", text.data,
               yaml.len ? "\nThe same as provider: custom:\n\n" : "",
               yaml.len ? yaml.data : "");
    buf_fini(&text);
    buf_fini(&yaml);
    return 0;
}

/* The text without the marks of Markdown. */
static void add_suggested(json_t *list, const char *key, const struct source *s,
                          struct buf *text)
{
    size_t n = 0;

    for (const char *at = text->data; at && *at; at++)
        if (*at != '`')
            text->data[n++] = *at;
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:o}", "source", s->name, "key", key,
                        "text", json_text((struct bytes){text->data, n})));
}

/* What `order: suggested` and `states: suggested` mean for each source that has them. */
static json_t *suggested_json(const struct settings *s)
{
    json_t *out = json_array();

    for (size_t i = 0; i < s->source_count; i++) {
        const struct source *one = &s->sources[i];
        struct buf text;

        buf_init(&text, 16 * 1024);
        if (one->order.suggested) {
            profile_describe_order(one->profile, &text);
            text.data[strcspn(text.data, ";")] = 0;
            add_suggested(out, "order", one, &text);
            buf_reset(&text);
        }
        if (one->states.suggested) {
            profile_describe_states(one->profile, &text);
            add_suggested(out, "states", one, &text);
        }
        buf_fini(&text);
    }
    return out;
}

static void print_suggested(const json_t *plan)
{
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(plan, "suggested"), i, row)
        printf("%s of %s: %s (suggested by its profile)\n", text_of(row, "key"),
               text_of(row, "source"), text_of(row, "text"));
}

int run_check(struct ctl *c)
{
    const char *event = parsed_value(&c->parsed, "--event");
    bool print = parsed_value(&c->parsed, "--print") != NULL;
    bool running = parsed_value(&c->parsed, "--running") != NULL;
    const char *provider = parsed_value(&c->parsed, "--provider");
    const char *against = parsed_value(&c->parsed, "--against");
    char *variables, *audit;
    struct buf yaml;
    json_t *plan;

    if (running && (print || event || provider))
        return complain(
            EXIT_USAGE,
            "--running cannot be combined with --print, --event or --provider");
    if (provider && (print || event))
        return complain(
            EXIT_USAGE,
            "--provider cannot be combined with --print or --event");
    if (against && (running || print || event || provider))
        return complain(EXIT_USAGE,
                        "--against cannot be combined with --running, --print, "
                        "--event or --provider");
    if (!against && parsed_value(&c->parsed, "--examples"))
        return complain(EXIT_USAGE, "--examples needs --against");
    if (provider)
        return check_provider(c, provider);
    if (against)
        return check_against(c, against);
    if (print && (c->json || event))
        return complain(EXIT_USAGE, "--print prints YAML: it cannot be "
                                    "combined with --json or --event");
    if (!event && (parsed_value(&c->parsed, "--source") ||
                   parsed_value(&c->parsed, "--type")))
        return complain(EXIT_USAGE, "--source and --type need --event FILE");
    if (running)
        return check_running(c);
    if (!load(c))
        return EXIT_CONFIG;
    if (event)
        return check_event(c, event);
    if (print) {
        buf_init(&yaml, 16 * 1024 * 1024);
        settings_print(c->settings, &yaml);
        fwrite(yaml.data, 1, yaml.len, stdout);
        buf_fini(&yaml);
        return 0;
    }
    if (!is_usable(c))
        return EXIT_CONFIG;
    plan = plan_json(c);
    json_object_set_new(plan, "suggested", suggested_json(c->settings));
    if (c->json) {
        print_json(plan);
        return 0;
    }
    for (size_t i = 0; i < c->settings->warnings.count; i++)
        fprintf(stderr, "%s\n", c->settings->warnings.items[i]);
    if (c->settings->warnings.count)
        printf("%s: no errors, %zu warning%s\n\n", c->settings->path,
               c->settings->warnings.count,
               c->settings->warnings.count == 1 ? "" : "s");
    else
        printf("%s: no errors\n\n", c->settings->path);
    print_plan(plan);
    print_suggested(plan);
    variables = join_strings(json_object_get(plan, "variables"), SIZE_MAX);
    if (*variables)
        printf("\nSet in this shell: %s. A running process has the environment "
               "of its start:\n`grapnel check --running` checks whether they "
               "are set there. file:PATH needs no restart.\n",
               variables);
    free(variables);
    audit = audit_key_text(c->settings);
    if (audit)
        printf("\n%s\n", audit);
    free(audit);
    json_decref(plan);
    return 0;
}
