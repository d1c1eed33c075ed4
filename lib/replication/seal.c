/* seal: zstd, then AES-256-GCM by OpenSSL, in parts of a bounded size.
 *
 * A part: version (1 byte), id of the key in the file (8), salt of the start that sealed it (32), nonce counter (8, lowest byte
 * first), the encrypted bytes, tag (16). The nonce is the counter and four zero bytes. The counters of the parts of one seal follow each
 * other, so parts of two seals cannot be mixed. */
#include "seal.h"
#include "le64.h"
#include "sha256.h"
#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { VERSION = 1, ID_BYTES = 8, SALT_BYTES = 32, COUNTER_BYTES = 8 };
enum { NONCE_BYTES = 12, TAG_BYTES = 16 };
enum {
    ID_AT = 1,
    SALT_AT = ID_AT + ID_BYTES,
    COUNTER_AT = SALT_AT + SALT_BYTES,
    FRONT_BYTES = COUNTER_AT + COUNTER_BYTES,
    OVERHEAD_BYTES = FRONT_BYTES + TAG_BYTES,
    CONTENT_BYTES = SEAL_PART_BYTES - OVERHEAD_BYTES,
};
/* Measured with the turns of a sequencer's store (21 pages of 4 KiB on average): level 1 leaves 10.3 % and takes 3.6 µs for a page, -1
 * leaves 11.4 % and takes 2.8 µs, 3 leaves 10.4 % and takes 5.8 µs. */
enum { LEVEL = 1 };
enum { BOUND_MAX_BYTES = 4096 };

_Static_assert(ZSTD_COMPRESSBOUND(SEAL_ONE_PART_BYTES) <= CONTENT_BYTES,
               "SEAL_ONE_PART_BYTES may need two parts");

/* A key that was derived, and from what. */
struct derived {
    bool is_set;
    uint8_t salt[SALT_BYTES];
    uint8_t history[HISTORY_BYTES];
    int64_t epoch;
    uint8_t key[SEAL_KEY_BYTES];
};

struct sealer {
    uint8_t key[SEAL_KEY_BYTES];
    uint8_t id[ID_BYTES];
    uint8_t salt[SALT_BYTES]; /* of this start */
    uint64_t counter;         /* of the next part, under any derived key */
    struct derived sealing, opening;
    EVP_KDF *hkdf;
    EVP_CIPHER *aes;
    EVP_CIPHER_CTX *cipher;
    ZSTD_CCtx *compressor;
    ZSTD_DCtx *decompressor;
    uint8_t *text; /* compressed; kept for the next call */
    size_t text_cap;
};

static void check(bool good)
{
    if (!good)
        die(EXIT_UNAVAILABLE,
            "libcrypto cannot encrypt with AES-256-GCM and HKDF-SHA256");
}

static void check_memory(const void *p)
{
    if (!p)
        die(EXIT_STORAGE, "out of memory");
}

static void name_key(struct sealer *s)
{
    static const char label[] = "grapnel replicate key";
    const struct bytes parts[] = {{label, sizeof label - 1},
                                  {s->key, sizeof s->key}};
    uint8_t digest[SHA256_BYTES];

    sha256_of_parts(parts, COUNT_OF(parts), digest);
    memcpy(s->id, digest, ID_BYTES);
}

struct sealer *sealer_open(const uint8_t key[SEAL_KEY_BYTES])
{
    struct sealer *s = gr_alloc(sizeof *s);

    memcpy(s->key, key, sizeof s->key);
    name_key(s);
    if (RAND_bytes(s->salt, sizeof s->salt) != 1)
        die(EXIT_UNAVAILABLE, "libcrypto has no random numbers");
    s->hkdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
    s->aes = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    s->cipher = EVP_CIPHER_CTX_new();
    check(s->hkdf && s->aes && s->cipher);
    s->compressor = ZSTD_createCCtx();
    s->decompressor = ZSTD_createDCtx();
    check_memory(s->compressor);
    check_memory(s->decompressor);
    return s;
}

void sealer_close(struct sealer *s)
{
    if (!s)
        return;
    EVP_KDF_free(s->hkdf);
    EVP_CIPHER_free(s->aes);
    EVP_CIPHER_CTX_free(s->cipher); /* wipes the key in it */
    ZSTD_freeCCtx(s->compressor);
    ZSTD_freeDCtx(s->decompressor);
    free(s->text);
    explicit_bzero(s, sizeof *s);
    free(s);
}

/* ---- keys, and what is authenticated ---- */

static void derive(struct sealer *s, struct derived *d,
                   const uint8_t salt[SALT_BYTES],
                   const struct seal_about *about)
{
    static const char label[] = "grapnel replicate 1";
    uint8_t info[sizeof label - 1 + HISTORY_BYTES + 8], *p = info;
    EVP_KDF_CTX *c;
    OSSL_PARAM params[5];

    if (d->is_set && d->epoch == about->epoch &&
        memcmp(d->salt, salt, SALT_BYTES) == 0 &&
        memcmp(d->history, about->history, HISTORY_BYTES) == 0)
        return;
    memcpy(d->salt, salt, SALT_BYTES);
    memcpy(d->history, about->history, HISTORY_BYTES);
    d->epoch = about->epoch;
    d->is_set = true;
    memcpy(p, label, sizeof label - 1);
    p += sizeof label - 1;
    memcpy(p, about->history, HISTORY_BYTES);
    set_le64(p + HISTORY_BYTES, (uint64_t)about->epoch);
    params[0] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST,
                                                 (char[]){"SHA256"}, 0);
    params[1] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, s->key,
                                                  sizeof s->key);
    params[2] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, d->salt,
                                                  SALT_BYTES);
    params[3] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info,
                                                  sizeof info);
    params[4] = OSSL_PARAM_construct_end();
    c = EVP_KDF_CTX_new(s->hkdf);
    check(c && EVP_KDF_derive(c, d->key, sizeof d->key, params) == 1);
    EVP_KDF_CTX_free(c);
}

/* Each field before the process's name has a fixed size, so no two have the same bytes. */
static void put_bound(struct buf *b, const struct seal_about *about,
                      uint64_t part, uint64_t count)
{
    buf_init(b, BOUND_MAX_BYTES);
    buf_put(b, (uint8_t[]){VERSION, (uint8_t)about->kind}, 2);
    buf_put(b, about->history, HISTORY_BYTES);
    put_le64(b, (uint64_t)about->epoch);
    put_le64(b, (uint64_t)about->n);
    put_le64(b, part);
    put_le64(b, count);
    buf_puts(b, about->process);
}

/* Sets key, nonce (from the front of the part) and what is authenticated but not encrypted. */
static void begin(struct sealer *s, const struct derived *d,
                  const uint8_t *front, const struct seal_about *about,
                  size_t part, size_t count, bool sealing)
{
    uint8_t nonce[NONCE_BYTES] = {0};
    struct buf bound;
    int n;

    memcpy(nonce, front + COUNTER_AT, COUNTER_BYTES);
    put_bound(&bound, about, part, count);
    assert(!bound.failed);
    check(EVP_CipherInit_ex2(s->cipher, s->aes, d->key, nonce, sealing, NULL) ==
              1 &&
          EVP_CipherUpdate(s->cipher, NULL, &n, (const uint8_t *)bound.data,
                           (int)bound.len) == 1);
    buf_fini(&bound);
}

static uint8_t *text_of(struct sealer *s, size_t n)
{
    if (n > s->text_cap) {
        free(s->text);
        s->text = gr_alloc(n);
        s->text_cap = n;
    }
    return s->text;
}

/* ---- sealing ---- */

static size_t compress(struct sealer *s, struct bytes plain)
{
    size_t bound = ZSTD_compressBound(plain.n), n;

    n = ZSTD_compressCCtx(s->compressor, text_of(s, bound), bound,
                          plain.n ? plain.p : "", plain.n, LEVEL);
    if (ZSTD_isError(n))
        die(EXIT_STORAGE, "zstd cannot compress: %s", ZSTD_getErrorName(n));
    return n;
}

static void seal_part(struct sealer *s, const struct seal_about *about,
                      struct bytes text, size_t part, size_t count,
                      struct buf *out)
{
    int n = 0, last = 0;
    uint8_t *at;

    buf_init(out, SEAL_PART_BYTES);
    at = (uint8_t *)buf_add(out, OVERHEAD_BYTES + text.n);
    assert(at && s->counter < UINT64_MAX);
    at[0] = VERSION;
    memcpy(at + ID_AT, s->id, ID_BYTES);
    memcpy(at + SALT_AT, s->salt, SALT_BYTES);
    set_le64(at + COUNTER_AT, s->counter++);
    begin(s, &s->sealing, at, about, part, count, true);
    check(EVP_CipherUpdate(s->cipher, at + FRONT_BYTES, &n, text.p,
                           (int)text.n) == 1 &&
          EVP_CipherFinal_ex(s->cipher, at + FRONT_BYTES + n, &last) == 1 &&
          (size_t)(n + last) == text.n &&
          EVP_CIPHER_CTX_ctrl(s->cipher, EVP_CTRL_GCM_GET_TAG, TAG_BYTES,
                              at + FRONT_BYTES + text.n) == 1);
}

void sealer_seal(struct sealer *s, const struct seal_about *about,
                 struct bytes plain, struct sealed_parts *out)
{
    size_t n = compress(s, plain);

    out->count = (n + CONTENT_BYTES - 1) / CONTENT_BYTES;
    assert(out->count <= SEAL_PARTS_MAX);
    out->parts = gr_alloc(out->count * sizeof *out->parts);
    derive(s, &s->sealing, s->salt, about);
    for (size_t i = 0; i < out->count; i++) {
        size_t at = i * CONTENT_BYTES;
        size_t bytes = n - at < CONTENT_BYTES ? n - at : CONTENT_BYTES;

        seal_part(s, about, (struct bytes){s->text + at, bytes}, i, out->count,
                  &out->parts[i]);
    }
}

void sealed_parts_fini(struct sealed_parts *p)
{
    for (size_t i = 0; i < p->count; i++)
        buf_fini(&p->parts[i]);
    free(p->parts);
    *p = (struct sealed_parts){0};
}

/* ---- opening ---- */

GR_PRINTF(2, 3) static gr_rc refuse(char why[200], const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, 200, fmt, ap);
    va_end(ap);
    return GR_REFUSE;
}

/* What can be said of a part without its key. Parts of one seal have one salt, and counters that follow each other. */
static gr_rc check_front(const struct sealer *s, const struct bytes *parts,
                         size_t i, char why[200])
{
    const uint8_t *first = parts[0].p, *front = parts[i].p;

    if (parts[i].n <= OVERHEAD_BYTES || parts[i].n > SEAL_PART_BYTES)
        return refuse(why, "part %zu has %zu bytes", i, parts[i].n);
    if (front[0] != VERSION)
        return refuse(why,
                      "part %zu has format %u; this version of Grapnel reads "
                      "format %u",
                      i, front[0], VERSION);
    if (memcmp(front + ID_AT, s->id, ID_BYTES) != 0)
        return refuse(why,
                      "part %zu was encrypted with another key: "
                      "replicate.key must be the same on each host",
                      i);
    if (memcmp(front + SALT_AT, first + SALT_AT, SALT_BYTES) != 0 ||
        get_le64(front + COUNTER_AT) != get_le64(first + COUNTER_AT) + i)
        return refuse(why, "part %zu does not belong to part 0", i);
    return GR_OK;
}

/* Decrypts into `out`, which has space; nothing of it may be used unless GR_OK. */
static gr_rc open_part(struct sealer *s, const struct seal_about *about,
                       const struct bytes *parts, size_t i, size_t count,
                       uint8_t *out, char why[200])
{
    const uint8_t *front = parts[i].p;
    size_t n = parts[i].n - OVERHEAD_BYTES;
    uint8_t tag[TAG_BYTES];
    int done = 0, last = 0;
    bool good;

    begin(s, &s->opening, front, about, i, count, false);
    memcpy(tag, front + FRONT_BYTES + n, sizeof tag);
    check(EVP_CIPHER_CTX_ctrl(s->cipher, EVP_CTRL_GCM_SET_TAG, TAG_BYTES,
                              tag) == 1);
    good = EVP_CipherUpdate(s->cipher, out, &done, front + FRONT_BYTES,
                            (int)n) == 1 &&
           EVP_CipherFinal_ex(s->cipher, out + done, &last) == 1;
    ERR_clear_error();
    return good
               ? GR_OK
               : refuse(why,
                        "part %zu of %zu was changed, or is not what it should "
                        "be",
                        i, count);
}

static gr_rc decompress(struct sealer *s, size_t n, struct buf *plain,
                        char why[200])
{
    unsigned long long size = ZSTD_getFrameContentSize(s->text, n);
    size_t before = plain->len, got;
    char *to;

    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR)
        return refuse(why, "the decrypted bytes are not a zstd frame");
    if (plain->failed || size > plain->max - plain->len)
        return refuse(why, "%llu bytes are more than are allowed here (%zu)",
                      size, plain->max - plain->len);
    to = buf_add(plain, (size_t)size);
    got = ZSTD_decompressDCtx(s->decompressor, to, (size_t)size, s->text, n);
    if (!ZSTD_isError(got) && got == size)
        return GR_OK;
    plain->len = before;
    plain->data[before] = 0;
    return refuse(why, "the decrypted bytes cannot be decompressed: %s",
                  ZSTD_isError(got) ? ZSTD_getErrorName(got) : "wrong size");
}

gr_rc sealer_open_parts(struct sealer *s, const struct seal_about *about,
                        const struct bytes *parts, size_t count,
                        struct buf *plain, char why[200])
{
    size_t total = 0, n = 0;

    if (!count || count > SEAL_PARTS_MAX)
        return refuse(why, "there are %zu parts", count);
    for (size_t i = 0; i < count; i++) {
        gr_rc rc = check_front(s, parts, i, why);

        if (rc != GR_OK)
            return rc;
        total += parts[i].n - OVERHEAD_BYTES;
    }
    text_of(s, total);
    derive(s, &s->opening, (const uint8_t *)parts[0].p + SALT_AT, about);
    for (size_t i = 0; i < count; i++) {
        gr_rc rc = open_part(s, about, parts, i, count, s->text + n, why);

        if (rc != GR_OK)
            return rc;
        n += parts[i].n - OVERHEAD_BYTES;
    }
    return decompress(s, n, plain, why);
}
