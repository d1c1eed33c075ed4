/* signature: the signatures of providers: the content that a scheme signs, the signature as
 * a request carries it, and the keys. Pure. Ingress verifies with it, and `grapnel send`
 * signs with it. */
#ifndef WEBHOOK_SIGNATURE_H
#define WEBHOOK_SIGNATURE_H

#include "settings.h"
#include <openssl/types.h>

enum {
    SIGNATURE_MAX_BYTES = 512, /* RSA of 4096 bits */
    /* The number of signatures of one request that are checked; a request with more is
     * refused. Each costs one operation with a public key. Ed25519 hashes the whole content
     * for each signature (RFC 8032, 5.1.7), so fewer are checked. */
    CANDIDATES_MAX = 8,
    CANDIDATES_MAX_ED25519 = 2,
    CONTENT_PARTS_MAX = 16,
    TOKEN_BYTES = 32, /* SHA-256 of a token */
};

/* ---- what is signed ---- */

/* The values of a template's placeholders; empty where the request has none. */
struct signing {
    struct bytes ts, id, token, url, method, webhook_id, body;
    bool
        no_form; /* {sorted_form} is empty: the digest of the body is signed in a header
                   * (verify.body_digest) */
};

/* The content in pieces, most of them borrowed, so that it can be hashed without a copy. */
struct content {
    struct bytes parts[CONTENT_PARTS_MAX];
    size_t count;
    struct buf form;
    char crc32[16];
    /* Digests for signature_fits(), made when first needed, for all keys and signatures. */
    struct buf joined;
    bool digested;
    uint8_t digest[TOKEN_BYTES]; /* SHA-256 */
};

/* Checks a template for content_make(). `why` is a static sentence. */
GR_MUST_CHECK gr_rc signature_template(const char *text, const char **why);
/* Whether {word} is in the template. */
bool signature_signs(const char *text, const char *word);
/* GR_REFUSE: the request lacks a part of it. Call content_fini() in either case. Borrows
 * all arguments. */
GR_MUST_CHECK gr_rc content_make(struct content *c, const char *text,
                                 const struct signing *s);
void content_fini(struct content *c);

/* ---- keys ---- */

/* A secret, ready for use. Only one thread may use it at a time. */
struct signature_key {
    enum scheme scheme;
    EVP_MAC_CTX *mac;
    EVP_PKEY *pkey;
    uint8_t token[TOKEN_BYTES];
};

/* Appends the bytes of a secret's text to `out`. GR_REFUSE: it is not encoded as
 * secret_encoding says. */
GR_MUST_CHECK gr_rc signature_key(const struct verify *v, const char *secret,
                                  struct buf *out);
/* GR_REFUSE: it is not a key of this scheme; `why` is a static sentence. The caller owns
 * the key. */
GR_MUST_CHECK gr_rc signature_key_new(const struct verify *v,
                                      const char *secret,
                                      struct signature_key **out,
                                      const char **why);
void signature_key_free(struct signature_key *k);

/* ---- signatures ---- */

/* Whether the header, or the field of the query, of this name may carry a signature and
 * must not be shown. */
bool signature_is_in(const struct verify *v, struct bytes name);
bool signature_is_field(const struct verify *v, struct bytes name);

struct candidate {
    uint8_t bytes[SIGNATURE_MAX_BYTES];
    size_t n;
};

/* How many signatures of one request are checked. */
size_t signature_candidates_max(const struct verify *v);
/* Decodes one signature, without its prefix. GR_REFUSE: wrong length or invalid digits. Hex
 * may be upper case; base64 must be padded as in RFC 4648. */
GR_MUST_CHECK gr_rc signature_decode(const struct verify *v, struct bytes text,
                                     struct candidate *c);
/* Whether one of the signatures was made with this key. The time does not depend on where
 * they differ. The content is hashed once for each HMAC key, and once for all public keys
 * and signatures except those of Ed25519. */
bool signature_fits(struct signature_key *k, struct content *content,
                    const struct candidate *all, size_t count);

/* The bytes of a signature, made with the key itself, or with `private_key` if that is
 * another one (then `k` may be NULL). GR_REFUSE: libcrypto failed. */
GR_MUST_CHECK gr_rc signature_sign(const struct verify *v,
                                   struct signature_key *k,
                                   EVP_PKEY *private_key,
                                   struct content *content,
                                   struct candidate *out);
/* Appends the signature as its header carries it: prefix, encoded bytes, and the other
 * parts of its form. */
void signature_print(const struct verify *v, const struct candidate *c,
                     struct bytes ts, struct buf *out);

#endif
