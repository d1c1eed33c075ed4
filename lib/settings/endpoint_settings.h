/* endpoint_settings: the one list of an endpoint's settings, and the one of a retry
 * policy's. Each row makes the member of the struct, the key of grapnel.yaml with its
 * default, bounds and meaning (docs/CONFIGURATION.md), and the field of `endpoint_config`
 * that carries it to the deliverer (docs/WIRE.md). CONTRIBUTING.md says how to add a row.
 *
 *   X(F, DELIVERER, SHARED, duration, timeout_ms, "timeout", "15s", "the time …",
 *     .min = 1, .max = LONGEST_ATTEMPT_MS)
 *
 *   F          for the macro that uses the list; in a row always F
 *   DELIVERER  the grant carries it to the deliverer, in the order of this list: a new row
 *              changes the frame, so it needs a new version in schema.h.
 *              SEQUENCER: only the sequencer uses it
 *   SHARED     `endpoint_defaults` has it, too, and its value applies to an endpoint that
 *              does not set it. OWN: only endpoints have it
 *   duration   the kind of value: its C type is below (SETTING_duration), its form in the
 *              file is conf_as_duration (settings_types.h), its form on the wire FIELDS_duration
 *              (schema.h) and PUT_duration, GET_duration (endpoint_config.c)
 *   timeout_ms the member of the struct
 *   "timeout"  the key; then its default, as a user would write it (NULL: none), its meaning,
 *              and the other members of a struct conf_key: bounds, words, a check … */
#ifndef SETTINGS_ENDPOINT_SETTINGS_H
#define SETTINGS_ENDPOINT_SETTINGS_H

#include "clock.h"
#include "network.h"
#include "rate.h"
#include "string_list.h"
#include "where.h"

/* After the loss of a deliverer its endpoints get another one only when no attempt can still
 * be in flight (proto/grant.h), so no attempt may take longer than this. */
enum { LONGEST_ATTEMPT_MS = 5 * MINUTE_MS };
enum { RETRY_ATTEMPTS_MAX = 1000000 };

/* The longest lease of a pull endpoint that sets no `timeout`. */
enum { PULL_LEASE_MS = MINUTE_MS };

/* The transports for which a row has an effect. */
#define WITH_HTTP 1 << TRANSPORT_HTTP

#define ENDPOINT_SETTINGS(X, F)                                                \
    X(F, DELIVERER, OWN, string, name, "name", NULL, "the name",               \
      .check = wrong_name, .flags = CONF_REQUIRED, .form = "name")             \
    X(F, DELIVERER, OWN, choice, transport, "transport", "http",               \
      "`http`: each delivery is a request to `url`. `pull`: deliveries wait "  \
      "until a consumer takes them (API.md, \"Pull endpoints\")",              \
      .choices = settings_transport_words)                                     \
    X(F, DELIVERER, OWN, url, url, "url", NULL,                                \
      "the URL, http or https. Required, but not with `transport: pull`",      \
      .check = wrong_url, .with = WITH_HTTP)                                   \
    X(F, SEQUENCER, OWN, strings, types, "types", NULL,                        \
      "the event types it is subscribed to, such as `issue.*`. "               \
      "Default: all",                                                          \
      .check = wrong_line, .flags = CONF_FILLED, .form = "list of patterns")   \
    X(F, SEQUENCER, OWN, strings, sources, "sources", NULL,                    \
      "the sources and producers it is subscribed to. Default: all. "          \
      "`grapnel` are Grapnel's own events "                                    \
      "([which](RECEIVING.md#operational-events)); no pattern and no default " \
      "contains it",                                                           \
      .check = wrong_name_glob, .flags = CONF_FILLED,                          \
      .form = "list of patterns")                                              \
    X(F, SEQUENCER, OWN, strings, workspaces, "workspaces", NULL,              \
      "the workspaces it is subscribed to. Default: all", .check = wrong_line, \
      .flags = CONF_FILLED, .form = "list of patterns")                        \
    X(F, SEQUENCER, OWN, where, where, "where", NULL,                          \
      "conditions on headers or JSON fields, which an event has to "           \
      "meet as well")                                                          \
    X(F, DELIVERER, OWN, string, method, "method", "POST",                     \
      "the request's method", .check = wrong_method, .form = "`POST`, `PUT`",  \
      .with = WITH_HTTP)                                                       \
    X(F, DELIVERER, OWN, headers, headers, "headers", NULL,                    \
      "headers to add; a value may be `file:path`", .flags = CONF_SECRET)      \
    X(F, SEQUENCER, OWN, strings, forward_headers, "forward_headers", NULL,    \
      "headers of the provider's request to send along, in addition "          \
      "to those that its profile forwards",                                    \
      .check = wrong_forward_header, .form = "list of headers")                \
    X(F, DELIVERER, SHARED, choice, trace_context, "trace_context", "all",     \
      "which headers of W3C Trace Context each request has: `traceparent` "    \
      "with the trace of the event and a span of this attempt, and "           \
      "`tracestate` as it was received (`all`); only the first "               \
      "(`traceparent`), such as for an endpoint of another company; or "       \
      "`none`. `forward_headers` does not forward them "                       \
      "([which trace](RECEIVING.md#traces))",                                  \
      .choices = settings_trace_context_words)                                 \
    X(F, DELIVERER, OWN, strings, signing_secrets, "signing_secrets", NULL,    \
      "the secrets (`whsec_…` or `whsk_…` of Standard Webhooks) that "     \
      "sign each request, in `webhook-signature` and "                         \
      "`grapnel-signature` (RECEIVING.md). With several, each adds "           \
      "its signature (for rotation)",                                          \
      .check = wrong_signing_secret, .flags = CONF_SECRET | CONF_FILLED,       \
      .form = "list of secrets")                                               \
    X(F, DELIVERER, OWN, allow_private, allow_private, "allow_private",        \
      "false",                                                                 \
      "whether Grapnel may connect to loopback and private addresses: "        \
      "all (`true`), none (`false`), or those in the listed networks",         \
      .with = WITH_HTTP)                                                       \
    X(F, DELIVERER, SHARED, duration, timeout_ms, "timeout", "15s",            \
      "the time limit of one attempt, from connecting to the end of "          \
      "the response, at most 5m; the retry policy's `timeout` replaces it. "   \
      "With `transport: pull` the longest lease; then the default is `1m`",    \
      .min = 1, .max = LONGEST_ATTEMPT_MS)                                     \
    X(F, DELIVERER, SHARED, duration, connect_timeout_ms, "connect_timeout",   \
      "5s",                                                                    \
      "the time limit for connecting, including TLS, at most 5m; never "       \
      "longer than `timeout`",                                                 \
      .min = 1, .max = LONGEST_ATTEMPT_MS, .with = WITH_HTTP)                  \
    X(F, DELIVERER, SHARED, int, max_in_flight, "max_in_flight", "32",         \
      "the maximum number of attempts at the same time; with `transport: "     \
      "pull`, of deliveries that consumers have taken and not ended",          \
      .min = 1, .max = 10000)                                                  \
    X(F, DELIVERER, SHARED, choice, ordered, "ordered", "none",                \
      "deliver one event at a time: per `workspace`, or for the whole "        \
      "endpoint (`all`). Each delivery waits until the previous one "          \
      "has ended. With `workspace`, events with an `ordering_key` wait "       \
      "only for those of the same workspace and key. `none`: deliver in "      \
      "parallel",                                                              \
      .choices = settings_ordered_words)                                       \
    X(F, SEQUENCER, OWN, either, on_dead_halt, "on_dead", "continue",          \
      "with `ordered`: after a dead letter, `continue` with the next "         \
      "event, or `halt` until somebody has retried, resolved or "              \
      "discarded the dead letter",                                             \
      .choices = on_dead_words)                                                \
    X(F, DELIVERER, SHARED, rate, rate_limit, "rate_limit", NULL,              \
      "the maximum number of attempts started per second, minute or "          \
      "hour. Default: no limit")                                               \
    X(F, DELIVERER, SHARED, boolean, breaker, "breaker", "true",               \
      "the circuit breaker: after five failures in a row, send one "           \
      "attempt at a time until the endpoint accepts an event or rejects "      \
      "one event alone (400, 409, 413, 415, 422), then deliver the "           \
      "waiting events at a growing rate. `false`: retry each delivery "        \
      "at its own time",                                                       \
      .with = WITH_HTTP)                                                       \
    X(F, DELIVERER, SHARED, switch, guard, "guard", "on",                      \
      "`on`: after an endpoint that worked before has refused ten "            \
      "events in a row with the same final status, hold its "                  \
      "deliveries, alert, and send one at a time until one is "                \
      "accepted, or refused with 400, 409, 413, 415 or 422 when that is "      \
      "not the status of the hold. `off`: each refusal becomes a dead "        \
      "letter",                                                                \
      .with = WITH_HTTP)                                                       \
    X(F, SEQUENCER, OWN, duration, disable_after_ms, "disable_after", "5d",    \
      "disable the endpoint after it has failed continuously for this "        \
      "long, and for at least its retry budget; outages of Grapnel do "        \
      "not count. Its deliveries then wait for `grapnel endpoints "            \
      "resume`",                                                               \
      .min = SECOND_MS, .max = LONG_MS)                                        \
    X(F, DELIVERER, SHARED, policy, retry_policy, "retry_policy", "default",   \
      "the name of the retry policy", .check = wrong_name, .form = "name")     \
    X(F, SEQUENCER, SHARED, choice, retry_choice, "retry_choice", "any",       \
      "whether a route or a producer's event may choose `retry_policy` and "   \
      "`max_attempts` of its deliveries. `any`: the choice applies. "          \
      "`fewer`: the choice applies, but `max_attempts`, `max_duration` and "   \
      "`timeout` are never above those of the endpoint's own policy. `none`: " \
      "the endpoint's own policy always applies",                              \
      .choices = settings_retry_choice_words)                                  \
    X(F, DELIVERER, SHARED, ports, allowed_ports, "allowed_ports", NULL,       \
      "the ports that `url` may have. Default: all", .with = WITH_HTTP)        \
    X(F, DELIVERER, OWN, tls, tls, "tls", NULL,                                \
      "certificates, when the system's are not sufficient",                    \
      .section = &tls_section, .flags = CONF_OPTIONAL, .with = WITH_HTTP)      \
    X(F, SEQUENCER, OWN, boolean, enabled, "enabled", "true",                  \
      "`false`: the endpoint gets no new events, and its open "                \
      "deliveries wait")

/* The list for a retry policy, without its name. All of it goes to the deliverer, inside of
 * its endpoint's configuration. A member is 0 if the kind of backoff does not use it, or if
 * a budget has no limit. */
#define RETRY_POLICY_SETTINGS(X, F)                                          \
    X(F, choice, backoff, "backoff", "exponential",                          \
      "how the wait between attempts grows",                                 \
      .choices = settings_backoff_words)                                     \
    X(F, duration, first_wait_ms, "first_wait", "5s",                        \
      "the wait before the second attempt", .min = 1, .max = LONG_MS,        \
      .with = WITH_WAIT)                                                     \
    X(F, duration, max_wait_ms, "max_wait", "6h", "the longest wait",        \
      .min = 1, .max = LONG_MS, .with = WITH_GROWTH)                         \
    X(F, number, factor, "factor", "3",                                      \
      "how many times longer each wait is than the one before", .min = 100,  \
      .max = 100 * 100, .with = WITH_GROWTH)                                 \
    X(F, durations, schedule, "schedule", NULL,                              \
      "the waits, in order, for `backoff: schedule`", .with = WITH_SCHEDULE) \
    X(F, boolean, repeat_last, "repeat_last", "false",                       \
      "whether to repeat the last wait of `schedule` until a limit is "      \
      "reached")                                                             \
    X(F, jitter, jitter, "jitter", "full",                                   \
      "how waits are randomised: `none`; `full`: between zero and the "      \
      "whole wait; `15%`: up to 15% shorter or longer")                      \
    X(F, int, max_attempts, "max_attempts", NULL,                            \
      "the maximum number of attempts, including the first", .min = 1,       \
      .max = RETRY_ATTEMPTS_MAX)                                             \
    X(F, duration, max_duration_ms, "max_duration", NULL,                    \
      "the maximum time since the first attempt", .min = 1, .max = LONG_MS)  \
    X(F, retry_on, retry_on, "retry_on", "[network, 408, 425, 429, 5xx]",    \
      "the failures that are retried; any other failure makes a dead "       \
      "letter at once. `network` is every failure without an HTTP "          \
      "status. `3xx` is for an endpoint that redirects for a short time, "   \
      "such as to a maintenance page: the event is sent to the same URL "    \
      "again, because Grapnel never follows a redirect")                     \
    X(F, boolean, respect_retry_after, "respect_retry_after", "true",        \
      "whether the response header `Retry-After` may lengthen the "          \
      "wait")                                                                \
    X(F, duration, attempt_ms, "timeout", NULL,                              \
      "the time limit of one attempt, at most 5m. Default: the endpoint's "  \
      "`timeout`, which this one replaces",                                  \
      .min = 1, .max = LONGEST_ATTEMPT_MS)

/* The kinds of backoff for which a row has an effect. */
#define WITH_GROWTH   1 << BACKOFF_EXPONENTIAL
#define WITH_WAIT     1 << BACKOFF_EXPONENTIAL | 1 << BACKOFF_FIXED
#define WITH_SCHEDULE 1 << BACKOFF_SCHEDULE

/* ---- the C type of each kind ---- */

#define SETTING_string(m)        char *m;
#define SETTING_url(m)           char *m;
#define SETTING_strings(m)       struct string_list m;
#define SETTING_boolean(m)       bool m;
#define SETTING_switch(m)        bool m;
#define SETTING_either(m)        bool m;
#define SETTING_choice(m)        int m;
#define SETTING_int(m)           int64_t m;
#define SETTING_duration(m)      int64_t m;
#define SETTING_durations(m)     struct durations m;
#define SETTING_number(m)        double m;
#define SETTING_rate(m)          struct rate m;
#define SETTING_where(m)         struct where m;
#define SETTING_headers(m)       struct header_list m;
#define SETTING_allow_private(m) struct allow_private m;
#define SETTING_ports(m)         struct ports m;
#define SETTING_tls(m)           struct tls m;
#define SETTING_jitter(m)        struct jitter m;
#define SETTING_retry_on(m)      struct retry_on m;
#define SETTING_policy(m)        char *m; /* its name */

struct header_list {
    struct header {
        char *name, *value;
    } * items;
    size_t count;
};

/* Which private addresses Grapnel may connect to. */
struct allow_private {
    bool all;
    struct cidr *cidrs; /* or these */
    size_t count;
};

/* The ports that an endpoint's URL may have; empty: all. */
enum { PORTS_MAX = 32 };
struct ports {
    uint16_t items[PORTS_MAX];
    size_t count;
};

/* PEM strings; NULL where not set. */
struct tls {
    char *ca; /* trusted instead of the authorities of the system */
    char *certificate, *key;
};

/* endpoint.transport. The values are on the wire forever. */
enum transport {
    TRANSPORT_HTTP = 0,
    TRANSPORT_PULL = 1, /* consumers take the deliveries */
};

/* endpoint.ordered: what one lane is. The values are on the wire forever. */
enum order_lanes {
    LANES_NONE = 0,
    LANES_WORKSPACE = 1, /* each workspace */
    LANES_ALL = 2,       /* the endpoint */
};

/* endpoint.trace_context. The values are on the wire forever. */
enum trace_headers {
    TRACE_HEADERS_ALL = 0,
    TRACE_HEADERS_PARENT = 1, /* without tracestate */
    TRACE_HEADERS_NONE = 2,
};

/* endpoint.retry_choice */
enum retry_choice_rule {
    RETRY_CHOICE_ANY,
    RETRY_CHOICE_FEWER,
    RETRY_CHOICE_NONE,
};

/* retry_policy.backoff. The values are on the wire forever. */
enum backoff_kind { BACKOFF_EXPONENTIAL, BACKOFF_FIXED, BACKOFF_SCHEDULE };

struct durations {
    int64_t *ms;
    size_t count;
};

struct jitter {
    bool full;
    double part; /* 15% is 0.15; 0 with full jitter or none */
};

/* The outcomes that are retried. Bit n of `status` is status n. */
struct retry_on {
    bool network;
    uint8_t status[600 / 8];
};

/* ---- the structs ---- */

struct retry_policy {
    char *name;
#define MEMBER(F, KIND, NAME, ...) SETTING_##KIND(NAME)
    RETRY_POLICY_SETTINGS(MEMBER, )
#undef MEMBER
};

struct endpoint_settings {
#define MEMBER(F, TO, SCOPE, KIND, NAME, ...) SETTING_##KIND(NAME)
    ENDPOINT_SETTINGS(MEMBER, )
#undef MEMBER
    const struct retry_policy *policy; /* the policy that retry_policy names */
    bool
        internal; /* a hidden endpoint: no event is routed to it (settings.backfills) */
};

#endif
