/* sealed: encrypts secrets that are stored in a database, with keys that are not (the setting
 * `secrets_key`). AES-256-GCM; each secret is bound to its endpoint and field, so that it
 * cannot be moved to another row. Pure; for any process that has the keys.
 *
 * A sealed secret: version (1 byte, 1), key id (8), nonce (12, random), the encrypted bytes,
 * tag (16). A key may seal 2^32 secrets, which random nonces allow (NIST SP 800-38D). */
#ifndef SEALED_SEALED_H
#define SEALED_SEALED_H

#include "alloc.h"
#include "string_list.h"

enum {
    SEALED_KEY_BYTES = 32,
    SEALED_KEY_ID_SIZE = 17,        /* 16 hexadecimal digits and a zero byte */
    SEALED_MAX_BYTES = 1024 * 1024, /* of one secret */
    SEALED_OVERHEAD_BYTES = 1 + 8 + 12 + 16,
};

/* Whether the text is base64 of exactly 32 bytes. */
bool sealed_key_valid(const char *text);
/* The same; the caller wipes `out`, which has the bytes if it is true. */
GR_MUST_CHECK bool sealed_key_read(const char *text,
                                   uint8_t out[SEALED_KEY_BYTES]);

struct key_ring;

/* Keys as in the setting: the first seals, all of them open. Each is valid; none is allowed.
 * The ring has copies; free it with key_ring_free(), which wipes them. */
struct key_ring *key_ring_new(const struct string_list *keys);
void key_ring_free(struct key_ring *r); /* may be NULL */
/* The id of the key that seals: the first 8 bytes of SHA-256("grapnel secrets key" ‖ key), as
 * hexadecimal digits. It may be stored and shown. NULL: there is no key. */
const char *key_ring_current(const struct key_ring *r);

/* Appends the sealed secret to `out`. false, and `out` unchanged: there is no key, or the
 * secret is longer than SEALED_MAX_BYTES, or `out` is full. */
GR_MUST_CHECK bool sealed_seal(const struct key_ring *r, const char *endpoint,
                               const char *field, struct bytes plain,
                               struct buf *out);

enum sealed_result {
    SEALED_OK,
    SEALED_UNKNOWN_KEY, /* no key of the ring has this id: add the key that it names */
    SEALED_DAMAGED, /* changed, cut, of another endpoint or field; or `plain` was full */
};

/* Appends the secret to `plain`, which is unchanged after any other result. `key_id` gets the
 * id of the key that sealed it, "" if it has none. The caller wipes `plain`. */
GR_MUST_CHECK enum sealed_result sealed_open(const struct key_ring *r,
                                             const char *endpoint,
                                             const char *field, struct bytes in,
                                             struct buf *plain,
                                             char key_id[SEALED_KEY_ID_SIZE]);

#endif
