/* diagnosis: makes a refused request's signature as each usual mistake would have made it, and
 * looks whether the request has that one. */
#include "diagnosis.h"
#include "bounds.h"
#include "changed_body.h"
#include "clock.h"
#include "encoding.h"
#include "headers.h"
#include "profile.h"
#include "sha256.h"
#include "signature.h"
#include "verify.h"
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Work is counted in bytes that are written; hashing one costs about a quarter of that. */
enum {
    WORK_MAX = 4 * 1024 * 1024,
    TRY_WORK = 1024,         /* of any signature */
    PUBLIC_WORK = 32 * 1024, /* of one signature and a public key */
    FOUND_MAX = 24,          /* signatures of the request that are compared */
    LEAD_MAX = 24,           /* the longest prefix of a signature */
    PART_MAX = 700,          /* the longest text of one signature */
    CLOCK_SLACK_MS = 2000,
};

/* A signature as the request has it. */
struct found {
    struct bytes header; /* its name; empty: not from a header */
    struct bytes lead;   /* what is written before it, such as `sha256=` */
    enum verify_encoding encoding;
    bool unusual; /* base64 without padding, or with - and _ */
};

struct search {
    const struct diagnosed *r;
    struct diagnosis *out;
    const struct source *source;
    const struct verify *v; /* the source's */
    struct found found[FOUND_MAX];
    struct candidate candidates[FOUND_MAX]; /* the bytes of `found` */
    size_t count;
    struct subject subject;
    struct signing signing; /* of the source */
    struct buf parts[4];    /* what `signing` borrows */
    struct buf body, url;   /* changed ones */
    int64_t work;           /* that is left */
};

/* How a signature that fits was made. */
struct match {
    const struct verify *v; /* with the mistake in it */
    const struct found *found;
};

const char *mistake_word(enum reject_mistake m)
{
    static const char *const words[] = {
#define M(NAME, word, help) word,
        REJECT_MISTAKES(M)
#undef M
    };

    return words[m];
}

void diagnosis_add(struct diagnosis *d, enum reject_mistake mistake,
                   bool certain, const char *fix, const char *fmt, ...)
{
    struct finding *f = &d->findings[d->count];
    struct buf text;
    char line[1024];
    va_list args;

    if (d->count == FINDINGS_MAX)
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    buf_init(&text, sizeof line);
    buf_puts(&text, line);
    *f = (struct finding){mistake, certain, buf_take(&text), gr_strdup(fix)};
    d->count++;
}

void diagnosis_fini(struct diagnosis *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->findings[i].text);
        free(d->findings[i].fix);
    }
    d->count = 0;
}

static struct bytes strip(struct bytes b)
{
    const char *p = b.p;

    while (b.n &&
           (p[b.n - 1] == ' ' || p[b.n - 1] == '\t' || p[b.n - 1] == '"'))
        b.n--;
    while (b.n && (*p == ' ' || *p == '\t' || *p == '"'))
        p++, b.n--;
    return (struct bytes){p, b.n};
}

static bool has_header(const struct search *s, const char *name)
{
    struct bytes value;

    return headers_get(s->r->headers, name, &value, NULL);
}

static bool is_own_header(const struct verify *v, struct bytes name)
{
    return name.n && signature_is_in(v, name);
}

/* ---- the signatures that the request has ---- */

/* Of HMACs, and of Ed25519, ECDSA and RSA. */
static bool is_length(const struct verify *v, size_t n)
{
    if (v->scheme == SCHEME_HMAC_SHA256 || v->scheme == SCHEME_HMAC_SHA1 ||
        v->scheme == SCHEME_HMAC_SHA512)
        return n == 20 || n == 32 || n == 64;
    return n >= 64;
}

/* base64 with + and /, or with - and _, with or without padding. */
static int base64_any(struct bytes text, struct candidate *c, bool *unusual)
{
    char padded[PART_MAX + 4];
    size_t n = 0;

    *unusual = false;
    for (; n < text.n && n < PART_MAX; n++) {
        char b = ((const char *)text.p)[n];

        *unusual |= b == '-' || b == '_';
        padded[n] = b == '-' ? '+' : b == '_' ? '/' : b;
    }
    for (; n % 4 && n % 4 != 1; n++) {
        *unusual = true;
        padded[n] = '=';
    }
    return encoding_base64((struct bytes){padded, n}, c->bytes,
                           sizeof c->bytes);
}

static void add_found(struct search *s, struct bytes header, struct bytes lead,
                      struct bytes text)
{
    struct found *f = &s->found[s->count];
    struct candidate *c = &s->candidates[s->count];
    int n;

    if (s->count == FOUND_MAX || text.n < 20 || text.n > PART_MAX)
        return;
    *f = (struct found){.header = header, .lead = lead};
    n = encoding_hex(text, c->bytes, sizeof c->bytes);
    f->encoding = ENCODING_HEX;
    if (n <= 0 || !is_length(s->v, (size_t)n)) {
        n = base64_any(text, c, &f->unusual);
        f->encoding = ENCODING_BASE64;
    }
    if (n <= 0 || !is_length(s->v, (size_t)n))
        return;
    c->n = (size_t)n;
    s->count++;
}

/* One item of a header: as it is, and behind each of its first separators. */
static void add_item(struct search *s, struct bytes header, struct bytes item)
{
    const char *p = item.p;
    size_t at = 0;

    add_found(s, header, (struct bytes){p, 0}, item);
    while (at < item.n && at < LEAD_MAX) {
        char c = p[at++];

        if ((c == '=' || c == ':' || c == ',') && at < item.n)
            add_found(s, header, (struct bytes){p, at},
                      strip((struct bytes){p + at, item.n - at}));
    }
}

static void add_header(struct search *s, struct bytes name, struct bytes value)
{
    const struct form *f = &s->v->form;
    bool own = is_own_header(s->v, name);
    const char *p = value.p;
    size_t from = 0;

    for (size_t i = 0; i <= value.n; i++) {
        bool ends = i == value.n || p[i] == ';' || p[i] == ' ' || p[i] == ',';

        if (i < value.n && own && f->kind != FORM_PLAIN)
            ends = p[i] == f->separator;
        else if (i < value.n && !own && p[i] == ',') /* `v1,…`, or a list */
            ends = i - from > 4;
        if (!ends)
            continue;
        if (i > from)
            add_item(s, name, strip((struct bytes){p + from, i - from}));
        from = i + 1;
    }
}

static void find_signatures(struct search *s)
{
    struct bytes name, value;
    struct buf text;
    const char *why;
    size_t at;

    for (int own = 1; own >= 0; own--) /* those of the expected header first */
        for (at = 0; headers_next(s->r->headers, &at, &name, &value);)
            if (name.n && *(const char *)name.p != ':' &&
                is_own_header(s->v, name) == (own == 1))
                add_header(s, name, value);
    if (s->v->signature.kind == EXPR_NONE ||
        s->v->signature.kind == EXPR_HEADER)
        return;
    buf_init(&text, TEXT_MAX_BYTES);
    /* What it borrows is copied at once: `lead` stays empty. */
    if (expr_value(&s->v->signature, &s->subject, &text, &why) == GR_OK)
        add_found(s, (struct bytes){"", 0}, (struct bytes){"", 0},
                  (struct bytes){text.data, text.len});
    buf_fini(&text);
}

/* ---- the parts that are signed ---- */

/* The first value, in `into` unless it is a header; empty if there is none. */
static struct bytes value_of(struct search *s, const struct expr *e,
                             struct buf *into)
{
    struct bytes value;
    const char *why;

    buf_reset(into);
    for (; e && e->kind == EXPR_HEADER; e = e->other)
        if (headers_get(s->r->headers, e->text, &value, NULL))
            return strip(value);
    if (!e || e->kind == EXPR_NONE ||
        expr_value(e, &s->subject, into, &why) != GR_OK)
        return (struct bytes){"", 0};
    return (struct bytes){into->data, into->len};
}

/* The time in a header such as `t=…,v1=…`. */
static struct bytes kv_time(const struct search *s, const struct verify *v)
{
    size_t n = strlen(v->form.ts_key);
    struct bytes value;

    for (size_t i = 0; i < v->headers.count; i++) {
        const char *p, *end;

        if (!headers_get(s->r->headers, v->headers.items[i], &value, NULL))
            continue;
        for (p = value.p, end = p + value.n; p < end;) {
            const char *to = memchr(p, v->form.separator, (size_t)(end - p));
            struct bytes item = strip(
                (struct bytes){p, (size_t)((to ? to : end) - p)});
            const char *at = item.p;

            if (item.n > n && memcmp(at, v->form.ts_key, n) == 0 &&
                at[n] == '=')
                return (struct bytes){at + n + 1, item.n - n - 1};
            p = to ? to + 1 : end;
        }
    }
    return (struct bytes){"", 0};
}

static void put_url(const struct search *s, const char *url, bool query,
                    struct buf *out)
{
    struct bytes value;

    buf_reset(out);
    buf_put(out, url, strcspn(url, "?"));
    if (query && headers_get(s->r->headers, ":query", &value, NULL)) {
        buf_puts(out, "?");
        buf_put(out, value.p, value.n);
    }
}

/* As `v` finds them. They stay until the next call. */
static struct signing signing_of(struct search *s, const struct verify *v,
                                 const struct source *of)
{
    struct signing g = {.method = {"POST", 4}, .body = s->r->body};
    struct bytes digest, method;
    bool has_time = v->time.kind != EXPR_NONE;

    if (headers_get(s->r->headers, ":method", &method, NULL))
        g.method = method;
    g.ts = has_time                  ? value_of(s, &v->time, &s->parts[0])
           : v->form.kind == FORM_KV ? kv_time(s, v)
                                     : (struct bytes){"", 0};
    if (signature_signs(v->signed_content, "id"))
        g.id = value_of(s, v->id.kind != EXPR_NONE ? &v->id : &of->id,
                        &s->parts[1]);
    if (signature_signs(v->signed_content, "token"))
        g.token = value_of(s, &v->token, &s->parts[2]);
    if (s->source->webhook_id)
        g.webhook_id = (struct bytes){s->source->webhook_id,
                                      strlen(s->source->webhook_id)};
    digest = value_of(s, &v->body_digest, &s->parts[3]);
    g.no_form = digest.n != 0;
    put_url(s, s->source->public_url ? s->source->public_url : "", true,
            &s->url);
    g.url = (struct bytes){s->url.data ? s->url.data : "", s->url.len};
    return g;
}

/* ---- one try ---- */

static bool has_mac(const struct verify *v)
{
    return v->scheme == SCHEME_HMAC_SHA256 || v->scheme == SCHEME_HMAC_SHA1 ||
           v->scheme == SCHEME_HMAC_SHA512;
}

/* Whether a signature of the request was made with this key. */
static bool fits(struct search *s, const struct verify *v,
                 struct signature_key *k, const struct signing *g,
                 struct match *m)
{
    struct content content;
    int64_t work = TRY_WORK + (int64_t)(g->body.n + g->url.n) / 4;
    bool fit = false;

    if (!has_mac(v))
        work += (int64_t)s->count * PUBLIC_WORK;
    if (!s->count)
        return false;
    if (s->work < work) {
        s->out->complete = false;
        return false;
    }
    s->work -= work;
    s->out->tried++;
    if (content_make(&content, v->signed_content, g) == GR_OK &&
        signature_fits(k, &content, s->candidates, s->count))
        for (size_t i = 0; i < s->count && !fit; i++) {
            fit = signature_fits(k, &content, &s->candidates[i], 1);
            *m = (struct match){v, &s->found[i]};
        }
    content_fini(&content);
    return fit;
}

static bool fits_secret(struct search *s, const struct verify *v,
                        const char *secret, const struct signing *g,
                        struct match *m)
{
    struct signature_key *k;
    const char *why;
    bool fit;

    if (signature_key_new(v, secret, &k, &why) != GR_OK)
        return false;
    fit = fits(s, v, k, g, m);
    signature_key_free(k);
    return fit;
}

static bool fits_own(struct search *s, const struct verify *v,
                     const struct signing *g, struct match *m)
{
    for (size_t i = 0; i < s->source->secrets.count; i++)
        if (fits_secret(s, v, s->source->secrets.items[i], g, m))
            return true;
    return false;
}

/* ---- how the request has it ---- */

static const char *const algorithms[] = {
    [SCHEME_HMAC_SHA256] = "HMAC-SHA256", [SCHEME_HMAC_SHA1] = "HMAC-SHA1",
    [SCHEME_HMAC_SHA512] = "HMAC-SHA512", [SCHEME_ED25519] = "Ed25519",
    [SCHEME_ECDSA_P256] = "ECDSA P-256",  [SCHEME_RSA_SHA256] = "RSA-SHA256",
    [SCHEME_SHARED_TOKEN] = "a token",
};

static const char *encoding_name(enum verify_encoding e)
{
    return e == ENCODING_HEX ? "hex" : "base64";
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static void expected_lead(const struct verify *v, char out[64])
{
    snprintf(out, 64, "%s%s%s%s",
             v->form.kind == FORM_KV ? v->form.sig_key : "",
             v->form.kind == FORM_KV ? "=" : "", or_empty(v->form.prefix),
             or_empty(v->prefix));
}

static const char *first_header(const struct verify *v)
{
    if (v->headers.count)
        return v->headers.items[0];
    return v->signature.kind == EXPR_HEADER ? v->signature.text : "";
}

static void add_lead(struct search *s, const struct verify *v,
                     const struct found *f)
{
    char expected[64];

    expected_lead(v, expected);
    if (!f->header.n || (f->lead.n == strlen(expected) &&
                         memcmp(f->lead.p, expected, f->lead.n) == 0))
        return;
    diagnosis_add(
        s->out, MISTAKE_SIGNATURE_PREFIX, true,
        "Let the sender write the signature as the provider does; with "
        "`provider: custom`, set `verify.prefix` to what it writes.",
        "The signature is right, but `%.*s` has `%.*s` before it, not `%s`.",
        (int)f->header.n, (const char *)f->header.p, (int)f->lead.n,
        (const char *)f->lead.p, expected);
}

/* The provider to which alone a header belongs; NULL: several use it, or nobody. */
static const char *only_provider_of(struct bytes header)
{
    const char *name, *only = NULL;

    for (size_t i = 0; (name = profile_name(i)); i++) {
        if (!is_own_header(&profile_source(profile_find(name))->verify, header))
            continue;
        if (only)
            return NULL;
        only = name;
    }
    return only;
}

static void add_provider(struct search *s, const char *name)
{
    char *fix = gr_printf("Set `provider: %s` for the source %s, or enter "
                          "another URL at this provider.",
                          name, s->source->name);

    diagnosis_add(s->out, MISTAKE_OTHER_PROVIDER, true, fix,
                  "The request is signed as `provider: %s` does, but the "
                  "source %s has `provider: %s`.",
                  name, s->source->name, s->source->provider);
    free(fix);
}

/* How the signature that fits differs from what the source expects. */
static void add_differences(struct search *s, const struct match *m)
{
    const struct verify *v = s->v;
    const struct found *f = m->found;
    const char *other = f->header.n && !is_own_header(v, f->header)
                            ? only_provider_of(f->header)
                            : NULL;

    if (other) {
        add_provider(s, other);
        return;
    }
    if (m->v->scheme != v->scheme)
        diagnosis_add(
            s->out, MISTAKE_SIGNATURE_ALGORITHM, true,
            "Let the sender use the expected one. A provider that sends both "
            "sends the other one in another header, which a proxy may remove; "
            "with `provider: custom`, set `verify.scheme`.",
            "It is signed by %s, but the source expects %s.",
            algorithms[m->v->scheme], algorithms[v->scheme]);
    if (f->header.n && !is_own_header(v, f->header)) {
        diagnosis_add(s->out, MISTAKE_HEADER_RENAMED, true,
                      "Let the proxy pass headers on unchanged, or let the "
                      "sender use the expected one; with `provider: custom`, "
                      "set `verify.header`.",
                      "The signature is in `%.*s`, but the source expects it "
                      "in `%s`.",
                      (int)f->header.n, (const char *)f->header.p,
                      first_header(v));
        if (m->v->scheme != v->scheme)
            return; /* the prefix belongs to that header */
    }
    add_lead(s, v, f);
    if (f->encoding != v->encoding || f->unusual)
        diagnosis_add(s->out, MISTAKE_SIGNATURE_ENCODING, true,
                      "Let the sender encode the signature as expected; with "
                      "`provider: custom`, set `verify.encoding`.",
                      "The signature is in %s%s, but the source expects %s.",
                      encoding_name(f->encoding),
                      f->unusual ? " without padding, or with `-` and `_`" : "",
                      encoding_name(v->encoding));
}

/* ---- the secret ---- */

/* A source's secrets, and how they may be misread. */
struct misread {
    enum reject_mistake mistake;
    enum key_encoding encoding;
    const char *text, *fix; /* static */
};

static const char *const fix_encoding =
    "Let the sender use the key as the provider's documents say; with "
    "`provider: custom`, set `verify.secret_encoding`.";

static bool try_misread(struct search *s, const struct signing *g,
                        const char *secret, const struct misread *how)
{
    struct verify v = *s->v;
    struct match m;

    v.secret_encoding = how->encoding;
    if (!fits_secret(s, &v, secret, g, &m))
        return false;
    diagnosis_add(s->out, how->mistake, true, how->fix, "%s", how->text);
    add_differences(s, &m);
    return true;
}

static char *trimmed(const char *secret)
{
    size_t n = strlen(secret), from = strspn(secret, " \t\r\n\"'");

    while (n > from && strchr(" \t\r\n\"'", secret[n - 1]))
        n--;
    return gr_strndup(secret + from, n - from);
}

static void wipe(char *text)
{
    explicit_bzero(text, strlen(text));
    free(text);
}

static bool try_spaces(struct search *s, const struct signing *g,
                       const char *secret)
{
    enum key_encoding e = s->v->secret_encoding;
    char *without = trimmed(secret), *with = gr_printf("%s\n", secret);
    bool fit =
        (strcmp(without, secret) != 0 &&
         try_misread(s, g, without,
                     &(struct misread){
                         MISTAKE_SECRET_SPACES, e,
                         "The secret of this source has white space or quotes "
                         "around it; the request is signed without them.",
                         "Remove them from `secrets`, or from the file or "
                         "variable that it names, then run `grapnel "
                         "reload`."})) ||
        (e == KEY_RAW &&
         try_misread(s, g, with,
                     &(struct misread){
                         MISTAKE_SECRET_SPACES, e,
                         "The request is signed with this source's secret and "
                         "a newline behind it.",
                         "Remove the newline from the secret at the sender; it "
                         "was read from a file with its line end."}));

    wipe(without);
    wipe(with);
    return fit;
}

static bool try_prefix(struct search *s, const struct signing *g,
                       const char *secret)
{
    static const char *const prefixes[] = {"whsec_", "whpk_", "plane_wh_",
                                           "pdl_ntfset_"};
    bool fit = false;

    if (s->v->secret_encoding != KEY_RAW)
        return false;
    for (size_t i = 0; i < COUNT_OF(prefixes) && !fit; i++) {
        size_t n = strlen(prefixes[i]);
        char *with = gr_printf("%s%s", prefixes[i], secret);

        if (strncmp(secret, prefixes[i], n) == 0)
            fit = try_misread(
                s, g, secret + n,
                &(struct misread){
                    MISTAKE_SECRET_PREFIX, KEY_RAW,
                    "The request is signed with this source's secret without "
                    "its prefix.",
                    "Let the sender use the secret with its prefix, as the "
                    "provider does."});
        else
            fit = try_misread(
                s, g, with,
                &(struct misread){
                    MISTAKE_SECRET_PREFIX, KEY_RAW,
                    "The secret of this source lacks its prefix, with which "
                    "the request is signed.",
                    "Copy the secret again from the provider, with the text "
                    "before the `_`."});
        wipe(with);
    }
    return fit;
}

static bool try_encodings(struct search *s, const struct signing *g,
                          const char *secret)
{
    static const struct misread all[] = {
        {MISTAKE_SECRET_ENCODING, KEY_RAW,
         "The request is signed with the secret as it is written; this source "
         "decodes it.",
         NULL},
        {MISTAKE_SECRET_ENCODING, KEY_WHSEC,
         "The request is signed with the secret decoded from base64, without "
         "`whsec_`; this source does not decode it so.",
         NULL},
        {MISTAKE_SECRET_ENCODING, KEY_HEX,
         "The request is signed with the secret decoded from hex; this source "
         "does not decode it so.",
         NULL},
    };
    const char *behind = strncmp(secret, "whsec_", 6) == 0 ? secret + 6 : NULL;

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct misread how = all[i];

        how.fix = fix_encoding;
        if (how.encoding != s->v->secret_encoding &&
            try_misread(s, g, secret, &how))
            return true;
    }
    return behind && s->v->secret_encoding != KEY_RAW &&
           try_misread(
               s, g, behind,
               &(struct misread){MISTAKE_SECRET_ENCODING, KEY_RAW,
                                 "The request is signed with the text behind "
                                 "`whsec_`, which was not decoded from base64.",
                                 fix_encoding});
}

static bool try_placeholders(struct search *s, const struct signing *g)
{
    static const char *const words[] = {"undefined", "null", "None", "secret",
                                        "YOUR_SECRET"};
    struct verify v = *s->v;
    struct match m;

    v.secret_encoding = KEY_RAW;
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (fits_secret(s, &v, words[i], g, &m)) {
            diagnosis_add(s->out, MISTAKE_SECRET_PLACEHOLDER, true,
                          "Set the secret at the sender: its variable is empty "
                          "or has another name.",
                          "The request is signed with the word `%s`, not with "
                          "a secret.",
                          words[i]);
            add_differences(s, &m);
            return true;
        }
    return false;
}

static const char *mode_of(struct search *s)
{
    return profile_mode(s->source, &s->subject);
}

static bool add_other_source(struct search *s, const struct source *other,
                             const struct match *m)
{
    const char *mode = mode_of(s);
    char *fix = gr_printf(
        "If the request belongs to this source, give the provider the secret "
        "of %s, or add the provider's secret to `secrets`. Otherwise enter "
        "the URL of %s at the provider.",
        s->source->name, other->name);

    diagnosis_add(s->out, MISTAKE_OTHER_SOURCE, true, fix,
                  "It is signed with the secret of the source %s, not with one "
                  "of %s.%s%s%s",
                  other->name, s->source->name, mode ? " It is of " : "",
                  mode ? mode : "", mode ? " mode." : "");
    free(fix);
    add_differences(s, m);
    return true;
}

static bool try_other_sources(struct search *s, const struct signing *g)
{
    const struct settings *all = s->r->settings;
    struct match m;

    for (size_t i = 0; all && i < all->source_count; i++) {
        const struct source *other = &all->sources[i];
        struct verify v = *s->v;

        if (strcmp(other->name, s->source->name) == 0 ||
            has_mac(&other->verify) != has_mac(&v) ||
            other->verify.scheme == SCHEME_SHARED_TOKEN ||
            (!has_mac(&v) && other->verify.scheme != v.scheme))
            continue;
        for (size_t k = 0; k < other->secrets.count; k++) {
            const char *secret = other->secrets.items[k];

            v.secret_encoding = other->verify.secret_encoding;
            if (fits_secret(s, &v, secret, g, &m))
                return add_other_source(s, other, &m);
            if (v.secret_encoding == s->v->secret_encoding)
                continue;
            v.secret_encoding = s->v->secret_encoding;
            if (fits_secret(s, &v, secret, g, &m))
                return add_other_source(s, other, &m);
        }
    }
    return false;
}

static bool try_secrets(struct search *s, const struct signing *g)
{
    if (has_mac(s->v)) {
        for (size_t i = 0; i < s->source->secrets.count; i++) {
            const char *secret = s->source->secrets.items[i];

            if (try_encodings(s, g, secret) || try_prefix(s, g, secret) ||
                try_spaces(s, g, secret))
                return true;
        }
        if (try_placeholders(s, g))
            return true;
    }
    return try_other_sources(s, g);
}

/* ---- the algorithm ---- */

/* With the right secret over the right content, but with another hash function. */
static bool try_algorithms(struct search *s, const struct signing *g,
                           struct match *m, struct verify *v)
{
    static const enum scheme schemes[] = {SCHEME_HMAC_SHA256, SCHEME_HMAC_SHA1,
                                          SCHEME_HMAC_SHA512};

    *v = *s->v;
    if (fits_own(s, v, g, m))
        return true;
    for (size_t i = 0; has_mac(s->v) && i < COUNT_OF(schemes); i++) {
        v->scheme = schemes[i];
        if (v->scheme != s->v->scheme && fits_own(s, v, g, m))
            return true;
    }
    return false;
}

/* ---- the body ---- */

static bool try_bodies(struct search *s, const struct signing *g)
{
    struct signing changed = *g;
    enum reject_mistake mistake = MISTAKE_BODY_SPACES;
    const char *text;
    struct match m;

    if (!signature_signs(s->v->signed_content, "body") &&
        !signature_signs(s->v->signed_content, "crc32"))
        return false;
    for (int i = 0; (text = changed_body(i, s->r->body, &s->body, &mistake));
         i++) {
        s->work -= (int64_t)s->r->body.n;
        if (s->work <= 0) {
            s->out->complete = false;
            return false;
        }
        if (!*text)
            continue;
        changed.body = (struct bytes){s->body.data, s->body.len};
        if (!fits_own(s, s->v, &changed, &m))
            continue;
        diagnosis_add(
            s->out, mistake, true,
            "Let the proxy or the program in front of Grapnel pass the bytes "
            "of the body on unchanged; a test tool must sign the bytes that "
            "it sends.",
            "The body was changed after it was signed: the signed body %s.",
            text);
        add_differences(s, &m);
        return true;
    }
    return false;
}

/* ---- the URL ---- */

/* Without a port that is the default of the scheme. */
static void put_authority(struct buf *out, const char *host, size_t n, int port)
{
    static const char *const ports[] = {"", ":443", ":80"};
    const char *colon = memchr(host, ':', n);

    if (port >= 0 && colon && *host != '[')
        n = (size_t)(colon - host);
    buf_put(out, host, n);
    if (port >= 0)
        buf_puts(out, ports[port]);
}

/* A path without its last slash, or with one. */
static void put_path(struct buf *out, const char *path, int slash)
{
    size_t n = strcspn(path, "?");

    while (slash >= 0 && n && path[n - 1] == '/')
        n--;
    buf_put(out, path, n);
    if (slash > 0)
        buf_puts(out, "/");
}

struct url_parts {
    struct bytes hosts[3];
    const char *paths[3];
    bool has_query;
};

static struct url_parts url_parts(const struct search *s)
{
    const char *url = s->source->public_url;
    const char *host = strstr(url, "://");
    struct url_parts u = {0};
    struct bytes value;

    host = host ? host + 3 : url;
    u.hosts[0] = (struct bytes){host, strcspn(host, "/?")};
    u.paths[0] = host + u.hosts[0].n;
    u.paths[1] = or_empty(s->r->path);
    u.paths[2] = "";
    if (headers_get(s->r->headers, "Host", &value, NULL))
        u.hosts[1] = strip(value);
    if (headers_get(s->r->headers, "X-Forwarded-Host", &value, NULL))
        u.hosts[2] = strip(value);
    u.has_query = headers_get(s->r->headers, ":query", &value, NULL);
    return u;
}

/* A place of its own in the order of tries: what differs least comes first. */
static bool make_url(struct search *s, const struct url_parts *u, int i,
                     struct buf *out, bool *query)
{
    static const char *const schemes[] = {"https://", "http://"};
    int scheme = i % 2, slash = i / 2 % 3 - 1, port = i / 6 % 4 - 1;
    int path = i / 24 % 3, host = i / 72 % 3;

    *query = i / 216 == 0;
    if (i / 216 > (u->has_query ? 1 : 0) || !u->hosts[host].n)
        return false;
    if (u->hosts[host].n > 255)
        return false;
    buf_reset(&s->body); /* free at this time */
    buf_puts(&s->body, schemes[scheme]);
    put_authority(&s->body, u->hosts[host].p, u->hosts[host].n, port);
    put_path(&s->body, u->paths[path], slash);
    put_url(s, s->body.data, *query, out);
    return true;
}

enum { URLS = 2 * 216 };

static bool try_urls(struct search *s, const struct signing *g)
{
    struct signing changed = *g;
    struct url_parts u;
    struct buf url;
    struct match m;
    bool query, fit = false;

    if (!signature_signs(s->v->signed_content, "url") || !s->source->public_url)
        return false;
    u = url_parts(s);
    buf_init(&url, HEADERS_MAX_BYTES);
    for (int i = 0; i < URLS && !fit; i++) {
        char *fix;

        if (!make_url(s, &u, i, &url, &query) || url.failed)
            continue;
        changed.url = (struct bytes){url.data, url.len};
        if (!fits_own(s, s->v, &changed, &m))
            continue;
        fit = true;
        fix = gr_printf(
            "Set `public_url: %s` for the source %s, or enter `%s` at the "
            "provider%s.",
            s->body.data, s->source->name, s->source->public_url,
            query || !u.has_query
                ? ""
                : "; the query was added behind it on the way");
        diagnosis_add(s->out, MISTAKE_PUBLIC_URL, true, fix,
                      "The URL that was signed is `%s`%s, but `public_url` is "
                      "`%s`.",
                      s->body.data,
                      query || !u.has_query ? "" : " without the query",
                      s->source->public_url);
        free(fix);
        add_differences(s, &m);
    }
    buf_fini(&url);
    return fit;
}

/* ---- another provider ---- */

static void add_content(struct search *s, const struct verify *v)
{
    diagnosis_add(s->out, MISTAKE_SIGNED_CONTENT, true,
                  "Let the sender sign what the provider signs; with "
                  "`provider: custom`, set `verify.signed`.",
                  "The signature is over `%s`, but the source expects one over "
                  "`%s`.",
                  v->signed_content, s->v->signed_content);
}

/* As a provider in whose header the signature is. */
static bool try_providers(struct search *s)
{
    const char *name;
    struct match m;

    for (size_t i = 0; has_mac(s->v) && (name = profile_name(i)); i++) {
        const struct source *p = profile_source(profile_find(name));
        const struct verify *v = &p->verify;
        struct signing g;

        if (profile_is_custom(profile_find(name)) || !has_mac(v) ||
            strcmp(name, s->source->provider) == 0 ||
            !has_header(s, first_header(v)))
            continue;
        g = signing_of(s, v, p);
        if (fits_own(s, v, &g, &m) && is_own_header(v, m.found->header) &&
            !is_own_header(s->v, m.found->header)) {
            add_provider(s, name);
            return true;
        }
    }
    return false;
}

/* Over what other providers sign. */
static bool try_contents(struct search *s)
{
    struct verify v = *s->v;
    const char *name;
    struct signing g;
    struct match m;

    for (size_t i = 0; (name = profile_name(i)); i++) {
        const struct source *p = profile_source(profile_find(name));

        v.signed_content = p->verify.signed_content;
        if (profile_is_custom(profile_find(name)) ||
            p->verify.scheme == SCHEME_SHARED_TOKEN ||
            strcmp(v.signed_content, s->v->signed_content) == 0)
            continue;
        g = signing_of(s, &v, s->source);
        if (!fits_own(s, &v, &g, &m))
            continue;
        add_content(s, &v);
        add_differences(s, &m);
        return true;
    }
    return false;
}

/* ---- the time ---- */

static bool time_in(struct bytes text, enum time_unit unit, int64_t *ms)
{
    int64_t value = 0;

    if (unit == UNIT_RFC3339) {
        if (!rfc3339_parse(text.p, text.n, RFC3339_FULL, &value))
            return false;
        *ms = value / 1000;
        return true;
    }
    if (!text.n || text.n > 15)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = ((const char *)text.p)[i];

        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (c - '0');
    }
    *ms = unit == UNIT_MS ? value : value * SECOND_MS;
    return true;
}

static void put_duration(int64_t ms, char out[64])
{
    int64_t s = ms / 1000;

    if (s >= 86400)
        snprintf(out, 64, "%" PRId64 " d %" PRId64 " h", s / 86400,
                 s / 3600 % 24);
    else if (s >= 3600)
        snprintf(out, 64, "%" PRId64 " h %" PRId64 " min", s / 3600,
                 s / 60 % 60);
    else if (s >= 60)
        snprintf(out, 64, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else
        snprintf(out, 64, "%" PRId64 " s", s);
}

static int64_t tolerance(const struct search *s, bool past)
{
    int64_t own = past ? s->v->past_ms : s->v->future_ms;

    return own ? own : s->source->clock_skew_ms;
}

static bool in_time(const struct search *s, int64_t sent_ms)
{
    int64_t age = s->r->judged_ms - sent_ms;
    int64_t past = tolerance(s, true), future = tolerance(s, false);

    return (past == TOLERANCE_NONE || age <= past) &&
           (future == TOLERANCE_NONE || -age <= future);
}

static void add_age(struct search *s, int64_t sent_ms)
{
    int64_t age = s->r->judged_ms - sent_ms, n = age < 0 ? -age : age;
    int64_t step = s->r->stepped_ms < 0 ? -s->r->stepped_ms : s->r->stepped_ms;
    int64_t half = n % (30 * MINUTE_MS);
    char long_ago[64], limit[64], at[RFC3339_BYTES];
    bool zone = n >= 30 * MINUTE_MS && n <= 14 * HOUR_MS &&
                (half < MINUTE_MS || half > 29 * MINUTE_MS);

    put_duration(n, long_ago);
    put_duration(tolerance(s, age > 0), limit);
    rfc3339(at, sent_ms);
    diagnosis_add(
        s->out, age > 0 ? MISTAKE_TIME_OLD : MISTAKE_TIME_AHEAD, true,
        step > CLOCK_SLACK_MS
            ? "This machine's clock was set while ingress was running. "
              "Compare it with another one, and let NTP keep it."
        : zone && age > 0
            ? "This is probably a retry with the first signature, or else a "
              "time zone: the sender signs a local time instead of UTC, or one "
              "clock is set so. Compare `date -u` on both machines; a larger "
              "`clock_skew` permits older requests."
        : zone ? "This may be a time zone: the sender signs a local time "
                 "instead of UTC, or one clock is set so. Compare `date -u` on "
                 "both machines."
        : age > 0
            ? "If other sources work, this machine's clock is right: then the "
              "request waited on its way, was repeated with its first "
              "signature, or the sender's clock is slow. Compare `date -u` on "
              "both machines; a larger `clock_skew` permits older requests."
            : "No request is from the future: the sender's clock is fast, or "
              "this machine's is slow (then all sources with a time refuse "
              "requests). Compare `date -u` on both machines, and let NTP "
              "keep the clocks.",
        "It was signed %s %s it was judged (%s); %s is permitted.", long_ago,
        age > 0 ? "before" : "after", at, limit);
}

/* What is wrong with the time; nothing if it is right. */
static void add_time(struct search *s, struct bytes ts)
{
    static const char *const units[] = {[UNIT_S] = "seconds",
                                        [UNIT_MS] = "milliseconds",
                                        [UNIT_RFC3339] = "RFC 3339"};
    const char *header = s->v->time.kind == EXPR_HEADER ? s->v->time.text
                         : s->v->time.kind == EXPR_NONE ? first_header(s->v)
                                                        : "the body";
    int64_t sent_ms, other_ms;

    if (s->v->time.kind == EXPR_NONE && s->v->form.kind != FORM_KV)
        return;
    if (!ts.n) {
        diagnosis_add(s->out, MISTAKE_TIME_MISSING, true,
                      "Let the proxy pass the header on, and the sender send "
                      "it.",
                      "The time of the signature is missing in `%s`.", header);
        return;
    }
    if (time_in(ts, s->v->time_unit, &sent_ms) && in_time(s, sent_ms))
        return;
    for (enum time_unit u = UNIT_S; u <= UNIT_RFC3339; u++)
        if (u != s->v->time_unit && time_in(ts, u, &other_ms) &&
            in_time(s, other_ms)) {
            diagnosis_add(s->out, MISTAKE_TIME_UNIT, true,
                          "Let the sender write it as expected; with "
                          "`provider: custom`, set `verify.time.unit`.",
                          "The time in `%s` is in %s, but the source expects "
                          "%s.",
                          header, units[u], units[s->v->time_unit]);
            return;
        }
    if (time_in(ts, s->v->time_unit, &sent_ms))
        add_age(s, sent_ms);
    else
        diagnosis_add(s->out, MISTAKE_TIME_FORM, true,
                      "Let the sender write it as the provider does, once.",
                      "The time in `%s` is not in %s.", header,
                      units[s->v->time_unit]);
}

/* ---- what the request lacks ---- */

static const char *provider_of_header(const struct search *s,
                                      const char **header)
{
    const char *name;

    for (size_t i = 0; (name = profile_name(i)); i++) {
        const struct verify *v = &profile_source(profile_find(name))->verify;

        for (size_t k = 0; k < v->headers.count; k++)
            if (has_header(s, v->headers.items[k])) {
                *header = v->headers.items[k];
                return name;
            }
    }
    return NULL;
}

static void add_missing(struct search *s)
{
    const char *header = NULL, *provider = provider_of_header(s, &header);
    const char *expected = first_header(s->v);

    diagnosis_add(
        s->out, MISTAKE_HEADER_MISSING, true,
        provider ? "Check the `provider` of the source, and the URL at the "
                   "provider."
                 : "Set the secret at the provider, which signs nothing "
                   "without one; if it has one, let the proxy pass this header "
                   "on. A request by hand needs a signature, too: `grapnel "
                   "send` makes one.",
        "The request has no signature%s%s%s%s%s%s%s.",
        *expected ? ": the header `" : "", expected,
        *expected ? "` is missing or empty" : "", provider ? "; it has `" : "",
        provider ? header : "",
        provider ? "`, which belongs to `provider: " : "",
        provider ? provider : "");
    if (provider) { /* close the quotation */
        struct finding *f = &s->out->findings[s->out->count - 1];
        char *text = gr_printf("%.*s`.", (int)strlen(f->text) - 1, f->text);

        free(f->text);
        f->text = text;
    }
}

static bool several(const struct search *s, const struct verify *v)
{
    struct bytes value;
    int count = 0;

    for (size_t i = 0; i < v->headers.count; i++)
        if (headers_get(s->r->headers, v->headers.items[i], &value, &count))
            return count > 1 || (v->form.kind == FORM_PLAIN &&
                                 memchr(value.p, ',', value.n));
    return false;
}

static void add_twice(struct search *s)
{
    diagnosis_add(s->out, MISTAKE_HEADER_TWICE, true,
                  "Let only one program set it: a proxy that adds the header "
                  "must replace it.",
                  "`%s` occurs twice, or has several signatures, so that it is "
                  "unclear which one counts.",
                  first_header(s->v));
}

static void add_form(struct search *s)
{
    char lead[64];

    expected_lead(s->v, lead);
    diagnosis_add(
        s->out, MISTAKE_SIGNATURE_FORM, true,
        "Let the sender write the signature as the provider does, and the "
        "proxy pass it on unchanged.",
        "`%s` does not have a signature of the expected form: %s%s%s%s of %s.",
        first_header(s->v), *lead ? "`" : "", lead, *lead ? "` and " : "",
        encoding_name(s->v->encoding), algorithms[s->v->scheme]);
}

/* By what verification found missing or malformed. */
static void add_structure(struct search *s, enum verification verdict)
{
    switch (verdict) {
    case VERDICT_SIGNATURE_MISSING:
        add_missing(s);
        break;
    case VERDICT_SIGNATURE_MALFORMED:
        if (several(s, s->v))
            add_twice(s);
        else
            add_form(s);
        break;
    case VERDICT_TIMESTAMP_MISSING:
    case VERDICT_TIMESTAMP_MALFORMED:
    case VERDICT_TIMESTAMP_STALE:
        add_time(s, s->signing.ts);
        break;
    case VERDICT_ID_MISSING:
    case VERDICT_ID_MALFORMED:
        diagnosis_add(s->out, MISTAKE_ID_MISSING, true,
                      "Let the proxy pass the header on, and the sender send "
                      "it once.",
                      "The id that is part of the signed content is missing or "
                      "malformed.");
        break;
    case VERDICT_BODY_MISSING:
        diagnosis_add(s->out, MISTAKE_BODY_MISSING, true,
                      "Let the proxy pass the body on; a redirect (301, 302) "
                      "loses it: enter the final URL at the provider.",
                      "The request has no body.");
        break;
    case VERDICT_SIGNATURE_MISMATCH:
    case VERDICT_HOLDS:
        break;
    }
}

/* ---- hints ---- */

/* A digest that the request has of its own body. */
static void try_digest(struct search *s)
{
    static const struct expr digest = {.kind = EXPR_BODY_SHA256};
    struct buf given, made;
    struct bytes value;
    const char *why;

    if (s->v->body_digest.kind == EXPR_NONE)
        return;
    buf_init(&given, TEXT_MAX_BYTES);
    buf_init(&made, TEXT_MAX_BYTES);
    value = value_of(s, &s->v->body_digest, &given);
    if (value.n && expr_value(&digest, &s->subject, &made, &why) == GR_OK &&
        (value.n != made.len || memcmp(value.p, made.data, made.len) != 0))
        diagnosis_add(s->out, MISTAKE_BODY_CHANGED, true,
                      "Let the proxy pass the bytes of the body on unchanged.",
                      "The digest of the body in the URL is not that of this "
                      "body: the body was changed, or the digest.");
    buf_fini(&given);
    buf_fini(&made);
}

static void try_mode(struct search *s)
{
    const char *mode = mode_of(s);

    if (mode)
        diagnosis_add(s->out, MISTAKE_TEST_MODE, false,
                      "Compare the secret with the one that the provider shows "
                      "in that mode, and add it to `secrets`, or make a source "
                      "of its own for it.",
                      "No secret of Grapnel fits. The request says that it is "
                      "of %s mode; many providers have another secret there.",
                      mode);
}

/* ---- all of it ---- */

static void explain_mismatch(struct search *s, enum verification verdict)
{
    struct match m;
    struct verify v;
    size_t before = s->out->count;
    const struct signing *g = &s->signing;

    if (try_algorithms(s, g, &m, &v)) {
        add_differences(s, &m);
        if (several(s, s->v) && verdict == VERDICT_SIGNATURE_MALFORMED &&
            s->out->count == before)
            add_twice(s);
    } else if (!try_secrets(s, g) && !try_urls(s, g)) {
        if (!try_bodies(s, g) && !try_providers(s))
            try_contents(s);
        /* it made other parts */
        s->signing = signing_of(s, s->v, s->source);
    }
}

static void search(struct search *s)
{
    const struct diagnosed *r = s->r;
    enum verification verdict;
    size_t before;
    int secret;

    verdict = verify(s->source, r->headers, r->body, r->judged_ms, &secret);
    if (verdict == VERDICT_HOLDS) {
        diagnosis_add(s->out, MISTAKE_ACCEPTED_NOW, true,
                      "Send the request again from the provider.",
                      "The configuration of now accepts this request: it was "
                      "corrected after the refusal.");
        return;
    }
    if (s->v->scheme == SCHEME_SHARED_TOKEN) {
        if (verdict != VERDICT_SIGNATURE_MISMATCH)
            add_structure(s, verdict);
        return;
    }
    s->signing = signing_of(s, s->v, s->source);
    if (verdict == VERDICT_TIMESTAMP_STALE) { /* the signature fits */
        add_time(s, s->signing.ts);
        return;
    }
    find_signatures(s);
    try_digest(s);
    before = s->out->count;
    explain_mismatch(s, verdict);
    if (s->out->count == before)
        add_structure(s, verdict);
    else if (s->out->findings[before].mistake != MISTAKE_OTHER_PROVIDER)
        add_time(s, s->signing.ts); /* it may be wrong as well */
    if (!s->out->count)
        try_mode(s);
}

void diagnose(struct diagnosis *d, const struct diagnosed *r)
{
    struct search *s = gr_alloc(sizeof *s);

    *d = (struct diagnosis){.complete = true};
    s->r = r;
    s->out = d;
    s->source = r->source;
    s->v = &r->source->verify;
    s->work = WORK_MAX;
    s->subject = (struct subject){.source = r->source->name,
                                  .provider = r->source->provider,
                                  .headers = r->headers,
                                  .body = r->body};
    for (size_t i = 0; i < COUNT_OF(s->parts); i++)
        buf_init(&s->parts[i], TEXT_MAX_BYTES);
    buf_init(&s->url, HEADERS_MAX_BYTES);
    buf_init(&s->body, 6 * r->body.n + HEADERS_MAX_BYTES);
    search(s);
    for (size_t i = 0; i < COUNT_OF(s->parts); i++)
        buf_fini(&s->parts[i]);
    buf_fini(&s->url);
    buf_fini(&s->body);
    subject_fini(&s->subject);
    free(s);
}
