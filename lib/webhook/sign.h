/* sign: signs deliveries by Standard Webhooks v1 (HMAC-SHA256, secrets `whsec_…`) and v1a
 * (Ed25519, keys `whsk_…`), with any number of secrets at once.
 *
 * The signed content is "{id}.{timestamp}.{body}", the body byte for byte. The header has
 * one "v1,<base64>" or "v1a,<base64>" for each secret, separated by spaces, so that a
 * receiver may hold the old or the new secret while it is rotated. Keys exist in memory
 * only, inside OpenSSL's contexts. */
#ifndef WEBHOOK_SIGN_H
#define WEBHOOK_SIGN_H

#include "alloc.h"
#include "rc.h"

struct sign_key;

struct signer {
    struct sign_key *keys; /* owned */
    int count;             /* 0: deliveries are not signed */
};

/* `secrets`: "whsec_… whsk_…". GR_REFUSE: one of them is not a secret; deliveries are never
 * signed with only some of the secrets. Call signer_fini() in any case. */
GR_MUST_CHECK gr_rc signer_init(struct signer *s, struct bytes secrets);
void signer_fini(struct signer *s);

/* Appends the value of webhook-signature to `out`. */
void signer_sign(const struct signer *s, const char *id, int64_t timestamp_s,
                 struct bytes body, struct buf *out);

/* Appends the value of grapnel-signature to `out`: a signature with each secret, as above,
 * over
 *
 *   grapnel-signature v1\n
 *   webhook-id ID\n
 *   webhook-timestamp SECONDS\n
 *   body-sha256 64 hexadecimal digits\n
 *
 * and `lines`: "name value\n" for each other header that begins with grapnel-, sorted by
 * name (docs/RECEIVING.md). The content of webhook-signature begins with an event's id, so
 * neither signature is valid in place of the other. */
void signer_sign_headers(const struct signer *s, const char *id,
                         int64_t timestamp_s, struct bytes body,
                         struct bytes lines, struct buf *out);

#endif
