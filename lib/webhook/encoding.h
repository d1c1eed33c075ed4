/* encoding: decodes hexadecimal and base64 strictly, and reads public keys from files.
 * Pure. */
#ifndef WEBHOOK_ENCODING_H
#define WEBHOOK_ENCODING_H

#include "rc.h"
#include <jansson.h>
#include <openssl/types.h>

/* Returns the number of bytes, or -1: invalid digits, an odd number of them, or more than
 * `max`. Hex may be in either case. Base64 as in RFC 4648: groups of four, padding only at
 * the end, and the unused bits are 0. */
int encoding_hex(struct bytes text, uint8_t *out, size_t max);
int encoding_base64(struct bytes text, uint8_t *out, size_t max);

/* Base64 as a JSON string, owned by the caller. Below 1 GiB. */
json_t *encoding_base64_json(struct bytes b);

/* The public key in a PEM text: of a public key, or of a certificate. NULL: there is none.
 * The caller owns it. */
EVP_PKEY *keyfile_public(struct bytes pem);
/* The same from DER of a SubjectPublicKeyInfo. */
EVP_PKEY *keyfile_spki(struct bytes der);

#endif
