/* endpoint_document: reads, changes, masks and writes an endpoint's settings as JSON, by the
 * tables of grapnel.yaml's section `endpoints`. */
#include "endpoint_document.h"
#include "bounds.h"
#include "headers.h"
#include "mask.h"
#include "settings_types.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS_MAX = 40,
    TENANT_PATTERNS = 50,
    TENANT_WHERE = 8,
    TENANT_DOCUMENT_BYTES = 16 * 1024,
};
static const int64_t TENANT_DISABLE_MS = 5 * DAY_MS;

/* ---- the tables ---- */

/* The endpoint's keys, without those that a document does not have. `keys` is filled at each
 * call, so that this file has no state. */
static void document_keys(struct conf_key keys[KEYS_MAX])
{
    size_t n = 0;

    for (const struct conf_key *k = settings_endpoint_section.keys; k->name;
         k++)
        if (strcmp(k->name, "name") != 0 && strcmp(k->name, "enabled") != 0)
            keys[n++] = *k;
    assert(n < KEYS_MAX);
    keys[n] = (struct conf_key){0};
}

static bool is_secret(const struct conf_key *k)
{
    return (k->flags & CONF_SECRET) && !(k->flags & CONF_PUBLIC);
}

/* ---- reading ---- */

struct reading {
    const struct settings *settings;
    bool tenant;
};

static void inherit(void *user, void *target)
{
    const struct reading *r = user;

    settings_endpoint_section.init((void *)(uintptr_t)r->settings, target);
}

/* Bounds of what one endpoint may cost each event, and of its frames. */
static void check_list(const struct conf_value *v, const char *key,
                       const struct string_list *l, size_t max)
{
    if (l->count > max)
        conf_error_key(v, key, "has %zu items; the maximum is %zu", l->count,
                       max);
    for (size_t i = 0; i < l->count; i++)
        if (strlen(l->items[i]) > TEXT_MAX_BYTES ||
            (strchr(l->items[i], '*') &&
             strlen(l->items[i]) > ENDPOINT_DOCUMENT_MAX_PATTERN_BYTES)) {
            conf_error_key(v, key,
                           "has a text that is too long: the maximum is %d "
                           "bytes, and %d for a pattern with *",
                           TEXT_MAX_BYTES, ENDPOINT_DOCUMENT_MAX_PATTERN_BYTES);
            return;
        }
}

static void check_headers(const struct conf_value *v,
                          const struct header_list *all)
{
    struct buf packed;

    if (all->count > ENDPOINT_DOCUMENT_MAX_ITEMS)
        conf_error_key(v, "headers", "has %zu headers; the maximum is %d",
                       all->count, ENDPOINT_DOCUMENT_MAX_ITEMS);
    buf_init(&packed, HEADERS_MAX_BYTES);
    for (size_t i = 0; i < all->count; i++) {
        const char *value = all->items[i].value;

        headers_put(&packed, all->items[i].name,
                    (struct bytes){value, strlen(value)});
        if (strcmp(value, MASKED) == 0)
            conf_error_key(v, "headers",
                           "has \"" MASKED "\" as the value of %.100s, which "
                           "stands for a secret that is not shown: write the "
                           "value, or leave it out of the change",
                           all->items[i].name);
    }
    if (packed.failed)
        conf_error_key(v, "headers", "is too large: the maximum is %d KiB",
                       HEADERS_MAX_BYTES / 1024);
    if (packed.data)
        explicit_bzero(packed.data, packed.cap);
    buf_fini(&packed);
}

static void check_tenant_count(const struct conf_value *v, const char *key,
                               size_t count, size_t max)
{
    if (count > max)
        conf_error_key(v, key,
                       "has %zu items; the maximum is %zu with the token of a "
                       "workspace",
                       count, max);
}

static const char *const tenant_closed[] = {
    "allow_private", "allowed_ports",   "tls",
    "retry_policy",  "forward_headers", "trace_context"};

/* Each tells the workspace by its events, one guess at a time, what is hidden from it. */
static bool looks_at_secrets(const struct where *where)
{
    for (size_t i = 0; i < where->count; i++)
        if (where->fields[i].field.kind == EXPR_HEADER ||
            where->fields[i].field.kind == EXPR_QUERY)
            return true;
    return false;
}

/* What could harm others than the workspace, or tell about them. */
static void check_tenant(const struct conf_value *v, const struct reading *r,
                         const struct endpoint_settings *e)
{
    const struct settings *s = r->settings;
    int64_t longest_ms = e->transport == TRANSPORT_PULL
                             ? PULL_LEASE_MS
                             : s->defaults.timeout_ms;

    for (size_t i = 0; i < COUNT_OF(tenant_closed); i++)
        if (conf_has(v, tenant_closed[i]))
            conf_error_key(v, tenant_closed[i],
                           "cannot be set with the token of a workspace");
    if (e->max_in_flight > s->defaults.max_in_flight)
        conf_error_key(v, "max_in_flight",
                       "must be at most %lld, the default, with the token of a "
                       "workspace",
                       (long long)s->defaults.max_in_flight);
    /* Another deliverer waits so long for the attempts of one that is lost, for all endpoints. */
    if (conf_has(v, "timeout") && e->timeout_ms > longest_ms)
        conf_error_key(v, "timeout",
                       "must be at most %lld ms, the default, with the token "
                       "of a workspace",
                       (long long)longest_ms);
    if (e->disable_after_ms > TENANT_DISABLE_MS)
        conf_error_key(v, "disable_after",
                       "must be at most %lldd, the default, with the token of "
                       "a workspace",
                       (long long)(TENANT_DISABLE_MS / DAY_MS));
    /* Each event of the workspace is compared with all of them. */
    check_tenant_count(v, "types", e->types.count, TENANT_PATTERNS);
    check_tenant_count(v, "sources", e->sources.count, TENANT_PATTERNS);
    check_tenant_count(v, "headers", e->headers.count, TENANT_PATTERNS);
    check_tenant_count(v, "where", e->where.count, TENANT_WHERE);
    if (looks_at_secrets(&e->where))
        conf_error_key(v, "where",
                       "cannot look into headers or the query with the token "
                       "of a workspace: they may have secrets of the source");
}

static void check_document(const struct conf_value *v, void *target)
{
    const struct reading *r = conf_user(v);
    struct endpoint_settings *e = target;

    if (r->tenant)
        check_tenant(v, r, e);
    settings_endpoint_section.check(v, target);
    settings_check_policy_name(v->conf, r->settings, e->retry_policy);
    if (e->url && strlen(e->url) > URL_MAX_BYTES)
        conf_error_key(v, "url", "is longer than %d KiB", URL_MAX_BYTES / 1024);
    check_list(v, "types", &e->types, ENDPOINT_DOCUMENT_MAX_ITEMS);
    check_list(v, "sources", &e->sources, ENDPOINT_DOCUMENT_MAX_ITEMS);
    check_list(v, "workspaces", &e->workspaces, ENDPOINT_DOCUMENT_MAX_ITEMS);
    check_list(v, "forward_headers", &e->forward_headers,
               ENDPOINT_DOCUMENT_MAX_ITEMS);
    check_list(v, "signing_secrets", &e->signing_secrets,
               ENDPOINT_DOCUMENT_MAX_SECRETS);
    check_headers(v, &e->headers);
    if (e->where.count > ENDPOINT_DOCUMENT_MAX_WHERE)
        conf_error_key(v, "where", "has %zu fields; the maximum is %d",
                       e->where.count, ENDPOINT_DOCUMENT_MAX_WHERE);
    if (e->allow_private.count > ENDPOINT_DOCUMENT_MAX_ITEMS)
        conf_error_key(v, "allow_private",
                       "has %zu networks; the maximum is %d",
                       e->allow_private.count, ENDPOINT_DOCUMENT_MAX_ITEMS);
}

/* As an endpoint of the file has it when all was read. */
static void complete(const struct settings *s, struct endpoint_settings *e)
{
    e->enabled = true;
    if (!e->retry_policy && s->defaults.retry_policy)
        e->retry_policy = gr_strdup(s->defaults.retry_policy);
    if (e->retry_policy)
        e->policy = settings_policy(s, e->retry_policy);
}

struct endpoint_settings *
endpoint_document_read(const struct settings *settings, const char *id,
                       const json_t *doc, bool tenant, char field[128],
                       char why[300])
{
    const size_t max = tenant ? TENANT_DOCUMENT_BYTES
                              : ENDPOINT_DOCUMENT_MAX_BYTES;
    struct reading r = {settings, tenant};
    struct conf_key keys[KEYS_MAX];
    const struct conf_section section = {
        .keys = keys,
        .known = settings_endpoint_section.known,
        .init = inherit,
        .check = check_document};
    struct endpoint_settings *e;
    struct conf *c;
    bool wrong;

    if (json_dumpb(doc, NULL, 0, JSON_COMPACT) > max) {
        *field = 0;
        snprintf(why, 300, "the document is larger than %zu KiB", max / 1024);
        return NULL;
    }
    document_keys(keys);
    e = gr_alloc(sizeof *e);
    c = conf_open(&r);
    conf_read_json(c, doc, &section, e);
    wrong = conf_first_error(c, field, 128, why, 300);
    conf_close(c, NULL);
    if (wrong) {
        endpoint_document_free(e);
        return NULL;
    }
    e->name = gr_strdup(id);
    complete(settings, e);
    return e;
}

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
}

void endpoint_document_free(struct endpoint_settings *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->signing_secrets.count; i++)
        wipe(e->signing_secrets.items[i]);
    for (size_t i = 0; i < e->headers.count; i++)
        wipe(e->headers.items[i].value);
    wipe(e->tls.key);
    conf_fini(&settings_endpoint_section, e);
    free(e);
}

/* ---- secrets ---- */

void endpoint_document_wipe(json_t *doc)
{
    json_t *value;
    const char *key;
    size_t i;

    if (json_is_string(doc))
        explicit_bzero((void *)(uintptr_t)json_string_value(doc),
                       json_string_length(doc));
    json_array_foreach(doc, i, value) endpoint_document_wipe(value);
    json_object_foreach(doc, key, value) endpoint_document_wipe(value);
}

/* The same lists and keys, with this in the place of each value; owned by the caller. */
static json_t *shape_of(const json_t *v, json_t *value)
{
    json_t *out, *item;
    const char *key;
    size_t i;

    if (json_is_array(v)) {
        out = json_array();
        json_array_foreach(v, i, item)
            json_array_append_new(out, shape_of(item, value));
    } else if (json_is_object(v)) {
        out = json_object();
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
            json_object_set_new(out, key, shape_of(item, value));
    } else {
        out = json_incref(value);
    }
    return out;
}

/* Puts `value` in the place of each secret of this section; returns the secrets. */
static json_t *take(json_t *doc, const struct conf_key *keys, json_t *value)
{
    json_t *taken = json_object();

    for (const struct conf_key *k = keys; k->name; k++) {
        json_t *there = json_object_get(doc, k->name);

        if (!there)
            continue;
        if (k->section) {
            json_t *deeper = take(there, k->section->keys, value);

            if (json_object_size(deeper))
                json_object_set(taken, k->name, deeper);
            json_decref(deeper);
        } else if (is_secret(k)) {
            json_object_set(taken, k->name, there);
            json_object_set_new(doc, k->name, shape_of(there, value));
        }
    }
    return taken;
}

json_t *endpoint_document_take_secrets(json_t *doc)
{
    json_t *taken = take(doc, settings_endpoint_section.keys, json_null());

    if (json_object_size(taken))
        return taken;
    json_decref(taken);
    return NULL;
}

void endpoint_document_add_secrets(json_t *doc, const json_t *secrets)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)secrets, key, value)
    {
        json_t *there = json_object_get(doc, key);

        if (json_is_object(there) && json_is_object(value))
            endpoint_document_add_secrets(there, value);
        else
            json_object_set(doc, key, value);
    }
}

static void mask_query(json_t *doc)
{
    const char *url = json_string_value(json_object_get(doc, "url"));
    const char *query = url ? strchr(url, '?') : NULL;

    if (query)
        json_object_set_new(
            doc, "url", json_sprintf("%.*s?" MASKED, (int)(query - url), url));
}

json_t *endpoint_document_masked(const json_t *doc)
{
    json_t *out = json_deep_copy(doc), *mask = json_string(MASKED);

    json_decref(take(out, settings_endpoint_section.keys, mask));
    json_decref(mask);
    mask_query(out);
    return out;
}

/* ---- changes and parts ---- */

void endpoint_document_patch(json_t *doc, const json_t *patch)
{
    const char *key;
    json_t *value;

    if (!json_is_object(doc) || !json_is_object(patch))
        return;
    json_object_foreach((json_t *)(uintptr_t)patch, key, value)
    {
        json_t *there = json_object_get(doc, key);

        if (json_is_null(value)) {
            json_object_del(doc, key);
        } else if (!json_is_object(value)) {
            json_object_set_new(doc, key, json_deep_copy(value));
        } else {
            if (!json_is_object(there)) {
                there = json_object();
                json_object_set_new(doc, key, there);
            }
            endpoint_document_patch(there, value);
        }
    }
}

/* A list of texts, or a single one. */
static bool read_texts(const json_t *v, struct string_list *out)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;

    if (!v)
        return true;
    out->items = gr_alloc(n * sizeof *out->items);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(
            json_is_array(v) ? json_array_get(v, i) : v);

        if (!text)
            return false;
        out->items[out->count++] = gr_strdup(text);
    }
    return true;
}

static bool read_where(const json_t *doc, struct where *out)
{
    const struct conf_key keys[] = {{.name = "where", .type = &conf_as_where},
                                    {0}};
    const struct conf_section section = {.keys = keys, .part = true};
    json_t *where = json_object_get(doc, "where"), *only;
    struct conf *c;
    bool good;

    if (!where)
        return true;
    only = json_pack("{s:O}", "where", where);
    c = conf_open(NULL);
    conf_read_json(c, only, &section, out);
    good = conf_good(c);
    conf_close(c, NULL);
    json_decref(only);
    return good;
}

bool endpoint_document_subscription(const json_t *doc,
                                    struct own_subscription *out)
{
    *out = (struct own_subscription){0};
    return read_texts(json_object_get(doc, "sources"), &out->sources) &&
           read_texts(json_object_get(doc, "types"), &out->types) &&
           read_texts(json_object_get(doc, "workspaces"), &out->workspaces) &&
           read_where(doc, &out->where);
}

const char *endpoint_document_workspace(const json_t *doc)
{
    const json_t *v = json_object_get(doc, "workspaces");
    const char *only;

    if (json_is_array(v))
        v = json_array_size(v) == 1 ? json_array_get(v, 0) : NULL;
    only = json_string_value(v);
    return only && !strchr(only, '*') ? only : NULL;
}

const char *endpoint_document_closed(const json_t *doc)
{
    struct own_subscription s = {0};
    const char *closed = NULL;

    for (size_t i = 0; i < COUNT_OF(tenant_closed) && !closed; i++)
        if (json_object_get(doc, tenant_closed[i]))
            closed = tenant_closed[i];
    if (!closed && read_where(doc, &s.where) && looks_at_secrets(&s.where))
        closed = "where";
    own_subscription_fini(&s);
    return closed;
}

/* ---- from settings ---- */

/* What prints with its secrets: the row, and the rows of its section. */
struct open_key {
    struct conf_key key, deeper[KEYS_MAX];
    struct conf_section section;
};

static void open_secrets(struct open_key *o, const struct conf_key *k)
{
    size_t n = 0;

    o->key = *k;
    o->key.flags &= ~(unsigned)CONF_SECRET;
    if (!k->section)
        return;
    for (const struct conf_key *in = k->section->keys; in->name; in++) {
        o->deeper[n] = *in;
        o->deeper[n++].flags &= ~(unsigned)CONF_SECRET;
    }
    o->deeper[n] = (struct conf_key){0};
    o->section = *k->section;
    o->section.keys = o->deeper;
    o->key.section = &o->section;
}

/* Nothing, if the key is not set. */
static void print_value(struct buf *out, const struct conf_key *k,
                        const struct endpoint_settings *e)
{
    const void *value = (const char *)e + k->offset;

    buf_reset(out);
    if (!k->type->unset || !k->type->unset(k, value))
        k->type->print(out, k, value, 0);
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len &&
           (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

/* An endpoint of the file that sets nothing. */
static struct endpoint_settings *
defaults_of(const struct settings *s, const struct conf_key keys[KEYS_MAX])
{
    struct reading r = {s, false};
    const struct conf_section section = {.keys = keys, .init = inherit};
    struct endpoint_settings *e = gr_alloc(sizeof *e);
    struct conf *c = conf_open(&r);
    json_t *none = json_object();

    conf_read_json(c, none, &section, e); /* the URL is missing, no matter */
    conf_close(c, NULL);
    json_decref(none);
    complete(s, e);
    return e;
}

json_t *endpoint_settings_document(const struct settings *settings,
                                   const struct endpoint_settings *e,
                                   bool masked)
{
    struct conf_key keys[KEYS_MAX];
    struct endpoint_settings *unset;
    json_t *doc = json_object();
    struct buf value, other;

    document_keys(keys);
    unset = defaults_of(settings, keys);
    buf_init(&value, CONF_FILE_MAX_BYTES);
    buf_init(&other, CONF_FILE_MAX_BYTES);
    for (const struct conf_key *k = keys; k->name; k++) {
        struct open_key open;

        open_secrets(&open, k);
        print_value(&value, &open.key, e);
        print_value(&other, &open.key, unset);
        if (!value.failed && !same(&value, &other))
            json_object_set_new(
                doc, k->name,
                conf_json_of((struct bytes){value.data, value.len}));
        if (value.data)
            explicit_bzero(value.data, value.cap);
    }
    buf_fini(&value);
    buf_fini(&other);
    endpoint_document_free(unset);
    /* The print of a URL has no query. */
    if (e->url && json_object_get(doc, "url"))
        json_object_set_new(doc, "url", json_string(e->url));
    if (masked) {
        json_t *shown = endpoint_document_masked(doc);

        json_decref(doc);
        doc = shown;
    }
    return doc;
}
