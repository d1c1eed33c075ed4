/* pattern: regular expressions of JSON Schemas, matched in linear time. Pure.
 *
 * A part of ECMA-262 with the flag `u` (docs/EVENT_TYPES.md lists it): no back references, no
 * look-around. A pattern becomes a list of states, and a match enters each state at most once for
 * each character, so its time is at most the product of both lengths, whatever they contain. */
#ifndef WEBHOOK_PATTERN_H
#define WEBHOOK_PATTERN_H

#include "rc.h"

enum {
    PATTERN_STATES_MAX = 8192,
    PATTERN_DEPTH_MAX = 50, /* groups in groups */
};

struct pattern;

struct pattern_wrong {
    size_t at;     /* the character of the pattern, from 1 */
    char why[120]; /* "back references are not supported" */
};

/* `text` is valid UTF-8. At most `states_max` states, and never more than PATTERN_STATES_MAX.
 * NULL: it is not a pattern of this part; `wrong` says where and why. */
struct pattern *pattern_new(struct bytes text, size_t states_max,
                            struct pattern_wrong *wrong);
void pattern_free(struct pattern *p); /* may be NULL */

size_t pattern_states(const struct pattern *p);

enum pattern_found { PATTERN_ABSENT, PATTERN_FOUND, PATTERN_TOO_LONG };

/* Whether any part of the text matches; `text` is valid UTF-8. `*visits` is how many states may be
 * entered, and is reduced by those that were. PATTERN_TOO_LONG: they were not enough. */
enum pattern_found pattern_find(const struct pattern *p, struct bytes text,
                                int64_t *visits);

#endif
