/* sealed: AES-256-GCM by OpenSSL, under the newest of several keys. */
#include "sealed.h"
#include "encoding.h"
#include "le64.h"
#include "sha256.h"
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, ID_BYTES = 8, NONCE_BYTES = 12, TAG_BYTES = 16 };
enum { FRONT_BYTES = 1 + ID_BYTES + NONCE_BYTES };

struct key {
    uint8_t bytes[SEALED_KEY_BYTES];
    uint8_t id[ID_BYTES];
};

struct key_ring {
    char current[SEALED_KEY_ID_SIZE];
    size_t count;
    struct key keys[];
};

/* ---- keys ---- */

bool sealed_key_read(const char *text, uint8_t out[SEALED_KEY_BYTES])
{
    return encoding_base64((struct bytes){text, strlen(text)}, out,
                           SEALED_KEY_BYTES) == SEALED_KEY_BYTES;
}

bool sealed_key_valid(const char *text)
{
    uint8_t key[SEALED_KEY_BYTES];
    bool good = sealed_key_read(text, key);

    explicit_bzero(key, sizeof key);
    return good;
}

static void id_text(const uint8_t id[ID_BYTES], char out[SEALED_KEY_ID_SIZE])
{
    for (size_t i = 0; i < ID_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", id[i]);
}

static void name_key(struct key *k)
{
    static const char label[] = "grapnel secrets key";
    uint8_t text[sizeof label - 1 + SEALED_KEY_BYTES], digest[SHA256_BYTES];

    memcpy(text, label, sizeof label - 1);
    memcpy(text + sizeof label - 1, k->bytes, sizeof k->bytes);
    sha256((struct bytes){text, sizeof text}, digest);
    memcpy(k->id, digest, ID_BYTES);
    explicit_bzero(text, sizeof text);
}

struct key_ring *key_ring_new(const struct string_list *keys)
{
    struct key_ring *r = gr_alloc(sizeof *r + keys->count * sizeof r->keys[0]);

    for (; r->count < keys->count; r->count++) {
        struct key *k = &r->keys[r->count];

        if (!sealed_key_read(keys->items[r->count], k->bytes))
            die(EXIT_CONFIG, "secrets_key is not base64 of 32 bytes");
        name_key(k);
    }
    if (r->count)
        id_text(r->keys[0].id, r->current);
    return r;
}

void key_ring_free(struct key_ring *r)
{
    if (r)
        explicit_bzero(r, sizeof *r + r->count * sizeof r->keys[0]);
    free(r);
}

const char *key_ring_current(const struct key_ring *r)
{
    return r->count ? r->current : NULL;
}

/* ---- one secret ---- */

static void check(bool good)
{
    if (!good)
        die(EXIT_UNAVAILABLE, "libcrypto cannot encrypt with AES-256-GCM");
}

/* What is bound to the secret but not encrypted: the front without the nonce, the endpoint and
 * the field, with their lengths, so that no two pairs have the same bytes. */
static void put_bound(struct buf *b, const uint8_t *front, const char *endpoint,
                      const char *field)
{
    buf_init(b, SEALED_MAX_BYTES);
    buf_put(b, front, 1 + ID_BYTES);
    put_le64(b, strlen(endpoint));
    buf_puts(b, endpoint);
    put_le64(b, strlen(field));
    buf_puts(b, field);
}

/* A context with key, nonce and the bound bytes. */
static EVP_CIPHER_CTX *begin(const struct key *k, const uint8_t *front,
                             const char *endpoint, const char *field,
                             bool sealing)
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    struct buf bound;
    int n;

    put_bound(&bound, front, endpoint, field);
    check(c && !bound.failed &&
          EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, k->bytes,
                            front + 1 + ID_BYTES, sealing) == 1 &&
          EVP_CipherUpdate(c, NULL, &n, (const uint8_t *)bound.data,
                           (int)bound.len) == 1);
    buf_fini(&bound);
    return c;
}

bool sealed_seal(const struct key_ring *r, const char *endpoint,
                 const char *field, struct bytes plain, struct buf *out)
{
    size_t before = out->len;
    EVP_CIPHER_CTX *c;
    uint8_t *at;
    int n = 0, last = 0;

    if (!r->count || plain.n > SEALED_MAX_BYTES || out->failed ||
        out->len + plain.n + SEALED_OVERHEAD_BYTES > out->max)
        return false;
    buf_add(out, plain.n + SEALED_OVERHEAD_BYTES);
    at = (uint8_t *)out->data + before;
    at[0] = VERSION;
    memcpy(at + 1, r->keys[0].id, ID_BYTES);
    if (RAND_bytes(at + 1 + ID_BYTES, NONCE_BYTES) != 1)
        die(EXIT_UNAVAILABLE, "libcrypto has no random numbers");
    c = begin(&r->keys[0], at, endpoint, field, true);
    if (plain.n)
        check(EVP_CipherUpdate(c, at + FRONT_BYTES, &n, plain.p,
                               (int)plain.n) == 1);
    check(EVP_CipherFinal_ex(c, at + FRONT_BYTES + n, &last) == 1 &&
          (size_t)(n + last) == plain.n &&
          EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_BYTES,
                              at + FRONT_BYTES + plain.n) == 1);
    EVP_CIPHER_CTX_free(c);
    return true;
}

/* Decrypts `n` bytes into `out`; nothing of it may be used after false. */
static bool decrypt(EVP_CIPHER_CTX *c, const uint8_t *in, size_t n,
                    uint8_t *out)
{
    uint8_t tag[TAG_BYTES];
    int done = 0, last = 0;
    bool good;

    memcpy(tag, in + n, sizeof tag);
    check(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1);
    good = (!n || EVP_CipherUpdate(c, out, &done, in, (int)n) == 1) &&
           EVP_CipherFinal_ex(c, out + done, &last) == 1;
    ERR_clear_error();
    return good;
}

enum sealed_result sealed_open(const struct key_ring *r, const char *endpoint,
                               const char *field, struct bytes in,
                               struct buf *plain,
                               char key_id[SEALED_KEY_ID_SIZE])
{
    const uint8_t *front = in.p;
    const struct key *k = r->keys;
    EVP_CIPHER_CTX *c;
    uint8_t *out;
    size_t n;
    bool good;

    *key_id = 0;
    if (in.n < SEALED_OVERHEAD_BYTES ||
        in.n > SEALED_OVERHEAD_BYTES + SEALED_MAX_BYTES || front[0] != VERSION)
        return SEALED_DAMAGED;
    id_text(front + 1, key_id);
    while (k < r->keys + r->count && memcmp(k->id, front + 1, ID_BYTES) != 0)
        k++;
    if (k == r->keys + r->count)
        return SEALED_UNKNOWN_KEY;
    n = in.n - SEALED_OVERHEAD_BYTES;
    out = gr_alloc(n);
    c = begin(k, front, endpoint, field, false);
    good = decrypt(c, front + FRONT_BYTES, n, out) && !plain->failed &&
           plain->len + n <= plain->max;
    if (good)
        buf_put(plain, out, n);
    EVP_CIPHER_CTX_free(c);
    explicit_bzero(out, n);
    free(out);
    return good ? SEALED_OK : SEALED_DAMAGED;
}
