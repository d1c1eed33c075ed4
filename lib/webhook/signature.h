/* signature: the signatures of providers: the content that a scheme signs, the signature as a
 * request carries it, and the keys. Pure. Ingress verifies with it, `grapnel send` signs with
 * it. */
#ifndef WEBHOOK_SIGNATURE_H
#define WEBHOOK_SIGNATURE_H

#include "settings.h"
#include <openssl/types.h>

enum {
    SIGNATURE_MAX_BYTES = 512, /* RSA of 4096 bits */
    /* Signatures of one request that are checked; a request with more is refused.
     * Each costs one operation with a public key. Ed25519 hashes the whole content
     * for each signature (RFC 8032, 5.1.7), so fewer are checked. */
    CANDIDATES_MAX = 8,
    CANDIDATES_MAX_ED25519 = 2,
    CONTENT_PARTS_MAX = 16,
    TOKEN_BYTES = 32, /* SHA-256 of a token */
};

/* ---- what is signed ---- */

/* What the placeholders of a template stand for; empty where there is none. */
struct signing {
    struct bytes ts, id, token, url, method, webhook_id, body;
    bool no_form; /* {sorted_form} is nothing: the body's digest stands
                     elsewhere (verify.body_digest) */
};

/* The content in pieces, most of them borrowed: nothing is copied that can be
 * hashed where it stands. */
struct content {
    struct bytes parts[CONTENT_PARTS_MAX];
    size_t count;
    struct buf form;
    char crc32[16];
    /* Of signature_fits(): made when first needed, for all keys and signatures. */
    struct buf joined;
    bool digested;
    uint8_t digest[TOKEN_BYTES]; /* SHA-256 */
};

/* A template that content_make() takes. `why` is a static sentence. */
GR_MUST_CHECK gr_rc signature_template(const char *text, const char **why);
/* {word} is in the template. */
bool signature_signs(const char *text, const char *word);
/* GR_REFUSE: it can't be made of this request. content_fini() in either case.
 * Borrows all. */
GR_MUST_CHECK gr_rc content_make(struct content *c, const char *text,
                                 const struct signing *s);
void content_fini(struct content *c);

/* ---- keys ---- */

/* A secret, ready to be used. Not for two threads at once. */
struct signature_key {
    enum scheme scheme;
    EVP_MAC_CTX *mac;
    EVP_PKEY *pkey;
    uint8_t token[TOKEN_BYTES];
};

/* The bytes behind a secret's text, appended to `out`. GR_REFUSE: it is not
 * encoded as secret_encoding says. */
GR_MUST_CHECK gr_rc signature_key(const struct verify *v, const char *secret,
                                  struct buf *out);
/* GR_REFUSE: it is no key of this scheme; `why` is a static sentence. The
 * caller's. */
GR_MUST_CHECK gr_rc signature_key_new(const struct verify *v,
                                      const char *secret,
                                      struct signature_key **out,
                                      const char **why);
void signature_key_free(struct signature_key *k);

/* ---- signatures ---- */

/* The header, or the query's field, of this name may carry it: not to be shown. */
bool signature_is_in(const struct verify *v, struct bytes name);
bool signature_is_field(const struct verify *v, struct bytes name);

struct candidate {
    uint8_t bytes[SIGNATURE_MAX_BYTES];
    size_t n;
};

/* How many signatures of one request are checked. */
size_t signature_candidates_max(const struct verify *v);
/* One signature, without its prefix. GR_REFUSE: wrong length, bad digits. Hex
 * may be upper case; base64 must be padded as RFC 4648 says. */
GR_MUST_CHECK gr_rc signature_decode(const struct verify *v, struct bytes text,
                                     struct candidate *c);
/* One of them is by this key. In a time that does not depend on where they
 * differ. The content is hashed once per HMAC key, and once for all public keys and
 * signatures, but for Ed25519. */
bool signature_fits(struct signature_key *k, struct content *content,
                    const struct candidate *all, size_t count);

/* The bytes of a signature: by the key itself, or by `private_key` where that
 * is another (then `k` may be NULL). GR_REFUSE: it does not go. */
GR_MUST_CHECK gr_rc signature_sign(const struct verify *v,
                                   struct signature_key *k,
                                   EVP_PKEY *private_key,
                                   struct content *content,
                                   struct candidate *out);
/* As its header carries it: prefix, encoded bytes, and what the form needs
 * around them. Appended to `out`. */
void signature_print(const struct verify *v, const struct candidate *c,
                     struct bytes ts, struct buf *out);

#endif
