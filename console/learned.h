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
#include <jansson.h>

struct console;
struct learned;
struct mix;
struct usual;

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

/* What is known about a source; valid until the next look. */
struct learned_about {
    const struct usual *usual; /* NULL: the console has not looked yet */
    int64_t event_ms;          /* of its last event; 0: none is known */
    bool heard;                /* the last look heard all ingress processes */
};
struct learned_about learned_about_source(const struct learned *l,
                                          const char *name);
/* Of the endpoint; NULL: it has had no response, or too many endpoints are learned. */
const struct mix *learned_mix(const struct learned *l, const char *endpoint);
/* Calls `each` for each reason for which requests of the source were refused. */
void learned_each_refusal(const struct learned *l, const char *source,
                          void (*each)(void *self, const char *reason,
                                       int64_t seen_ms, bool is_new),
                          void *self);

/* learned_show.c: the same for people, as `usual` of command_source; the caller's. */
json_t *learned_show_source(struct console *c, const char *name);
/* How many events are missing; null: that is not judged yet. */
json_t *learned_show_missing(struct console *c, const char *name);
/* The control command `endpoint_usual`. */
json_t *learned_ask_endpoint(void *self, json_t *args, char why[200]);

/* Whether ingress refuses requests for this reason although the client did nothing wrong. A unit test compares it
 * with the responses of ingress. */
bool learned_is_own_reason(const char *reason);

#endif
