/* check_event: `grapnel check --event`: what the pipeline would make of a body: type, workspace,
 * idempotency keys and endpoints, by the code with which the processes decide. */
#include "clock.h"
#include "conf.h"
#include "ctl.h"
#include "json_text.h"
#include "published.h"
#include "request_summary.h"
#include "retry_choice.h"
#include "route.h"
#include "sample.h"
#include "table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_MAX_BYTES = 1024 * 1024 };

/* The sender of the event: one of the two is set. */
struct check_sending {
    const struct source *source;
    const struct producer *producer;
};

/* The source or producer of --source, or the only one of the configuration. false: the reason
 * was printed. */
static bool choose_sender(struct ctl *c, struct check_sending *by)
{
    const struct settings *s = c->settings;
    const char *name = parsed_value(&c->parsed, "--source");
    struct conf_near near = {0};
    char hint[100];

    *by = (struct check_sending){0};
    if (!name && s->source_count + s->producer_count != 1) {
        complain(EXIT_USAGE,
                 "--source NAME is missing: the configuration has %zu %s and "
                 "%zu %s",
                 s->source_count, s->source_count == 1 ? "source" : "sources",
                 s->producer_count,
                 s->producer_count == 1 ? "producer" : "producers");
        return false;
    }
    if (!name)
        name = s->source_count ? s->sources[0].name : s->producers[0].name;
    by->source = settings_source(s, name);
    by->producer = settings_producer(s, name);
    if (!by->source && !by->producer) {
        near.text = name;
        for (size_t i = 0; i < s->source_count; i++)
            conf_near_try(&near, s->sources[i].name);
        for (size_t i = 0; i < s->producer_count; i++)
            conf_near_try(&near, s->producers[i].name);
        complain(EXIT_USAGE,
                 "the configuration has no source or producer \"%s\"%s", name,
                 conf_near_hint(&near, hint));
        return false;
    }
    if (by->producer && parsed_value(&c->parsed, "--type")) {
        complain(
            EXIT_USAGE,
            "%s is a producer, whose events contain their type: remove --type",
            name);
        return false;
    }
    return true;
}

/* How hard a delivery would be tried: {"policy","max_attempts","max_duration_ms",
 * "expires_in_ms"}; null: as the endpoint says. */
static json_t *retry_json(const struct settings *s,
                          const struct endpoint_settings *e,
                          struct subject *subject, const struct published *p)
{
    struct chosen_by by = route_chosen_by(s, e->name, subject);
    struct retry_choice c = route_choice(&by);
    struct retry_policy policy;
    char *own = p && p->retry_policy ? gr_strdup(p->retry_policy) : NULL;
    enum retry_choice_verdict verdict;

    if (own)
        c.policy = own;
    if (p && p->max_attempts)
        c.max_attempts = p->max_attempts;
    if (p && p->expires_in_ms)
        c.expires_in_ms = p->expires_in_ms;
    verdict = retry_choice_apply(s, e, &c, &policy, NULL);
    free(own);
    if (verdict == CHOICE_OWN && !c.expires_in_ms)
        return json_null();
    return json_pack("{s:s,s:o,s:o,s:o}", "policy", policy.name, "max_attempts",
                     json_number_or_null(policy.max_attempts),
                     "max_duration_ms",
                     json_number_or_null(policy.max_duration_ms),
                     "expires_in_ms", json_number_or_null(c.expires_in_ms));
}

static const char *priority_of(const struct settings *s,
                               const struct endpoint_settings *e,
                               struct subject *subject,
                               const struct published *p)
{
    struct chosen_by by = route_chosen_by(s, e->name, subject);

    return priority_name(p && p->priority ? p->priority
                                          : route_choice(&by).priority);
}

/* [{"endpoint":"crm","subscribed":true,"why":"by its own subscription","priority":"normal","retry":null}, …] */
static json_t *routing_json(const struct settings *s, struct subject *subject,
                            const struct published *published)
{
    json_t *out = json_array();

    for (size_t i = 0; i < s->endpoint_count; i++) {
        const char *name = s->endpoints[i].name;
        struct buf why;
        bool subscribed;

        buf_init(&why, WHY_MAX_BYTES);
        subscribed = route_is_subscribed(s, &s->endpoints[i], subject, &why);
        if (published && !published_for(published, name)) {
            subscribed = false;
            buf_reset(&why);
            buf_puts(
                &why,
                "the event is for other endpoints (`endpoints` in its object)");
        }
        json_array_append_new(
            out,
            json_pack("{s:s, s:b, s:o, s:s?, s:o}", "endpoint", name,
                      "subscribed", (int)subscribed, "why",
                      json_text((struct bytes){why.data, why.len}), "priority",
                      subscribed
                          ? priority_of(s, &s->endpoints[i], subject, published)
                          : NULL,
                      "retry",
                      subscribed
                          ? retry_json(s, &s->endpoints[i], subject, published)
                          : json_null()));
        buf_fini(&why);
    }
    return out;
}

static json_t *endpoints_json(const json_t *routing)
{
    json_t *out = json_array(), *r;
    size_t i;

    json_array_foreach(routing, i,
                       r) if (json_is_true(json_object_get(r, "subscribed")))
        json_array_append(out, json_object_get(r, "endpoint"));
    return out;
}

static json_t *source_event_json(struct ctl *c, const struct source *source,
                                 const struct event_sample *sample)
{
    struct bytes headers = {sample->headers.data, sample->headers.len};
    struct bytes body = {sample->body.data, sample->body.len};
    struct subject subject = {.source = source->name,
                              .provider = source->provider,
                              .headers = headers,
                              .body = body};
    struct request_summary f;
    json_t *out, *routing;

    request_summary_read(&f, source, headers, body);
    subject.id = f.id.len ? f.id.data : NULL;
    subject.type = f.type.data;
    subject.workspace = f.workspace.data;
    routing = *f.refused ? json_array()
                         : routing_json(c->settings, &subject, NULL);
    out = json_pack(
        "{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "source", source->name,
        "producer", 0, "id", f.id.len ? json_text_of(f.id.data) : json_null(),
        "type", json_text_of(f.type.data), "workspace",
        json_text_of(f.workspace.data), "refused", json_text_or_null(f.refused),
        "dedupe", request_summary_dedupe(&f, source, headers, body),
        "endpoints", endpoints_json(routing), "routing", routing);
    subject_fini(&subject);
    request_summary_fini(&f);
    return out;
}

/* In the document, `refused` is null, or the error that the producer gets with `status`, with
 * which /v1/events would refuse the object. */
static json_t *published_json(const struct settings *s,
                              const struct producer *by, struct bytes body)
{
    struct published_wrong w;
    struct published p;
    bool good = published_read(&p, body, &w) == GR_OK;
    enum published_verdict verdict = good ? published_judge(&p, s, by, &w)
                                          : PUBLISHED_UNKNOWN;
    int status = verdict == PUBLISHED_GOOD      ? 0
                 : verdict == PUBLISHED_UNKNOWN ? 400
                                                : 403;
    struct subject subject = {.source = by->name,
                              .id = p.id,
                              .type = p.type,
                              .workspace = p.workspace,
                              .headers = {"", 0},
                              .body = body};
    json_t *routing = status ? json_array() : routing_json(s, &subject, &p);
    char id[EVENT_ID_BYTES + 1] = "", *why = NULL;
    json_t *out;

    if (!status && p.id)
        published_event_id(id, by->name, (struct bytes){p.id, strlen(p.id)});
    if (status)
        why = gr_printf("%s%s%s", w.field, *w.field ? ": " : "the body ",
                        w.why);
    out = json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o}",
                    "source", by->name, "producer", 1, "id", json_text_of(p.id),
                    "event_id", json_text_or_null(id), "type",
                    json_text_of(p.type), "workspace",
                    json_text_of(p.workspace), "url",
                    p.url ? json_string(p.url) : json_null(), "status",
                    status ? status : 200, "refused", json_text_of(why),
                    "endpoints", endpoints_json(routing), "routing", routing);
    free(why);
    subject_fini(&subject);
    published_fini(&p);
    return out;
}

/* ---- text output ---- */

static void print_retry(const json_t *retry)
{
    int64_t attempts = integer_of(retry, "max_attempts"),
            duration = integer_of(retry, "max_duration_ms"),
            expires = integer_of(retry, "expires_in_ms");
    char time[32];

    if (!json_is_object(retry))
        return;
    printf("; retry policy %s", text_of(retry, "policy"));
    if (attempts)
        printf(", at most %lld attempts", (long long)attempts);
    if (duration)
        printf(", for at most %s", human_ms(duration, time));
    if (expires)
        printf(", expires after %s", human_ms(expires, time));
}

static void print_routing(const json_t *event)
{
    json_t *r;
    size_t i;

    json_array_foreach(json_object_get(event, "routing"), i, r)
    {
        bool subscribed = json_is_true(json_object_get(r, "subscribed"));
        const char *priority = text_of(r, "priority");

        printf("%s %s: %s, %s", i ? "           " : "endpoints  ",
               text_of(r, "endpoint"), subscribed ? "yes" : "no",
               text_of(r, "why"));
        print_retry(json_object_get(r, "retry"));
        if (subscribed && strcmp(priority, "normal") != 0)
            printf("; priority %s", priority);
        printf("\n");
    }
}

static void print_event(const json_t *event)
{
    char *endpoints = join_strings(json_object_get(event, "endpoints"),
                                   SIZE_MAX);
    const char *id = text_of(event, "id"), *type = text_of(event, "type"),
               *name;
    json_t *key, *value;
    size_t i;

    printf("source %s → %s → %s\n\n", text_of(event, "source"),
           *type ? type : "?", *endpoints ? endpoints : "no endpoint");
    printf("id          %s\n", *id ? id : "this file contains no id");
    printf("type        %s\n", type);
    printf("workspace   %s\n", text_of(event, "workspace"));
    json_array_foreach(json_object_get(event, "dedupe"), i, key)
    {
        printf("%s", i ? "             or " : "duplicate if ");
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
        printf("duplicate   never: this file contains no idempotency key\n");
    if (*text_of(event, "refused"))
        printf("endpoints   none: the event is refused and becomes a dead "
               "letter: %s\n",
               text_of(event, "refused"));
    else if (json_array_size(json_object_get(event, "routing")))
        print_routing(event);
    else
        printf("endpoints   none: the configuration has no endpoint\n");
    free(endpoints);
}

static void print_published(const json_t *event)
{
    char *endpoints = join_strings(json_object_get(event, "endpoints"),
                                   SIZE_MAX);
    const char *id = text_of(event, "id");
    const char *source = text_of(event, "source");
    const char *type = text_of(event, "type");

    if (*text_of(event, "refused")) {
        printf("producer %s → refused with %lld: %s\n", source,
               (long long)integer_of(event, "status"),
               text_of(event, "refused"));
    } else {
        printf("producer %s → %s → %s\n\n", source, type,
               *endpoints ? endpoints : "no endpoint");
        if (*id)
            printf("id          %s, from its idempotency key %s: each request "
                   "with this key gets this id\n",
                   text_of(event, "event_id"), id);
        else
            printf("id          a new one for each request: the object has no "
                   "\"id\" (or send a header Idempotency-Key)\n");
        printf("type        %s\n", type);
        printf("workspace   %s\n", text_of(event, "workspace"));
        if (*text_of(event, "url"))
            printf("url         %s, instead of its endpoint's\n",
                   text_of(event, "url"));
        print_routing(event);
    }
    free(endpoints);
}

/* Takes `event` over. */
static int print(const struct ctl *c, json_t *event)
{
    bool producer = json_is_true(json_object_get(event, "producer"));
    int code = producer && *text_of(event, "refused") ? EXIT_REFUSED : 0;

    if (c->json) {
        print_json(event);
        return code;
    }
    if (producer)
        print_published(event);
    else
        print_event(event);
    json_decref(event);
    return code;
}

int check_event(struct ctl *c, const char *file)
{
    struct sample_options options = {.type = parsed_value(&c->parsed, "--type"),
                                     .has_body = true,
                                     .now_ms = now_ms()};
    struct event_sample sample;
    struct check_sending by;
    char *text, why[200];
    size_t n;
    int code;

    if (!choose_sender(c, &by))
        return EXIT_USAGE;
    text = read_file(file, SAMPLE_BODY_BYTES, &n);
    if (!text)
        return EXIT_REFUSED;
    options.given = (struct bytes){text, n};
    if (by.producer) {
        code = print(c,
                     published_json(c->settings, by.producer, options.given));
    } else {
        /* With the headers that its provider sends with such a body. */
        if (sample_make(&sample, by.source, &options, why) == GR_OK)
            code = print(c, source_event_json(c, by.source, &sample));
        else
            code = complain(EXIT_REFUSED, "%s", why);
        sample_fini(&sample);
    }
    free(text);
    return code;
}
