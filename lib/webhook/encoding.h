/* encoding: bytes as hexadecimal and base64, decoded strictly; and keys as files hold them. */
#ifndef WEBHOOK_ENCODING_H
#define WEBHOOK_ENCODING_H

#include "rc.h"
#include <jansson.h>
#include <openssl/types.h>

/* Returns the number of bytes, or -1: bad digits, an odd one out, or more than
 * `max`. Hex in either case. Base64 as RFC 4648 has it: whole groups of four,
 * padding at the end only, and no bits that mean nothing. */
int encoding_hex(struct bytes text, uint8_t *out, size_t max);
int encoding_base64(struct bytes text, uint8_t *out, size_t max);

/* Base64 as a JSON string; the caller's. Below 1 GiB. */
json_t *encoding_base64_json(struct bytes b);

/* A public key out of PEM: of a public key, or of a certificate. NULL: it is
 * none. The caller's. */
EVP_PKEY *keyfile_public(struct bytes pem);
/* The same out of DER of a SubjectPublicKeyInfo. */
EVP_PKEY *keyfile_spki(struct bytes der);

#endif
