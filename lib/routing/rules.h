/* rules: why a subscription matches an event or not, rule by rule, for people who ask. Pure. It decides
 * as route.h does, which answers yes or no; here a condition on a body that is not known is neither. */
#ifndef ROUTING_RULES_H
#define ROUTING_RULES_H

#include "route.h"

enum rule_result { RULE_NOT_MET, RULE_MET, RULE_UNKNOWN };
enum { RULES = 4 }; /* source, type, workspace, where */

struct rule {
    const char *name;  /* "source" … "where" */
    const char *value; /* the event's; NULL: `where` looks at several */
    const struct string_list *patterns; /* empty: any value; NULL: `where` */
    const char *pattern; /* the first one that matches; NULL: no pattern does */
    enum rule_result result;
};

/* The rules of a subscription, borrowed from it and from `s`, and their result together. `why` (an empty
 * buffer) gets one sentence without an end: "type issue.made matches issue.*; any source …", or what is not
 * met. */
enum rule_result rules_judge(const struct subscription *w, struct subject *s,
                             struct rule rules[RULES], struct buf *why);

/* The subscriptions of an endpoint of the file: its own (0) and those of routes (from 1) that name it.
 * Call it with *n = 0 at first; false: there is no further one. */
bool rules_next(const struct settings *settings,
                const struct endpoint_settings *endpoint, size_t *n,
                struct subscription *out, size_t *route);

#endif
