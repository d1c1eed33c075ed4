/* sha256: SHA-256 by OpenSSL, and hexadecimal digits. */
#include "sha256.h"
#include <openssl/evp.h>
#include <pthread.h>

/* Looked up once and kept until the process ends: each call of EVP_sha256() would search a
 * table behind a lock, which for a short text costs as much as its digest. */
static EVP_MD *method;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_up(void)
{
    method = EVP_MD_fetch(NULL, "SHA256", NULL);
}

void sha256(struct bytes text, uint8_t out[SHA256_BYTES])
{
    pthread_once(&once, look_up);
    if (!method ||
        !EVP_Digest(text.n ? text.p : "", text.n, out, NULL, method, NULL))
        die(EXIT_UNAVAILABLE, "libcrypto has no SHA-256");
}

void sha256_of_parts(const struct bytes *parts, size_t count,
                     uint8_t out[SHA256_BYTES])
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    bool good;

    pthread_once(&once, look_up);
    good = c && method && EVP_DigestInit_ex(c, method, NULL);
    for (size_t i = 0; i < count && good; i++)
        good = EVP_DigestUpdate(c, parts[i].p, parts[i].n);
    if (!good || !EVP_DigestFinal_ex(c, out, NULL))
        die(EXIT_UNAVAILABLE, "libcrypto has no SHA-256");
    EVP_MD_CTX_free(c);
}

void hex_write(const void *p, size_t n, char *to)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *from = p;

    for (size_t i = 0; i < n; i++) {
        *to++ = digits[from[i] >> 4];
        *to++ = digits[from[i] & 15];
    }
}

void hex_put(const void *p, size_t n, struct buf *out)
{
    char *to = buf_add(out, 2 * n);

    if (to)
        hex_write(p, n, to);
}

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 'a' - 'A';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
