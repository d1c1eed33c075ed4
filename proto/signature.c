#include "signature.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

enum { MAC_HEX_CHARS = 2 * MAC_BYTES, MAC_BASE64_CHARS = 44 };

/* The word at `*at` if a {word} begins there, its end in `*end`. */
static bool hole(const char *at, struct bytes *word, const char **end)
{
    const char *close;

    if (*at != '{' || !(close = strchr(at, '}')))
        return false;
    *word = (struct bytes){at + 1, (size_t)(close - at - 1)};
    *end = close + 1;
    return true;
}

static bool is(struct bytes word, const char *text)
{
    return word.n == strlen(text) && memcmp(word.p, text, word.n) == 0;
}

gr_rc signature_template(const char *text, const char **why)
{
    bool body = false;
    struct bytes word;

    while (*text) {
        if (!hole(text, &word, &text)) {
            text++;
            continue;
        }
        if (!is(word, "ts") && !is(word, "body")) {
            *why = "only {ts} and {body} can be signed";
            return GR_REFUSE;
        }
        body |= is(word, "body");
    }
    *why = "{body} is not in it, so the body would not be signed";
    return body ? GR_OK : GR_REFUSE;
}

gr_rc signature_content(const struct verify *verify, struct bytes ts_text,
                        struct bytes body, struct buf *out)
{
    const char *at = verify->signed_content;
    struct bytes word;

    while (*at) {
        if (!hole(at, &word, &at))
            buf_put(out, at++, 1);
        else if (is(word, "ts"))
            buf_put(out, ts_text.p, ts_text.n);
        else if (is(word, "body"))
            buf_put(out, body.p, body.n);
        else
            return GR_REFUSE;
    }
    return out->failed ? GR_REFUSE : GR_OK;
}

/* Strict base64: whole groups of four, padding at the end only. Returns the
 * number of bytes, or -1. `out` holds 3/4 of `n`. */
static int base64_decode(const char *text, size_t n, uint8_t *out)
{
    int pad = 0, got;

    if (n == 0 || n % 4 || n > INT32_MAX)
        return -1;
    while (pad < 2 && text[n - 1 - (size_t)pad] == '=')
        pad++;
    /* EVP_DecodeBlock() also takes blanks and inner padding. */
    for (size_t i = 0; i < n - (size_t)pad; i++)
        if (!memchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                    "0123456789+/",
                    text[i], 64))
            return -1;
    got = EVP_DecodeBlock(out, (const uint8_t *)text, (int)n);
    return got < 0 ? -1 : got - pad;
}

gr_rc signature_key(const struct verify *verify, const char *secret,
                    struct buf *out)
{
    size_t n = strlen(secret);
    uint8_t *raw;
    int got;

    if (!verify->secret_base64) {
        buf_put(out, secret, n);
        return out->failed ? GR_REFUSE : GR_OK;
    }
    raw = gr_alloc(n);
    got = base64_decode(secret, n, raw);
    if (got > 0)
        buf_put(out, raw, (size_t)got);
    OPENSSL_cleanse(raw, n);
    free(raw);
    return got > 0 && !out->failed ? GR_OK : GR_REFUSE;
}

void signature_mac(uint8_t mac[MAC_BYTES], struct bytes key,
                   struct bytes content)
{
    unsigned n = MAC_BYTES;

    if (key.n > INT32_MAX ||
        !HMAC(EVP_sha256(), key.n ? key.p : "", (int)key.n,
              content.n ? content.p : (const void *)"", content.n, mac, &n))
        die(EXIT_UNAVAILABLE, "libcrypto has no HMAC-SHA256");
}

void signature_print(const struct verify *verify, const uint8_t mac[MAC_BYTES],
                     struct buf *out)
{
    uint8_t text[MAC_BASE64_CHARS + 1];

    buf_puts(out, verify->prefix ? verify->prefix : "");
    if (verify->encoding == ENCODING_BASE64) {
        EVP_EncodeBlock(text, mac, MAC_BYTES);
        buf_puts(out, (const char *)text);
        return;
    }
    for (int i = 0; i < MAC_BYTES; i++)
        buf_printf(out, "%02x", mac[i]);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static gr_rc hex_decode(const char *text, size_t n, uint8_t mac[MAC_BYTES])
{
    if (n != MAC_HEX_CHARS)
        return GR_REFUSE;
    for (int i = 0; i < MAC_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return GR_REFUSE;
        mac[i] = (uint8_t)(high << 4 | low);
    }
    return GR_OK;
}

gr_rc signature_parse(const struct verify *verify, struct bytes text,
                      uint8_t mac[MAC_BYTES])
{
    const char *prefix = verify->prefix ? verify->prefix : "", *digits;
    size_t skip = strlen(prefix);
    uint8_t raw[MAC_BYTES + 1]; /* 44 characters may decode to 33 bytes */

    if (text.n < skip || memcmp(text.p, prefix, skip) != 0)
        return GR_REFUSE;
    digits = (const char *)text.p + skip;
    text.n -= skip;
    if (verify->encoding == ENCODING_HEX)
        return hex_decode(digits, text.n, mac);
    if (text.n != MAC_BASE64_CHARS ||
        base64_decode(digits, text.n, raw) != MAC_BYTES)
        return GR_REFUSE;
    memcpy(mac, raw, MAC_BYTES);
    return GR_OK;
}

bool signature_same(const uint8_t a[MAC_BYTES], const uint8_t b[MAC_BYTES])
{
    return CRYPTO_memcmp(a, b, MAC_BYTES) == 0;
}
