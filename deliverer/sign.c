#include "sign.h"
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAC_BYTES = 32, MAC_TEXT_BYTES = 45, SECRET_MAX_BYTES = 4096 };

static const char prefix[] = "whsec_";

static sign_key *key_new(const unsigned char *key, size_t bytes)
{
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(
                               OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
                           OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    sign_key *k = mac ? EVP_MAC_CTX_new(mac) : NULL;

    if (!k || EVP_MAC_init(k, key, bytes, params) != 1)
        die(EXIT_UNAVAILABLE, "OpenSSL has no HMAC-SHA256");
    EVP_MAC_free(mac);
    return k;
}

/* Strict base64 of 4-character groups, padded, as the specification's
 * libraries write it. Returns the bytes, or -1. */
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

static gr_rc add(struct signer *s, const char *text, size_t n)
{
    unsigned char key[SECRET_MAX_BYTES];
    int bytes;

    if (n < sizeof prefix || memcmp(text, prefix, sizeof prefix - 1) != 0)
        return GR_REFUSE;
    bytes = decode(key, text + sizeof prefix - 1, n - (sizeof prefix - 1));
    if (bytes < 0)
        return GR_REFUSE;
    s->keys = gr_realloc(s->keys, sizeof *s->keys * ((size_t)s->count + 1));
    s->keys[s->count++] = key_new(key, (size_t)bytes);
    OPENSSL_cleanse(key, sizeof key);
    return GR_OK;
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
        if (space > at)
            rc = add(s, at, (size_t)(space - at));
        at = space < end ? space + 1 : end;
    }
    return rc;
}

void signer_fini(struct signer *s)
{
    for (int i = 0; i < s->count; i++)
        EVP_MAC_CTX_free(s->keys[i]);
    free(s->keys);
    *s = (struct signer){0};
}

static void sign_with(sign_key *k, struct bytes head, struct bytes body,
                      struct buf *out)
{
    unsigned char mac[MAC_BYTES], text[MAC_TEXT_BYTES];
    size_t n = 0;

    /* Without a key: the one it has, from the beginning. */
    if (EVP_MAC_init(k, NULL, 0, NULL) != 1 ||
        EVP_MAC_update(k, head.p, head.n) != 1 ||
        EVP_MAC_update(k, body.p, body.n) != 1 ||
        EVP_MAC_final(k, mac, &n, sizeof mac) != 1 || n != sizeof mac)
        die(EXIT_UNAVAILABLE, "HMAC-SHA256 failed");
    EVP_EncodeBlock(text, mac, sizeof mac);
    buf_puts(out, "v1,");
    buf_puts(out, (const char *)text);
}

void signer_sign(const struct signer *s, const char *id, int64_t timestamp_s,
                 struct bytes body, struct buf *out)
{
    char *head = gr_printf("%s.%" PRId64 ".", id, timestamp_s);

    for (int i = 0; i < s->count; i++) {
        if (i > 0)
            buf_puts(out, " ");
        sign_with(s->keys[i], (struct bytes){head, strlen(head)}, body, out);
    }
    free(head);
}
