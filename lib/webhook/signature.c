/* signature: verifies and makes signatures by the scheme of a source. */
#include "signature.h"
#include "conf.h"
#include "encoding.h"
#include "sha256.h"
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAC_MAX_BYTES = 64 };

/* Each scheme in terms of libcrypto. `bytes` is the length of its signatures; 0: it depends
 * on the key. */
static const struct scheme_facts {
    const char *digest; /* NULL: the signature is over the content itself */
    size_t bytes;
    const char *key_type; /* NULL: a secret that both sides have */
} schemes[] = {
    [SCHEME_HMAC_SHA256] = {"SHA256", 32, NULL},
    [SCHEME_HMAC_SHA1] = {"SHA1", 20, NULL},
    [SCHEME_HMAC_SHA512] = {"SHA512", 64, NULL},
    [SCHEME_ED25519] = {NULL, 64, "ED25519"},
    [SCHEME_ECDSA_P256] = {"SHA256", 0, "EC"},
    [SCHEME_RSA_SHA256] = {"SHA256", 0, "RSA"},
    [SCHEME_SHARED_TOKEN] = {NULL, TOKEN_BYTES, NULL},
};

/* ---- keys ---- */

static const char *behind(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(text, prefix, n) == 0 ? text + n : text;
}

gr_rc signature_key(const struct verify *v, const char *secret, struct buf *out)
{
    const char *text = secret;
    uint8_t *raw;
    size_t max;
    int n;

    if (v->secret_encoding == KEY_WHSEC)
        text = behind(secret, "whsec_");
    else if (v->secret_encoding == KEY_WHPK)
        text = behind(secret, "whpk_");
    max = strlen(text);
    if (v->secret_encoding == KEY_RAW || v->secret_encoding == KEY_PEM) {
        buf_put(out, text, max);
        return out->failed ? GR_REFUSE : GR_OK;
    }
    raw = gr_alloc(max + 1);
    n = v->secret_encoding == KEY_HEX
            ? encoding_hex((struct bytes){text, max}, raw, max)
            : encoding_base64((struct bytes){text, max}, raw, max);
    if (n > 0)
        buf_put(out, raw, (size_t)n);
    OPENSSL_cleanse(raw, max);
    free(raw);
    return n > 0 && !out->failed ? GR_OK : GR_REFUSE;
}

static EVP_MAC_CTX *new_mac(enum scheme scheme, struct bytes key)
{
    static EVP_MAC *hmac; /* kept for good, because fetching it is slow */
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(
            "digest", (char *)(uintptr_t)schemes[scheme].digest, 0),
        OSSL_PARAM_construct_end()};
    EVP_MAC_CTX *ctx;

    if (!hmac)
        hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    ctx = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    if (!ctx || !EVP_MAC_init(ctx, key.p, key.n, params))
        die(EXIT_UNAVAILABLE, "libcrypto has no HMAC-%s",
            schemes[scheme].digest);
    return ctx;
}

/* NULL: the key is not of this type, or its size is not accepted. */
static EVP_PKEY *of_scheme(EVP_PKEY *key, enum scheme scheme)
{
    const char *type = schemes[scheme].key_type;
    char group[32] = "";

    if (key && type && EVP_PKEY_is_a(key, type) &&
        EVP_PKEY_get_size(key) <= SIGNATURE_MAX_BYTES) {
        if (scheme != SCHEME_ECDSA_P256)
            return key;
        EVP_PKEY_get_group_name(key, group, sizeof group, NULL);
        if (strcmp(group, "prime256v1") == 0)
            return key;
    }
    EVP_PKEY_free(key);
    return NULL;
}

static const char *const wrong_key[] = {
    [SCHEME_ED25519] = "is not an Ed25519 public key in the encoding that "
                       "secret_encoding names",
    [SCHEME_ECDSA_P256] =
        "is not a P-256 public key in the encoding that secret_encoding names",
    [SCHEME_RSA_SHA256] =
        "is not an RSA public key or certificate of at most 4096 bits in the "
        "encoding that secret_encoding names",
};

static EVP_PKEY *read_public(const struct verify *v, struct bytes raw)
{
    EVP_PKEY *key;

    if (v->secret_encoding == KEY_PEM)
        key = keyfile_public(raw);
    else if (v->scheme == SCHEME_ED25519 && v->secret_encoding != KEY_SPKI)
        key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw.p, raw.n);
    else
        key = keyfile_spki(raw);
    ERR_clear_error();
    return of_scheme(key, v->scheme);
}

gr_rc signature_key_new(const struct verify *v, const char *secret,
                        struct signature_key **out, const char **why)
{
    struct signature_key k = {.scheme = v->scheme};
    struct buf raw;
    struct bytes bytes;
    gr_rc rc;

    buf_init(&raw, CONF_SECRET_MAX_BYTES);
    *why = "is not in the encoding that secret_encoding names";
    rc = signature_key(v, secret, &raw);
    bytes = (struct bytes){raw.data, raw.len};
    if (rc == GR_OK && !raw.len) {
        *why = "is empty";
        rc = GR_REFUSE;
    } else if (rc == GR_OK && v->scheme != SCHEME_SHARED_TOKEN &&
               !schemes[v->scheme].key_type) { /* an HMAC */
        k.mac = new_mac(v->scheme, bytes);
    } else if (rc == GR_OK && v->scheme == SCHEME_SHARED_TOKEN) {
        sha256(bytes, k.token);
    } else if (rc == GR_OK) {
        *why = wrong_key[v->scheme];
        k.pkey = read_public(v, bytes);
        rc = k.pkey ? GR_OK : GR_REFUSE;
    }
    if (raw.data)
        explicit_bzero(raw.data, raw.cap);
    buf_fini(&raw);
    if (rc != GR_OK)
        return rc;
    *out = gr_alloc(sizeof **out);
    **out = k;
    return GR_OK;
}

void signature_key_free(struct signature_key *k)
{
    if (!k)
        return;
    EVP_MAC_CTX_free(k->mac);
    EVP_PKEY_free(k->pkey);
    explicit_bzero(k, sizeof *k);
    free(k);
}

/* ---- signatures ---- */

static bool is(struct bytes name, const char *text)
{
    return name.n == strlen(text) && strncasecmp(name.p, text, name.n) == 0;
}

bool signature_is_in(const struct verify *v, struct bytes name)
{
    for (size_t i = 0; i < v->headers.count; i++)
        if (is(name, v->headers.items[i]))
            return true;
    for (const struct expr *e = &v->signature; e; e = e->other)
        if (e->kind == EXPR_HEADER && is(name, e->text))
            return true;
    return false;
}

bool signature_is_field(const struct verify *v, struct bytes name)
{
    for (const struct expr *e = &v->signature; e; e = e->other)
        if (e->kind == EXPR_QUERY && is(name, e->text))
            return true;
    return false;
}

size_t signature_candidates_max(const struct verify *v)
{
    return v->scheme == SCHEME_ED25519 ? CANDIDATES_MAX_ED25519
                                       : CANDIDATES_MAX;
}

gr_rc signature_decode(const struct verify *v, struct bytes text,
                       struct candidate *c)
{
    size_t bytes = schemes[v->scheme].bytes;
    int n;

    if (v->scheme == SCHEME_SHARED_TOKEN) {
        sha256(text, c->bytes);
        c->n = TOKEN_BYTES;
        return text.n ? GR_OK : GR_REFUSE;
    }
    n = v->encoding == ENCODING_HEX
            ? encoding_hex(text, c->bytes, sizeof c->bytes)
            : encoding_base64(text, c->bytes, sizeof c->bytes);
    c->n = n > 0 ? (size_t)n : 0;
    return c->n && (!bytes || c->n == bytes) ? GR_OK : GR_REFUSE;
}

static size_t make_mac(struct signature_key *k, const struct content *content,
                       uint8_t out[MAC_MAX_BYTES])
{
    size_t n = 0;
    bool good = EVP_MAC_init(k->mac, NULL, 0, NULL); /* with the same key */

    for (size_t i = 0; i < content->count && good; i++)
        good = EVP_MAC_update(k->mac, content->parts[i].p, content->parts[i].n);
    if (!good || !EVP_MAC_final(k->mac, out, &n, MAC_MAX_BYTES))
        die(EXIT_UNAVAILABLE, "libcrypto makes no HMAC");
    return n;
}

/* In one piece, for Ed25519, which does not accept several. */
static struct bytes in_one(struct content *content)
{
    struct buf *joined = &content->joined;

    if (content->count == 1)
        return content->parts[0];
    if (!joined->len)
        for (size_t i = 0; i < content->count; i++)
            buf_put(joined, content->parts[i].p, content->parts[i].n);
    return (struct bytes){joined->len ? joined->data : "", joined->len};
}

static void digest_content(struct content *content)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);

    for (size_t i = 0; i < content->count && good; i++)
        good = EVP_DigestUpdate(ctx, content->parts[i].p, content->parts[i].n);
    if (!good || !EVP_DigestFinal_ex(ctx, content->digest, NULL))
        die(EXIT_UNAVAILABLE, "libcrypto has no SHA-256");
    EVP_MD_CTX_free(ctx);
    content->digested = true;
}

/* ECDSA and RSA sign the content's digest. */
static bool digest_fits(const struct signature_key *k, struct content *content,
                        const struct candidate *c)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(k->pkey, NULL);
    bool fits;

    if (!content->digested)
        digest_content(content);
    /* The default padding of RSA is PKCS #1 v1.5. */
    fits = ctx && EVP_PKEY_verify_init(ctx) == 1 &&
           EVP_PKEY_CTX_set_signature_md(ctx, EVP_sha256()) == 1 &&
           EVP_PKEY_verify(ctx, c->bytes, c->n, content->digest,
                           sizeof content->digest) == 1;
    EVP_PKEY_CTX_free(ctx);
    return fits;
}

static bool pkey_fits(const struct signature_key *k, struct content *content,
                      const struct candidate *c)
{
    EVP_MD_CTX *ctx;
    struct bytes all;
    bool fits;

    if (schemes[k->scheme].digest) {
        fits = digest_fits(k, content, c);
    } else {
        ctx = EVP_MD_CTX_new();
        all = in_one(content);
        fits = ctx &&
               EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
               EVP_DigestVerify(ctx, c->bytes, c->n, all.n ? all.p : "",
                                all.n) == 1;
        EVP_MD_CTX_free(ctx);
    }
    ERR_clear_error();
    return fits;
}

bool signature_fits(struct signature_key *k, struct content *content,
                    const struct candidate *all, size_t count)
{
    uint8_t mac[MAC_MAX_BYTES];
    const uint8_t *expected = k->token;
    size_t bytes = TOKEN_BYTES;
    bool fits = false;

    if (k->mac) {
        bytes = make_mac(k, content, mac);
        expected = mac;
    }
    for (size_t i = 0; i < count; i++) {
        if (k->pkey)
            fits |= pkey_fits(k, content, &all[i]);
        else
            fits |= all[i].n == bytes &&
                    CRYPTO_memcmp(all[i].bytes, expected, bytes) == 0;
    }
    return fits;
}

/* ---- the other way ---- */

static gr_rc sign_with(EVP_PKEY *key, enum scheme scheme,
                       struct content *content, struct candidate *out)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    struct bytes all = in_one(content);
    gr_rc rc = GR_REFUSE;

    out->n = sizeof out->bytes;
    if (ctx &&
        EVP_DigestSignInit_ex(ctx, NULL, schemes[scheme].digest, NULL, NULL,
                              key, NULL) == 1 &&
        EVP_DigestSign(ctx, out->bytes, &out->n, all.n ? all.p : "", all.n) ==
            1)
        rc = GR_OK;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return rc;
}

gr_rc signature_sign(const struct verify *v, struct signature_key *k,
                     EVP_PKEY *private_key, struct content *content,
                     struct candidate *out)
{
    if (private_key)
        return sign_with(private_key, v->scheme, content, out);
    if (!k || !k->mac)
        return GR_REFUSE; /* a token is the secret itself */
    out->n = make_mac(k, content, out->bytes);
    return GR_OK;
}

void signature_print(const struct verify *v, const struct candidate *c,
                     struct bytes ts, struct buf *out)
{
    const struct form *f = &v->form;
    uint8_t text[4 * (SIGNATURE_MAX_BYTES + 2) / 3 + 1];

    if (f->kind == FORM_KV)
        buf_printf(out, "%s=%.*s%c%s=", f->ts_key, (int)ts.n,
                   (const char *)(ts.n ? ts.p : ""), f->separator, f->sig_key);
    buf_puts(out, v->prefix ? v->prefix : "");
    buf_puts(out, f->prefix ? f->prefix : "");
    if (v->encoding == ENCODING_BASE64) {
        EVP_EncodeBlock(text, c->bytes, (int)c->n);
        buf_puts(out, (const char *)text);
    } else {
        hex_put(c->bytes, c->n, out);
    }
}
