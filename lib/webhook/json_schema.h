/* json_schema: checks a JSON value against a JSON Schema, in bounded time. Pure.
 *
 * A part of JSON Schema 2020-12 (docs/EVENT_TYPES.md lists it). A keyword that is not in
 * that part is refused when the schema is made and never ignored, so that a schema promises
 * nothing that is not checked. `$ref` stays inside of the document. Numbers are doubles. */
#ifndef WEBHOOK_JSON_SCHEMA_H
#define WEBHOOK_JSON_SCHEMA_H

#include "rc.h"
#include <jansson.h>
#include <stdbool.h>

enum {
    JSON_SCHEMA_MAX_BYTES = 32 * 1024, /* its text */
    JSON_SCHEMA_DEPTH_MAX = 32,        /* schemas in schemas */
    JSON_SCHEMA_LEVELS_MAX =
        512, /* of one check: schemas applied inside of each other */
    /* of one check: about one for each schema that is applied to a value, and for each value
     * that is compared */
    JSON_SCHEMA_STEPS_MAX = 100 * 1000,
    JSON_SCHEMA_PATH_BYTES = 256,
};

struct json_schema;

struct json_schema_wrong {
    char path[JSON_SCHEMA_PATH_BYTES]; /* a JSON pointer (RFC 6901) */
    const char *rule;                  /* the keyword; static */
    char why[200];                     /* "must be at least 0" */
};

/* NULL: it is not a schema of this part; `wrong` says where in the text, and why. */
struct json_schema *json_schema_new(struct bytes text,
                                    struct json_schema_wrong *wrong);
void json_schema_free(struct json_schema *s); /* may be NULL */

/* Whether the value fits. It was read with JSON_DECODE_INT_AS_REAL. `wrong`: the first place that
 * does not; a check that needs too many steps does not fit, by the rule "steps". */
bool json_schema_fits(const struct json_schema *s, const json_t *value,
                      struct json_schema_wrong *wrong);

#endif
