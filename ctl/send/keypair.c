/* keypair: makes, reads and stores the key pair with which `grapnel send` signs. */
#include "keypair.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RSA_BITS = 2048, PUBLIC_MAX_BYTES = 4096 };

static EVP_PKEY *read_key(FILE *in, const struct source *source,
                          const char *path, char why[200])
{
    EVP_PKEY *key = PEM_read_PrivateKey(in, NULL, NULL, NULL);
    enum scheme s = source->verify.scheme;

    fclose(in);
    if (key && EVP_PKEY_is_a(key, s == SCHEME_ED25519      ? "ED25519"
                                  : s == SCHEME_ECDSA_P256 ? "EC"
                                                           : "RSA"))
        return key;
    snprintf(why, 200,
             "%.80s has no private key (PEM) of the kind for source %.60s",
             path, source->name);
    ERR_clear_error();
    EVP_PKEY_free(key);
    return NULL;
}

/* Never overwrites a file. */
static bool keep(EVP_PKEY *key, const char *path, char why[200])
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = out &&
                PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);

    if (out && fclose(out))
        good = false;
    if (fd >= 0 && !out)
        close(fd);
    if (!good)
        snprintf(why, 200, "%.100s: %s", path, strerror(errno));
    return good;
}

EVP_PKEY *keypair_open(const struct source *source, const char *path,
                       bool *fresh, char why[200])
{
    FILE *in = path ? fopen(path, "re") : NULL;
    EVP_PKEY *key;

    *fresh = !in;
    if (in)
        return read_key(in, source, path, why);
    if (path && errno != ENOENT) {
        snprintf(why, 200, "%.100s: %s", path, strerror(errno));
        return NULL;
    }
    if (source->verify.scheme == SCHEME_ED25519)
        key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    else if (source->verify.scheme == SCHEME_ECDSA_P256)
        key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    else
        key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)RSA_BITS);
    if (!key) {
        snprintf(why, 200, "libcrypto cannot create a key");
    } else if (path && !keep(key, path, why)) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    return key;
}

gr_rc keypair_public(const struct source *source, EVP_PKEY *key,
                     struct buf *out)
{
    enum key_encoding encoding = source->verify.secret_encoding;
    uint8_t raw[PUBLIC_MAX_BYTES], text[2 * PUBLIC_MAX_BYTES], *p = raw;
    size_t n = sizeof raw;
    int der;

    if (encoding == KEY_PEM) {
        BIO *bio = BIO_new(BIO_s_mem());
        bool good = bio && PEM_write_bio_PUBKEY(bio, key);
        char *pem;
        long bytes = good ? BIO_get_mem_data(bio, &pem) : 0;

        if (good)
            buf_put(out, pem, (size_t)bytes);
        BIO_free(bio);
        return good ? GR_OK : GR_REFUSE;
    }
    if (source->verify.scheme == SCHEME_ED25519 && encoding != KEY_SPKI) {
        if (!EVP_PKEY_get_raw_public_key(key, raw, &n))
            return GR_REFUSE;
    } else {
        der = i2d_PUBKEY(key, NULL);
        if (der <= 0 || der > PUBLIC_MAX_BYTES)
            return GR_REFUSE;
        n = (size_t)i2d_PUBKEY(key, &p);
    }
    if (encoding == KEY_HEX) {
        for (size_t i = 0; i < n; i++)
            buf_printf(out, "%02x", raw[i]);
        return GR_OK;
    }
    if (encoding == KEY_WHPK)
        buf_puts(out, "whpk_");
    EVP_EncodeBlock(text, raw, (int)n);
    buf_puts(out, (const char *)text);
    return GR_OK;
}
