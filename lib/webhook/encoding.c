/* encoding: strict decoders of hexadecimal and base64, and the reading of key files. */
#include "encoding.h"
#include "alloc.h"
#include "sha256.h"
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

int encoding_hex(struct bytes text, uint8_t *out, size_t max)
{
    const char *p = text.p;

    if (text.n % 2 || text.n / 2 > max)
        return -1;
    for (size_t i = 0; i < text.n; i += 2) {
        int high = hex_digit(p[i]), low = hex_digit(p[i + 1]);

        if (high < 0 || low < 0)
            return -1;
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    return (int)(text.n / 2);
}

int encoding_base64(struct bytes text, uint8_t *out, size_t max)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = text.p;
    size_t digits = text.n, n = 0;
    uint32_t held = 0;
    int bits = 0;

    if (text.n == 0 || text.n % 4 || text.n / 4 * 3 > max + 2)
        return -1;
    while (digits && text.n - digits < 2 && p[digits - 1] == '=')
        digits--;
    for (size_t i = 0; i < digits; i++) {
        const char *at = p[i] ? strchr(alphabet, p[i]) : NULL;

        if (!at)
            return -1;
        held = held << 6 | (uint32_t)(at - alphabet);
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        if (n == max)
            return -1;
        out[n++] = (uint8_t)(held >> bits);
    }
    return held & ((1u << bits) - 1) ? -1 : (int)n;
}

EVP_PKEY *keyfile_public(struct bytes pem)
{
    BIO *in = BIO_new_mem_buf(pem.p, (int)pem.n);
    EVP_PKEY *key = PEM_read_bio_PUBKEY(in, NULL, NULL, NULL);
    X509 *cert = NULL;

    if (!key) {
        BIO_free(in);
        in = BIO_new_mem_buf(pem.p, (int)pem.n);
        cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
        key = cert ? X509_get_pubkey(cert) : NULL;
    }
    X509_free(cert);
    BIO_free(in);
    return key;
}

EVP_PKEY *keyfile_spki(struct bytes der)
{
    const unsigned char *p = der.p, *end = p + der.n;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &p, (long)der.n);

    if (key && p != end) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    return key;
}

json_t *encoding_base64_json(struct bytes b)
{
    unsigned char *text = gr_alloc(4 * (b.n / 3 + 1) + 1);
    json_t *out;

    EVP_EncodeBlock(text, b.p, (int)b.n);
    out = json_string((const char *)text);
    free(text);
    return out;
}
