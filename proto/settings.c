/* settings: the tables of grapnel.yaml, and what must hold across sections.
 * Kinds of values: settings_types.c; reading by tables: base/conf. */
#include "settings.h"
#include "alert_kinds.h"
#include "bounds.h"
#include "glob.h"
#include "profile.h"
#include "settings_types.h"
#include "settings_verify.h"
#include "signature.h"
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SECOND_MS 1000LL
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS   (60 * MINUTE_MS)
#define DAY_MS    (24 * HOUR_MS)
#define LONG_MS   (3650 * DAY_MS)

#define NOT_YET "is not in this version"

/* Where a key's value goes. */
#define AT(type, field)    .offset = offsetof(struct type, field)
#define COUNT(type, field) .count_offset = offsetof(struct type, field)

/* ---- small sections of the process itself ---- */

static const char *const level_words[] = {"debug", "info", "warn", "error",
                                          NULL};
static const char *const format_words[] = {"text", "json", NULL};

static const struct conf_section log_section = {
    .name = "log",
    .keys =
        (const struct conf_key[]){
            {.name = "level",
             .type = &conf_as_choice,
             AT(settings, log_level),
             .choices = level_words,
             .fallback = "info",
             .help = "the least level that is written"},
            {.name = "format",
             .type = &conf_as_either,
             AT(settings, log_json),
             .choices = format_words,
             .fallback = "text",
             .help = "one fact a line, as text or as JSON"},
            {0},
        },
};

static const struct conf_section archive_section = {
    .name = "archive",
    .keys =
        (const struct conf_key[]){
            {.name = "keep",
             .type = &conf_as_duration,
             AT(settings, ingress.archive_keep_ms),
             .fallback = "30d",
             .min = SECOND_MS,
             .max = LONG_MS,
             .help = "how long the raw requests are kept after they were "
                     "handed on"},
            {.name = "max_size",
             .type = &conf_as_size,
             AT(settings, ingress.archive_max_bytes),
             .fallback = "50GiB",
             .min = 64 * 1024,
             .help = "what was handed on goes first; the door answers 503 "
                     "only when what was not fills it"},
            {0},
        },
};

static const struct conf_section ingress_section = {
    .name = "ingress",
    .help = "The door for HTTP.",
    .keys =
        (const struct conf_key[]){
            {.name = "listen",
             .type = &settings_as_listen,
             AT(settings, ingress.host),
             COUNT(settings, ingress.port),
             .fallback = "127.0.0.1:8080",
             .help = "where webhooks are taken"},
            {.name = "max_body",
             .type = &conf_as_size,
             AT(settings, ingress.max_body_bytes),
             .fallback = "1MiB",
             .min = 1,
             .max = BODY_MAX_BYTES,
             .help = "a larger body is answered with 413"},
            {.name = "max_connections",
             .type = &conf_as_int,
             AT(settings, ingress.max_connections),
             .fallback = "4096",
             .min = 1,
             .max = 1000000,
             .help = "how many may be open at once"},
            {.name = "read_timeout",
             .type = &conf_as_duration,
             AT(settings, ingress.read_timeout_ms),
             .fallback = "10s",
             .min = 100,
             .max = HOUR_MS,
             .help = "how long a request may take to arrive"},
            {.name = "trusted_proxies",
             .type = &settings_as_networks,
             AT(settings, ingress.trusted_proxies),
             COUNT(settings, ingress.trusted_proxy_count),
             .help = "whose X-Forwarded-For is believed"},
            {.name = "archive",
             .type = &conf_as_map,
             .section = &archive_section,
             .help = "every request that got a 200, raw"},
            {0},
        },
};

static const struct conf_section history_section = {
    .name = "history",
    .keys =
        (const struct conf_key[]){
            {.name = "keep",
             .type = &conf_as_duration,
             AT(settings, history_keep_ms),
             .fallback = "30d",
             .min = SECOND_MS,
             .max = LONG_MS,
             .help = "how long events, deliveries and attempts are kept after "
                     "they are done"},
            {0},
        },
};

static const struct conf_section dlq_section = {
    .name = "dlq",
    .keys =
        (const struct conf_key[]){
            {.name = "keep",
             .type = &conf_as_duration,
             AT(settings, dlq_keep_ms),
             .fallback = "30d",
             .min = SECOND_MS,
             .max = LONG_MS,
             .help = "how long dead letters are kept"},
            {0},
        },
};

static const struct conf_section metrics_section = {
    .name = "metrics",
    .keys =
        (const struct conf_key[]){
            {.name = "interval",
             .type = &conf_as_duration,
             AT(settings, metrics_interval_ms),
             .fallback = "5s",
             .min = 100,
             .max = HOUR_MS,
             .help = "how often each process publishes its numbers"},
            {.name = "publish",
             .type = &conf_as_text,
             AT(settings, metrics_publish),
             .check = wrong_publish,
             .fallback = "tcp://127.0.0.1:7464",
             .form = "ZeroMQ address",
             .help = "where grapnel-console forwards the numbers of all "
                     "processes: the one address that a monitor needs. Not "
                     "encrypted, and whoever reaches it may read"},
            {0},
        },
};

static const struct conf_section console_section = {
    .name = "console",
    .help = "A reader: metrics for Prometheus, and alerts. Delivery never "
            "needs it.",
    .keys =
        (const struct conf_key[]){
            {.name = "listen",
             .type = &settings_as_listen,
             AT(settings, console.host),
             COUNT(settings, console.port),
             .fallback = "127.0.0.1:8081",
             .help = "where `/metrics` is; it needs no token"},
            {.name = "tokens",
             .type = &conf_as_texts,
             AT(settings, console.tokens),
             .flags = CONF_SECRET | CONF_FILLED,
             .form = "list of secrets",
             .help = "`Authorization: Bearer` for what is more than numbers "
                     "(`/api/alerts`); without any it is refused"},
            {.name = "evaluate",
             .type = &conf_as_duration,
             AT(settings, console.evaluate_ms),
             .fallback = "1m",
             .min = 100,
             .max = HOUR_MS,
             .help = "how often alert rules are judged"},
            {0},
        },
};

/* ---- sources ---- */

const struct conf_section settings_dedupe = {
    .name = "dedupe",
    .help = "An event is a repeat when any one of the keys was seen within "
            "ttl.",
    .keys =
        (const struct conf_key[]){
            {.name = "keys",
             .type = &settings_as_keys,
             .offset = 0,
             .help = "absent: the profile's"},
            {.name = "ttl",
             .type = &conf_as_duration,
             AT(dedupe, ttl_ms),
             .min = SECOND_MS,
             .max = LONG_MS,
             .help = "absent: the profile's"},
            {.name = "window",
             .type = &conf_as_duration,
             AT(dedupe, window_ms),
             .fallback = "0s",
             .min = 0,
             .max = LONG_MS,
             .help = "also a repeat: the same source, workspace, type and body "
                     "within this time under another key (5m is usual; 0s: "
                     "off)"},
            {0},
        },
};

static bool key_has(const struct dedupe *d, enum expr_kind kind)
{
    for (size_t i = 0; i < d->count; i++)
        for (size_t j = 0; j < d->keys[i].count; j++)
            if (d->keys[i].parts[j].kind == kind)
                return true;
    return false;
}

static void unknown_provider(const struct conf_value *v, const char *name)
{
    struct conf_near near = {.text = name};
    struct buf all;
    char hint[100];

    buf_init(&all, 1024);
    for (size_t i = 0; profile_name(i); i++) {
        conf_near_try(&near, profile_name(i));
        buf_printf(&all, "%s%s", i ? ", " : "", profile_name(i));
    }
    conf_error_key(v, "provider", "\"%.60s\" is none of: %s%s", name, all.data,
                   conf_near_hint(&near, hint));
    buf_fini(&all);
}

static void check_own_verify(const struct conf_value *v, const struct source *s)
{
    bool has = conf_has(v, "verify");

    if (profile_is_custom(s->profile) && !has)
        conf_error_key(v, "verify",
                       "is missing: provider custom says all of it");
    if (!profile_is_custom(s->profile) && has)
        conf_error_key(v, "verify", "is for provider: custom; %s brings it",
                       s->provider);
}

/* Reads what the file said, then lets the profile fill the rest. */
static void check_source(const struct conf_value *v, void *target)
{
    struct source *s = target;

    if (s->name && s->order.backfill &&
        strlen(s->name) + strlen(BACKFILL_PREFIX) > NAME_MAX_BYTES)
        conf_error_key(v, "order",
                       "backfill makes an endpoint backfill:NAME: the source's "
                       "name is too long for that");
    if (key_has(&s->dedupe, EXPR_ID) && !conf_has(v, "id"))
        conf_error_key(v, "dedupe", "has a key made of id, but there is no id");
    if (!s->provider)
        return;
    s->profile = profile_find(s->provider);
    if (!s->profile) {
        unknown_provider(v, s->provider);
        return;
    }
    check_own_verify(v, s);
    profile_fill(s);
    settings_check_verify(v, s);
}

static const struct conf_section source_section = {
    .name = "source",
    .help = "`POST /in/<name>`: where webhooks come from.",
    .size = sizeof(struct source),
    .check = check_source,
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_text,
             AT(source, name),
             .check = wrong_name,
             .flags = CONF_REQUIRED,
             .form = "name",
             .help = "its name, and its path"},
            {.name = "provider",
             .type = &conf_as_text,
             AT(source, provider),
             .flags = CONF_REQUIRED,
             .form = "name of a provider (PROVIDERS.md), or `custom`",
             .help = "what brings signature, id, type, workspace and "
                     "idempotency keys"},
            {.name = "verify",
             .type = &settings_as_verify,
             AT(source, verify),
             .section = &settings_verify,
             .flags = CONF_OPTIONAL,
             .help = "the signature; for `provider: custom`"},
            {.name = "secrets",
             .type = &conf_as_texts,
             AT(source, secrets),
             .flags = CONF_REQUIRED | CONF_SECRET | CONF_FILLED,
             .form = "list of secrets",
             .help = "any of them may match (rotation)"},
            {.name = "clock_skew",
             .type = &conf_as_duration,
             AT(source, clock_skew_ms),
             .min = SECOND_MS,
             .max = DAY_MS,
             .help = "how far a signed time may be off, both ways; absent: as "
                     "the profile says, mostly `5m`"},
            {.name = "public_url",
             .type = &settings_as_url,
             AT(source, public_url),
             .check = wrong_public_url,
             .help = "the URL as the provider knows it, without a query; for "
                     "those that sign it"},
            {.name = "webhook_id",
             .type = &conf_as_text,
             AT(source, webhook_id),
             .check = wrong_line,
             .help = "the webhook's id at the provider, for those that sign it "
                     "(PayPal)"},
            {.name = "batch",
             .type = &conf_as_bool,
             AT(source, batch),
             .help = "the body is a JSON list, and each element an event"},
            {.name = "id",
             .type = &settings_as_expr,
             AT(source, id),
             .help = "the provider's id of the event"},
            {.name = "type",
             .type = &settings_as_expr,
             AT(source, type),
             .help = "what happened; `unknown` where there is none"},
            {.name = "workspace",
             .type = &settings_as_expr,
             AT(source, workspace),
             .help = "whose it is; `default` where there is none"},
            {.name = "dedupe",
             .type = &settings_as_dedupe,
             AT(source, dedupe),
             .section = &settings_dedupe,
             .help = "how repeats are known"},
            {.name = "workspaces",
             .type = &conf_as_texts,
             AT(source, workspaces),
             .check = wrong_line,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "those it may name; an event of another is kept and "
                     "refused, a dead letter. All when absent"},
            {.name = "rate_limit",
             .type = &settings_as_rate,
             AT(source, rate_limit),
             .help = "how many genuine requests each ingress takes, in bursts "
                     "of that many at most; the rest is answered with 429"},
            {.name = "order",
             .type = &conf_as_map,
             AT(source, order),
             .section = &settings_order_section,
             .help = "in which order its events are let go"},
            {.name = "states",
             .type = &conf_as_map,
             AT(source, states),
             .section = &settings_states_section,
             .flags = CONF_OPTIONAL,
             .help = "its events are moves of an object's state"},
            {0},
        },
    .known =
        (const struct conf_known[]){
            {"secret", "unknown key (did you mean secrets?)"},
            {0},
        },
};

/* ---- endpoints ---- */

static const char *const ordered_words[] = {[LANES_NONE] = "none",
                                            [LANES_WORKSPACE] = "workspace",
                                            [LANES_ALL] = "all",
                                            NULL};
static const char *const on_dead_words[] = {"continue", "halt", NULL};

/* Those of endpoint_defaults, and again of each endpoint. The defaults' own
 * defaults are here; an endpoint that says nothing takes what stands there. */
#define PACE_KEYS(d)                                                 \
    {.name = "timeout",                                              \
     .type = &conf_as_duration,                                      \
     AT(endpoint_settings, timeout_ms),                              \
     .fallback = (d) ? "15s" : NULL,                                 \
     .min = 1,                                                       \
     .max = HOUR_MS,                                                 \
     .help = "of one attempt, from connecting to the answer's end"}, \
        {.name = "connect_timeout",                                  \
         .type = &conf_as_duration,                                  \
         AT(endpoint_settings, connect_timeout_ms),                  \
         .fallback = (d) ? "5s" : NULL,                              \
         .min = 1,                                                   \
         .max = HOUR_MS,                                             \
         .help = "of its connecting, TLS included"},                 \
        {.name = "max_in_flight",                                    \
         .type = &conf_as_int,                                       \
         AT(endpoint_settings, max_in_flight),                       \
         .fallback = (d) ? "32" : NULL,                              \
         .min = 1,                                                   \
         .max = 10000,                                               \
         .help = "how many attempts may go on at once"},             \
        {.name = "allowed_ports",                                    \
         .type = &settings_as_ports,                                 \
         AT(endpoint_settings, allowed_ports),                       \
         .help = "the ports that a URL may name; all when absent"},  \
        {.name = "ordered",                                          \
         .type = &conf_as_choice,                                    \
         AT(endpoint_settings, ordered),                             \
         .choices = ordered_words,                                   \
         .fallback = (d) ? "none" : NULL,                            \
         .help = "which deliveries wait for the end of the one "     \
                 "before: those of a workspace, or all"},            \
        {.name = "breaker",                                          \
         .type = &conf_as_bool,                                      \
         AT(endpoint_settings, breaker),                             \
         .fallback = (d) ? "true" : NULL,                            \
         .help = "after five failures in a row the rest waits "      \
                 "while one attempt at a time asks whether it is "   \
                 "back; then what waits goes out on a ramp. "        \
                 "`false`: each retry at its own time, whatever "    \
                 "becomes of others"},                               \
        {.name = "rate_limit",                                       \
         .type = &settings_as_rate,                                  \
         AT(endpoint_settings, rate_limit),                          \
         .help = "attempts begun in a second, minute or hour; no "   \
                 "limit when absent"},                               \
    {                                                                \
        .name = "retry_policy", .type = &conf_as_text,               \
        AT(endpoint_settings, retry_policy), .check = wrong_name,    \
        .fallback = (d) ? "default" : NULL, .form = "name",          \
        .help = "when a failure is tried again"                      \
    }

static const struct conf_section defaults_section = {
    .name = "endpoint_defaults",
    .help = "What endpoints leave open.",
    .size = sizeof(struct endpoint_settings),
    .keys = (const struct conf_key[]){PACE_KEYS(true), {0}},
};

/* endpoint_defaults was read before: its key stands first in the table. */
static void init_endpoint(void *user, void *target)
{
    const struct settings *s = user;
    struct endpoint_settings *e = target;

    e->timeout_ms = s->defaults.timeout_ms;
    e->connect_timeout_ms = s->defaults.connect_timeout_ms;
    e->max_in_flight = s->defaults.max_in_flight;
    e->rate_limit = s->defaults.rate_limit;
    e->breaker = s->defaults.breaker;
    e->allowed_ports = s->defaults.allowed_ports;
    e->ordered = s->defaults.ordered;
}

static void check_tls(const struct conf_value *v, void *target)
{
    const struct tls *t = target;

    if (conf_has(v, "certificate") != conf_has(v, "key"))
        conf_error(v, "certificate and key go together");
    else if (t->certificate && t->key && !pem_pair(t->certificate, t->key))
        conf_error_key(v, "key", "is not the key of this certificate");
}

static const struct conf_section tls_section = {
    .name = "tls",
    .help = "For an endpoint with an authority of its own, or one that asks "
            "who we are.",
    .check = check_tls,
    .keys =
        (const struct conf_key[]){
            {.name = "ca",
             .type = &conf_as_text,
             AT(tls, ca),
             .check = wrong_pem_certificate,
             .flags = CONF_SECRET,
             .form = "`file:path`, or PEM",
             .help = "certificates that are trusted instead of the system's"},
            {.name = "certificate",
             .type = &conf_as_text,
             AT(tls, certificate),
             .check = wrong_pem_certificate,
             .flags = CONF_SECRET,
             .form = "`file:path`, or PEM",
             .help = "what we show, with the chain behind it"},
            {.name = "key",
             .type = &conf_as_text,
             AT(tls, key),
             .check = wrong_pem_key,
             .flags = CONF_SECRET,
             .form = "`file:path`, or PEM",
             .help = "its private key, not encrypted"},
            {0},
        },
};

static void check_endpoint(const struct conf_value *v, void *target)
{
    const struct endpoint_settings *e = target;
    int port = e->url && !wrong_url(e->url) ? url_port(e->url) : 0;

    if (port && e->allowed_ports.count && !ports_has(&e->allowed_ports, port))
        conf_error_key(v, "url", "port %d is not among allowed_ports", port);
    if (e->url && (e->tls.ca || e->tls.certificate) &&
        strncasecmp(e->url, "https:", 6) != 0)
        conf_error_key(v, "tls", "means nothing with an http URL");
}

static const struct conf_section endpoint_section = {
    .name = "endpoint",
    .help = "Where events are delivered. Keys of `endpoint_defaults` that are "
            "absent here are taken from there.",
    .size = sizeof(struct endpoint_settings),
    .init = init_endpoint,
    .check = check_endpoint,
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_text,
             AT(endpoint_settings, name),
             .check = wrong_name,
             .flags = CONF_REQUIRED,
             .form = "name",
             .help = "its name"},
            {.name = "url",
             .type = &settings_as_url,
             AT(endpoint_settings, url),
             .check = wrong_url,
             .flags = CONF_REQUIRED,
             .help = "http or https"},
            {.name = "types",
             .type = &conf_as_texts,
             AT(endpoint_settings, types),
             .check = wrong_line,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "what it wants, like `issue.*`; all when absent"},
            {.name = "sources",
             .type = &conf_as_texts,
             AT(endpoint_settings, sources),
             .check = wrong_name_glob,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "from which sources; all when absent"},
            {.name = "workspaces",
             .type = &conf_as_texts,
             AT(endpoint_settings, workspaces),
             .check = wrong_line,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "of which workspaces; all when absent"},
            {.name = "where",
             .type = &settings_as_where,
             AT(endpoint_settings, where),
             .help = "and only those whose headers or JSON are like this"},
            {.name = "signing_secrets",
             .type = &conf_as_texts,
             AT(endpoint_settings, signing_secrets),
             .check = wrong_signing_secret,
             .flags = CONF_SECRET | CONF_FILLED,
             .form = "list of secrets",
             .help = "`whsec_…` of Standard Webhooks; several sign together "
                     "(rotation)"},
            {.name = "method",
             .type = &conf_as_text,
             AT(endpoint_settings, method),
             .check = wrong_method,
             .fallback = "POST",
             .form = "`POST`, `PUT`",
             .help = "of the request"},
            {.name = "headers",
             .type = &settings_as_headers,
             AT(endpoint_settings, headers),
             COUNT(endpoint_settings, header_count),
             .help = "more headers to send"},
            {.name = "forward_headers",
             .type = &conf_as_texts,
             AT(endpoint_settings, forward_headers),
             .check = wrong_forward_header,
             .form = "list of headers",
             .help = "which of the event's own to hand on, beside those of "
                     "the source's profile"},
            {.name = "allow_private",
             .type = &settings_as_private,
             .offset = 0,
             .fallback = "false",
             .help = "whether loopback and private addresses may be reached: "
                     "all, none, or those of these networks"},
            {.name = "tls",
             .type = &conf_as_map,
             AT(endpoint_settings, tls),
             .section = &tls_section,
             .flags = CONF_OPTIONAL,
             .help = "certificates, where the system's do not do"},
            {.name = "enabled",
             .type = &conf_as_bool,
             AT(endpoint_settings, enabled),
             .fallback = "true",
             .help = "`false`: it wants nothing"},
            {.name = "on_dead",
             .type = &conf_as_either,
             AT(endpoint_settings, on_dead_halt),
             .choices = on_dead_words,
             .fallback = "continue",
             .help = "in an ordered lane: go on past a dead letter, or halt "
                     "the lane until somebody has decided about it"},
            {.name = "disable_after",
             .type = &conf_as_duration,
             AT(endpoint_settings, disable_after_ms),
             .fallback = "5d",
             .min = SECOND_MS,
             .max = LONG_MS,
             .help = "of nothing but failures, but never before its retry "
                     "policy's own budget: then nothing is tried until "
                     "`grapnel endpoints resume`"},
            PACE_KEYS(false),
            {0},
        },
    .known =
        (const struct conf_known[]){
            {"expires", NOT_YET},
            {"expires_in", NOT_YET},
            {"secret", "unknown key (did you mean signing_secrets?)"},
            {"secrets", "unknown key (did you mean signing_secrets?)"},
            {0},
        },
};

static const struct conf_section route_section = {
    .name = "route",
    .help = "More subscriptions, when many endpoints want the same.",
    .size = sizeof(struct route),
    .keys =
        (const struct conf_key[]){
            {.name = "sources",
             .type = &conf_as_texts,
             AT(route, sources),
             .check = wrong_name_glob,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "from which sources; all when absent"},
            {.name = "types",
             .type = &conf_as_texts,
             AT(route, types),
             .check = wrong_line,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "which types; all when absent"},
            {.name = "workspaces",
             .type = &conf_as_texts,
             AT(route, workspaces),
             .check = wrong_line,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "of which workspaces; all when absent"},
            {.name = "where",
             .type = &settings_as_where,
             AT(route, where),
             .help = "and only those whose headers or JSON are like this"},
            {.name = "endpoints",
             .type = &conf_as_texts,
             AT(route, endpoints),
             .check = wrong_name,
             .flags = CONF_REQUIRED | CONF_FILLED,
             .form = "list of names",
             .help = "who wants them"},
            {0},
        },
};

/* ---- retry policies ---- */

static const char *const backoff_words[] = {
    [BACKOFF_EXPONENTIAL] = "exponential",
    [BACKOFF_FIXED] = "fixed",
    [BACKOFF_SCHEDULE] = "schedule",
    NULL};

/* Keys that mean something with some kinds of backoff only. */
static const struct {
    const char *key;
    unsigned backoffs; /* bit set */
} backoff_keys[] = {
    {"first_wait", 1 << BACKOFF_EXPONENTIAL | 1 << BACKOFF_FIXED},
    {"factor", 1 << BACKOFF_EXPONENTIAL},
    {"max_wait", 1 << BACKOFF_EXPONENTIAL},
    {"schedule", 1 << BACKOFF_SCHEDULE},
};

static void check_backoff(const struct conf_value *v,
                          const struct retry_policy *p)
{
    for (size_t i = 0; i < COUNT_OF(backoff_keys); i++)
        if (conf_has(v, backoff_keys[i].key) &&
            !(backoff_keys[i].backoffs >> p->backoff & 1))
            conf_error_key(v, backoff_keys[i].key,
                           "means nothing with backoff: %s",
                           backoff_words[p->backoff]);
    if (p->repeat_last && p->backoff != BACKOFF_SCHEDULE)
        conf_error_key(v, "repeat_last", "means nothing with backoff: %s",
                       backoff_words[p->backoff]);
    if (p->backoff == BACKOFF_SCHEDULE && !conf_has(v, "schedule"))
        conf_error_key(v, "schedule", "is missing, with backoff: schedule");
    if (p->backoff == BACKOFF_EXPONENTIAL && p->max_wait_ms < p->first_wait_ms)
        conf_error_key(v, conf_has(v, "max_wait") ? "max_wait" : "first_wait",
                       "first_wait is longer than max_wait (6h if not named)");
}

/* What a policy's kind of backoff does not use is not in effect. */
static void drop_unused(struct retry_policy *p)
{
    if (p->backoff != BACKOFF_EXPONENTIAL) {
        p->factor = 0;
        p->max_wait_ms = 0;
    }
    if (p->backoff == BACKOFF_SCHEDULE)
        p->first_wait_ms = 0;
}

static void check_policy(const struct conf_value *v, void *target)
{
    struct retry_policy *p = target;

    check_backoff(v, p);
    drop_unused(p);
    if (!conf_has(v, "max_attempts") && !conf_has(v, "max_duration"))
        conf_error(v, "needs max_attempts or max_duration: without a budget "
                      "it would never give up");
}

static const struct conf_section policy_section = {
    .name = "retry policy",
    .help = "When a failure is tried again, and when it is given up. "
            "`max_attempts` counts the first attempt, `max_duration` from it; "
            "a budget that is not named does not bind, and one of the two "
            "must be named.",
    .size = sizeof(struct retry_policy),
    .check = check_policy,
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_text,
             AT(retry_policy, name),
             .check = wrong_name,
             .flags = CONF_REQUIRED,
             .form = "name",
             .help = "its name"},
            {.name = "backoff",
             .type = &conf_as_choice,
             AT(retry_policy, backoff),
             .choices = backoff_words,
             .fallback = "exponential",
             .help = "how the waits grow"},
            {.name = "first_wait",
             .type = &conf_as_duration,
             AT(retry_policy, first_wait_ms),
             .fallback = "5s",
             .min = 1,
             .max = LONG_MS,
             .help = "before the second attempt"},
            {.name = "factor",
             .type = &conf_as_number,
             AT(retry_policy, factor),
             .fallback = "3",
             .min = 100,
             .max = 100 * 100,
             .help = "each wait is this much longer"},
            {.name = "max_wait",
             .type = &conf_as_duration,
             AT(retry_policy, max_wait_ms),
             .fallback = "6h",
             .min = 1,
             .max = LONG_MS,
             .help = "but not longer than this"},
            {.name = "schedule",
             .type = &settings_as_durations,
             AT(retry_policy, schedule_ms),
             COUNT(retry_policy, schedule_count),
             .help = "the waits, one by one"},
            {.name = "repeat_last",
             .type = &conf_as_bool,
             AT(retry_policy, repeat_last),
             .fallback = "false",
             .help = "whether the last wait is repeated until a budget ends"},
            {.name = "jitter",
             .type = &settings_as_jitter,
             .offset = 0,
             .fallback = "full",
             .help = "how waits are spread: not, from nothing to the whole "
                     "wait, or by a part both ways"},
            {.name = "max_attempts",
             .type = &conf_as_int,
             AT(retry_policy, max_attempts),
             .min = 1,
             .max = 1000000,
             .help = "the first counts"},
            {.name = "max_duration",
             .type = &conf_as_duration,
             AT(retry_policy, max_duration_ms),
             .min = 1,
             .max = LONG_MS,
             .help = "from the first attempt"},
            {.name = "retry_on",
             .type = &settings_as_retry_on,
             AT(retry_policy, retry_on),
             .fallback = "[network, 408, 425, 429, 5xx]",
             .help = "what is tried again; all other failures are final. "
                     "`network` is every failure without an HTTP status"},
            {.name = "respect_retry_after",
             .type = &conf_as_bool,
             AT(retry_policy, respect_retry_after),
             .fallback = "true",
             .help = "whether an answer's Retry-After may make the wait "
                     "longer"},
            {0},
        },
};

static const char built_in_policies[] =
    "retry_policies:\n"
    "  - {name: default, backoff: exponential, first_wait: 5s, factor: 3,"
    " max_wait: 6h, jitter: full, max_attempts: 12, max_duration: 24h,"
    " retry_on: [network, 408, 425, 429, 5xx], respect_retry_after: true}\n"
    "  - {name: strict, backoff: exponential, first_wait: 1s, factor: 2,"
    " max_wait: 60s, jitter: full, max_attempts: 12, max_duration: 24h,"
    " retry_on: [network, 408, 429, 502, 503, 504]}\n"
    "  - {name: plane, backoff: exponential, first_wait: 10m, factor: 2,"
    " max_wait: 24h, jitter: 15%, max_attempts: 8}\n"
    "  - {name: plane-recommended, backoff: exponential, first_wait: 5m,"
    " factor: 2, max_wait: 24h, jitter: 15%, max_attempts: 6}\n"
    "  - {name: omise, backoff: schedule,"
    " schedule: [1m, 5m, 15m, 1h, 3h, 6h, 12h, 24h, 48h], repeat_last: true,"
    " jitter: none, max_duration: 7d, retry_on: [network, 4xx, 5xx]}\n";

/* ---- the whole file ---- */

#define LIST_KEYS                                                             \
    {.name = "sources",                                                       \
     .type = &conf_as_maps,                                                   \
     AT(settings, sources),                                                   \
     COUNT(settings, source_count),                                           \
     .section = &source_section,                                              \
     .help = "where webhooks come from"},                                     \
        {.name = "producers",                                                 \
         .type = &conf_as_maps,                                               \
         AT(settings, producers),                                             \
         COUNT(settings, producer_count),                                     \
         .section = &settings_producer_section,                               \
         .help = "who may publish through POST /v1/events"},                  \
        {.name = "endpoints",                                                 \
         .type = &conf_as_maps,                                               \
         AT(settings, endpoints),                                             \
         COUNT(settings, endpoint_count),                                     \
         .section = &endpoint_section,                                        \
         .help = "where they are delivered"},                                 \
        {.name = "routes",                                                    \
         .type = &conf_as_maps,                                               \
         AT(settings, routes),                                                \
         COUNT(settings, route_count),                                        \
         .section = &route_section,                                           \
         .help = "more subscriptions"},                                       \
        {.name = "retry_policies",                                            \
         .type = &conf_as_maps,                                               \
         AT(settings, policies),                                              \
         COUNT(settings, policy_count),                                       \
         .section = &policy_section,                                          \
         .help = "when failures are tried again"},                            \
        {.name = "alerts",                                                    \
         .type = &conf_as_maps,                                               \
         AT(settings, alerts),                                                \
         COUNT(settings, alert_count),                                        \
         .section = &settings_alert_section,                                  \
         .help = "when somebody is told"},                                    \
    {                                                                         \
        .name = "notifiers", .type = &conf_as_maps, AT(settings, notifiers),  \
        COUNT(settings, notifier_count),                                      \
        .section = &settings_notifier_section, .help = "who is told, and how" \
    }

static const struct conf_section root_section = {
    .name = "configuration",
    .keys =
        (const struct conf_key[]){
            {.name = "state_dir",
             .type = &conf_as_path,
             AT(settings, state_dir),
             .fallback = "state",
             .help = "where each process keeps its database and its lock"},
            {.name = "run_dir",
             .type = &conf_as_path,
             AT(settings, run_dir),
             .check = wrong_run_dir,
             .fallback = "run",
             .help = "where the sockets between processes lie; made 0700"},
            {.name = "log",
             .type = &conf_as_map,
             .section = &log_section,
             .help = "what is written to standard error"},
            {.name = "shutdown_grace",
             .type = &conf_as_duration,
             AT(settings, shutdown_grace_ms),
             .fallback = "20s",
             .min = 0,
             .max = HOUR_MS,
             .help = "how long what is in flight may take to end after "
                     "SIGTERM"},
            {.name = "ingress",
             .type = &conf_as_map,
             .section = &ingress_section,
             .help = "the door for HTTP"},
            {.name = "endpoint_defaults",
             .type = &conf_as_map,
             AT(settings, defaults),
             .section = &defaults_section,
             .help = "what endpoints leave open"},
            LIST_KEYS,
            {.name = "history",
             .type = &conf_as_map,
             .section = &history_section,
             .help = "what was delivered"},
            {.name = "dlq",
             .type = &conf_as_map,
             .section = &dlq_section,
             .help = "what could not be delivered"},
            {.name = "metrics",
             .type = &conf_as_map,
             .section = &metrics_section,
             .help = "numbers for monitors"},
            {.name = "console",
             .type = &conf_as_map,
             .section = &console_section,
             .help = "a reader of all that"},
            {.name = "include",
             .type = &conf_as_texts,
             AT(settings, include),
             .form = "list of paths, with `*`",
             .help =
                 "files that add to the lists sources, producers, endpoints, "
                 "routes, retry_policies, alerts and notifiers"},
            {0},
        },
};

#define MAIN_ONLY "belongs into the main file; an included one adds to lists"

static const struct conf_section included_section = {
    .name = "included file",
    .keys = (const struct conf_key[]){LIST_KEYS, {0}},
    .known =
        (const struct conf_known[]){
            {"state_dir", MAIN_ONLY},
            {"run_dir", MAIN_ONLY},
            {"log", MAIN_ONLY},
            {"shutdown_grace", MAIN_ONLY},
            {"ingress", MAIN_ONLY},
            {"endpoint_defaults", MAIN_ONLY},
            {"history", MAIN_ONLY},
            {"dlq", MAIN_ONLY},
            {"metrics", MAIN_ONLY},
            {"console", MAIN_ONLY},
            {"include", MAIN_ONLY},
            {0},
        },
};

/* ---- included files ---- */

/* Hidden files are an editor's, not the user's. */
static bool is_wanted(const char *pattern, const char *name)
{
    return *name != '.' && glob_match(pattern, name);
}

/* `at` is the text that includes it; `front` of `path` is its folder. */
static void read_match(struct conf *c, struct settings *s, const char *at,
                       const char *path, int front, const char *name)
{
    char *match = gr_printf("%.*s%s", front, path, name);

    conf_read_file(c, match, at, &included_section, s);
    free(match);
}

/* A pattern may match nothing. In the order of names, so that errors and
 * lists are the same everywhere. */
static void read_matches(struct conf *c, struct settings *s, const char *at,
                         const char *path, int front)
{
    char *folder = front ? gr_strndup(path, (size_t)front) : gr_strdup(".");
    struct dirent **all = NULL;
    int n = scandir(folder, &all, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        if (is_wanted(path + front, all[i]->d_name))
            read_match(c, s, at, path, front, all[i]->d_name);
        free(all[i]);
    }
    free(all);
    free(folder);
}

static bool star_in_folder(const char *written)
{
    const char *star = strchr(written, '*');

    return star && strchr(star, '/');
}

static void read_included(struct conf *c, struct settings *s, const char *at)
{
    char *path = conf_beside(c, at), *slash = strrchr(path, '/');
    int front = slash ? (int)(slash + 1 - path) : 0;

    if (star_in_folder(at))
        conf_error_at(c, at,
                      "* may stand in the file's name only, not in a "
                      "folder's");
    else if (strchr(path + front, '*'))
        read_matches(c, s, at, path, front);
    else
        conf_read_file(c, path, at, &included_section, s);
    free(path);
}

/* ---- across sections ---- */

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

/* How many of these lists are the file's; those behind are built in. */
struct declared {
    size_t policies, alerts;
};

static void check_across(struct conf *c, const struct settings *s,
                         const struct declared *declared)
{
    check_names(c, s->sources, sizeof *s->sources, s->source_count, "source");
    check_names(c, s->producers, sizeof *s->producers, s->producer_count,
                "producer");
    check_producers(c, s);
    check_names(c, s->endpoints, sizeof *s->endpoints, s->endpoint_count,
                "endpoint");
    check_names(c, s->policies, sizeof *s->policies, declared->policies,
                "retry policy");
    check_names(c, s->alerts, sizeof *s->alerts, declared->alerts, "alert");
    check_names(c, s->notifiers, sizeof *s->notifiers, s->notifier_count,
                "notifier");
    check_alerts(c, s);
    check_policy_name(c, s, s->defaults.retry_policy);
    for (size_t i = 0; i < s->endpoint_count; i++) {
        check_source_names(c, s, &s->endpoints[i].sources);
        check_policy_name(c, s, s->endpoints[i].retry_policy);
    }
    for (size_t i = 0; i < s->route_count; i++)
        check_route(c, s, &s->routes[i]);
}

/* ---- loading ---- */

static char backfill_method[] = "POST";

/* A declared one wins over a built-in one of its name. */
static void drop_hidden(const struct conf_section *section, void *items,
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

static const struct retry_policy *policy_named(const struct settings *s,
                                               const char *name)
{
    for (size_t i = 0; i < s->policy_count; i++)
        if (strcmp(s->policies[i].name, name) == 0)
            return &s->policies[i];
    return NULL;
}

/* As an endpoint of our own, with the pace of the defaults. */
static void add_backfill(struct settings *s, const struct source *source)
{
    const struct order *o = &source->order;
    struct endpoint_settings *e;

    s->backfills = gr_realloc(s->backfills,
                              (s->backfill_count + 1) * sizeof *s->backfills);
    e = &s->backfills[s->backfill_count++];
    *e = (struct endpoint_settings){
        .name = gr_printf(BACKFILL_PREFIX "%s", source->name),
        .url = o->backfill,
        .signing_secrets = o->signing_secrets,
        .method = backfill_method,
        .allow_private = o->allow_private,
        .allow_cidrs = o->allow_cidrs,
        .allow_cidr_count = o->allow_cidr_count,
        .enabled = true,
        .internal = true,
        .timeout_ms = s->defaults.timeout_ms,
        .connect_timeout_ms = s->defaults.connect_timeout_ms,
        .max_in_flight = s->defaults.max_in_flight,
        .retry_policy = s->defaults.retry_policy,
        .policy = s->defaults.policy,
    };
}

/* Only when all is right: no pointer into the lists exists before. */
static void resolve(struct settings *s)
{
    for (size_t i = 0; i < s->endpoint_count; i++) {
        struct endpoint_settings *e = &s->endpoints[i];

        if (!e->retry_policy)
            e->retry_policy = gr_strdup(s->defaults.retry_policy);
        e->policy = policy_named(s, e->retry_policy);
    }
    s->defaults.policy = policy_named(s, s->defaults.retry_policy);
    settings_hash_tokens(s->producers, s->producer_count);
    for (size_t i = 0; i < s->source_count; i++)
        if (s->sources[i].order.backfill)
            add_backfill(s, &s->sources[i]);
}

static void read_all(struct conf *c, struct settings *s, const char *path)
{
    struct declared declared;

    conf_read_file(c, path, NULL, &root_section, s);
    for (size_t i = 0; i < s->include.count; i++)
        read_included(c, s, s->include.items[i]);
    declared = (struct declared){s->policy_count, s->alert_count};
    conf_read_text(c, "built in", built_in_policies, &included_section, s);
    conf_read_text(c, "built in", settings_built_in_alerts, &included_section,
                   s);
    check_across(c, s, &declared);
    drop_hidden(&policy_section, s->policies, declared.policies,
                &s->policy_count);
    drop_hidden(&settings_alert_section, s->alerts, declared.alerts,
                &s->alert_count);
}

struct settings *settings_load(const char *path, struct buf *errors)
{
    struct settings *s = gr_alloc(sizeof *s);
    struct conf *c = conf_open(s);

    s->path = realpath(path, NULL);
    read_all(c, s, path);
    if (!conf_close(c, errors)) {
        settings_free(s);
        return NULL;
    }
    if (!s->path)
        s->path = gr_strdup(path);
    resolve(s);
    return s;
}

/* What the profile gave, and what no key of a table owns. */
static void free_source_rest(struct source *s)
{
    expr_fini(&s->action);
    text_list_fini(&s->forward_headers);
    settings_forget_keys(s);
}

void settings_free(struct settings *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->source_count; i++)
        free_source_rest(&s->sources[i]);
    for (size_t i = 0; i < s->producer_count; i++)
        free(s->producers[i].token_hashes);
    for (size_t i = 0; i < s->backfill_count; i++)
        free(s->backfills[i].name);
    free(s->backfills);
    conf_fini(&root_section, s);
    free(s->path);
    free(s);
}

const struct source *settings_source(const struct settings *s, const char *name)
{
    for (size_t i = 0; i < s->source_count; i++)
        if (s->sources[i].name && strcmp(s->sources[i].name, name) == 0)
            return &s->sources[i];
    return NULL;
}

const struct producer *settings_producer(const struct settings *s,
                                         const char *name)
{
    for (size_t i = 0; i < s->producer_count; i++)
        if (s->producers[i].name && strcmp(s->producers[i].name, name) == 0)
            return &s->producers[i];
    return NULL;
}

const struct endpoint_settings *settings_endpoint(const struct settings *s,
                                                  const char *name)
{
    for (size_t i = 0; i < s->endpoint_count; i++)
        if (strcmp(s->endpoints[i].name, name) == 0)
            return &s->endpoints[i];
    for (size_t i = 0; i < s->backfill_count; i++)
        if (strcmp(s->backfills[i].name, name) == 0)
            return &s->backfills[i];
    return NULL;
}

/* ---- printing ---- */

void settings_print(const struct settings *s, struct buf *out)
{
    buf_printf(out, "# In effect, from %s\n", s->path);
    conf_print(&root_section, s, out, 0, true);
}

static void document_alerts(struct buf *out)
{
    static const char *const units[] = {
        [ALERT_UNIT_NONE] = "",
        [ALERT_UNIT_NUMBER] = "number",
        [ALERT_UNIT_PART] = "part, `5%`",
        [ALERT_UNIT_SECONDS] = "duration, `10s`",
        [ALERT_UNIT_BYTES] = "size, `1GiB`"};

    buf_puts(out, "\n## What an alert may be about\n\n"
                  "| `when` | threshold | each | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < ALERT_WHEN_COUNT; i++)
        buf_printf(out, "| `%s` | %s | %s | %s |\n", alert_kinds[i].word,
                   units[alert_kinds[i].unit], alert_kinds[i].per,
                   alert_kinds[i].help);
    buf_puts(out, "\n## Built-in alerts\n\n"
                  "Judged without being declared; a declared one of the same "
                  "name wins.\n\n```yaml\n");
    buf_puts(out, settings_built_in_alerts);
    buf_puts(out, "```\n");
}

static const char preamble[] =
    "# Configuration\n"
    "\n"
    "<!-- Written by settings_document() from the tables that read the file "
    "(proto/settings.c); a test compares. -->\n"
    "\n"
    "`grapnel.yaml` is read by every process. Every error of a file is told "
    "in one run, as\n"
    "`file:line:column: key.path: what is wrong`, and nothing starts half "
    "configured.\n"
    "\n"
    "- `${VAR}` in a text is taken from the environment (unset is an error); "
    "`$$` is a dollar.\n"
    "- A secret may also be `file:path`; the file's last newline is dropped.\n"
    "- Durations are `250ms 10s 5m 24h 7d`, sizes `512B 64KiB 1MiB 50GiB`.\n"
    "- Paths are relative to the file in which they stand.\n"
    "- Where a list of texts is meant, one text will do.\n"
    "- Names are `[a-z0-9][a-z0-9_-]{0,62}`. In a pattern `*` stands for any "
    "text.\n"
    "- Unquoted, YAML takes `yes`, `08`, `10:30` and the like for something "
    "else than a text; where\n"
    "  a text is meant that is an error: quote it.\n"
    "- Field expressions say where in a request something is found: "
    "`header:NAME` (any letter case),\n"
    "  `json:/pointer` (RFC 6901), `form:NAME`, `query:NAME`, `const:TEXT`, "
    "and the words `source\n"
    "  provider id type workspace body_sha256`. Of a list, the first that can "
    "be had counts. Where a\n"
    "  body is a form with a field `payload`, `json:` looks in there.\n"
    "- What each provider's profile says: [PROVIDERS.md](PROVIDERS.md).\n"
    "\n";

void settings_document(struct buf *out)
{
    buf_puts(out, preamble);
    conf_document(&root_section, "", out);
    buf_puts(out, "\n## Built-in retry policies\n\n"
                  "Usable without being declared; a declared one of the same "
                  "name wins.\n\n```yaml\n");
    buf_puts(out, built_in_policies);
    buf_puts(out, "```\n");
    document_alerts(out);
}
