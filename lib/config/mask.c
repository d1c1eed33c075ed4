/* mask: finds secrets in headers and queries by place and by value, and replaces them. */
#include "mask.h"
#include "form.h"
#include "headers.h"
#include "json_text.h"
#include "profile.h"
#include "signature.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A shorter token is masked only in its known places: elsewhere the same text may have
 * another meaning. */
enum { FOUND_BY_VALUE_BYTES = 4 };

static bool is(struct bytes name, const char *text)
{
    return name.n == strlen(text) && strncasecmp(name.p, text, name.n) == 0;
}

static bool is_shared(const struct verify *v)
{
    return v->scheme == SCHEME_SHARED_TOKEN;
}

/* ---- places ---- */

enum { PROFILES_MAX = 64 };

struct verifies {
    const struct verify *items[PROFILES_MAX];
    size_t count;
};

/* The `verify` of all built-in profiles; `shared`: only those with a shared token. */
static const struct verifies *of_profiles(bool shared)
{
    static struct verifies all[2];
    const char *name;

    if (all[0].count)
        return &all[shared];
    for (size_t i = 0; i < PROFILES_MAX && (name = profile_name(i)); i++) {
        const struct verify *v = &profile_source(profile_find(name))->verify;

        if (is_shared(v))
            all[1].items[all[1].count++] = v;
        all[0].items[all[0].count++] = v;
    }
    return &all[shared];
}

typedef bool place_fn(const struct verify *v, struct bytes name);

/* Whether `in` holds for the source or any profile. `shared`: only for schemes with a
 * shared token. If the source is not known, the request may be meant for any of them. */
static bool in_any(const struct mask *m, place_fn *in, bool shared,
                   struct bytes name)
{
    const struct verifies *profiles = of_profiles(shared || m->source);

    if (m->source && (!shared || is_shared(&m->source->verify)) &&
        in(&m->source->verify, name))
        return true;
    for (size_t i = 0; i < profiles->count; i++)
        if (in(profiles->items[i], name))
            return true;
    for (size_t i = 0; m->settings && i < m->settings->source_count; i++) {
        const struct verify *v = &m->settings->sources[i].verify;

        if ((is_shared(v) || (!shared && !m->source)) && in(v, name))
            return true;
    }
    return false;
}

/* "Basic …", "Bearer …" */
static bool has_credentials(struct bytes name)
{
    return is(name, "authorization") || is(name, "proxy-authorization");
}

/* Credentials do not count as a token when the source's own signature is in that header. */
static bool has_token(const struct mask *m, struct bytes name)
{
    const struct verify *v = m->source ? &m->source->verify : NULL;

    if (in_any(m, signature_is_in, true, name))
        return true;
    return has_credentials(name) &&
           !(v && !is_shared(v) && signature_is_in(v, name));
}

/* Whether the name of a query field means a secret; these names mean one only in a query. */
static bool looks_secret(struct bytes field)
{
    static const char *const names[] = {"key", "sig", "auth", "code", "hmac"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (is(field, names[i]))
            return true;
    return headers_secret(field);
}

static bool is_query(struct bytes name)
{
    return is(name, ":query");
}

/* ---- tokens, by their values ---- */

static bool carries(struct bytes text, const struct source *source)
{
    for (size_t i = 0; i < source->secrets.count; i++) {
        const char *token = source->secrets.items[i];
        size_t n = strlen(token);

        if (n >= FOUND_BY_VALUE_BYTES && memmem(text.p, text.n, token, n))
            return true;
    }
    return false;
}

static void hide_in(struct buf *text, const struct source *source)
{
    for (size_t i = 0; i < source->secrets.count; i++) {
        const char *token = source->secrets.items[i];
        size_t n = strlen(token), at = 0;
        struct buf out;
        char *found;

        if (n < FOUND_BY_VALUE_BYTES || !text->len ||
            !memmem(text->data, text->len, token, n))
            continue;
        buf_init(&out, text->max);
        while ((found = memmem(text->data + at, text->len - at, token, n))) {
            buf_put(&out, text->data + at, (size_t)(found - text->data) - at);
            buf_puts(&out, MASKED);
            at = (size_t)(found - text->data) + n;
        }
        buf_put(&out, text->data + at, text->len - at);
        buf_fini(text);
        *text = out;
    }
}

static bool carries_any(const struct mask *m, struct bytes text)
{
    if (m->source && is_shared(&m->source->verify) && carries(text, m->source))
        return true;
    for (size_t i = 0; m->settings && i < m->settings->source_count; i++)
        if (is_shared(&m->settings->sources[i].verify) &&
            carries(text, &m->settings->sources[i]))
            return true;
    return false;
}

/* ---- values ---- */

static bool hides_field(const void *arg, struct bytes name, struct bytes value)
{
    const struct mask *m = arg;

    return in_any(m, signature_is_field, !m->for_display, name) ||
           (m->for_display && looks_secret(name)) || carries_any(m, value);
}

/* Keeps the text before a token: its prefix, or the scheme of the credentials. */
static void put_token(const struct mask *m, struct bytes name,
                      struct bytes value, struct buf *out)
{
    const struct verify *v = m->source ? &m->source->verify : NULL;
    const char *blank = memchr(value.p, ' ', value.n);

    if (v && is_shared(v) && signature_is_in(v, name) && v->prefix &&
        value.n > strlen(v->prefix) &&
        memcmp(value.p, v->prefix, strlen(v->prefix)) == 0)
        buf_puts(out, v->prefix);
    else if (has_credentials(name) && blank)
        buf_put(out, value.p, (size_t)(blank - (const char *)value.p) + 1);
    buf_puts(out, MASKED);
}

void mask_text(const struct mask *m, struct bytes text, struct buf *out)
{
    struct buf copy;

    if (!carries_any(m, text)) {
        if (text.n)
            buf_put(out, text.p, text.n);
        return;
    }
    buf_init(&copy, 8 * text.n + 64);
    buf_put(&copy, text.p, text.n);
    if (m->source && is_shared(&m->source->verify))
        hide_in(&copy, m->source);
    for (size_t i = 0; m->settings && i < m->settings->source_count; i++)
        if (is_shared(&m->settings->sources[i].verify))
            hide_in(&copy, &m->settings->sources[i]);
    buf_put(out, copy.data, copy.len);
    buf_fini(&copy);
}

void mask_value(const struct mask *m, struct bytes name, struct bytes value,
                struct buf *out)
{
    struct buf masked;

    if (is_query(name)) {
        buf_init(&masked, 4 * value.n + 64);
        form_hide(value, hides_field, m, MASKED, &masked);
        mask_text(m, (struct bytes){masked.data, masked.len}, out);
        buf_fini(&masked);
    } else if (m->for_display && (headers_secret(name) ||
                                  in_any(m, signature_is_in, false, name))) {
        buf_puts(out, MASKED);
    } else if (value.n && has_token(m, name)) {
        put_token(m, name, value, out);
    } else {
        mask_text(m, value, out);
    }
}

void mask_head(const struct mask *m, struct bytes packed, struct buf *out)
{
    struct bytes name, value;
    struct buf masked;
    size_t at = 0;

    buf_init(&masked, 8 * packed.n + 64);
    while (headers_next(packed, &at, &name, &value)) {
        char *text = gr_strndup(name.p, name.n);

        buf_reset(&masked);
        mask_value(m, name, value, &masked);
        headers_put(out, text, (struct bytes){masked.data, masked.len});
        free(text);
    }
    buf_fini(&masked);
}

json_t *mask_json(const struct settings *settings, const char *source,
                  struct bytes packed)
{
    const struct mask m = {.source = settings_source(settings, source),
                           .settings = settings,
                           .for_display = true};
    json_t *out = json_array();
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(packed, &at, &name, &value)) {
        struct buf masked;

        buf_init(&masked, 8 * value.n + 64);
        mask_value(&m, name, value, &masked);
        json_array_append_new(
            out, json_pack("[o,o]", json_text(name),
                           json_text((struct bytes){
                               masked.data ? masked.data : "", masked.len})));
        buf_fini(&masked);
    }
    return out;
}

/* ---- is there one? ---- */

bool mask_has(const struct mask *m, struct bytes packed)
{
    struct bytes name, value;
    size_t at = 0;

    if (m->for_display || m->settings ||
        (m->source && is_shared(&m->source->verify)))
        return true;
    while (headers_next(packed, &at, &name, &value))
        if (has_token(m, name))
            return true;
    return false;
}

struct places {
    const struct mask *mask;
    json_t *list;
};

static void add_place(json_t *list, const char *before, struct bytes name)
{
    char *text = gr_printf("%s%.*s", before, (int)name.n, (const char *)name.p);

    json_array_append_new(list, json_text_of(text));
    free(text);
}

/* Notes a field whose value is masked. */
static void note_field(const void *arg, struct bytes name, struct bytes value,
                       struct bytes sent)
{
    const struct places *p = arg;

    (void)sent;
    if (is(value, MASKED) && name.n)
        add_place(p->list, "query:", name);
}

json_t *mask_places(const struct source *source, struct bytes packed)
{
    struct mask m = {.source = source};
    struct places p = {&m, json_array()};
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(packed, &at, &name, &value)) {
        if (is_query(name))
            form_each(value, note_field, &p);
        else if (has_token(&m, name) &&
                 memmem(value.p, value.n, MASKED, strlen(MASKED)))
            add_place(p.list, "", name);
    }
    return p.list;
}
