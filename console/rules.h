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

/* `fact` NULL: its subject is no longer there. */
enum rule_verdict rule_judge(const struct alert_rule *rule,
                             const struct measurement *measurement);
enum lifecycle_change rule_step(const struct alert_rule *rule,
                                struct lifecycle *lifecycle,
                                enum rule_verdict verdict, int64_t now_ms);

/* "endpoint crm: 37 % is above 5 % (the share of attempts within 5m that failed)";
 * one that has ended: "… 1.4 % is no longer above 5 % …". `fact`
 * NULL: its subject is no longer there. */
void rule_summary(const struct alert_rule *rule, const char *subject,
                  const struct measurement *measurement, bool holds,
                  struct buf *out);
const char *rule_severity(int severity);
/* For a chat, in which <!channel> calls everybody and <url|text> hides where it
 * leads: what strangers say is told with &, < and > as Slack requires them. */
void chat_text(struct buf *out, const char *text);

#endif
