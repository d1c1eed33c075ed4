/* rules: judges alert rules and words their summaries. */
#include "rules.h"
#include "conf.h"
#include <math.h>
#include <string.h>

const char *rule_severity(int severity)
{
    static const char *const names[] = {[SEVERITY_INFO] = "info",
                                        [SEVERITY_WARNING] = "warning",
                                        [SEVERITY_CRITICAL] = "critical"};

    return names[severity];
}

enum rule_verdict rule_judge(const struct alert_rule *rule,
                             const struct measurement *measurement)
{
    bool yes;

    if (!measurement)
        return VERDICT_NO;
    if (!measurement->known &&
        !(measurement->grows && measurement->value > rule->above))
        return VERDICT_UNKNOWN;
    if (rule->silent_for_ms)
        yes = measurement->value * 1000 > (double)rule->silent_for_ms;
    else if (alert_kinds[rule->when].unit == ALERT_UNIT_NONE)
        yes = measurement->value > 0;
    else if (!isnan(rule->above))
        yes = measurement->value > rule->above;
    else
        yes = measurement->value < rule->below;
    return yes ? VERDICT_YES : VERDICT_NO;
}

enum lifecycle_change rule_step(const struct alert_rule *rule,
                                struct lifecycle *lifecycle,
                                enum rule_verdict verdict, int64_t now_ms)
{
    enum lifecycle_state before = lifecycle->state;

    if (verdict == VERDICT_UNKNOWN)
        return LIFECYCLE_SAME;
    if (verdict == VERDICT_NO) {
        lifecycle->state = LIFECYCLE_CALM;
        return before == LIFECYCLE_FIRING    ? LIFECYCLE_RESOLVES
               : before == LIFECYCLE_PENDING ? LIFECYCLE_PASSES
                                             : LIFECYCLE_SAME;
    }
    if (before == LIFECYCLE_FIRING)
        return LIFECYCLE_SAME;
    if (before == LIFECYCLE_CALM)
        lifecycle->since_ms = now_ms;
    lifecycle->state = LIFECYCLE_PENDING;
    if (now_ms - lifecycle->since_ms < rule->for_ms)
        return before == LIFECYCLE_CALM ? LIFECYCLE_BEGINS : LIFECYCLE_SAME;
    lifecycle->state = LIFECYCLE_FIRING;
    lifecycle->fired_ms = now_ms;
    return LIFECYCLE_FIRES;
}

/* ---- in words ---- */

static void put_value(struct buf *out, enum alert_unit unit, double v)
{
    switch (unit) {
    case ALERT_UNIT_PART:
        buf_printf(out, "%.3g %%", v * 100);
        break;
    case ALERT_UNIT_SECONDS:
        buf_printf(out, "%.3g s", v);
        break;
    case ALERT_UNIT_BYTES:
        buf_printf(out, "%.0f MiB", v / (1024 * 1024));
        break;
    case ALERT_UNIT_NUMBER:
    case ALERT_UNIT_NONE:
        buf_printf(out, "%.15g", v);
        break;
    }
}

/* The kind's help up to a semicolon, with the rule's window instead of
 * `window`. */
static void put_help(struct buf *out, const struct alert_rule *rule)
{
    const char *help = alert_kinds[rule->when].help, *tick;

    while ((tick = strchr(help, '`'))) {
        const char *end = strchr(tick + 1, '`');
        size_t n = end ? (size_t)(end - tick - 1) : 0;

        buf_put(out, help, (size_t)(tick - help));
        if (n == 6 && strncmp(tick + 1, "window", 6) == 0)
            conf_put_duration(out, rule->window_ms);
        else if (n == 10 && strncmp(tick + 1, "silent_for", 10) == 0)
            conf_put_duration(out, rule->silent_for_ms);
        else
            buf_put(out, tick + 1, n);
        help = end ? end + 1 : tick + 1;
    }
    buf_put(out, help, strcspn(help, ";"));
}

static void put_note(struct buf *out, const struct measurement *measurement,
                     bool holds)
{
    if (holds && *measurement->note)
        buf_printf(out, ": %s", measurement->note);
}

void rule_summary(const struct alert_rule *rule, const char *subject,
                  const struct measurement *measurement, bool holds,
                  struct buf *out)
{
    const struct alert_kind *k = &alert_kinds[rule->when];
    bool above = !isnan(rule->above);

    if (*subject)
        buf_printf(out, "%s %s: ", *k->per ? k->per : "", subject);
    if (!measurement) {
        buf_puts(out, "no longer configured, or no longer reported");
        return;
    }
    if (k->unit == ALERT_UNIT_NONE) {
        buf_puts(out, holds ? "" : "no longer true: ");
        put_help(out, rule);
        put_note(out, measurement, holds);
        return;
    }
    put_help(out, rule);
    buf_puts(out, ": ");
    put_value(out, k->unit, measurement->value);
    buf_printf(out, " (%s%s ", holds ? "" : "no longer ",
               above ? "above" : "below");
    put_value(out, k->unit, above ? rule->above : rule->below);
    buf_puts(out, ")");
    put_note(out, measurement, holds);
}

void chat_text(struct buf *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            buf_puts(out, "&amp;");
            break;
        case '<':
            buf_puts(out, "&lt;");
            break;
        case '>':
            buf_puts(out, "&gt;");
            break;
        default:
            buf_put(out, text, 1);
        }
}
