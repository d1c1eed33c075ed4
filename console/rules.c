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

enum verdict rule_judge(const struct alert_rule *rule, const struct fact *fact)
{
    bool yes;

    if (!fact)
        return VERDICT_NO;
    if (!fact->known && !(fact->grows && fact->value > rule->above))
        return VERDICT_UNKNOWN;
    if (rule->silent_for_ms)
        yes = fact->value * 1000 > (double)rule->silent_for_ms;
    else if (alert_kinds[rule->when].unit == ALERT_UNIT_NONE)
        yes = fact->value > 0;
    else if (!isnan(rule->above))
        yes = fact->value > rule->above;
    else
        yes = fact->value < rule->below;
    return yes ? VERDICT_YES : VERDICT_NO;
}

static enum life_change step_yes(const struct alert_rule *rule,
                                 struct life *life, int64_t now_ms)
{
    enum life_state before = life->state;

    if (before == LIFE_FIRING)
        return LIFE_SAME;
    if (before == LIFE_CALM)
        life->since_ms = now_ms;
    life->state = LIFE_PENDING;
    if (now_ms - life->since_ms < rule->for_ms)
        return before == LIFE_CALM ? LIFE_BEGINS : LIFE_SAME;
    life->state = LIFE_FIRING;
    life->fired_ms = now_ms;
    return LIFE_FIRES;
}

enum life_change rule_step(const struct alert_rule *rule, struct life *life,
                           enum verdict verdict, int64_t now_ms)
{
    enum life_state before = life->state;

    if (verdict == VERDICT_UNKNOWN)
        return LIFE_SAME;
    if (verdict == VERDICT_YES)
        return step_yes(rule, life, now_ms);
    life->state = LIFE_CALM;
    return before == LIFE_FIRING    ? LIFE_RESOLVES
           : before == LIFE_PENDING ? LIFE_PASSES
                                    : LIFE_SAME;
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

/* The kind's own words, with the rule's window in the place of `window`. */
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
    buf_puts(out, help);
}

void rule_summary(const struct alert_rule *rule, const char *subject,
                  const struct fact *fact, bool holds, struct buf *out)
{
    const struct alert_kind *k = &alert_kinds[rule->when];
    bool above = !isnan(rule->above);

    if (*subject)
        buf_printf(out, "%s %s: ", *k->per ? k->per : "", subject);
    if (!fact) {
        buf_puts(out, "no longer configured, or no longer reported");
        return;
    }
    if (k->unit == ALERT_UNIT_NONE) {
        buf_puts(out, holds ? "" : "no longer so: ");
        put_help(out, rule);
        return;
    }
    put_value(out, k->unit, fact->value);
    buf_printf(out, " is %s%s ", holds ? "" : "no longer ",
               above ? "above" : "below");
    put_value(out, k->unit, above ? rule->above : rule->below);
    buf_puts(out, " (");
    put_help(out, rule);
    buf_puts(out, ")");
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
