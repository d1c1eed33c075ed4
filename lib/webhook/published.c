/* published: parses and checks published events, and writes their bodies. */
#include "published.h"
#include "clock.h"
#include "conf.h"
#include "headers.h"
#include "json_scan.h"
#include "json_text.h"
#include "named_url.h"
#include "route.h"
#include "sha256.h"
#include <assert.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is wrong ---- */

GR_PRINTF(3, 4)
static gr_rc refuse(struct published_wrong *w, const char *field,
                    const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    w->field = field;
    vsnprintf(w->why, sizeof w->why, fmt, ap);
    va_end(ap);
    return GR_REFUSE;
}

/* ---- the place of a value in the text ---- */

static bool is_data(const char *key, const char *end)
{
    json_t *text = json_loadb(key, (size_t)(end - key), JSON_DECODE_ANY, NULL);
    bool is = json_is_string(text) && !strcmp(json_string_value(text), "data");

    json_decref(text);
    return is;
}

/* The text of "data". Jansson has read the body as an object that has it, so no step can
 * leave the text. Numbers and escapes stay as they were written. */
static struct bytes find_data(const char *body)
{
    const char *p = json_skip_blanks(body);

    for (;;) {
        const char *key = json_skip_blanks(p + 1); /* after { or , */
        const char *end = json_skip_string(key);
        struct bytes value;

        p = json_skip_value(json_skip_blanks(json_skip_blanks(end) + 1),
                            &value);
        if (is_data(key, end))
            return value;
    }
}

/* ---- fields ---- */

static gr_rc read_text(const json_t *value, const char *field, const char **out,
                       struct published_wrong *w)
{
    size_t n = json_string_length(value);
    const char *text = json_string_value(value);

    if (!value)
        return refuse(w, field, "is missing");
    if (!text)
        return refuse(w, field, "must be a string");
    if (!n)
        return refuse(w, field, "must not be empty");
    if (n > PUBLISHED_TEXT_MAX_BYTES)
        return refuse(w, field, "is longer than %d bytes",
                      PUBLISHED_TEXT_MAX_BYTES);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return refuse(w, field, "has a control character");
    *out = text;
    return GR_OK;
}

static gr_rc read_endpoints(const json_t *list, struct published_wrong *w)
{
    if (!json_is_array(list) || !json_array_size(list))
        return refuse(w, "endpoints", "must be a list of names");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return refuse(w, "endpoints", "must be a list of names");
    return GR_OK;
}

static gr_rc read_expiry(const json_t *value, int64_t *ms,
                         struct published_wrong *w)
{
    const char *why;

    if (!json_is_string(value) ||
        conf_parse_duration(json_string_value(value), ms, &why) != GR_OK)
        return refuse(w, "expires_in", "must be a duration such as \"60s\"");
    if (*ms <= 0)
        return refuse(w, "expires_in", "must be longer than 0");
    return GR_OK;
}

static gr_rc read_max_attempts(const json_t *value, int64_t *n,
                               struct published_wrong *w)
{
    double number = json_number_value(value);

    if (!json_is_number(value) || !(number >= 1) ||
        !(number <= RETRY_ATTEMPTS_MAX) || number != (double)(int64_t)number)
        return refuse(w, "max_attempts", "must be a whole number from 1 to %d",
                      RETRY_ATTEMPTS_MAX);
    *n = (int64_t)number;
    return GR_OK;
}

static gr_rc read_priority(const json_t *value, enum priority *priority,
                           struct published_wrong *w)
{
    const char *name = json_string_value(value);

    *priority = name && strlen(name) == json_string_length(value)
                    ? priority_named(name)
                    : PRIORITY_UNCHOSEN;
    return *priority ? GR_OK
                     : refuse(w, "priority",
                              "must be \"high\", \"normal\" or \"low\"");
}

/* Secrets, retries and limits of the delivery are those of one endpoint. */
static gr_rc read_url(const json_t *value, struct published *p,
                      struct published_wrong *w)
{
    const char *url = json_string_value(value), *wrong;

    if (!url || strlen(url) != json_string_length(value))
        return refuse(w, "url", "must be a string");
    wrong = named_url_wrong(url);
    if (wrong)
        return refuse(w, "url", "%s", wrong);
    if (json_array_size(p->endpoints) != 1)
        return refuse(w, "url",
                      "needs `endpoints` with one name: the endpoint whose "
                      "secrets, retries and limits apply");
    p->url = url;
    return GR_OK;
}

static gr_rc read_optional(struct published *p, struct published_wrong *w)
{
    const json_t *id = json_object_get(p->json, "id");
    const json_t *expires = json_object_get(p->json, "expires_in");
    const json_t *policy = json_object_get(p->json, "retry_policy");
    const json_t *attempts = json_object_get(p->json, "max_attempts");
    const json_t *priority = json_object_get(p->json, "priority");
    const json_t *url = json_object_get(p->json, "url");
    const json_t *key = json_object_get(p->json, "ordering_key");
    gr_rc rc = GR_OK;

    p->endpoints = json_object_get(p->json, "endpoints");
    if (id)
        rc = read_text(id, "id", &p->id, w);
    if (rc == GR_OK && p->endpoints)
        rc = read_endpoints(p->endpoints, w);
    if (rc == GR_OK && expires)
        rc = read_expiry(expires, &p->expires_in_ms, w);
    if (rc == GR_OK && policy)
        rc = read_text(policy, "retry_policy", &p->retry_policy, w);
    if (rc == GR_OK && attempts)
        rc = read_max_attempts(attempts, &p->max_attempts, w);
    if (rc == GR_OK && priority)
        rc = read_priority(priority, &p->priority, w);
    if (rc == GR_OK && url)
        rc = read_url(url, p, w);
    if (rc == GR_OK && key)
        rc = read_text(key, "ordering_key", &p->ordering_key, w);
    return rc;
}

static gr_rc check_names(const json_t *object, struct published_wrong *w)
{
    static const char *const known[] = {
        "type",      "workspace",  "data",         "id",
        "endpoints", "expires_in", "retry_policy", "max_attempts",
        "priority",  "url",        "ordering_key"};
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        bool is = false;

        for (size_t i = 0; i < COUNT_OF(known) && !is; i++)
            is = strcmp(name, known[i]) == 0;
        if (!is)
            return refuse(w, "", "has an unknown field \"%.60s\"", name);
    }
    return GR_OK;
}

enum {
    READ_FLAGS = JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL |
                 JSON_ALLOW_NUL,
};

/* Reads the object without `data`, which is most of it, and which nothing looks into. false: that is not
 * possible, and nothing is said about the body. */
static bool read_without_data(struct published *p, struct bytes body)
{
    const char *from = body.p, *data;
    struct buf rest;

    if (json_scan_member(body, "data", &p->data) != JSON_SCAN_FOUND)
        return false;
    data = p->data.p;
    buf_init(&rest, body.n + sizeof "null");
    buf_put(&rest, from, (size_t)(data - from));
    buf_puts(&rest, "null");
    buf_put(&rest, data + p->data.n,
            body.n - p->data.n - (size_t)(data - from));
    p->json = json_read((struct bytes){rest.data, rest.len}, READ_FLAGS, NULL);
    buf_fini(&rest);
    return p->json;
}

gr_rc published_read(struct published *p, struct bytes body,
                     struct published_wrong *w)
{
    json_error_t error;
    bool has_data;

    memset(p, 0, sizeof *p);
    has_data = read_without_data(p, body);
    if (!has_data)
        p->json = json_read(body, READ_FLAGS, &error);
    if (!p->json)
        return refuse(w, "", "is not JSON: %.80s (at byte %d)", error.text,
                      error.position);
    if (!json_is_object(p->json))
        return refuse(w, "", "must be an object");
    if (check_names(p->json, w) != GR_OK ||
        read_text(json_object_get(p->json, "type"), "type", &p->type, w) !=
            GR_OK ||
        read_text(json_object_get(p->json, "workspace"), "workspace",
                  &p->workspace, w) != GR_OK)
        return GR_REFUSE;
    if (!json_object_get(p->json, "data"))
        return refuse(w, "data", "is missing");
    if (read_optional(p, w) != GR_OK)
        return GR_REFUSE;
    if (!has_data)
        p->data = find_data(body.p);
    return GR_OK;
}

json_t *published_data(const struct published *p)
{
    return json_read(p->data, READ_FLAGS | JSON_DECODE_ANY, NULL);
}

void published_fini(struct published *p)
{
    json_decref(p->json);
    memset(p, 0, sizeof *p);
}

/* Names as many of the known ones as fit. */
static void refuse_policy(const struct settings *s, const char *name,
                          struct published_wrong *w)
{
    size_t at;

    (void)refuse(w, "retry_policy",
                 "there is no retry policy \"%.63s\"; there are: ", name);
    at = strlen(w->why);
    for (size_t i = 0; i < s->policy_count; i++) {
        const char *comma = i ? ", " : "";

        if (at + strlen(comma) + strlen(s->policies[i].name) + 6 >
            sizeof w->why) {
            snprintf(w->why + at, sizeof w->why - at, " …");
            return;
        }
        snprintf(w->why + at, sizeof w->why - at, "%s%s", comma,
                 s->policies[i].name);
        at += strlen(w->why + at);
    }
}

static bool may_name(const struct producer *producer, const char *url)
{
    for (size_t i = 0; i < producer->may_name_urls.count; i++)
        if (named_url_matches(producer->may_name_urls.items[i], url))
            return true;
    return false;
}

static bool named_in_file(const struct settings *s, const struct published *p)
{
    return settings_endpoint(
               s, json_string_value(json_array_get(p->endpoints, 0))) != NULL;
}

static bool is_pulled(const struct settings *s, const struct published *p)
{
    const struct endpoint_settings *e = settings_endpoint(
        s, json_string_value(json_array_get(p->endpoints, 0)));

    return e->transport == TRANSPORT_PULL;
}

static bool port_is_allowed(const struct settings *s, const struct published *p)
{
    const struct endpoint_settings *e = settings_endpoint(
        s, json_string_value(json_array_get(p->endpoints, 0)));
    int port = named_url_port(p->url);

    for (size_t i = 0; i < e->allowed_ports.count; i++)
        if (e->allowed_ports.items[i] == port)
            return true;
    return e->allowed_ports.count == 0;
}

enum published_verdict published_judge(const struct published *p,
                                       const struct settings *settings,
                                       const struct producer *producer,
                                       struct published_wrong *wrong)
{
    static const char why[] = "this producer may not use it";
    const char *unknown = NULL;
    enum published_verdict v = PUBLISHED_GOOD;

    for (size_t i = 0; !unknown && i < json_array_size(p->endpoints); i++) {
        const char *name = json_string_value(json_array_get(p->endpoints, i));

        if (!settings_endpoint(settings, name) && !endpoint_id_valid(name))
            unknown = name;
    }
    if (!route_list_takes(&producer->workspaces, p->workspace)) {
        v = PUBLISHED_WORKSPACE_FORBIDDEN;
        (void)refuse(wrong, "workspace", "%s", why);
    } else if (!route_list_takes(&producer->types, p->type)) {
        v = PUBLISHED_TYPE_FORBIDDEN;
        (void)refuse(wrong, "type", "%s", why);
    } else if (unknown) {
        v = PUBLISHED_UNKNOWN;
        (void)refuse(wrong, "endpoints", "there is no endpoint \"%.63s\"",
                     unknown);
    } else if (p->retry_policy && !settings_policy(settings, p->retry_policy)) {
        v = PUBLISHED_UNKNOWN;
        refuse_policy(settings, p->retry_policy, wrong);
    } else if (p->url && !may_name(producer, p->url)) {
        v = PUBLISHED_URL_FORBIDDEN;
        (void)refuse(wrong, "url",
                     producer->may_name_urls.count
                         ? "it matches none of the producer's `may_name_urls`"
                         : "this producer may not name URLs: it has no "
                           "`may_name_urls`");
    } else if (p->url && !named_in_file(settings, p)) {
        v = PUBLISHED_UNKNOWN;
        (void)refuse(wrong, "url",
                     "its endpoint was made at run time: a URL can be named "
                     "only for an endpoint of grapnel.yaml");
    } else if (p->url && is_pulled(settings, p)) {
        v = PUBLISHED_UNKNOWN;
        (void)refuse(wrong, "url",
                     "its endpoint has `transport: pull`, so nothing is sent "
                     "to a URL");
    } else if (p->url && !port_is_allowed(settings, p)) {
        v = PUBLISHED_UNKNOWN;
        (void)refuse(wrong, "url",
                     "port %d is not in `allowed_ports` of its endpoint",
                     named_url_port(p->url));
    }
    return v;
}

bool published_for(const struct published *p, const char *endpoint)
{
    if (!p->endpoints)
        return true;
    for (size_t i = 0; i < json_array_size(p->endpoints); i++)
        if (strcmp(json_string_value(json_array_get(p->endpoints, i)),
                   endpoint) == 0)
            return true;
    return false;
}

/* ---- what is made of it ---- */

static int append(const char *text, size_t n, void *out)
{
    buf_put(out, text, n);
    return 0;
}

static void put_text(struct buf *out, const char *text)
{
    json_t *value = json_text_of(text);

    json_dump_callback(value, append, out, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(value);
}

void published_body(const struct published *p, const char *event_id,
                    int64_t received_ms, struct buf *out)
{
    char at[RFC3339_BYTES];

    rfc3339(at, received_ms);
    buf_puts(out, "{\"id\":\"");
    buf_puts(out, event_id);
    buf_puts(out, "\",\"type\":");
    put_text(out, p->type);
    buf_puts(out, ",\"workspace\":");
    put_text(out, p->workspace);
    buf_puts(out, ",\"timestamp\":\"");
    buf_puts(out, at);
    buf_puts(out, "\",\"data\":");
    buf_put(out, p->data.p, p->data.n);
    buf_puts(out, "}");
}

const char *published_sent(const struct published *p, struct bytes headers,
                           const char *event_id, int64_t received_ms,
                           struct buf *out)
{
    const char *type = "application/json";
    struct bytes kind;
    json_t *data = NULL;

    if (!headers_get(headers, PUBLISHED_PAYLOAD, &kind, NULL) ||
        (kind.n == strlen(PAYLOAD_EVENT) &&
         memcmp(kind.p, PAYLOAD_EVENT, kind.n) == 0)) {
        published_body(p, event_id, received_ms, out);
        return type;
    }
    if (kind.n == strlen(PAYLOAD_TEXT) &&
        memcmp(kind.p, PAYLOAD_TEXT, kind.n) == 0)
        data = published_data(p);
    if (json_is_string(data)) {
        buf_put(out, json_string_value(data), json_string_length(data));
        type = "text/plain; charset=utf-8";
    } else {
        buf_put(out, p->data.p, p->data.n);
    }
    json_decref(data);
    return type;
}

void published_event_id(char out[EVENT_ID_BYTES + 1], const char *producer,
                        struct bytes key)
{
    static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    enum { FIRST = 4, ULID_FIRST_LETTERS = 8 };
    uint8_t digest[SHA256_BYTES];
    struct buf text;

    buf_init(&text, NAME_MAX_BYTES + 1 + TEXT_MAX_BYTES);
    buf_put(&text, producer,
            strlen(producer) + 1); /* a 0 between producer and key */
    buf_put(&text, key.p, key.n);
    assert(!text.failed);
    sha256((struct bytes){text.data, text.len}, digest);
    buf_fini(&text);
    memcpy(out, "evt_", FIRST);
    out[FIRST] = letters[ULID_FIRST_LETTERS + digest[0] % 24];
    for (int i = FIRST + 1; i < EVENT_ID_BYTES; i++)
        out[i] = letters[digest[i - FIRST] & 31];
    out[EVENT_ID_BYTES] = 0;
}

/* ---- what it says, however it is written ---- */

enum {
    /* {"a":1,"b":2} becomes a digest, and no escape grows by more. */
    DIGESTED_MAX_TIMES = 8,
};

/* A member of an object: the place of its canonical text in the buffer. */
struct member {
    const char *base; /* the buffer, while members are sorted */
    size_t at, n;
};

/* Writes a string with one spelling for each content; only escapes have several. */
static void put_string(struct buf *out, const char *p, const char *end)
{
    json_error_t error;
    json_t *text;

    if (!memchr(p, '\\', (size_t)(end - p))) {
        buf_put(out, p, (size_t)(end - p));
        return;
    }
    text = json_read((struct bytes){p, (size_t)(end - p)},
                     JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    json_dump_callback(text, append, out, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(text);
}

static int by_text(const void *left, const void *right)
{
    const struct member *a = left, *b = right;
    size_t n = a->n < b->n ? a->n : b->n;
    int order = memcmp(a->base + a->at, b->base + b->at, n);

    return order ? order : (a->n > b->n) - (a->n < b->n);
}

/* Members in any order give the same text: the digest of their sorted texts. A digest, so
 * that deep objects are not copied once for each level. */
static void put_sorted(struct buf *out, size_t from, struct member *members,
                       size_t count)
{
    uint8_t digest[SHA256_BYTES];
    EVP_MD_CTX *c = EVP_MD_CTX_new();

    if (!c || !EVP_DigestInit_ex(c, EVP_sha256(), NULL))
        die(EXIT_UNAVAILABLE, "libcrypto has no SHA-256");
    for (size_t i = 0; i < count; i++)
        members[i].base = out->data;
    qsort(members, count, sizeof *members, by_text);
    for (size_t i = 0; i < count; i++)
        EVP_DigestUpdate(c, out->data + members[i].at, members[i].n);
    if (!EVP_DigestFinal_ex(c, digest, NULL))
        die(EXIT_UNAVAILABLE, "libcrypto has no SHA-256");
    EVP_MD_CTX_free(c);
    out->len = from;
    buf_put(out, digest, sizeof digest);
}

static const char *put_value(struct buf *out, const char *p);

/* Returns the position after the object that begins at `p`. `top`: leave out its "id". */
static const char *put_object(struct buf *out, const char *p, bool top)
{
    struct member *members = NULL;
    size_t count = 0, from;

    buf_puts(out, "{");
    from = out->len;
    for (p = json_skip_blanks(p + 1); *p != '}';) {
        const char *end = json_skip_string(p);
        size_t at = out->len;

        put_string(out, p, end);
        buf_puts(out, ":");
        if (top && strcmp(out->data + at, "\"id\":") == 0) {
            p = json_skip_value(json_skip_blanks(json_skip_blanks(end) + 1),
                                NULL);
            out->len = at;
        } else {
            p = json_skip_blanks(
                put_value(out, json_skip_blanks(json_skip_blanks(end) + 1)));
            if (count % 16 == 0)
                members = gr_realloc(members, (count + 16) * sizeof *members);
            members[count++] = (struct member){.at = at, .n = out->len - at};
        }
        if (*p == ',')
            p = json_skip_blanks(p + 1);
    }
    if (count > 1 && !out->failed)
        put_sorted(out, from, members, count);
    buf_puts(out, "}");
    free(members);
    return p + 1;
}

static const char *put_list(struct buf *out, const char *p)
{
    buf_puts(out, "[");
    for (p = json_skip_blanks(p + 1); *p != ']';) {
        p = json_skip_blanks(put_value(out, p));
        if (*p == ',') {
            buf_puts(out, ",");
            p = json_skip_blanks(p + 1);
        }
    }
    buf_puts(out, "]");
    return p + 1;
}

/* Writes the value that begins at `p`, which Jansson has read; returns the position after
 * it. */
static const char *put_value(struct buf *out, const char *p)
{
    const char *end = p;

    if (*p == '{')
        return put_object(out, p, false);
    if (*p == '[')
        return put_list(out, p);
    if (*p == '"') {
        end = json_skip_string(p);
        put_string(out, p, end);
    } else {
        while (!strchr(",]} \t\r\n", *end))
            end++;
        buf_put(out, p, (size_t)(end - p));
    }
    return end;
}

void published_digest(const struct published *p, struct bytes body,
                      uint8_t out[PUBLISHED_DIGEST_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    struct buf text;

    assert(p->json);
    buf_init(&text, DIGESTED_MAX_TIMES * body.n + 64);
    put_object(&text, json_skip_blanks(body.p), true);
    assert(!text.failed);
    sha256((struct bytes){text.data, text.len}, digest);
    memcpy(out, digest, PUBLISHED_DIGEST_BYTES);
    buf_fini(&text);
}
