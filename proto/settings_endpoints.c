/* Endpoints, what they leave open, and routes to them. */
#include "settings_types.h"
#include <string.h>
#include <strings.h>

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
        {.name = "guard",                                            \
         .type = &conf_as_switch,                                    \
         AT(endpoint_settings, guard),                               \
         .fallback = (d) ? "on" : NULL,                              \
         .help = "`on`: after ten refusals with the same final "     \
                 "status from an endpoint that worked before, hold " \
                 "its deliveries back, alert, and send one at a "    \
                 "time until one is accepted. `off`: each refusal "  \
                 "is a dead letter"},                                \
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

const struct conf_section settings_defaults_section = {
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
    e->guard = s->defaults.guard;
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
             .flags = CONF_SECRET | CONF_PUBLIC,
             .form = "`file:path`, or PEM",
             .help = "certificates that are trusted instead of the system's"},
            {.name = "certificate",
             .type = &conf_as_text,
             AT(tls, certificate),
             .check = wrong_pem_certificate,
             .flags = CONF_SECRET | CONF_PUBLIC,
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

const struct conf_section settings_endpoint_section = {
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
             .help =
                 "`whsec_…` or `whsk_…` of Standard Webhooks, by which each "
                 "request has `webhook-signature` and `grapnel-signature` "
                 "(RECEIVING.md); several sign together (rotation)"},
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
             .help = "more headers to send; a value may be `file:path`"},
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
             .help = "disable the endpoint after it has failed continuously "
                     "for this long, and for at least its retry budget; only "
                     "time in which Grapnel could deliver counts. Its "
                     "deliveries then wait for `grapnel endpoints resume`"},
            PACE_KEYS(false),
            {0},
        },
    .known =
        (const struct conf_known[]){
            {"secret", "unknown key (did you mean signing_secrets?)"},
            {"secrets", "unknown key (did you mean signing_secrets?)"},
            {0},
        },
};

const struct conf_section settings_route_section = {
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
