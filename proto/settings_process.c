/* What each process is told for itself: log, archive, limits, addresses. */
#include "bounds.h"
#include "settings_types.h"

static const char *const level_words[] = {"debug", "info", "warn", "error",
                                          NULL};
static const char *const format_words[] = {"text", "json", NULL};

const struct conf_section settings_log_section = {
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
            {.name = "errors",
             .type = &conf_as_path,
             AT(settings, log_errors),
             .help = "a file to which warnings and errors of all processes "
                     "are written as well; a reload or SIGHUP opens it anew, "
                     "for logrotate"},
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
             .help = "what was handed on goes first, also when all is half of "
                     "what its disk has room for, and first that of a source "
                     "that has more than half of it while others have "
                     "something; the door answers 503 only when what was not "
                     "handed on fills it"},
            {0},
        },
};

const struct conf_section settings_ingress_section = {
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
            {.name = "target_delay",
             .type = &conf_as_duration,
             AT(settings, ingress.target_delay_ms),
             .fallback = "500ms",
             .min = 100,
             .max = HOUR_MS,
             .help = "while accepted events wait longer than this for the "
                     "sequencer, responses are delayed, each by about a "
                     "second at most, to leave the machine to deliveries"},
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

const struct conf_section settings_history_section = {
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
                     "they are done; the oldest go sooner where a database "
                     "holds a quarter of what its disk has room for"},
            {0},
        },
};

const struct conf_section settings_dlq_section = {
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

const struct conf_section settings_metrics_section = {
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
                     "encrypted: who can connect to it can read them"},
            {0},
        },
};

const struct conf_section settings_console_section = {
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
            {.name = "hosts",
             .type = &conf_as_texts,
             AT(settings, console.hosts),
             .check = wrong_host_name,
             .form = "list of host names",
             .help = "the names by which browsers, Prometheus and others call "
                     "the console, without port; any other name is refused "
                     "(421). `localhost`, the name in `listen`, and every "
                     "address (`10.0.0.5`) are always allowed"},
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
