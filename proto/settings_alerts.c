/* settings_alerts: `alerts` and `notifiers` of grapnel.yaml, and the rules that
 * are there without being declared. */
#include "alert_kinds.h"
#include "clock.h"
#include "conf.h"
#include "settings_types.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct alert_kind alert_kinds[ALERT_WHEN_COUNT] = {
#define A(NAME, word, unit, per, window, help) \
    {word, ALERT_UNIT_##unit, per, window, help},
    ALERT_KINDS(A)
#undef A
};

static const char *const when_words[] = {
#define A(NAME, word, unit, per, window, help) word,
    ALERT_KINDS(A)
#undef A
        NULL};

static const char *const severity_words[] = {[SEVERITY_INFO] = "info",
                                             [SEVERITY_WARNING] = "warning",
                                             [SEVERITY_CRITICAL] = "critical",
                                             NULL};

/* What everybody should be told of. Another rule of the same name in the file
 * takes the place of one of these; `enabled: false` takes it away. */
const char settings_built_in_alerts[] =
    "alerts:\n"
    "  - {name: dlq-warning, when: dead_letters, above: 10}\n"
    "  - {name: dlq-critical, when: dead_letters, above: 100,"
    " severity: critical}\n"
    "  - {name: dlq_growth_rate, when: dead_letter_growth, above: 10,"
    " window: 1h, severity: critical}\n"
    "  - {name: dlq_expiring, when: dead_letters_expiring, above: 0}\n"
    "  - {name: webhook_backlog, when: backlog, above: 1000}\n"
    "  - {name: webhook_delivery_failure_rate, when: delivery_failure_rate,"
    " above: 5%, window: 5m}\n"
    "  - {name: webhook_retry_failure_rate, when: retry_failure_rate,"
    " above: 50%, window: 5m}\n"
    "  - {name: high_e2e_latency, when: e2e_latency_p95, above: 10s,"
    " window: 5m}\n"
    "  - {name: sequence_gaps, when: open_gaps, above: 0, for: 1m}\n"
    "  - {name: lanes_halted, when: halted_lanes, above: 0,"
    " severity: critical}\n"
    "  - {name: endpoint_disabled, when: endpoint_disabled,"
    " severity: critical}\n"
    "  - {name: endpoint_held, when: endpoint_held, severity: critical}\n"
    "  - {name: endpoint_failing, when: endpoint_failing, above: 1h}\n"
    "  - {name: endpoint_waiting, when: endpoint_waiting, above: 1d}\n"
    "  - {name: high_duplicate_rate, when: duplicate_rate, above: 1%,"
    " window: 1h, at_least: 100}\n"
    "  - {name: signature_failures, when: signature_failures, above: 10,"
    " window: 5m}\n"
    "  - {name: process_silent, when: process_silent, silent_for: 30s,"
    " severity: critical}\n"
    "  - {name: disk_low, when: disk_low, below: 2GiB, severity: critical}\n"
    "  - {name: damaged_data, when: damaged, above: 0, severity: critical}\n";

/* ---- a threshold ---- */

/* 10, 5%, 10s, 1GiB: as a number; bare, or with the unit that `when` has. */
static bool parse_amount(const char *text, double *out)
{
    const char *why;
    char *end;
    int64_t n;

    *out = strtod(text, &end);
    if (isdigit((unsigned char)*text) &&
        strspn(text, "0123456789.%") == strlen(text)) {
        if (!*end)
            return true;
        *out /= 100;
        return strcmp(end, "%") == 0;
    }
    if (conf_parse_duration(text, &n, &why) == GR_OK) {
        *out = (double)n / 1000;
        return true;
    }
    if (conf_parse_size(text, &n, &why) == GR_OK) {
        *out = (double)n;
        return true;
    }
    return false;
}

static void read_amount(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    char *text = conf_scalar(v, "a threshold like 10, 5%, 10s or 1GiB");

    (void)k;
    if (text && !parse_amount(text, target))
        conf_error(v, "\"%.60s\" is no threshold like 10, 5%%, 10s or 1GiB",
                   text);
    free(text);
}

static bool unset_amount(const struct conf_key *k, const void *target)
{
    (void)k;
    return isnan(*(const double *)target);
}

static void print_amount(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    (void)k, (void)indent;
    buf_printf(out, " %.15g\n", *(const double *)target);
}

static const struct conf_type as_amount = {
    .name = "`10`, `5%`, `10s` or `1GiB`",
    .read = read_amount,
    .print = print_amount,
    .unset = unset_amount,
};

/* ---- rules ---- */

static void init_rule(void *user, void *target)
{
    struct alert_rule *r = target;

    (void)user;
    r->above = r->below = NAN;
}

static void check_threshold(const struct conf_value *v,
                            const struct alert_rule *r)
{
    const struct alert_kind *k = &alert_kinds[r->when];
    bool one = isnan(r->above) != isnan(r->below);

    if (k->unit == ALERT_UNIT_NONE && !(isnan(r->above) && isnan(r->below)))
        conf_error_key(v, conf_has(v, "above") ? "above" : "below",
                       "%s has no threshold", k->word);
    else if (k->unit != ALERT_UNIT_NONE && !one)
        conf_error(v, "%s needs one of above and below", k->word);
}

/* `value`: its target, set to "not there" when the rule has no use for it. */
static void check_used(const struct conf_value *v, const char *key, bool used,
                       int64_t *value, const struct alert_kind *k)
{
    if (used)
        return;
    if (value)
        *value = 0;
    if (conf_has(v, key))
        conf_error_key(v, key, "has no meaning for %s", k->word);
}

static void check_rule(const struct conf_value *v, void *target)
{
    struct alert_rule *r = target;
    const struct alert_kind *k;
    bool rate, silent;

    if (!conf_has(v, "when") || r->when < 0 || r->when >= ALERT_WHEN_COUNT)
        return;
    k = &alert_kinds[r->when];
    rate = k->unit == ALERT_UNIT_PART || r->when == ALERT_E2E_P95;
    silent = r->when == ALERT_SOURCE_SILENT || r->when == ALERT_PROCESS_SILENT;
    check_threshold(v, r);
    check_used(v, "window", k->window, &r->window_ms, k);
    check_used(v, "at_least", rate, &r->at_least, k);
    check_used(v, "silent_for", silent, &r->silent_for_ms, k);
    check_used(v, "endpoint", strcmp(k->per, "endpoint") == 0, NULL, k);
    check_used(v, "source", strcmp(k->per, "source") == 0, NULL, k);
    if (silent && !conf_has(v, "silent_for"))
        conf_error(v, "%s needs silent_for", k->word);
}

const struct conf_section settings_alert_section = {
    .name = "alert",
    .help = "A rule; what `when` may be stands below. Some are there without "
            "being declared.",
    .size = sizeof(struct alert_rule),
    .init = init_rule,
    .check = check_rule,
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_text,
             AT(alert_rule, name),
             .check = wrong_name,
             .flags = CONF_REQUIRED,
             .form = "name",
             .help = "its name"},
            {.name = "when",
             .type = &conf_as_choice,
             AT(alert_rule, when),
             .choices = when_words,
             .flags = CONF_REQUIRED,
             .help = "what it is about"},
            {.name = "above",
             .type = &as_amount,
             AT(alert_rule, above),
             .help = "it fires above this"},
            {.name = "below",
             .type = &as_amount,
             AT(alert_rule, below),
             .help = "or below this"},
            {.name = "for",
             .type = &conf_as_duration,
             AT(alert_rule, for_ms),
             .fallback = "0s",
             .max = 365 * DAY_MS,
             .help = "once it has been so for this long"},
            {.name = "window",
             .type = &conf_as_duration,
             AT(alert_rule, window_ms),
             .fallback = "5m",
             .min = SECOND_MS,
             .max = DAY_MS,
             .help = "over how long a rate or a growth is taken"},
            {.name = "at_least",
             .type = &conf_as_int,
             AT(alert_rule, at_least),
             .fallback = "5",
             .min = 1,
             .help = "how many there must be in the window before a rate is "
                     "judged"},
            {.name = "silent_for",
             .type = &conf_as_duration,
             AT(alert_rule, silent_for_ms),
             .min = SECOND_MS,
             .max = 365 * DAY_MS,
             .help = "how long nothing came"},
            {.name = "severity",
             .type = &conf_as_choice,
             AT(alert_rule, severity),
             .choices = severity_words,
             .fallback = "warning",
             .help = "how bad it is"},
            {.name = "endpoint",
             .type = &conf_as_texts,
             AT(alert_rule, endpoints),
             .check = wrong_name_glob,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "of which endpoints; all when absent"},
            {.name = "source",
             .type = &conf_as_texts,
             AT(alert_rule, sources),
             .check = wrong_name_glob,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "of which sources; all when absent"},
            {.name = "notify",
             .type = &conf_as_texts,
             AT(alert_rule, notify),
             .check = wrong_name,
             .form = "list of names",
             .help = "which notifiers; all when absent"},
            {.name = "enabled",
             .type = &conf_as_bool,
             AT(alert_rule, enabled),
             .fallback = "true",
             .help = "`false`: it is not judged"},
            {0},
        },
};

/* ---- notifiers ---- */

/* settings_as_private fills an endpoint: what it found becomes the notifier's.
 */
static void read_private(const struct conf_value *v, const struct conf_key *k,
                         void *target)
{
    struct notifier *n = target;
    struct endpoint_settings e = {0};

    settings_as_private.read(v, k, &e);
    n->allow_private = e.allow_private;
    n->allow_cidrs = e.allow_cidrs;
    n->allow_cidr_count = e.allow_cidr_count;
}

static void print_private(struct buf *out, const struct conf_key *k,
                          const void *target, int indent)
{
    const struct notifier *n = target;
    struct endpoint_settings e = {.allow_private = n->allow_private,
                                  .allow_cidrs = n->allow_cidrs,
                                  .allow_cidr_count = n->allow_cidr_count};

    settings_as_private.print(out, k, &e, indent);
}

static void fini_private(const struct conf_key *k, void *target)
{
    struct notifier *n = target;

    (void)k;
    free(n->allow_cidrs);
    n->allow_cidrs = NULL;
    n->allow_cidr_count = 0;
}

static const struct conf_type as_private = {
    .name = "`true`, `false`, or a list of networks",
    .read = read_private,
    .print = print_private,
    .fini = fini_private,
};

static const char *wrong_server(const char *text)
{
    if (strncmp(text, "smtp://", 7) != 0 && strncmp(text, "smtps://", 8) != 0)
        return "is no address of a mail server like smtp://mail.example.com:25 "
               "or smtps://mail.example.com";
    return strpbrk(text, " \t\r\n@") ? "has a character that it may not have"
                                     : NULL;
}

static const char *wrong_mailbox(const char *text)
{
    const char *at = strchr(text, '@');

    if (!at || at == text || !at[1] || strpbrk(text, " \t\r\n<>,;\""))
        return "is no e-mail address";
    return NULL;
}

static const char *wrong_command(const char *text)
{
    return *text ? NULL : "is empty";
}

static const struct conf_section email_section = {
    .name = "email",
    .keys =
        (const struct conf_key[]){
            {.name = "server",
             .type = &conf_as_text,
             AT(notifier, email.server),
             .check = wrong_server,
             .flags = CONF_REQUIRED,
             .help = "`smtp://host:25` (TLS when it offers it, and always "
                     "with a password) or `smtps://host`"},
            {.name = "from",
             .type = &conf_as_text,
             AT(notifier, email.from),
             .check = wrong_mailbox,
             .flags = CONF_REQUIRED,
             .help = "the sender's address"},
            {.name = "to",
             .type = &conf_as_texts,
             AT(notifier, email.to),
             .check = wrong_mailbox,
             .flags = CONF_REQUIRED | CONF_FILLED,
             .help = "the readers' addresses"},
            {.name = "username",
             .type = &conf_as_text,
             AT(notifier, email.username),
             .help = "at the server, where it wants one"},
            {.name = "password",
             .type = &conf_as_text,
             AT(notifier, email.password),
             .flags = CONF_SECRET,
             .help = "of that user"},
            {0},
        },
};

static void check_notifier(const struct conf_value *v, void *target)
{
    struct notifier *n = target;

    n->has_email = conf_has(v, "email");
    if (conf_has(v, "webhook") + n->has_email + conf_has(v, "exec") != 1)
        conf_error(v, "needs exactly one of webhook, email, exec");
    if (!conf_has(v, "webhook") && conf_has(v, "signing_secrets"))
        conf_error_key(v, "signing_secrets", "is for webhook only");
    if (n->exec.count && n->exec.items[0][0] != '/')
        conf_error_key(v, "exec",
                       "must begin with an absolute path; it is run "
                       "without a shell");
}

const struct conf_section settings_notifier_section = {
    .name = "notifier",
    .help = "Exactly one of `webhook`, `email`, `exec`.",
    .size = sizeof(struct notifier),
    .check = check_notifier,
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_text,
             AT(notifier, name),
             .check = wrong_name,
             .flags = CONF_REQUIRED,
             .form = "name",
             .help = "its name"},
            {.name = "webhook",
             .type = &settings_as_url,
             AT(notifier, webhook),
             .check = wrong_url,
             .help = "a POST of JSON: `text` as chats take it, and `alerts`"},
            {.name = "signing_secrets",
             .type = &conf_as_texts,
             AT(notifier, signing_secrets),
             .check = wrong_signing_secret,
             .flags = CONF_SECRET | CONF_FILLED,
             .form = "list of secrets",
             .help = "`whsec_…` of Standard Webhooks, with which it is signed"},
            {.name = "email",
             .type = &conf_as_map,
             .section = &email_section,
             .flags = CONF_OPTIONAL,
             .help = "a mail by SMTP"},
            {.name = "exec",
             .type = &conf_as_texts,
             AT(notifier, exec),
             .check = wrong_command,
             .flags = CONF_FILLED,
             .form = "list: a path and its arguments",
             .help = "a command, run without a shell; the same JSON on its "
                     "standard input, and `GRAPNEL_TEXT`, `GRAPNEL_SEVERITY`, "
                     "`GRAPNEL_STATE`, `GRAPNEL_ALERTS` in its environment"},
            {.name = "timeout",
             .type = &conf_as_duration,
             AT(notifier, timeout_ms),
             .fallback = "30s",
             .min = 100,
             .max = HOUR_MS,
             .help = "how long it may take; then it is tried again"},
            {.name = "allow_private",
             .type = &as_private,
             .offset = 0,
             .fallback = "false",
             .help = "whether webhook and email may reach loopback and "
                     "private addresses: all, none, or those of these "
                     "networks"},
            {0},
        },
};
