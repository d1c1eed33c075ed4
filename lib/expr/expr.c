/* expr: parses field expressions, and finds their values in a request. */
#include "expr.h"
#include "form.h"
#include "headers.h"
#include "json_scan.h"
#include "json_text.h"
#include "sha256.h"
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_MAX_BYTES = 64,
    EXACT_BITS = 53,
    PARSE_FOR_LOG_MAX_BYTES = 16 * 1024,
    /* After so many passes over the text, scanning has cost as much as building a tree, in
     * which further values are found quickly. So many expressions cost at most twice a
     * tree. */
    SCANS_MAX = 8,
};

const char expr_not_there[] = "not there";
static const char too_long[] = "the value is too long";
static const char not_single[] =
    "the field is an object or a list, not a single value";

/* ---- parsing ---- */

static const char *const words[] = {
    [EXPR_SOURCE] = "source",
    [EXPR_PROVIDER] = "provider",
    [EXPR_ID] = "id",
    [EXPR_TYPE] = "type",
    [EXPR_WORKSPACE] = "workspace",
    [EXPR_BODY_SHA256] = "body_sha256",
};

/* RFC 6901: empty, or beginning with a slash; a tilde only as ~0 or ~1. */
static const char *wrong_pointer(const char *text)
{
    if (*text && *text != '/')
        return "must begin with a slash after json:, such as json:/type";
    for (; *text; text++)
        if (*text == '~' && text[1] != '0' && text[1] != '1')
            return "has a ~ that is not ~0 or ~1: in a JSON pointer, write ~0 "
                   "for ~, and ~1 for a / in a name";
    return NULL;
}

static const char *wrong_header(const char *text)
{
    return headers_name_valid(text) ? NULL : "is not a header name";
}

static const char *wrong_const(const char *text)
{
    return *text ? NULL : "needs a text after const:";
}

static const char *wrong_field(const char *text)
{
    return *text ? NULL : "needs the name of a field";
}

static const struct {
    const char *prefix;
    enum expr_kind kind;
    const char *(*wrong)(const char *text);
} prefixes[] = {
    {"header:", EXPR_HEADER, wrong_header}, {"json:", EXPR_JSON, wrong_pointer},
    {"const:", EXPR_CONST, wrong_const},    {"form:", EXPR_FORM, wrong_field},
    {"query:", EXPR_QUERY, wrong_field},
};

static gr_rc parse_word(struct expr *e, const char *text, const char **why)
{
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (!words[i] || strcmp(words[i], text) != 0)
            continue;
        e->kind = (enum expr_kind)i;
        return GR_OK;
    }
    *why = "is not a field expression; write header:NAME, json:/pointer, "
           "form:NAME, query:NAME, const:TEXT, or one of source provider id "
           "type workspace body_sha256";
    return GR_REFUSE;
}

gr_rc expr_parse(struct expr *e, const char *text, const char **why)
{
    *e = (struct expr){0};
    for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
        size_t n = strlen(prefixes[i].prefix);

        if (strncmp(text, prefixes[i].prefix, n) != 0)
            continue;
        *why = prefixes[i].wrong(text + n);
        if (*why)
            return GR_REFUSE;
        e->kind = prefixes[i].kind;
        e->text = gr_strdup(text + n);
        return GR_OK;
    }
    return parse_word(e, text, why);
}

void expr_fini(struct expr *e)
{
    free(e->text);
    if (e->other)
        expr_fini(e->other);
    free(e->other);
    *e = (struct expr){0};
}

void expr_copy(struct expr *to, const struct expr *from)
{
    *to = (struct expr){.kind = from->kind};
    if (from->text)
        to->text = gr_strdup(from->text);
    if (!from->other)
        return;
    to->other = gr_alloc(sizeof *to->other);
    expr_copy(to->other, from->other);
}

void expr_print(const struct expr *e, struct buf *out)
{
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (e->kind != EXPR_NONE && prefixes[i].kind == e->kind)
            buf_printf(out, "%s%s", prefixes[i].prefix, e->text);
    if (e->kind < COUNT_OF(words) && words[e->kind])
        buf_puts(out, words[e->kind]);
}

/* ---- JSON ---- */

void subject_for_log(struct subject *s)
{
    if (s->json_tried || s->json_text.p || s->body.n <= PARSE_FOR_LOG_MAX_BYTES)
        return;
    s->json_tried = true;
    s->json_error = "the body is too large to be read for the log";
}

void subject_fini(struct subject *s)
{
    if (s->json)
        json_decref(s->json);
    s->json = NULL;
    buf_fini(&s->payload);
    s->json_text = (struct bytes){NULL, 0};
}

static json_t *load(struct bytes text, size_t flags, json_error_t *error)
{
    return json_read(text, flags | JSON_DECODE_ANY | JSON_ALLOW_NUL, error);
}

/* The body's JSON: a form's field `payload`, or the whole body. */
static void find_text(struct subject *s)
{
    const char *first = s->body.p;

    if (s->json_text.p)
        return;
    s->json_text = s->body.n ? s->body : (struct bytes){"", 0};
    buf_init(&s->payload, s->body.n + 1);
    if (s->body.n && *first != '{' && *first != '[' && form_is(s->headers) &&
        form_get(s->body, "payload", &s->payload) == 1)
        s->json_text = (struct bytes){s->payload.len ? s->payload.data : "",
                                      s->payload.len};
}

/* One integer too large for int64 is not a reason to refuse the whole body: all integers
 * are then read as doubles, and large ones have no value. */
static void parse_body(struct subject *s)
{
    json_error_t error;
    const char *cited;

    s->json_tried = true;
    s->json = load(s->json_text, 0, &error);
    if (!s->json && json_error_code(&error) == json_error_numeric_overflow) {
        s->json_inexact = true;
        s->json = load(s->json_text, JSON_DECODE_INT_AS_REAL, &error);
    }
    if (!s->json && json_error_code(&error) == json_error_out_of_memory)
        die(EXIT_STORAGE, "out of memory");
    if (s->json)
        return;
    /* Dead letters are counted by their reason, so the reason must not contain what was sent:
     * Jansson's message is cut before its quotation. */
    cited = strstr(error.text, " near '");
    snprintf(s->json_why, sizeof s->json_why, "the body is not JSON: %.*s",
             cited ? (int)(cited - error.text) : (int)strlen(error.text),
             error.text);
    s->json_error = s->json_why;
}

/* One step of a pointer: the name up to the next slash, with ~1 and ~0 decoded. */
static const char *step(const char *p, char *name)
{
    for (; *p && *p != '/'; p++) {
        if (*p == '~')
            *name++ = *++p == '1' ? '/' : '~';
        else
            *name++ = *p;
    }
    *name = 0;
    return p;
}

static json_t *element(const json_t *list, const char *name)
{
    char *end;
    unsigned long i;

    if (*name < '0' || *name > '9' || (*name == '0' && name[1]))
        return NULL;
    i = strtoul(name, &end, 10);
    return *end ? NULL : json_array_get(list, i);
}

static const json_t *walk(const json_t *at, const char *pointer)
{
    char *name = gr_alloc(strlen(pointer) + 1);

    while (at && *pointer) {
        pointer = step(pointer + 1, name);
        at = json_is_array(at) ? element(at, name) : json_object_get(at, name);
    }
    free(name);
    return at;
}

static gr_rc refuse(const char **why, const char *reason)
{
    *why = reason;
    return GR_REFUSE;
}

static gr_rc put_all(struct buf *out, const void *p, size_t n, const char **why)
{
    if (n == 0)
        return refuse(why, expr_not_there);
    if (n > out->max - out->len)
        return refuse(why, too_long);
    buf_put(out, p, n);
    return GR_OK;
}

static gr_rc put_number(const json_t *v, bool inexact, struct buf *out,
                        const char **why)
{
    char text[NUMBER_MAX_BYTES];
    double n = json_number_value(v);
    size_t len;

    if (inexact && (n >= 1LL << EXACT_BITS || n <= -(1LL << EXACT_BITS)))
        return refuse(why, "the number is too large to be exact");
    if (inexact && n == (double)(long long)n) {
        len = (size_t)snprintf(text, sizeof text, "%lld", (long long)n);
        return put_all(out, text, len, why);
    }
    len = json_dumpb(v, text, sizeof text, JSON_ENCODE_ANY);
    return put_all(out, text, len, why);
}

static gr_rc put_json(const json_t *v, bool inexact, struct buf *out,
                      const char **why)
{
    if (!v || json_is_null(v))
        return refuse(why, expr_not_there);
    if (json_is_string(v))
        return put_all(out, json_string_value(v), json_string_length(v), why);
    if (json_is_number(v))
        return put_number(v, inexact, out, why);
    if (json_is_boolean(v))
        return json_is_true(v) ? put_all(out, "true", 4, why)
                               : put_all(out, "false", 5, why);
    return refuse(why, not_single);
}

/* ---- values, by kind ---- */

/* Writes the value whose text json_scan() found. */
static gr_rc put_scanned(struct bytes text, struct buf *out, const char **why)
{
    const char *p = text.p;
    json_t *v;
    gr_rc rc;

    if (*p == '"' && !memchr(p, '\\', text.n))
        return put_all(out, p + 1, text.n - 2, why);
    if (*p == '{' || *p == '[')
        return refuse(why, not_single);
    v = load(text, 0, NULL);
    if (!v)
        die(EXIT_STORAGE, "out of memory");
    rc = put_json(v, false, out, why);
    json_decref(v);
    return rc;
}

static gr_rc from_json(const struct expr *e, struct subject *s, struct buf *out,
                       const char **why)
{
    struct bytes found;
    enum json_scanned scanned = JSON_SCAN_UNSURE;

    if (!s->json_tried) {
        find_text(s);
        if (s->scanned_bytes / SCANS_MAX <= s->json_text.n)
            scanned = json_scan(s->json_text, e->text, &found,
                                &s->scanned_bytes);
    }
    switch (scanned) {
    case JSON_SCAN_FOUND:
        return put_scanned(found, out, why);
    case JSON_SCAN_ABSENT:
        return refuse(why, expr_not_there);
    case JSON_SCAN_UNSURE:
        break;
    }
    if (!s->json_tried)
        parse_body(s);
    if (s->json_error)
        return refuse(why, s->json_error);
    return put_json(walk(s->json, e->text), s->json_inexact, out, why);
}

static gr_rc from_header(const struct expr *e, struct subject *s,
                         struct buf *out, const char **why)
{
    struct bytes value;
    int count;

    if (!headers_get(s->headers, e->text, &value, &count))
        return refuse(why, expr_not_there);
    if (count > 1)
        return refuse(why, "the request has the header more than once");
    return put_all(out, value.p, value.n, why);
}

static gr_rc from_fields(struct bytes form, const char *name, struct buf *out,
                         const char **why)
{
    struct buf value;
    int count;
    gr_rc rc = GR_REFUSE;

    buf_init(&value, form.n + 1);
    count = form_get(form, name, &value);
    *why = "the request has the field more than once";
    if (count < 2)
        rc = put_all(out, value.data, value.len, why);
    buf_fini(&value);
    return rc;
}

static gr_rc from_form(const struct expr *e, struct subject *s, struct buf *out,
                       const char **why)
{
    if (!form_is(s->headers))
        return refuse(why, expr_not_there);
    return from_fields(s->body, e->text, out, why);
}

static gr_rc from_query(const struct expr *e, struct subject *s,
                        struct buf *out, const char **why)
{
    struct bytes query;

    if (!headers_get(s->headers, ":query", &query, NULL))
        return refuse(why, expr_not_there);
    return from_fields(query, e->text, out, why);
}

static gr_rc from_const(const struct expr *e, struct subject *s,
                        struct buf *out, const char **why)
{
    (void)s;
    return put_all(out, e->text, strlen(e->text), why);
}

static gr_rc from_subject(const struct expr *e, struct subject *s,
                          struct buf *out, const char **why)
{
    const char *const strings[] = {
        [EXPR_SOURCE] = s->source,
        [EXPR_PROVIDER] = s->provider,
        [EXPR_ID] = s->id,
        [EXPR_TYPE] = s->type,
        [EXPR_WORKSPACE] = s->workspace,
    };
    const char *text = strings[e->kind] ? strings[e->kind] : "";

    return put_all(out, text, strlen(text), why);
}

static gr_rc from_body(const struct expr *e, struct subject *s, struct buf *out,
                       const char **why)
{
    uint8_t digest[SHA256_BYTES];

    (void)e;
    if (2 * sizeof digest > out->max - out->len)
        return refuse(why, too_long);
    sha256(s->body, digest);
    hex_put(digest, sizeof digest, out);
    return GR_OK;
}

static gr_rc (*const values[])(const struct expr *e, struct subject *s,
                               struct buf *out, const char **why) = {
    [EXPR_HEADER] = from_header,    [EXPR_JSON] = from_json,
    [EXPR_CONST] = from_const,      [EXPR_SOURCE] = from_subject,
    [EXPR_PROVIDER] = from_subject, [EXPR_ID] = from_subject,
    [EXPR_TYPE] = from_subject,     [EXPR_WORKSPACE] = from_subject,
    [EXPR_BODY_SHA256] = from_body, [EXPR_FORM] = from_form,
    [EXPR_QUERY] = from_query,
};

gr_rc expr_value(const struct expr *e, struct subject *s, struct buf *out,
                 const char **why)
{
    gr_rc rc = GR_REFUSE;

    *why = expr_not_there;
    for (; rc != GR_OK && e && e->kind != EXPR_NONE; e = e->other)
        rc = values[e->kind](e, s, out, why);
    return rc;
}
