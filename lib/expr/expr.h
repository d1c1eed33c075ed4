/* expr: field expressions, the small language in which the configuration says where a
 * request holds a value.
 *
 *   header:NAME   json:/pointer (RFC 6901)   form:NAME   query:NAME
 *   const:TEXT    source provider id type workspace body_sha256
 *
 * If the body is a form with a field `payload` (GitHub's, Slack's), json: looks into that
 * field. A list of expressions means the first one that has a value. */
#ifndef EXPR_EXPR_H
#define EXPR_EXPR_H

#include "alloc.h"
#include "rc.h"
#include <jansson.h>

enum expr_kind {
    EXPR_NONE = 0,
    EXPR_HEADER,
    EXPR_JSON,
    EXPR_CONST,
    EXPR_SOURCE,
    EXPR_PROVIDER,
    EXPR_ID,
    EXPR_TYPE,
    EXPR_WORKSPACE,
    EXPR_BODY_SHA256,
    EXPR_FORM,
    EXPR_QUERY,
};

struct expr {
    enum expr_kind kind;
    char *text; /* a name, pointer or constant; owned; may be NULL */
    struct expr
        *other; /* used when this one has no value; owned; may be NULL */
};

/* Parses it; on GR_REFUSE `why` (a static sentence) says what is wrong. */
GR_MUST_CHECK gr_rc expr_parse(struct expr *e, const char *text,
                               const char **why);
void expr_fini(struct expr *e);
void expr_copy(struct expr *to, const struct expr *from);
/* Appends it as it was written; of a list, the first expression. */
void expr_print(const struct expr *e, struct buf *out);

/* The request in which an expression finds its value. Everything up to `body` is borrowed.
 * `headers` is the packed list of headers.h. What follows `body` belongs to the subject:
 * call subject_fini(). Values are searched in the JSON text (json_scan.h); a tree, `json`,
 * is built only when the scanner cannot decide or has become too expensive. */
struct subject {
    const char *source, *provider, *id, *type, *workspace;
    struct bytes headers, body;
    struct bytes
        json_text;      /* in the body or in `payload`; set when first needed */
    struct buf payload; /* of a form; decoded */
    size_t scanned_bytes; /* of json_text, by all scans */
    json_t *json;
    bool json_tried;
    const char
        *json_error; /* static or inside json_why; NULL: the text is JSON */
    char json_why[200];
    bool json_inexact; /* it has integers that do not fit into int64 */
    bool gone;         /* headers and body are no longer stored */
};

void subject_fini(struct subject *s);
/* From now on, values are only needed for a log line: a body above 16 KiB is not parsed for
 * that. */
void subject_for_log(struct subject *s);

/* The `why` of a field that the request does not have (or has empty, or null). Other
 * reasons are errors: the body is not JSON, an object where a text is expected, a header
 * that occurs twice. Compare the pointer. */
extern const char expr_not_there[];

/* Appends the value's text to `out`: a string as it is, a number or boolean as JSON writes
 * it. It is never empty. GR_REFUSE when there is no value: `why` is a static sentence or
 * the subject's json_error (of a list, that of the last expression), and `out` is
 * unchanged. */
GR_MUST_CHECK gr_rc expr_value(const struct expr *e, struct subject *s,
                               struct buf *out, const char **why);

#endif
