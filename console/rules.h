/* rules: decides whether an alert rule fires, and since when. Pure. Times are wall clock,
 * because they are stored.
 *
 *            yes                 yes, for `for`
 *   CALM ─────────▶ PENDING ───────────────────▶ FIRING
 *     ▲                │ no                         │ no
 *     └────────────────┴────────────────────────────┘   (notified: resolved)
 *
 * With `for: 0s` a calm rule fires at once. An unknown value changes nothing. */
#ifndef CONSOLE_RULES_H
#define CONSOLE_RULES_H

#include "measurements.h"

enum lifecycle_state { LIFECYCLE_CALM, LIFECYCLE_PENDING, LIFECYCLE_FIRING };

struct lifecycle {
    enum lifecycle_state state;
    int64_t since_ms; /* when the condition became true */
    int64_t fired_ms; /* 0: it has not fired */
};

enum lifecycle_change {
    LIFECYCLE_SAME,
    LIFECYCLE_BEGINS, /* calm → pending */
    LIFECYCLE_FIRES,
    LIFECYCLE_PASSES, /* pending → calm, without having fired */
    LIFECYCLE_RESOLVES,
};

enum rule_verdict { VERDICT_UNKNOWN, VERDICT_NO, VERDICT_YES };

/* `measurement` NULL: its subject no longer exists. */
enum rule_verdict rule_judge(const struct alert_rule *rule,
                             const struct measurement *measurement);
enum lifecycle_change rule_step(const struct alert_rule *rule,
                                struct lifecycle *lifecycle,
                                enum rule_verdict verdict, int64_t now_ms);

/* "endpoint crm: the share of attempts within 5m that failed: 37 % (above 5 %)"; `holds` false:
 * "… (no longer above 5 %)". `measurement` NULL: its subject no longer exists. */
void rule_summary(const struct alert_rule *rule, const char *subject,
                  const struct measurement *measurement, bool holds,
                  struct buf *out);
const char *rule_severity(int severity);
/* Escapes &, < and > as Slack requires, so that text from clients and endpoints cannot notify a
 * whole channel (<!channel>) or disguise a link (<url|text>). */
void chat_text(struct buf *out, const char *text);

#endif
