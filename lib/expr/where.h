/* where: conditions on an event's headers and body, as a subscription may have them. Pure.
 *
 *   where: {"json:/data/priority": [high, urgent],   one of these
 *           "header:X-Env": prod,                    equal to this
 *           "json:/data/amount": {at_least: 100, below: 500},
 *           "json:/data/key": {prefix: "OPS-"},
 *           "json:/data/deleted": {exists: false}}
 *
 * All of them must be met. A field that the event does not have (or has empty, or null)
 * meets only `exists: false`. An object or a list exists and is equal to no value. Values
 * are compared as texts, and as numbers where a bound is given; a value that is not a
 * number is outside of every bound. */
#ifndef EXPR_WHERE_H
#define EXPR_WHERE_H

#include "expr.h"
#include "string_list.h"

enum test_kind {
    TEST_IN,
    TEST_PREFIX,
    TEST_EXISTS,
    TEST_ABOVE,
    TEST_AT_LEAST,
    TEST_BELOW,
    TEST_AT_MOST,
    TEST_KINDS,
};

/* The word for each kind: prefix, exists, above … */
extern const char *const test_words[TEST_KINDS];

struct where_test {
    enum test_kind kind;
    struct string_list values; /* as written; exactly one, except for TEST_IN */
};

/* All tests of one field. */
struct where_field {
    struct expr field;
    struct where_test *tests;
    size_t count;
};

struct where {
    struct where_field *fields;
    size_t count;
};

/* What is wrong with the value of such a test (a static sentence), or NULL. */
const char *where_wrong(enum test_kind kind, const char *value);

/* Whether all conditions are met. If not, `why` (may be NULL) gets the one that is not, in
 * words. */
bool where_holds(const struct where *w, struct subject *s, struct buf *why);
/* Appends "json:/data/priority is high or urgent". */
void where_print(const struct where *w, struct buf *out);
void where_fini(struct where *w);

#endif
