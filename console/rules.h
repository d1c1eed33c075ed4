/* rules: does a rule fire, and since when. Pure; times are wall clock, for they
 * are kept on disk.
 *
 *            yes                 yes, for `for`
 *   CALM ─────────▶ PENDING ───────────────────▶ FIRING
 *     ▲                │ no                         │ no
 *     └────────────────┴────────────────────────────┘   (told: resolved)
 *
 * With `for: 0s` a calm one fires at once. What is not known changes nothing. */
#ifndef CONSOLE_RULES_H
#define CONSOLE_RULES_H

#include "facts.h"

enum life_state { LIFE_CALM, LIFE_PENDING, LIFE_FIRING };

struct life {
    enum life_state state;
    int64_t since_ms; /* when it began to be so */
    int64_t fired_ms; /* 0: it has not */
};

enum life_change {
    LIFE_SAME,
    LIFE_BEGINS, /* calm → pending */
    LIFE_FIRES,
    LIFE_PASSES, /* pending → calm, without having fired */
    LIFE_RESOLVES,
};

enum verdict { VERDICT_UNKNOWN, VERDICT_NO, VERDICT_YES };

/* `fact` NULL: its subject is no longer there. */
enum verdict rule_judge(const struct alert_rule *rule, const struct fact *fact);
enum life_change rule_step(const struct alert_rule *rule, struct life *life,
                           enum verdict verdict, int64_t now_ms);

/* "endpoint crm: 37 % is above 5 % (failed attempts of all attempts within 5m)";
 * one that has ended: "… 1.4 % is no longer above 5 % …". `fact`
 * NULL: its subject is no longer there. */
void rule_summary(const struct alert_rule *rule, const char *subject,
                  const struct fact *fact, bool holds, struct buf *out);
const char *rule_severity(int severity);
/* For a chat, in which <!channel> calls everybody and <url|text> hides where it
 * leads: what strangers say is told with &, < and > as Slack wants them. */
void chat_text(struct buf *out, const char *text);

#endif
