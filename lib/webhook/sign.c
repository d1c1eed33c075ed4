/* sign: reads signing keys, and makes the signature headers of a delivery. */
#include "sign.h"
#include "sha256.h"
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAC_BYTES = 32,
    HEAD_MAX_BYTES = 64 * 1024, /* the longest id; an event's has 30 bytes */
    SEED_BYTES = 32, /* of an Ed25519 key; its public half may follow */
    SIGNATURE_BYTES = 64,
    SIGNATURE_TEXT_BYTES = 89,
    SECRET_MAX_BYTES = 4096,
};

/* One of the two. */
struct sign_key {
    EVP_MAC_CTX *mac; /* v1 */
    EVP_PKEY *own;    /* v1a */
};

static gr_rc open_mac(struct sign_key *k, const unsigned char *key, size_t n)
{
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(
                               OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
                           OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);

    k->mac = mac ? EVP_MAC_CTX_new(mac) : NULL;
    if (!k->mac || EVP_MAC_init(k->mac, key, n, params) != 1)
        die(EXIT_UNAVAILABLE, "OpenSSL has no HMAC-SHA256");
    EVP_MAC_free(mac);
    return GR_OK;
}

/* 32 bytes are the seed; in 64 bytes the second half must be its public key. */
static gr_rc open_own(struct sign_key *k, const unsigned char *key, size_t n)
{
    unsigned char public[SEED_BYTES];
    size_t public_bytes = sizeof public;

    if (n != SEED_BYTES && n != 2 * SEED_BYTES)
        return GR_REFUSE;
    k->own = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, key,
                                          SEED_BYTES);
    if (!k->own ||
        EVP_PKEY_get_raw_public_key(k->own, public, &public_bytes) != 1)
        die(EXIT_UNAVAILABLE, "OpenSSL has no Ed25519");
    return n == SEED_BYTES || memcmp(public, key + SEED_BYTES, SEED_BYTES) == 0
               ? GR_OK
               : GR_REFUSE;
}

static const struct {
    const char *prefix;
    gr_rc (*open)(struct sign_key *k, const unsigned char *key, size_t n);
} schemes[] = {{"whsec_", open_mac}, {"whsk_", open_own}};

/* Strict base64, padded, as the libraries of the specification write it. Returns the number
 * of bytes, or -1. */
static int decode(unsigned char *out, const char *text, size_t n)
{
    int bytes, padding = 0;

    if (n == 0 || n % 4 != 0 || n > SECRET_MAX_BYTES)
        return -1;
    while (padding < 2 && text[n - 1 - (size_t)padding] == '=')
        padding++;
    bytes = EVP_DecodeBlock(out, (const unsigned char *)text, (int)n);
    return bytes <= padding ? -1 : bytes - padding;
}

static gr_rc open_key(struct sign_key *k, const char *text, size_t n)
{
    unsigned char key[SECRET_MAX_BYTES];
    gr_rc rc = GR_REFUSE;

    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        size_t front = strlen(schemes[i].prefix);
        int bytes;

        if (n <= front || memcmp(text, schemes[i].prefix, front) != 0)
            continue;
        bytes = decode(key, text + front, n - front);
        if (bytes > 0)
            rc = schemes[i].open(k, key, (size_t)bytes);
        OPENSSL_cleanse(key, sizeof key);
    }
    return rc;
}

gr_rc signer_init(struct signer *s, struct bytes secrets)
{
    const char *at = secrets.p, *end = at + secrets.n, *space;
    gr_rc rc = GR_OK;

    *s = (struct signer){0};
    while (rc == GR_OK && at < end) {
        space = memchr(at, ' ', (size_t)(end - at));
        if (!space)
            space = end;
        if (space > at) {
            s->keys = gr_realloc(s->keys,
                                 sizeof *s->keys * ((size_t)s->count + 1));
            s->keys[s->count] = (struct sign_key){0};
            rc = open_key(&s->keys[s->count++], at, (size_t)(space - at));
        }
        at = space < end ? space + 1 : end;
    }
    return rc;
}

void signer_fini(struct signer *s)
{
    for (int i = 0; i < s->count; i++) {
        EVP_MAC_CTX_free(s->keys[i].mac);
        EVP_PKEY_free(s->keys[i].own);
    }
    free(s->keys);
    *s = (struct signer){0};
}

static void put(struct buf *out, const char *version,
                const unsigned char *signature, size_t n)
{
    unsigned char text[SIGNATURE_TEXT_BYTES];

    EVP_EncodeBlock(text, signature, (int)n);
    buf_puts(out, version);
    buf_puts(out, (const char *)text);
}

static void sign_v1(const struct sign_key *k, struct bytes head,
                    struct bytes body, struct buf *out)
{
    unsigned char mac[MAC_BYTES];
    size_t n = 0;

    /* Without a key argument: starts again with the key that it has. */
    if (EVP_MAC_init(k->mac, NULL, 0, NULL) != 1 ||
        EVP_MAC_update(k->mac, head.p, head.n) != 1 ||
        EVP_MAC_update(k->mac, body.p, body.n) != 1 ||
        EVP_MAC_final(k->mac, mac, &n, sizeof mac) != 1 || n != sizeof mac)
        die(EXIT_UNAVAILABLE, "HMAC-SHA256 failed");
    put(out, "v1,", mac, sizeof mac);
}

/* Ed25519 reads its message twice, so it must be contiguous. */
static void sign_v1a(const struct sign_key *k, struct bytes head,
                     struct bytes body, struct buf *out)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char signature[SIGNATURE_BYTES];
    size_t n = sizeof signature;
    unsigned char *whole = gr_alloc(head.n + body.n + 1);

    memcpy(whole, head.p, head.n);
    if (body.n)
        memcpy(whole + head.n, body.p, body.n);
    if (!ctx || EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->own) != 1 ||
        EVP_DigestSign(ctx, signature, &n, whole, head.n + body.n) != 1 ||
        n != sizeof signature)
        die(EXIT_UNAVAILABLE, "Ed25519 failed");
    EVP_MD_CTX_free(ctx);
    free(whole);
    put(out, "v1a,", signature, sizeof signature);
}

/* Signs `head` and `rest` as one message. */
static void sign_all(const struct signer *s, struct bytes head,
                     struct bytes rest, struct buf *out)
{
    for (int i = 0; i < s->count; i++) {
        if (i > 0)
            buf_puts(out, " ");
        if (s->keys[i].own)
            sign_v1a(&s->keys[i], head, rest, out);
        else
            sign_v1(&s->keys[i], head, rest, out);
    }
}

void signer_sign(const struct signer *s, const char *id, int64_t timestamp_s,
                 struct bytes body, struct buf *out)
{
    char *text = gr_printf("%s.%" PRId64 ".", id, timestamp_s);

    sign_all(s, (struct bytes){text, strlen(text)}, body, out);
    free(text);
}

void signer_sign_headers(const struct signer *s, const char *id,
                         int64_t timestamp_s, struct bytes body,
                         struct bytes lines, struct buf *out)
{
    uint8_t digest[SHA256_BYTES];
    struct buf head;

    if (!s->count)
        return;
    sha256(body, digest);
    buf_init(&head, HEAD_MAX_BYTES);
    buf_printf(&head,
               "grapnel-signature v1\n"
               "webhook-id %s\n"
               "webhook-timestamp %" PRId64 "\n"
               "body-sha256 ",
               id, timestamp_s);
    hex_put(digest, sizeof digest, &head);
    buf_puts(&head, "\n");
    if (head.failed)
        die(EXIT_UNAVAILABLE, "a webhook-id is too long to be signed");
    sign_all(s, (struct bytes){head.data, head.len}, lines, out);
    buf_fini(&head);
}
