/* learned: what is usual for each source and endpoint, for the alerts without a fixed threshold:
 * unusual_silence (usual.h), status_mix (status_mix.h), new_refusal. Learned from the metrics that
 * all processes publish, and stored in console.db in the transaction of each evaluation: a crash
 * loses what came since the last one. What no process could observe (ingress was down, the console was
 * down, ingress refused requests for want of space) counts neither as silence nor as usual. For
 * alerts.c and turn.c. */
#ifndef CONSOLE_LEARNED_H
#define CONSOLE_LEARNED_H

#include "measurements.h"
#include "store.h"

struct console;
struct learned;

struct learned *learned_open(struct console *c);
void learned_close(struct learned *l);
/* The turn was rolled back: reads the database again, and the next look counts what this one did. */
void learned_undo(struct learned *l);
/* After the commit. */
void learned_flush(struct learned *l);
/* At each evaluation, before the rules are judged: looks at the metrics. */
void learned_take(struct learned *l);
bool learned_judges(const struct alert_rule *rule);
/* As measurements_of(), for the rules that learned_judges(). */
void learned_measure(const struct learned *l, const struct alert_rule *rule,
                     struct measurement_list *out);
/* The gauges of sources. */
void learned_publish(const struct learned *l);

/* Whether ingress refuses requests for this reason although the client did nothing wrong. A unit test compares it
 * with the responses of ingress. */
bool learned_is_own_reason(const char *reason);

#endif
