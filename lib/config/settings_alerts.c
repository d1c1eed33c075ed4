/* settings_alerts: the sections `alerts` and `notifiers` of grapnel.yaml, and the built-in
 * rules. */
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

/* The built-in rules. A rule of the same name in the file replaces one of these; `enabled:
 * false` removes it. */
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
    "  - {name: unusual_silence, when: unusual_silence, above: 20}\n"
    "  - {name: dead_letter, when: dead_letter, every: 1h}\n"
    "  - {name: new_refusal, when: new_refusal}\n"
    "  - {name: status_mix, when: status_mix, above: 5%, at_least: 30}\n"
    "  - {name: process_silent, when: process_silent, silent_for: 30s,"
    " severity: critical}\n"
    "  - {name: disk_low, when: disk_low, below: 2GiB, severity: critical}\n"
    "  - {name: damaged_data, when: damaged, above: 0, severity: critical}\n"
    "  - {name: standby_not_ready, when: standbys_ready, below: 1, for: 1m,"
    " severity: critical}\n"
    "  - {name: standby_behind, when: standby_behind, above: 1000,"
    " for: 1m}\n"
    "  - {name: active_alone, when: replication_peers, below: 1, for: 1m}\n"
    "  - {name: log_unreachable, when: replication_waits, above: 10s,"
    " severity: critical}\n"
    "  - {name: engine_slow, when: replication_p99, above: 25%, window: 5m,"
    " at_least: 100}\n";

/* ---- a threshold ---- */

/* 10, 5%, 10s, 1GiB: parses an amount, bare or with the unit of `when`. */
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
    char *text = conf_scalar(v, "a threshold such as 10, 5%, 10s or 1GiB");

    (void)k;
    if (text && !parse_amount(text, target))
        conf_error(v,
                   "\"%.60s\" is not a threshold such as 10, 5%%, 10s or 1GiB",
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

static const struct conf_type conf_as_amount = {
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

/* `value`: its target, set to "not there" when the rule does not use it. */
static void check_used(const struct conf_value *v, const char *key, bool used,
                       int64_t *value, const struct alert_kind *k)
{
    if (used)
        return;
    if (value)
        *value = 0;
    if (conf_has(v, key))
        conf_error_key(v, key, "has no effect with %s; remove it", k->word);
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
    if (k->unit == ALERT_UNIT_NONE && !(isnan(r->above) && isnan(r->below)))
        conf_error_key(v, conf_has(v, "above") ? "above" : "below",
                       "has no effect: %s has no threshold; remove it",
                       k->word);
    else if (k->unit != ALERT_UNIT_NONE && isnan(r->above) == isnan(r->below))
        conf_error(v, "needs one of above and below: %s has a threshold",
                   k->word);
    check_used(v, "window", k->window, &r->window_ms, k);
    check_used(v, "at_least", rate, &r->at_least, k);
    check_used(v, "silent_for", silent, &r->silent_for_ms, k);
    check_used(v, "every", r->when == ALERT_DEAD_LETTER, &r->every_ms, k);
    check_used(v, "endpoint", strcmp(k->per, "endpoint") == 0, NULL, k);
    check_used(v, "source", strcmp(k->per, "source") == 0, NULL, k);
    if (silent && !conf_has(v, "silent_for"))
        conf_error(v, "needs silent_for: %s has no default", k->word);
}

static const struct conf_key alert_keys[] = {
    KEY(string, alert_rule, name, "name", NULL, "the name", .check = wrong_name,
        .flags = CONF_REQUIRED, .form = "name"),
    KEY(choice, alert_rule, when, "when", NULL, "the condition",
        .choices = when_words, .flags = CONF_REQUIRED),
    KEY(amount, alert_rule, above, "above", NULL,
        "the alert fires above this value"),
    KEY(amount, alert_rule, below, "below", NULL,
        "the alert fires below this value"),
    KEY(duration, alert_rule, for_ms, "for", "0s",
        "how long the condition has to last before the alert fires",
        .max = 365 * DAY_MS),
    KEY(duration, alert_rule, window_ms, "window", "5m",
        "the period over which a rate or a growth is measured",
        .min = SECOND_MS, .max = DAY_MS),
    KEY(int, alert_rule, at_least, "at_least", "5",
        "the number of attempts or events that `window` must contain before a "
        "rate is evaluated",
        .min = 1),
    KEY(duration, alert_rule, silent_for_ms, "silent_for", NULL,
        "for `source_silent` and `process_silent`: how long nothing may "
        "arrive",
        .min = SECOND_MS, .max = 365 * DAY_MS),
    KEY(duration, alert_rule, every_ms, "every", NULL,
        "for `dead_letter`: the shortest time between two alerts about one "
        "endpoint. Dead letters that come in between are in the next alert. "
        "Default: an alert at once",
        .min = SECOND_MS, .max = 30 * DAY_MS),
    KEY(choice, alert_rule, severity, "severity", "warning", "the severity",
        .choices = severity_words),
    KEY(strings, alert_rule, endpoints, "endpoint", NULL,
        "the endpoints to watch. Default: all", .check = wrong_name_glob,
        .flags = CONF_FILLED, .form = "list of patterns"),
    KEY(strings, alert_rule, sources, "source", NULL,
        "the sources to watch. Default: all", .check = wrong_name_glob,
        .flags = CONF_FILLED, .form = "list of patterns"),
    KEY(strings, alert_rule, notify, "notify", NULL,
        "the notifiers to use. Default: all", .check = wrong_name,
        .form = "list of names"),
    KEY(boolean, alert_rule, enabled, "enabled", "true",
        "`false`: switch the rule off"),
    {0},
};

const struct conf_section settings_alert_section = {
    .name = "alert",
    .help = "An alert rule. [Alert conditions](#alert-conditions) explains the "
            "values of `when`; [some rules are built in](#built-in-alerts).",
    .size = sizeof(struct alert_rule),
    .init = init_rule,
    .check = check_rule,
    .keys = alert_keys,
};

/* ---- notifiers ---- */

static const char *wrong_server(const char *text)
{
    if (strncmp(text, "smtp://", 7) != 0 && strncmp(text, "smtps://", 8) != 0)
        return "is not the address of a mail server, such as "
               "smtp://mail.example.com:25 or smtps://mail.example.com";
    return strpbrk(text, " \t\r\n@") ? "has a character that is not allowed: a "
                                       "space, a line break or @"
                                     : NULL;
}

static const char *wrong_mailbox(const char *text)
{
    const char *at = strchr(text, '@');

    if (!at || at == text || !at[1] || strpbrk(text, " \t\r\n<>,;\""))
        return "is not an e-mail address";
    return NULL;
}

static const char *wrong_command(const char *text)
{
    return *text ? NULL : "is empty";
}

static const struct conf_key email_keys[] = {
    KEY(string, notifier, email.server, "server", NULL,
        "the mail server: `smtp://host:25` (with TLS when the server offers "
        "it; a password is sent only with TLS) or `smtps://host`",
        .check = wrong_server, .flags = CONF_REQUIRED),
    KEY(string, notifier, email.from, "from", NULL,
        "the sender's e-mail address", .check = wrong_mailbox,
        .flags = CONF_REQUIRED),
    KEY(strings, notifier, email.to, "to", NULL,
        "the recipients' e-mail addresses", .check = wrong_mailbox,
        .flags = CONF_REQUIRED | CONF_FILLED),
    KEY(string, notifier, email.username, "username", NULL,
        "the user name, when the server requires one"),
    KEY(string, notifier, email.password, "password", NULL,
        "the password of `username`", .flags = CONF_SECRET),
    {0},
};

static const struct conf_section email_section = {
    .name = "email",
    .keys = email_keys,
};

static void check_notifier(const struct conf_value *v, void *target)
{
    struct notifier *n = target;

    n->has_email = conf_has(v, "email");
    if (conf_has(v, "webhook") + n->has_email + conf_has(v, "exec") != 1)
        conf_error(v, "needs exactly one of webhook, email, exec");
    if (!conf_has(v, "webhook") && conf_has(v, "signing_secrets"))
        conf_error_key(v, "signing_secrets", "is only for webhook: remove it");
    if (n->exec.count && n->exec.items[0][0] != '/')
        conf_error_key(v, "exec",
                       "must begin with an absolute path: the command is run "
                       "without a shell");
}

static const struct conf_key notifier_keys[] = {
    KEY(string, notifier, name, "name", NULL, "the name", .check = wrong_name,
        .flags = CONF_REQUIRED, .form = "name"),
    KEY(url, notifier, webhook, "webhook", NULL,
        "a URL that gets a POST with JSON: `text`, as chat services expect "
        "it, and `alerts`",
        .check = wrong_url),
    KEY(strings, notifier, signing_secrets, "signing_secrets", NULL,
        "the secrets (`whsec_…` of Standard Webhooks) that sign the request "
        "of `webhook`",
        .check = wrong_signing_secret, .flags = CONF_SECRET | CONF_FILLED,
        .form = "list of secrets"),
    SECTION("email", &email_section, "an e-mail by SMTP",
            .flags = CONF_OPTIONAL),
    KEY(strings, notifier, exec, "exec", NULL,
        "a command, run without a shell. It gets the same JSON on standard "
        "input, and `GRAPNEL_TEXT`, `GRAPNEL_SEVERITY`, `GRAPNEL_STATE` and "
        "`GRAPNEL_ALERTS` in its environment",
        .check = wrong_command, .flags = CONF_FILLED,
        .form = "list: a path and its arguments"),
    KEY(duration, notifier, timeout_ms, "timeout", "30s",
        "the time limit; then the notification is retried", .min = 100,
        .max = HOUR_MS),
    KEY(allow_private, notifier, allow_private, "allow_private", "false",
        "whether `webhook` and `email` may connect to loopback and private "
        "addresses: all (`true`), none (`false`), or those in the listed "
        "networks"),
    {0},
};

const struct conf_section settings_notifier_section = {
    .name = "notifier",
    .help = "A way to send alerts. Set exactly one of `webhook`, `email` and "
            "`exec`.",
    .size = sizeof(struct notifier),
    .check = check_notifier,
    .keys = notifier_keys,
};
