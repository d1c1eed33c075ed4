/* keys.c: the secrets of a receiver, and whether one of them made a signature. */
#include "internal.h"
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAC_BYTES = 32,
    MAC_TEXT_BYTES = 44, /* in base64 */
    PUBLIC_KEY_BYTES = 32,
    SIGNATURE_BYTES = 64,
};

static int sextet(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* Strict base64, with padding. OpenSSL's decoder accepts blanks, and counts padding as bytes.
 * Returns how many bytes; -1: it is something else, or more than fit into `out`. */
static long decode(const char *text, size_t n, unsigned char *out, size_t max)
{
    size_t padding = 0, count;
    unsigned bits = 0;

    if (!n || n % 4 != 0)
        return -1;
    while (padding < 2 && text[n - 1 - padding] == '=')
        padding++;
    count = n / 4 * 3 - padding;
    if (count > max)
        return -1;
    for (size_t i = 0, done = 0; i < n; i++) {
        int value = i < n - padding ? sextet((unsigned char)text[i]) : 0;

        if (value < 0)
            return -1;
        bits = (bits << 6 | (unsigned)value) & 0xffffff;
        if (i % 4 == 3) {
            for (int part = 2; part >= 0; part--) {
                unsigned char byte = (unsigned char)(bits >> (8 * part));

                if (done < count)
                    out[done++] = byte;
                else if (byte) /* one value has one text */
                    return -1;
            }
        }
    }
    return (long)count;
}

static enum grapnel_status read_key(struct key *key, const char *text, size_t n,
                                    struct grapnel_error *error)
{
    const char *prefix = "whsec_";
    long count;

    if (n > GRAPNEL_SECRET_MAX_BYTES)
        return grapnel_say(error, GRAPNEL_INVALID,
                           "a secret has %zu bytes; the limit is %d", n,
                           GRAPNEL_SECRET_MAX_BYTES);
    if (n >= 5 && memcmp(text, "whsk_", 5) == 0)
        return grapnel_say(error, GRAPNEL_INVALID,
                           "whsk_… is the private key, which only Grapnel "
                           "needs; give the receiver the public key, whpk_…");
    if (n >= 5 && memcmp(text, "whpk_", 5) == 0) {
        prefix = "whpk_";
        key->kind = KEY_ED25519;
    } else if (n < 6 || memcmp(text, "whsec_", 6) != 0) {
        return grapnel_say(error, GRAPNEL_INVALID,
                           "a secret begins with whsec_ or whpk_; one of these "
                           "begins otherwise");
    }
    count = decode(text + strlen(prefix), n - strlen(prefix), key->bytes,
                   sizeof key->bytes);
    if (count <= 0)
        return grapnel_say(error, GRAPNEL_INVALID,
                           "after %s a secret has base64; one of these has "
                           "something else",
                           prefix);
    key->count = (size_t)count;
    if (key->kind == KEY_HMAC)
        return GRAPNEL_DONE;
    if (key->count != PUBLIC_KEY_BYTES)
        return grapnel_say(error, GRAPNEL_INVALID,
                           "a key whpk_… has %d bytes; one of these has %zu",
                           PUBLIC_KEY_BYTES, key->count);
    key->public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL,
                                                  key->bytes, key->count);
    if (key->public_key)
        return GRAPNEL_DONE;
    return grapnel_say(error, GRAPNEL_INVALID,
                       "OpenSSL refuses a key whpk_…: its Ed25519 is "
                       "disabled, or the memory is exhausted");
}

static const char blanks[] = " \t\r\n";

enum grapnel_status grapnel_keys_read(struct keys *keys, const char *secrets,
                                      struct grapnel_error *error)
{
    enum grapnel_status status = GRAPNEL_DONE;

    keys->count = 0;
    keys->items = calloc(GRAPNEL_SECRETS_MAX_COUNT, sizeof *keys->items);
    if (!keys->items)
        return grapnel_say_memory(error);
    if (!secrets)
        secrets = "";
    ERR_set_mark();
    while (!status && *(secrets += strspn(secrets, blanks))) {
        size_t n = strcspn(secrets, blanks);

        if (keys->count == GRAPNEL_SECRETS_MAX_COUNT)
            status = grapnel_say(error, GRAPNEL_INVALID,
                                 "there are more than %d secrets",
                                 GRAPNEL_SECRETS_MAX_COUNT);
        else
            status = read_key(&keys->items[keys->count++], secrets, n, error);
        secrets += n;
    }
    ERR_pop_to_mark();
    if (!status && !keys->count)
        status = grapnel_say(error, GRAPNEL_INVALID,
                             "a receiver needs at least one secret");
    return status;
}

void grapnel_keys_free(struct keys *keys)
{
    for (size_t i = 0; i < keys->count; i++) {
        EVP_PKEY_free(keys->items[i].public_key);
        OPENSSL_cleanse(&keys->items[i], sizeof keys->items[i]);
    }
    free(keys->items);
    keys->items = NULL;
    keys->count = 0;
}

/* The text of the signature that a key whsec_… makes. */
static bool make_mac(const struct key *key, const void *content, size_t n,
                     char text[MAC_TEXT_BYTES + 1])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned count = 0;

    if (!HMAC(EVP_sha256(), key->bytes, (int)key->count, content, n, mac,
              &count) ||
        count != MAC_BYTES)
        return false;
    EVP_EncodeBlock((unsigned char *)text, mac, MAC_BYTES);
    OPENSSL_cleanse(mac, sizeof mac);
    return true;
}

/* *good: the Ed25519 signature is right. false: no memory. */
static bool check_public(const struct key *key, const char *text, size_t n,
                         const void *content, size_t content_bytes, bool *good)
{
    unsigned char signature[SIGNATURE_BYTES];
    EVP_MD_CTX *context;

    *good = false;
    if (decode(text, n, signature, sizeof signature) != SIGNATURE_BYTES)
        return true;
    context = EVP_MD_CTX_new();
    if (!context ||
        EVP_DigestVerifyInit(context, NULL, NULL, NULL, key->public_key) != 1) {
        EVP_MD_CTX_free(context);
        return false;
    }
    *good = EVP_DigestVerify(context, signature, sizeof signature, content,
                             content_bytes) == 1;
    EVP_MD_CTX_free(context);
    return true;
}

struct part {
    const char *version, *text;
    size_t version_bytes, text_bytes;
};

/* Splits "v1,TEXT v1a,TEXT". Returns how many there are; -1: more than `max`. */
static int split(const char *value, size_t n, struct part *parts, int max)
{
    const char *end = value + n;
    int count = 0;

    for (;;) {
        const char *stop = memchr(value, ' ', (size_t)(end - value));
        const char *comma;

        if (count == max)
            return -1;
        if (!stop)
            stop = end;
        comma = memchr(value, ',', (size_t)(stop - value));
        if (comma)
            parts[count++] = (struct part){value, comma + 1,
                                           (size_t)(comma - value),
                                           (size_t)(stop - comma - 1)};
        else
            parts[count++] = (struct part){value, "", 0, 0};
        if (stop == end)
            return count;
        value = stop + 1;
    }
}

static bool is_version(const struct part *part, const char *version)
{
    return part->version_bytes == strlen(version) &&
           memcmp(part->version, version, part->version_bytes) == 0;
}

/* Each key with each signature, so that the time does not tell which one was right. */
static bool verify_parts(const struct keys *keys, const struct part *parts,
                         int count, const void *content, size_t content_bytes,
                         bool *good)
{
    *good = false;
    for (size_t k = 0; k < keys->count; k++) {
        const struct key *key = &keys->items[k];
        char mac[MAC_TEXT_BYTES + 1];

        if (key->kind == KEY_HMAC &&
            !make_mac(key, content, content_bytes, mac))
            return false;
        for (int i = 0; i < count; i++) {
            bool right = false;

            if (key->kind == KEY_HMAC)
                right = is_version(&parts[i], "v1") &&
                        parts[i].text_bytes == MAC_TEXT_BYTES &&
                        CRYPTO_memcmp(parts[i].text, mac, MAC_TEXT_BYTES) == 0;
            else if (is_version(&parts[i], "v1a") &&
                     !check_public(key, parts[i].text, parts[i].text_bytes,
                                   content, content_bytes, &right))
                return false;
            *good |= right;
        }
    }
    return true;
}

enum grapnel_status grapnel_keys_verify(const struct keys *keys,
                                        const char *name, const char *value,
                                        size_t value_bytes, const void *content,
                                        size_t content_bytes,
                                        struct grapnel_error *error)
{
    struct part parts[GRAPNEL_SIGNATURES_MAX_COUNT];
    bool good, done;
    int count;

    if (value_bytes > GRAPNEL_SIGNATURES_MAX_BYTES)
        return grapnel_say(error, GRAPNEL_REFUSED,
                           "%s has %zu bytes; the limit is %d", name,
                           value_bytes, GRAPNEL_SIGNATURES_MAX_BYTES);
    count = split(value, value_bytes, parts, GRAPNEL_SIGNATURES_MAX_COUNT);
    if (count < 0)
        return grapnel_say(error, GRAPNEL_REFUSED,
                           "%s has more than %d signatures", name,
                           GRAPNEL_SIGNATURES_MAX_COUNT);
    /* What OpenSSL says about wrong signatures must not pile up in the thread. */
    ERR_set_mark();
    done = verify_parts(keys, parts, count, content, content_bytes, &good);
    ERR_pop_to_mark();
    if (!done)
        return grapnel_say(error, GRAPNEL_FAILED,
                           "OpenSSL cannot compute a signature: the memory is "
                           "exhausted, or an algorithm is disabled");
    if (!good)
        return grapnel_say(error, GRAPNEL_REFUSED, "%s is wrong", name);
    return GRAPNEL_DONE;
}
