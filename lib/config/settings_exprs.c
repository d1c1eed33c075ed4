/* settings_exprs: how field expressions and conditions on them (where.h) are written. */
#include "bounds.h"
#include "settings_types.h"
#include <stdlib.h>
#include <string.h>

bool settings_read_expr(const struct conf_value *v, struct expr *e)
{
    char *text = conf_string(v);
    const char *why;
    gr_rc rc;

    if (!text)
        return false;
    rc = expr_parse(e, text, &why);
    if (rc != GR_OK)
        conf_error(v, "\"%.60s\" %s", text, why);
    free(text);
    return rc == GR_OK;
}

/* One expression, or a list of which the first with a value counts. */
static void read_expr(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    size_t n = conf_is_list(v) ? conf_count(v) : 1;
    struct expr *e = target;

    (void)k;
    if (n == 0)
        conf_error(v, "must not be an empty list: remove the key");
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_is_list(v) ? conf_item(v, i) : *v;

        if (i > 0 && e->kind == EXPR_NONE)
            continue; /* the one before was wrong */
        if (i > 0)
            e = e->other = gr_alloc(sizeof *e);
        if (settings_read_expr(&item, e) &&
            (e->kind == EXPR_ID || e->kind == EXPR_TYPE ||
             e->kind ==
                 EXPR_WORKSPACE)) /* these are made of such expressions */
            conf_error(
                &item,
                "must be a field of the request, not id, type or workspace");
    }
}

void settings_print_expr(struct buf *out, const struct expr *e)
{
    struct buf text;

    buf_init(&text, TEXT_MAX_BYTES + 16);
    expr_print(e, &text);
    conf_put_text(out, text.data ? text.data : "");
    buf_fini(&text);
}

static void print_expr(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const struct expr *e = target;
    bool list = e->other != NULL;

    (void)k, (void)indent;
    buf_puts(out, list ? " [" : " ");
    settings_print_expr(out, e);
    for (e = e->other; e; e = e->other) {
        buf_puts(out, ", ");
        settings_print_expr(out, e);
    }
    buf_puts(out, list ? "]\n" : "\n");
}

static bool unset_expr(const struct conf_key *k, const void *target)
{
    (void)k;
    return ((const struct expr *)target)->kind == EXPR_NONE;
}

static void fini_expr(const struct conf_key *k, void *target)
{
    (void)k;
    expr_fini(target);
}

const struct conf_type conf_as_expr = {
    .name = "field expression, or list of them",
    .read = read_expr,
    .print = print_expr,
    .unset = unset_expr,
    .fini = fini_expr,
};

/* ======== conditions ======== */

static void add_test(struct where_field *f, enum test_kind kind)
{
    f->tests = gr_realloc(f->tests, (f->count + 1) * sizeof *f->tests);
    f->tests[f->count++] = (struct where_test){.kind = kind};
}

static void add_value(const struct conf_value *v, struct where_field *f)
{
    struct where_test *t = &f->tests[f->count - 1];
    char *text = conf_scalar(v, "a value");
    const char *wrong = text ? where_wrong(t->kind, text) : NULL;

    if (wrong)
        conf_error(v, "\"%.60s\" %s", text, wrong);
    if (text)
        string_list_add(&t->values, text);
    free(text);
}

/* {above: 1, below: 5} */
static void read_tests(const struct conf_value *v, struct where_field *f)
{
    size_t n = conf_pair_count(v);

    for (size_t i = 0; i < n; i++) {
        struct conf_value pair = conf_pair(v, i);
        enum test_kind kind = TEST_PREFIX;
        struct conf_near near = {.text = pair.key};
        char hint[100];

        while (kind < TEST_KINDS && strcmp(test_words[kind], pair.key) != 0)
            kind++;
        for (int k = TEST_PREFIX; k < TEST_KINDS; k++)
            conf_near_try(&near, test_words[k]);
        if (kind == TEST_KINDS) {
            conf_error(&pair,
                       "is not a condition; write exists, prefix, above, "
                       "at_least, below or at_most%s",
                       conf_near_hint(&near, hint));
            continue;
        }
        add_test(f, kind);
        add_value(&pair, f);
    }
    if (n == 0)
        conf_error(v, "must have at least one condition");
}

static void read_field(const struct conf_value *v, struct where *w)
{
    struct where_field *f;
    const char *why;
    size_t n;

    w->fields = gr_realloc(w->fields, (w->count + 1) * sizeof *w->fields);
    f = &w->fields[w->count++];
    *f = (struct where_field){0};
    if (expr_parse(&f->field, v->key, &why) != GR_OK)
        conf_error(v, "\"%.60s\" %s", v->key, why);
    if (conf_is_map(v)) {
        read_tests(v, f);
        return;
    }
    add_test(f, TEST_IN);
    n = conf_count(v);
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_value(&item, f);
    }
    if (n == 0)
        conf_error(v, "must not be an empty list");
}

static void read_where(const struct conf_value *v, const struct conf_key *k,
                       void *target)
{
    size_t n;

    (void)k;
    if (!conf_is_map(v)) {
        conf_error(v, "must be a map of fields and their values");
        return;
    }
    n = conf_pair_count(v);
    for (size_t i = 0; i < n; i++) {
        struct conf_value pair = conf_pair(v, i);

        read_field(&pair, target);
    }
    if (n == 0)
        conf_error(v, "must have at least one field");
}

static void print_field(struct buf *out, const struct where_field *f)
{
    struct buf text;

    buf_init(&text, CONF_SECRET_MAX_BYTES);
    expr_print(&f->field, &text);
    conf_put_text(out, text.data ? text.data : "");
    buf_fini(&text);
    buf_puts(out, ": ");
    if (f->count && f->tests[0].kind == TEST_IN) {
        const struct string_list *values = &f->tests[0].values;

        buf_puts(out, "[");
        for (size_t i = 0; i < values->count; i++) {
            buf_puts(out, i ? ", " : "");
            conf_put_text(out, values->items[i]);
        }
        buf_puts(out, "]");
        return;
    }
    for (size_t i = 0; i < f->count; i++) {
        buf_printf(out, "%s%s: ", i ? ", " : "{", test_words[f->tests[i].kind]);
        conf_put_text(out, f->tests[i].values.items[0]);
    }
    buf_puts(out, "}");
}

static void print_where(struct buf *out, const struct conf_key *k,
                        const void *target, int indent)
{
    const struct where *w = target;

    (void)k;
    buf_puts(out, "\n");
    for (size_t i = 0; i < w->count; i++) {
        buf_printf(out, "%*s", indent + 2, "");
        print_field(out, &w->fields[i]);
        buf_puts(out, "\n");
    }
}

static bool unset_where(const struct conf_key *k, const void *target)
{
    (void)k;
    return ((const struct where *)target)->count == 0;
}

static void fini_where(const struct conf_key *k, void *target)
{
    (void)k;
    where_fini(target);
}

const struct conf_type conf_as_where = {
    .name = "map of field expressions: a value, a list of them, or "
            "`{exists, prefix, above, at_least, below, at_most}`",
    .read = read_where,
    .print = print_where,
    .unset = unset_where,
    .fini = fini_where,
};
