/* Field expressions, and the idempotency keys that are made of them. */
#include "bounds.h"
#include "settings_types.h"

static bool read_one_expr(const struct conf_value *v, struct expr *e)
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

/* What the event's own fields are made of cannot be those fields. */
static bool goes_in_circles(const struct expr *e)
{
    return e->kind == EXPR_ID || e->kind == EXPR_TYPE ||
           e->kind == EXPR_WORKSPACE;
}

static void read_alternative(const struct conf_value *v, struct expr *e)
{
    if (read_one_expr(v, e) && goes_in_circles(e))
        conf_error(v, "must be found in the request, not in id, type or "
                      "workspace");
}

/* One, or a list of which the first that can be had counts. */
static void read_expr(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    size_t n = conf_is_list(v) ? conf_count(v) : 1;
    struct expr *e = target;

    (void)k;
    if (n == 0)
        conf_error(v, "must not be an empty list: leave it out");
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_is_list(v) ? conf_item(v, i) : *v;

        if (i > 0 && e->kind == EXPR_NONE)
            continue; /* the one before was wrong */
        if (i > 0)
            e = e->other = gr_alloc(sizeof *e);
        read_alternative(&item, e);
    }
}

static void print_one_expr(struct buf *out, const struct expr *e)
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
    print_one_expr(out, e);
    for (e = e->other; e; e = e->other) {
        buf_puts(out, ", ");
        print_one_expr(out, e);
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

const struct conf_type settings_as_expr = {
    .name = "field expression, or list of them",
    .read = read_expr,
    .print = print_expr,
    .unset = unset_expr,
    .fini = fini_expr,
};

/* ---- idempotency keys ---- */

/* A key without any of these is the same for many events, and all of them but
 * the first would be taken for repeats. */
static bool tells_events_apart(const struct dedupe_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        if (key->parts[i].kind == EXPR_HEADER ||
            key->parts[i].kind == EXPR_JSON ||
            key->parts[i].kind == EXPR_FORM ||
            key->parts[i].kind == EXPR_QUERY || key->parts[i].kind == EXPR_ID ||
            key->parts[i].kind == EXPR_BODY_SHA256)
            return true;
    return false;
}

static void free_key(struct dedupe_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        expr_fini(&key->parts[i]);
    free(key->parts);
}

static void add_key(const struct conf_value *v, struct dedupe *d)
{
    size_t n = conf_count(v), good = 0;
    struct dedupe_key key = {.parts = gr_alloc(n * sizeof *key.parts)};

    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        good += read_one_expr(&item, &key.parts[key.count]);
        key.count += key.parts[key.count].kind != EXPR_NONE;
    }
    if (good == n && !tells_events_apart(&key)) {
        conf_error(v, "does not tell one event from another: it needs a "
                      "header:, json:, form:, query:, id or body_sha256");
        good = n + 1;
    }
    if (good != n) {
        free_key(&key);
        return;
    }
    d->keys = gr_realloc(d->keys, (d->count + 1) * sizeof *d->keys);
    d->keys[d->count++] = key;
}

static void read_keys(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    size_t n = conf_count(v);

    (void)k;
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_key(&item, target);
    }
    if (n == 0 && conf_is_list(v))
        conf_error(v, "must not be an empty list (dedupe: none turns it off)");
    if (n > DEDUPE_KEYS_MAX)
        conf_error(v, "must be at most %d keys", DEDUPE_KEYS_MAX);
}

static void print_keys(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const struct dedupe *d = target;

    (void)k, (void)indent;
    buf_puts(out, " [");
    for (size_t i = 0; i < d->count; i++) {
        buf_puts(out, i ? ", [" : "[");
        for (size_t j = 0; j < d->keys[i].count; j++) {
            buf_puts(out, j ? ", " : "");
            print_one_expr(out, &d->keys[i].parts[j]);
        }
        buf_puts(out, "]");
    }
    buf_puts(out, "]\n");
}

static void fini_keys(const struct conf_key *k, void *target)
{
    struct dedupe *d = target;

    (void)k;
    for (size_t i = 0; i < d->count; i++)
        free_key(&d->keys[i]);
    free(d->keys);
    d->keys = NULL;
    d->count = 0;
}

static void fini_dedupe(const struct conf_key *k, void *target)
{
    fini_keys(k, target);
    expr_fini(&((struct dedupe *)target)->unique);
}

static bool unset_keys(const struct conf_key *k, const void *target)
{
    (void)k;
    return ((const struct dedupe *)target)->count == 0;
}

const struct conf_type settings_as_keys = {
    .name = "list of keys, each a list of field expressions",
    .read = read_keys,
    .print = print_keys,
    .unset = unset_keys,
    .fini = fini_keys,
};

static void read_dedupe(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    struct dedupe *d = target;

    d->none = conf_says(v, "none");
    if (d->none)
        return;
    if (!conf_is_map(v))
        conf_error(v, "is meant to be none, or a map with keys and ttl");
    else
        conf_read_section(v, k->section, target);
}

static void print_dedupe(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    if (((const struct dedupe *)target)->none)
        buf_puts(out, " none\n");
    else
        conf_as_map.print(out, k, target, indent);
}

const struct conf_type settings_as_dedupe = {
    .name = "`none`, or a section",
    .read = read_dedupe,
    .print = print_dedupe,
    .fini = fini_dedupe,
};
