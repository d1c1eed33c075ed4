/* where: tests and prints conditions on the fields of an event. */
#include "where.h"
#include "bounds.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const test_words[TEST_KINDS] = {
    [TEST_IN] = "is",
    [TEST_PREFIX] = "prefix",
    [TEST_EXISTS] = "exists",
    [TEST_ABOVE] = "above",
    [TEST_AT_LEAST] = "at_least",
    [TEST_BELOW] = "below",
    [TEST_AT_MOST] = "at_most",
};

/* ---- numbers ---- */

/* Integers exactly, because ids and amounts in the smallest unit are integers. */
struct number {
    bool whole;
    int64_t n;
    double d;
};

static bool read_number(const char *text, struct number *out)
{
    char *end;

    /* Decimal only: hexadecimal, spaces and infinity are not numbers here. */
    if (!*text || text[strspn(text, "+-.0123456789eE")])
        return false;
    errno = 0;
    out->n = strtoll(text, &end, 10);
    out->whole = !*end && !errno;
    errno = 0;
    out->d = strtod(text, &end);
    return !*end && !errno;
}

const char *where_wrong(enum test_kind kind, const char *value)
{
    struct number n;

    switch (kind) {
    case TEST_IN:
        return NULL;
    case TEST_PREFIX:
        return *value ? NULL : "is an empty prefix, which matches everything";
    case TEST_EXISTS:
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0
                   ? NULL
                   : "is not true or false";
    default:
        return read_number(value, &n) ? NULL : "is not a number";
    }
}

/* ---- tests ---- */

static bool within(enum test_kind kind, const char *bound, const char *value)
{
    struct number b, v;
    int order;

    if (!read_number(bound, &b) || !read_number(value, &v))
        return false;
    if (v.whole && b.whole)
        order = v.n < b.n ? -1 : v.n > b.n;
    else
        order = v.d < b.d ? -1 : v.d > b.d;
    return kind == TEST_ABOVE      ? order > 0
           : kind == TEST_AT_LEAST ? order >= 0
           : kind == TEST_BELOW    ? order < 0
                                   : order <= 0;
}

/* `value` NULL: the field has more than one value or none; `there` says whether it has any. */
static bool passes(const struct where_test *t, bool there, const char *value)
{
    const char *first = t->values.items[0];

    switch (t->kind) {
    case TEST_EXISTS:
        return there == (strcmp(first, "true") == 0);
    case TEST_IN:
        return value && string_list_has(&t->values, value);
    case TEST_PREFIX:
        return value && strncmp(value, first, strlen(first)) == 0;
    default:
        return value && within(t->kind, first, value);
    }
}

/* ---- words ---- */

static void print_test(const struct where_test *t, struct buf *out)
{
    static const char *const words[TEST_KINDS] = {
        [TEST_IN] = "is",
        [TEST_PREFIX] = "begins with",
        [TEST_EXISTS] = "exists",
        [TEST_ABOVE] = "is above",
        [TEST_AT_LEAST] = "is at least",
        [TEST_BELOW] = "is below",
        [TEST_AT_MOST] = "is at most"};

    if (t->kind == TEST_EXISTS) {
        buf_puts(out, strcmp(t->values.items[0], "true") == 0
                          ? "exists"
                          : "does not exist");
        return;
    }
    buf_puts(out, words[t->kind]);
    for (size_t i = 0; i < t->values.count; i++)
        buf_printf(out, "%s %s", i ? " or" : "", t->values.items[i]);
}

static void print_field(const struct where_field *f, struct buf *out)
{
    expr_print(&f->field, out);
    for (size_t i = 0; i < f->count; i++) {
        buf_puts(out, i ? " and " : " ");
        print_test(&f->tests[i], out);
    }
}

void where_print(const struct where *w, struct buf *out)
{
    for (size_t i = 0; i < w->count; i++) {
        buf_puts(out, i ? ", " : "");
        print_field(&w->fields[i], out);
    }
}

enum { VALUE_SHOWN = 60 };

/* Writes "condition json:/data/priority is high or urgent not met: the value is low". */
static void print_why(const struct where_field *f, bool there,
                      const char *value, const char *reason, struct buf *why)
{
    if (!why)
        return;
    buf_puts(why, "condition ");
    print_field(f, why);
    buf_puts(why, " not met: ");
    if (value)
        buf_printf(why, "the value is %.*s", VALUE_SHOWN, value);
    else if (there)
        buf_puts(why, reason);
    else
        buf_puts(why, "the field is missing");
}

static bool field_holds(const struct where_field *f, struct subject *s,
                        struct buf *why)
{
    struct buf text;
    const char *reason = expr_not_there, *value = NULL;
    bool there, holds = true;

    buf_init(&text, TEXT_MAX_BYTES);
    if (expr_value(&f->field, s, &text, &reason) == GR_OK) {
        buf_put(&text, "", 1);
        value = text.failed ? NULL : text.data;
        reason = "the value is too long";
    }
    /* A body that is not JSON has no field. */
    there = value || (reason != expr_not_there && reason != s->json_error);
    for (size_t i = 0; i < f->count && holds; i++)
        holds = passes(&f->tests[i], there, value);
    if (!holds)
        print_why(f, there || reason == s->json_error, value, reason, why);
    buf_fini(&text);
    return holds;
}

bool where_holds(const struct where *w, struct subject *s, struct buf *why)
{
    if (s->gone && w->count && why)
        buf_puts(why, "condition of `where` not met (the event's data is no "
                      "longer stored)");
    for (size_t i = 0; i < w->count; i++)
        if (s->gone || !field_holds(&w->fields[i], s, why))
            return false;
    return true;
}

void where_fini(struct where *w)
{
    for (size_t i = 0; i < w->count; i++) {
        struct where_field *f = &w->fields[i];

        expr_fini(&f->field);
        for (size_t k = 0; k < f->count; k++)
            string_list_fini(&f->tests[k].values);
        free(f->tests);
    }
    free(w->fields);
    *w = (struct where){0};
}
