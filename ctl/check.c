/* check: the configuration's errors, or what will happen. The decision is
 * route.c's, which the sequencer asks, too. */
#include "clock.h"
#include "ctl.h"
#include "facts.h"
#include "json_text.h"
#include "profile.h"
#include "profile_doc.h"
#include "route.h"
#include "sample.h"
#include "table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERRORS_MAX_BYTES = 1024 * 1024 };

/* ---- errors ---- */

static json_t *lines_json(const char *text)
{
    json_t *out = json_array();

    while (*text) {
        size_t n = strcspn(text, "\n");

        json_array_append_new(out, json_text((struct bytes){text, n}));
        text += n + (text[n] == '\n');
    }
    return out;
}

/* true: no errors. */
static bool load(struct ctl *c)
{
    struct buf errors;

    buf_init(&errors, ERRORS_MAX_BYTES);
    buf_put(&errors, "", 0);
    c->settings = settings_load(c->config, &errors);
    if (!c->settings) {
        fwrite(errors.data, 1, errors.len, stderr);
        if (c->json)
            print_json(json_pack("{s:s, s:b, s:o}", "file", c->config, "ok", 0,
                                 "errors", lines_json(errors.data)));
    }
    buf_fini(&errors);
    return c->settings != NULL;
}

/* ---- which events go where ---- */

static json_t *texts_json(const struct text_list *l)
{
    json_t *out = json_array();

    for (size_t i = 0; i < l->count; i++)
        json_array_append_new(out, json_text_of(l->items[i]));
    if (!l->count)
        json_array_append_new(out, json_string("*"));
    return out;
}

/* In words; null without conditions. */
static json_t *where_json(const struct where *where)
{
    struct buf text;
    json_t *out;

    if (!where->count)
        return json_null();
    buf_init(&text, ERRORS_MAX_BYTES);
    where_say(where, &text);
    out = json_text((struct bytes){text.data, text.len});
    buf_fini(&text);
    return out;
}

/* One wish: joined with an equal one, or added. `known` finds them by their text. */
static void add_wish(json_t *wants, json_t *known,
                     const struct text_list *types,
                     const struct text_list *workspaces,
                     const struct where *where, const char *endpoint)
{
    json_t *wish = json_pack("{s:o, s:o, s:o}", "types", texts_json(types),
                             "workspaces", texts_json(workspaces), "where",
                             where_json(where));
    char *text = json_dumps(wish, JSON_COMPACT);
    json_t *equal = json_object_get(known, text);

    if (!equal) {
        equal = wish;
        json_object_set_new(wish, "endpoints", json_array());
        json_array_append(wants, wish);
        json_object_set(known, text, wish);
    }
    json_array_append_new(json_object_get(equal, "endpoints"),
                          json_string(endpoint));
    free(text);
    json_decref(wish);
}

/* Every wish that a source's events can fulfil. */
static json_t *wants_json(const struct settings *s, const char *source)
{
    json_t *wants = json_array(), *known = json_object();

    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];

        if (!e->enabled)
            continue;
        if (route_has_own(s, e) && route_list_takes(&e->sources, source))
            add_wish(wants, known, &e->types, &e->workspaces, &e->where,
                     e->name);
        for (size_t k = 0; k < s->route_count; k++) {
            const struct route *r = &s->routes[k];

            if (route_names(r, e->name) &&
                route_list_takes(&r->sources, source))
                add_wish(wants, known, &r->types, &r->workspaces, &r->where,
                         e->name);
        }
    }
    json_decref(known);
    return wants;
}

/* A producer is a source of its name; it has no provider. */
static void add_source(json_t *sources, const struct settings *s,
                       const char *name, const char *provider)
{
    json_array_append_new(sources, json_pack("{s:s, s:s?, s:b, s:o}", "source",
                                             name, "provider", provider,
                                             "producer", provider == NULL,
                                             "wants", wants_json(s, name)));
}

static json_t *names_json(const struct text_list *l)
{
    json_t *out = json_array();

    for (size_t i = 0; i < l->count; i++)
        json_array_append_new(out, json_text_of(l->items[i]));
    return out;
}

static json_t *plan_json(struct ctl *c)
{
    const struct settings *s = c->settings;
    json_t *sources = json_array(), *endpoints = json_array();

    for (size_t i = 0; i < s->source_count; i++)
        add_source(sources, s, s->sources[i].name, s->sources[i].provider);
    for (size_t i = 0; i < s->producer_count; i++)
        add_source(sources, s, s->producers[i].name, NULL);
    for (size_t i = 0; i < s->endpoint_count; i++)
        json_array_append_new(
            endpoints,
            json_pack("{s:s, s:o, s:b}", "endpoint", s->endpoints[i].name,
                      "url", json_text_of(s->endpoints[i].url), "enabled",
                      (int)s->endpoints[i].enabled));
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o}", "file", s->path, "ok", 1,
                     "sources", sources, "endpoints", endpoints, "variables",
                     names_json(&s->variables), "warnings",
                     names_json(&s->warnings));
}

/* "issue.*, cycle.*" */
static char *join(const json_t *texts)
{
    struct buf b;
    size_t i;
    json_t *t;

    buf_init(&b, 64 * 1024);
    json_array_foreach(texts, i, t)
        buf_printf(&b, "%s%s", i ? ", " : "", json_string_value(t));
    buf_put(&b, "", 0);
    return b.failed ? gr_strdup("…") : buf_take(&b);
}

static bool is_all(const json_t *texts)
{
    const char *first = json_string_value(json_array_get(texts, 0));

    return json_array_size(texts) == 1 && first && strcmp(first, "*") == 0;
}

static void print_wish(const char *kind, const char *source, const json_t *wish)
{
    const json_t *t = json_object_get(wish, "types");
    const json_t *w = json_object_get(wish, "workspaces");
    char *types = join(t), *workspaces = join(w);
    char *endpoints = join(json_object_get(wish, "endpoints"));

    printf("%s %s → %s", kind, source, is_all(t) ? "all types" : types);
    if (!is_all(w))
        printf(" of workspaces %s", workspaces);
    if (*text_of(wish, "where"))
        printf(" where %s", text_of(wish, "where"));
    printf(" → %s\n", endpoints);
    free(types);
    free(workspaces);
    free(endpoints);
}

/* A set of those who get anything. */
static json_t *wanting(const json_t *plan)
{
    json_t *source, *wish, *name, *names = json_object();
    size_t i, k, n;

    json_array_foreach(json_object_get(plan, "sources"), i, source)
        json_array_foreach(json_object_get(source, "wants"), k, wish)
            json_array_foreach(json_object_get(wish, "endpoints"), n, name)
                json_object_set_new(names, json_string_value(name),
                                    json_true());
    return names;
}

static void print_plan(const json_t *plan)
{
    json_t *source, *wish, *endpoint, *names = wanting(plan);
    size_t i, k;

    json_array_foreach(json_object_get(plan, "sources"), i, source)
    {
        const char *name = json_string_value(json_object_get(source, "source"));
        json_t *wants = json_object_get(source, "wants");
        const char *kind = json_is_true(json_object_get(source, "producer"))
                               ? "producer"
                               : "source";

        json_array_foreach(wants, k, wish) print_wish(kind, name, wish);
        if (!json_array_size(wants))
            printf("%s %s → no endpoint is subscribed: its events are stored "
                   "and numbered, not delivered\n",
                   kind, name);
    }
    json_array_foreach(json_object_get(plan, "endpoints"), i, endpoint)
    {
        const char *name = json_string_value(
            json_object_get(endpoint, "endpoint"));

        if (!json_is_true(json_object_get(endpoint, "enabled")))
            printf("endpoint %s is disabled: it gets nothing\n", name);
        else if (!json_object_get(names, name))
            printf("endpoint %s: no source or producer sends what it is "
                   "subscribed to\n",
                   name);
    }
    json_decref(names);
}

static void print_warnings(const struct text_list *warnings)
{
    for (size_t i = 0; i < warnings->count; i++)
        fprintf(stderr, "%s\n", warnings->items[i]);
}

/* They are set in this shell; a process has those of its start. */
static void print_variables(const json_t *variables)
{
    char *names = join(variables);

    if (json_array_size(variables))
        printf("\nSet in this shell: %s. A running process has the environment "
               "of its start:\n`grapnel check --running` asks whether they are "
               "set there. file:PATH needs no restart.\n",
               names);
    free(names);
}

/* ---- one event ---- */

static const struct source *choose_source(struct ctl *c)
{
    const char *name = parsed_value(&c->parsed, "--source");
    const struct settings *s = c->settings;
    struct conf_near near = {.text = name};
    const struct source *source;
    char hint[100];

    if (!name && s->source_count == 1)
        return &s->sources[0];
    if (!name) {
        complain(EXIT_USAGE, "which source? Say --source NAME (there are %zu)",
                 s->source_count);
        return NULL;
    }
    source = settings_source(s, name);
    if (source)
        return source;
    if (settings_producer(s, name)) {
        complain(EXIT_USAGE,
                 "%s is a producer, which names type and workspace itself: "
                 "--event is for what a provider sends to a source",
                 name);
        return NULL;
    }
    for (size_t i = 0; i < s->source_count; i++)
        conf_near_try(&near, s->sources[i].name);
    complain(EXIT_USAGE, "the configuration has no source \"%s\"%s", name,
             conf_near_hint(&near, hint));
    return NULL;
}

/* [{"endpoint":"crm","wants":true,"why":"by its own subscription"}, …] */
static json_t *routing_json(const struct settings *s, struct subject *subject)
{
    json_t *out = json_array();

    for (size_t i = 0; i < s->endpoint_count; i++) {
        struct buf why;
        bool wants;

        buf_init(&why, ERRORS_MAX_BYTES);
        wants = route_wants(s, &s->endpoints[i], subject, &why);
        json_array_append_new(
            out, json_pack("{s:s, s:b, s:o}", "endpoint", s->endpoints[i].name,
                           "wants", (int)wants, "why",
                           json_text((struct bytes){why.data, why.len})));
        buf_fini(&why);
    }
    return out;
}

static json_t *endpoints_json(const json_t *routing)
{
    json_t *out = json_array(), *r;
    size_t i;

    json_array_foreach(routing, i,
                       r) if (json_is_true(json_object_get(r, "wants")))
        json_array_append(out, json_object_get(r, "endpoint"));
    return out;
}

static json_t *event_json(struct ctl *c, const struct source *source,
                          const struct sample *sample)
{
    struct bytes headers = {sample->headers.data, sample->headers.len};
    struct bytes body = {sample->body.data, sample->body.len};
    struct subject subject = {.source = source->name,
                              .provider = source->provider,
                              .headers = headers,
                              .body = body};
    struct facts f;
    json_t *out, *routing;

    facts_read(&f, source, headers, body);
    subject.id = f.id.len ? f.id.data : NULL;
    subject.type = f.type.data;
    subject.workspace = f.workspace.data;
    routing = *f.refused ? json_array() : routing_json(c->settings, &subject);
    out = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "source", source->name,
        "id", f.id.len ? json_text_of(f.id.data) : json_null(), "type",
        json_text_of(f.type.data), "workspace", json_text_of(f.workspace.data),
        "refused", json_text_or_null(f.refused), "dedupe",
        facts_dedupe(&f, source, headers, body), "endpoints",
        endpoints_json(routing), "routing", routing);
    subject_fini(&subject);
    facts_fini(&f);
    return out;
}

static void print_dedupe(const json_t *event)
{
    json_t *key, *value;
    const char *name;
    size_t i;

    json_array_foreach(json_object_get(event, "dedupe"), i, key)
    {
        printf("%s", i ? "           or  " : "repeat if   ");
        json_object_foreach(json_object_get(key, "keys"), name, value)
        {
            char *safe = harmless(json_is_string(value)
                                      ? json_string_value(value)
                                      : "(not in this file)");

            printf("%s=%s ", name, safe);
            free(safe);
        }
        printf("was seen before\n");
    }
    if (!json_array_size(json_object_get(event, "dedupe")))
        printf("repeat if   never: nothing tells it from another\n");
}

static void print_routing(const json_t *event)
{
    json_t *r;
    size_t i;

    json_array_foreach(json_object_get(event, "routing"), i, r)
    {
        bool wants = json_is_true(json_object_get(r, "wants"));

        printf("%s %s: %s, %s\n", i ? "           " : "endpoints  ",
               text_of(r, "endpoint"), wants ? "yes" : "no", text_of(r, "why"));
    }
}

static void print_event(const json_t *event)
{
    char *endpoints = join(json_object_get(event, "endpoints"));
    const char *id = text_of(event, "id");
    const char *source = text_of(event, "source");
    const char *type = text_of(event, "type");

    printf("source %s → %s → %s\n\n", source, *type ? type : "?",
           *endpoints ? endpoints : "nobody");
    printf("id          %s\n", *id ? id : "none in this file");
    printf("type        %s\n", type);
    printf("workspace   %s\n", text_of(event, "workspace"));
    print_dedupe(event);
    if (*text_of(event, "refused"))
        printf("endpoints   none: it is refused, and becomes a dead letter: "
               "%s\n",
               text_of(event, "refused"));
    else if (json_array_size(json_object_get(event, "routing")))
        print_routing(event);
    else
        printf("endpoints   none: nobody wants it\n");
    free(endpoints);
}

static int check_event(struct ctl *c, const char *file)
{
    const struct source *source = choose_source(c);
    struct wish wish = {.type = parsed_value(&c->parsed, "--type"),
                        .has_body = true,
                        .now_ms = now_ms()};
    struct sample sample;
    char why[200], *body;
    json_t *event;
    int code = 0;
    size_t n;

    if (!source)
        return EXIT_USAGE;
    body = read_file(file, SAMPLE_BODY_BYTES, &n);
    if (!body)
        return EXIT_REFUSED;
    wish.given = (struct bytes){body, n};
    if (sample_make(&sample, source, &wish, why) == GR_OK) {
        event = event_json(c, source, &sample);
        if (!c->json)
            print_event(event);
        if (c->json)
            print_json(event);
        else
            json_decref(event);
    } else {
        code = complain(EXIT_REFUSED, "%s", why);
    }
    sample_fini(&sample);
    free(body);
    return code;
}

static void print_effective(struct ctl *c)
{
    struct buf out;

    buf_init(&out, 16 * 1024 * 1024);
    settings_print(c->settings, &out);
    fwrite(out.data, 1, out.len, stdout);
    buf_fini(&out);
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
               yaml.len ? "\nAs a source of its own:\n\n" : "",
               yaml.len ? yaml.data : "");
    buf_fini(&text);
    buf_fini(&yaml);
    return 0;
}

int run_check(struct ctl *c)
{
    const char *event = parsed_value(&c->parsed, "--event");
    bool print = parsed_value(&c->parsed, "--print") != NULL;
    bool running = parsed_value(&c->parsed, "--running") != NULL;
    const char *provider = parsed_value(&c->parsed, "--provider");
    json_t *plan;

    if (running && (print || event || provider))
        return complain(EXIT_USAGE, "--running goes with neither --print, "
                                    "--event nor --provider");
    if (provider && (print || event))
        return complain(EXIT_USAGE,
                        "--provider goes with neither --print nor --event");
    if (provider)
        return check_provider(c, provider);
    if (print && (c->json || event))
        return complain(
            EXIT_USAGE,
            "--print is YAML: it goes with neither --json nor --event");
    if (!event && (parsed_value(&c->parsed, "--source") ||
                   parsed_value(&c->parsed, "--type")))
        return complain(EXIT_USAGE, "--source and --type go with --event FILE");
    if (running)
        return check_running(c);
    if (!load(c))
        return EXIT_CONFIG;
    if (event)
        return check_event(c, event);
    if (print) {
        print_effective(c);
        return 0;
    }
    plan = plan_json(c);
    if (c->json) {
        print_json(plan);
        return 0;
    }
    print_warnings(&c->settings->warnings);
    if (c->settings->warnings.count)
        printf("%s: no errors, %zu warning%s\n\n", c->settings->path,
               c->settings->warnings.count,
               c->settings->warnings.count == 1 ? "" : "s");
    else
        printf("%s: no errors\n\n", c->settings->path);
    print_plan(plan);
    print_variables(json_object_get(plan, "variables"));
    json_decref(plan);
    return 0;
}
