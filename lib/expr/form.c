/* form: walks the fields of a form, and decodes them. */
#include "form.h"
#include "headers.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Finds the next field, as it was sent; `*at` begins at 0. */
static bool next(struct bytes form, size_t *at, struct bytes *name,
                 struct bytes *value)
{
    const char *p = form.p, *end, *equals;
    size_t from = *at;

    if (from >= form.n)
        return false;
    end = memchr(p + from, '&', form.n - from);
    *at = end ? (size_t)(end - p) + 1 : form.n;
    if (!end)
        end = p + form.n;
    equals = memchr(p + from, '=', (size_t)(end - p) - from);
    if (!equals)
        equals = end;
    *name = (struct bytes){p + from, (size_t)(equals - p) - from};
    *value = (struct bytes){equals + (equals < end),
                            (size_t)(end - equals) - (equals < end)};
    return true;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void decode(struct bytes b, struct buf *out)
{
    const char *p = b.p;

    for (size_t i = 0; i < b.n; i++) {
        bool code = p[i] == '%' && i + 2 < b.n && digit(p[i + 1]) >= 0 &&
                    digit(p[i + 2]) >= 0;
        char c = p[i] == '+' ? ' ' : p[i];

        if (code) {
            c = (char)(digit(p[i + 1]) << 4 | digit(p[i + 2]));
            i += 2;
        }
        buf_put(out, &c, 1);
    }
}

static bool named(struct bytes encoded, const char *name)
{
    struct buf plain;
    bool same;

    if (encoded.n < strlen(name) || encoded.n > 3 * strlen(name))
        return false;
    buf_init(&plain, encoded.n);
    decode(encoded, &plain);
    same = plain.len == strlen(name) &&
           memcmp(plain.data ? plain.data : "", name, plain.len) == 0;
    buf_fini(&plain);
    return same;
}

int form_get(struct bytes form, const char *name, struct buf *out)
{
    struct bytes key, value;
    size_t at = 0;
    int count = 0;

    while (next(form, &at, &key, &value))
        if (named(key, name) && count++ == 0)
            decode(value, out);
    return count;
}

static struct bytes held(const struct buf *b)
{
    return (struct bytes){b->data ? b->data : "", b->len};
}

void form_each(struct bytes form, form_field_fn *fn, const void *arg)
{
    struct bytes key, sent;
    struct buf name, value;
    size_t at = 0;

    buf_init(&name, form.n);
    buf_init(&value, form.n);
    while (next(form, &at, &key, &sent)) {
        buf_reset(&name);
        buf_reset(&value);
        decode(key, &name);
        decode(sent, &value);
        fn(arg, held(&name), held(&value), sent);
    }
    buf_fini(&name);
    buf_fini(&value);
}

struct hiding {
    struct bytes form;
    form_hides_fn *hides;
    const void *arg;
    const char *instead;
    struct buf *out;
    size_t done; /* bytes of the form that are in `out` */
};

static void hide_field(const void *arg, struct bytes name, struct bytes value,
                       struct bytes sent)
{
    struct hiding *h = *(struct hiding *const *)arg;
    size_t from = (size_t)((const char *)sent.p - (const char *)h->form.p);

    if (!sent.n || !h->hides(h->arg, name, value))
        return;
    buf_put(h->out, (const char *)h->form.p + h->done, from - h->done);
    buf_puts(h->out, h->instead);
    h->done = from + sent.n;
}

void form_hide(struct bytes form, form_hides_fn *hides, const void *arg,
               const char *instead, struct buf *out)
{
    struct hiding h = {form, hides, arg, instead, out, 0}, *one = &h;

    form_each(form, hide_field, &one);
    if (form.n > h.done)
        buf_put(out, (const char *)form.p + h.done, form.n - h.done);
}

struct field {
    const char *p; /* name, then value */
    size_t name, value;
};

static int compare(const char *a, size_t n, const char *b, size_t m)
{
    int order = memcmp(a, b, n < m ? n : m);

    return order ? order : (n > m) - (n < m);
}

static int by_name_and_value(const void *left, const void *right)
{
    const struct field *a = left, *b = right;
    int order = compare(a->p, a->name, b->p, b->name);

    return order ? order
                 : compare(a->p + a->name, a->value, b->p + b->name, b->value);
}

/* All decoded names and values, one after the other in `text`, which is allocated once,
 * because its size has a known limit. */
static size_t decode_all(struct bytes form, struct buf *text,
                         struct field *fields)
{
    struct bytes name, value;
    size_t at = 0, n = 0;

    while (next(form, &at, &name, &value)) {
        size_t from = text->len;

        if (n == FORM_FIELDS_MAX)
            return n + 1;
        decode(name, text);
        fields[n].name = text->len - from;
        decode(value, text);
        fields[n].value = text->len - from - fields[n].name;
        if (fields[n].name || fields[n].value)
            n++;
    }
    return n;
}

gr_rc form_sorted(struct bytes form, struct buf *out)
{
    struct field *fields = gr_alloc(FORM_FIELDS_MAX * sizeof *fields);
    struct buf text;
    size_t n, from = 0;

    buf_init(&text, form.n + 1);
    n = decode_all(form, &text, fields);
    for (size_t i = 0; i < n && n <= FORM_FIELDS_MAX; i++) {
        fields[i].p = text.data + from;
        from += fields[i].name + fields[i].value;
    }
    if (n <= FORM_FIELDS_MAX) {
        qsort(fields, n, sizeof *fields, by_name_and_value);
        for (size_t i = 0; i < n; i++)
            if (i == 0 || by_name_and_value(&fields[i - 1], &fields[i]) != 0)
                buf_put(out, fields[i].p, fields[i].name + fields[i].value);
    }
    buf_fini(&text);
    free(fields);
    return n <= FORM_FIELDS_MAX && !out->failed ? GR_OK : GR_REFUSE;
}

bool form_is(struct bytes headers)
{
    static const char type[] = "application/x-www-form-urlencoded";
    struct bytes value;

    if (!headers_get(headers, "Content-Type", &value, NULL))
        return true;
    return value.n >= sizeof type - 1 &&
           strncasecmp(value.p, type, sizeof type - 1) == 0;
}
