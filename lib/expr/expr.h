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
    char *text;         /* a name, pointer or constant; owned; may be NULL */
    struct expr *other; /* when this one can't be had; owned; may be NULL */
};

/* Parse; on GR_REFUSE `why` (a static sentence) says what is wrong. */
GR_MUST_CHECK gr_rc expr_parse(struct expr *e, const char *text,
                               const char **why);
void expr_fini(struct expr *e);
void expr_copy(struct expr *to, const struct expr *from);
/* As it was written, into `out`; of several the first. */
void expr_print(const struct expr *e, struct buf *out);

/* What an expression is asked of. Everything is borrowed. `headers` is the
 * packed list of headers.h. What follows `body` belongs to the subject: call
 * subject_fini(). Values are looked for in the JSON's text (json_scan.h); `json`, a
 * tree, is made of it only when that does not decide or has become too much work. */
struct subject {
    const char *source, *provider, *id, *type, *workspace;
    struct bytes headers, body;
    struct bytes
        json_text; /* in the body, or in `payload`; from the first need on */
    struct buf payload;   /* of a form; decoded */
    size_t scanned_bytes; /* of json_text, by all looks at it */
    json_t *json;
    bool json_tried;
    const char *json_error; /* static or inside json_why; NULL when it parses */
    char json_why[200];
    bool json_inexact; /* it has whole numbers that no int64 holds */
    bool gone;         /* headers and body are not kept any more */
};

void subject_fini(struct subject *s);
/* What is asked of it from now on is only for a log line: a body above 16 KiB is
 * not parsed for that. */
void subject_for_log(struct subject *s);

/* The `why` of a field that the request simply does not have (or has empty, or
 * null), as against one that can't be had: a body that is not JSON, an object where a text
 * is meant, a header that came twice. Compare the pointer. */
extern const char expr_not_there[];

/* Append the value's text to `out`: a string as it is, a number or boolean as
 * JSON writes it. Never empty. GR_REFUSE when it can't be had (`why`, a static
 * sentence, or the subject's json_error; of several the last one's); `out` is
 * then as before. */
GR_MUST_CHECK gr_rc expr_value(const struct expr *e, struct subject *s,
                               struct buf *out, const char **why);

#endif
