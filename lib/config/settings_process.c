/* settings_process: the sections of single processes, such as ingress, sequencer and dlq,
 * and the settings of all processes. */
#include "bounds.h"
#include "settings_types.h"
#include <string.h>

static const char *const level_words[] = {"debug", "info", "warn", "error",
                                          NULL};
static const char *const format_words[] = {"text", "json", NULL};

static const struct conf_key log_keys[] = {
    KEY(choice, settings, log_level, "level", "info",
        "the lowest level that is written", .choices = level_words),
    KEY(either, settings, log_json, "format", "text",
        "the format of a log line", .choices = format_words),
    KEY(path, settings, log_errors, "errors", NULL,
        "a file that receives a copy of the warnings and errors of all "
        "processes. A reload or SIGHUP reopens it, for logrotate"),
    {0},
};

const struct conf_section settings_log_section = {
    .name = "log",
    .keys = log_keys,
};

static const struct conf_key archive_keys[] = {
    KEY(duration, settings, ingress.archive_keep_ms, "keep", "30d",
        "how long a raw request is kept after the sequencer has processed it",
        .min = SECOND_MS, .max = LONG_MS),
    KEY(size, settings, ingress.archive_max_bytes, "max_size", "50GiB",
        "the limit of the archive; half of the disk space available to it, "
        "when that is less. At the limit, the oldest processed requests are "
        "deleted, starting with those of a source that has more than half of "
        "the archive. Ingress responds 503 only when unprocessed requests "
        "fill it",
        .min = 64 * 1024),
    {0},
};

static const struct conf_section archive_section = {
    .name = "archive",
    .keys = archive_keys,
};

static const struct conf_key ingress_keys[] = {
    KEY(listen, settings, ingress.host, "listen", "127.0.0.1:8080",
        "the address on which ingress listens; put a TLS proxy in front of it",
        COUNT(settings, ingress.port)),
    KEY(size, settings, ingress.max_body_bytes, "max_body", "1MiB",
        "the largest request body; a larger one gets 413", .min = 1,
        .max = BODY_MAX_BYTES),
    KEY(int, settings, ingress.max_connections, "max_connections", "4096",
        "the maximum number of open connections", .min = 1, .max = 1000000),
    KEY(duration, settings, ingress.read_timeout_ms, "read_timeout", "10s",
        "how long ingress waits for a complete request", .min = 100,
        .max = HOUR_MS),
    KEY(duration, settings, ingress.target_delay_ms, "target_delay", "500ms",
        "overload protection: while accepted events wait longer than this for "
        "the sequencer, ingress delays each response by up to about a second, "
        "so that deliveries keep pace",
        .min = 100, .max = HOUR_MS),
    KEY(networks, settings, ingress.trusted_proxies, "trusted_proxies", NULL,
        "the proxies whose `X-Forwarded-For` header is trusted",
        COUNT(settings, ingress.trusted_proxy_count)),
    SECTION("archive", &archive_section,
            "the store of raw requests: every request that got a 200"),
    {0},
};

const struct conf_section settings_ingress_section = {
    .name = "ingress",
    .help = "The process that receives webhooks over HTTP.",
    .keys = ingress_keys,
};

static const struct conf_key history_keys[] = {
    KEY(duration, settings, history_keep_ms, "keep", "30d",
        "how long events, deliveries and attempts are kept after they have "
        "ended. The oldest are deleted earlier when a database takes up a "
        "quarter of the disk space available to it",
        .min = SECOND_MS, .max = LONG_MS),
    {0},
};

const struct conf_section settings_history_section = {
    .name = "history",
    .keys = history_keys,
};

static const struct conf_key dlq_keys[] = {
    KEY(duration, settings, dlq_keep_ms, "keep", "30d",
        "how long a dead letter is kept, also when nobody has decided about "
        "it",
        .min = SECOND_MS, .max = LONG_MS),
    {0},
};

const struct conf_section settings_dlq_section = {
    .name = "dlq",
    .keys = dlq_keys,
};

static const struct conf_key temporary_keys[] = {
    KEY(int, settings, temporary.max, "max", "100",
        "how many there may be at a time; 0 permits none", .max = 1000),
    KEY(duration, settings, temporary.ttl_ms, "ttl", "24h",
        "one is deleted, with the deliveries that wait for it, when no "
        "consumer has taken from it for so long. Only time in which the "
        "sequencer runs counts",
        .min = 5 * SECOND_MS, .max = LONG_MS),
    {0},
};

const struct conf_section settings_temporary_section = {
    .name = "temporary_endpoints",
    .keys = temporary_keys,
};

static const struct conf_key metrics_keys[] = {
    KEY(duration, settings, metrics_interval_ms, "interval", "5s",
        "how often each process publishes its metrics", .min = 100,
        .max = HOUR_MS),
    KEY(string, settings, metrics_publish, "publish", "tcp://127.0.0.1:7464",
        "the address at which grapnel-console publishes the metrics of all "
        "processes, so that a monitor needs only this one. It is not "
        "encrypted: everyone who can connect can read the metrics",
        .check = wrong_publish, .form = "ZeroMQ address"),
    {0},
};

const struct conf_section settings_metrics_section = {
    .name = "metrics",
    .keys = metrics_keys,
};

static void check_console_tls(const struct conf_value *v, void *target)
{
    settings_check_tls(v, &((struct settings *)target)->console.tls);
}

static const struct conf_key console_tls_keys[] = {
    KEY(string, settings, console.tls.certificate, "certificate", NULL,
        "the certificate, followed by its chain",
        .check = wrong_pem_certificate, .flags = CONF_SECRET | CONF_PUBLIC,
        .form = "`file:path`, or PEM"),
    KEY(string, settings, console.tls.key, "key", NULL,
        "the private key of `certificate`, without a password",
        .check = wrong_pem_key, .flags = CONF_SECRET,
        .form = "`file:path`, or PEM"),
    {0},
};

static const struct conf_section console_tls_section = {
    .name = "tls",
    .help = "With both keys the console speaks only HTTPS (TLS 1.2 and 1.3). "
            "A reload reads the files again: new connections use the renewed "
            "certificate, and open ones continue.",
    .check = check_console_tls,
    .keys = console_tls_keys,
};

enum { PORTAL_NAME_MAX_BYTES = 60, PORTAL_ORIGINS_MAX_BYTES = 4000 };

static const char *wrong_portal_name(const char *text)
{
    return strlen(text) > PORTAL_NAME_MAX_BYTES
               ? "is too long for a name: at most 60 bytes are allowed"
               : wrong_line(text);
}

static const char *wrong_colour(const char *text)
{
    return *text == '#' && strlen(text) == 7 &&
                   strspn(text + 1, "0123456789abcdefABCDEF") == 6
               ? NULL
               : "is not a colour such as \"#1b4fa8\": write # and six "
                 "hexadecimal digits, in quotes";
}

/* All of them are in one header. */
static void check_portal(const struct conf_value *v, void *target)
{
    const struct string_list *origins =
        &((const struct settings *)target)->console.portal.origins;
    size_t bytes = 0;

    for (size_t i = 0; i < origins->count; i++)
        bytes += strlen(origins->items[i]) + 1;
    if (bytes > PORTAL_ORIGINS_MAX_BYTES)
        conf_error_key(v, "origins",
                       "has %zu bytes in all; at most %d are allowed", bytes,
                       PORTAL_ORIGINS_MAX_BYTES);
}

static const struct conf_key portal_keys[] = {
    KEY(string, settings, console.portal.name, "name", "Webhooks",
        "what the portal is called, at its top and in the title",
        .check = wrong_portal_name),
    KEY(string, settings, console.portal.colour, "colour", "\"#1b4fa8\"",
        "the colour of its top and its buttons, as \"#rrggbb\". Text on it is "
        "black or white, whichever is easier to read, and links have the "
        "nearest colour that can be read",
        .check = wrong_colour, .form = "colour"),
    KEY(string, settings, console.portal.url, "url", NULL,
        "the origin under which browsers reach the console, for the links that "
        "open the portal, such as https://hooks.example.com. Default: the "
        "address in `listen`",
        .check = wrong_origin, .form = "origin"),
    KEY(strings, settings, console.portal.origins, "origins", NULL,
        "the origins of pages that may show the portal in a frame and renew "
        "it, such as https://app.example.com; http:// only for localhost and "
        "addresses of this machine. Default: no page may",
        .check = wrong_origin, .form = "list of origins"),
    {0},
};

static const struct conf_section portal_section = {
    .name = "portal",
    .help = "The pages of one workspace for a customer's own users "
            "([CONSOLE](CONSOLE.md#embed-the-portal)).",
    .check = check_portal,
    .keys = portal_keys,
};

static const struct conf_key console_keys[] = {
    KEY(listen, settings, console.host, "listen", "127.0.0.1:8081",
        "the address that serves `/metrics` (no token needed), "
        "`/api/alerts`, the management API at `/api/v1`, and pages for "
        "browsers at `/`",
        COUNT(settings, console.port)),
    KEY(strings, settings, console.hosts, "hosts", NULL,
        "host names, without port, under which browsers and Prometheus may "
        "request the console. A request for any other name gets 421. "
        "`localhost`, the name in `listen`, and every IP address are always "
        "allowed",
        .check = wrong_host_name, .form = "list of host names"),
    KEY(strings, settings, console.tokens, "tokens", NULL,
        "bearer tokens of administrators, for `/api/alerts` and the "
        "management API; without a token in this list, `/api/alerts` is "
        "closed",
        .flags = CONF_SECRET | CONF_FILLED, .form = "list of secrets"),
    SECTION("tls", &console_tls_section,
            "the certificate with which the console serves HTTPS instead of "
            "HTTP",
            .flags = CONF_OPTIONAL),
    KEY(path, settings, console.pages, "pages", NULL,
        "a folder with the files of the pages, instead of those in the "
        "program: for those who change the pages"),
    SECTION("portal", &portal_section,
            "the pages of one workspace, for a customer's own users"),
    KEY(duration, settings, console.evaluate_ms, "evaluate", "1m",
        "how often alert rules are evaluated", .min = 100, .max = HOUR_MS),
    {0},
};

const struct conf_section settings_console_section = {
    .name = "console",
    .help = "The process that serves metrics to Prometheus, the management "
            "API and pages for browsers, and sends alerts. "
            "Deliveries continue without it.",
    .keys = console_keys,
};

static const struct conf_key telemetry_keys[] = {
    KEY(url, settings, telemetry.url, "url", NULL,
        "where the receiver of OTLP/HTTP listens, such as "
        "http://127.0.0.1:4318; `/v1/traces` and `/v1/metrics` are appended. "
        "Default: nothing is exported",
        .check = wrong_url),
    KEY(headers, settings, telemetry.headers, "headers", NULL,
        "headers to add, such as a token; a value may be `file:path`",
        .flags = CONF_SECRET),
    KEY(string, settings, telemetry.ca, "ca", NULL,
        "the authority that is trusted instead of the system's. The "
        "certificate of an https `url` is always verified",
        .check = wrong_pem_certificate, .flags = CONF_SECRET | CONF_PUBLIC,
        .form = "`file:path`, or PEM"),
    KEY(boolean, settings, telemetry.traces, "traces", "true",
        "export a span for each stage and attempt of an event"),
    KEY(boolean, settings, telemetry.metrics, "metrics", "true",
        "export the metrics of all processes"),
    KEY(number, settings, telemetry.sample, "sample", "1",
        "the part of the traces that Grapnel makes which is exported, from 0 "
        "to 1. Of a trace that came with a request, its flag `sampled` decides",
        .max = 100),
    KEY(duration, settings, telemetry.interval_ms, "interval", "5s",
        "how often waiting spans and all metrics are sent; 512 spans are sent "
        "at once",
        .min = 100, .max = HOUR_MS),
    KEY(duration, settings, telemetry.timeout_ms, "timeout", "10s",
        "the time limit of one request; then it is tried again", .min = 100,
        .max = HOUR_MS),
    KEY(string, settings, telemetry.service, "service", "grapnel",
        "the resource attribute `service.name`", .check = wrong_line),
    {0},
};

const struct conf_section settings_telemetry_section = {
    .name = "telemetry",
    .help = "Traces and metrics for OpenTelemetry, sent by the console "
            "([OPERATIONS](OPERATIONS.md#opentelemetry)).",
    .keys = telemetry_keys,
};

static const struct conf_key tenants_keys[] = {
    KEY(int, settings, tenants.endpoints, "endpoints", "50",
        "the maximum number of endpoints that were made at run time for one "
        "workspace, when a token of the workspace makes another one. Those "
        "that were deleted in "
        "the last 24 hours count",
        .min = 0, .max = 10000),
    KEY(int, settings, tenants.takes, "takes", "8",
        "the maximum number of takes of pull endpoints that wait for "
        "deliveries at the same time",
        .min = 0, .max = 48),
    KEY(int, settings, tenants.streams, "streams", "4",
        "the maximum number of open streams (`GET /stream`)", .min = 0,
        .max = 100),
    KEY(rate, settings, tenants.tests, "tests", "6/m",
        "the maximum rate of test events; three may come at once"),
    KEY(rate, settings, tenants.requests, "requests", "20/s",
        "the maximum rate of API requests; what a second permits may come at "
        "once"),
    KEY(rate, settings, tenants.changes, "changes", "600/h",
        "the maximum rate of changes, each of which leaves an audit row, and "
        "with an Idempotency-Key a stored response; 60 may come at once"),
    {0},
};

const struct conf_section settings_tenants_section = {
    .name = "tenants",
    .help = "What all tokens of the role `workspace` of one workspace may use "
            "together ([API](API.md#tokens-of-a-workspace)). Operators are "
            "not limited by it.",
    .keys = tenants_keys,
};

static const char *wrong_audit_key(const char *text)
{
    return strlen(text) < AUDIT_KEY_MIN_BYTES
               ? "is too short for a key: 32 characters or more are needed "
                 "(openssl rand -hex 32)"
               : NULL;
}

static const struct conf_key audit_keys[] = {
    KEY(string, settings, audit.key, "key", NULL,
        "the key of the hash chain over audit rows, the same for all "
        "processes, as `file:PATH`: 32 characters or more. Without it, the "
        "first process that starts makes `audit.key` in `state_dir`, which "
        "`grapnel backup` does not copy",
        .check = wrong_audit_key, .flags = CONF_SECRET, .form = "secret"),
    KEY(strings, settings, audit.old_keys, "old_keys", NULL,
        "earlier keys, by which `grapnel audit verify` still verifies the rows "
        "that were written with them",
        .check = wrong_audit_key, .flags = CONF_SECRET,
        .form = "list of secrets"),
    KEY(strings, settings, audit.notify, "notify", NULL,
        "the notifiers that get the newest hash of every process once an "
        "hour, in one message. Default: none",
        .check = wrong_name, .form = "list of names"),
    {0},
};

const struct conf_section settings_audit_section = {
    .name = "audit",
    .help = "Every change leaves an audit row. Each row has a keyed hash of "
            "itself and the row before, so that `grapnel audit verify` finds "
            "rows that were changed, removed or inserted.",
    .keys = audit_keys,
};
