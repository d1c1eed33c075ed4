/* where: conditions on an event's headers and body, as a subscription may have
 * them. Pure.
 *
 *   where: {"json:/data/priority": [high, urgent],   one of these
 *           "header:X-Env": prod,                    this
 *           "json:/data/amount": {at_least: 100, below: 500},
 *           "json:/data/key": {prefix: "OPS-"},
 *           "json:/data/deleted": {exists: false}}
 *
 * All must hold. A field that the event does not have (or has empty, or null)
 * fulfils `exists: false` and nothing else; an object or a list exists and is
 * equal to nothing. Values are compared as texts, and as numbers where a bound is
 * given; what is not a number is within no bound. */
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

/* How each is written: prefix, exists, above … */
extern const char *const test_words[TEST_KINDS];

struct where_test {
    enum test_kind kind;
    struct string_list values; /* as written; one, but for TEST_IN */
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

/* All of it holds. If not, `why` (may be NULL) gets what does not, in words. */
bool where_holds(const struct where *w, struct subject *s, struct buf *why);
/* "json:/data/priority is high or urgent", into `out`. */
void where_print(const struct where *w, struct buf *out);
void where_fini(struct where *w);

#endif
