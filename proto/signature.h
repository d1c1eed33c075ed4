/* signature: what an HMAC-SHA256 scheme signs, and the signature as its header
 * carries it. Pure. Ingress verifies with it, `grapnel send` signs with it. */
#ifndef PROTO_SIGNATURE_H
#define PROTO_SIGNATURE_H

#include "settings.h"

enum { MAC_BYTES = 32 };

/* The signed content: `verify->signed_content` with {ts} and {body} put in.
 * GR_REFUSE: the template names something else, or `out` is too small. Appends
 * to `out`; borrows the rest. */
GR_MUST_CHECK gr_rc signature_content(const struct verify *verify,
                                      struct bytes ts_text, struct bytes body,
                                      struct buf *out);
/* A template that signature_content() takes. {body} must be in it: a signature
 * that leaves the body out proves nothing. `why` is a static sentence. */
GR_MUST_CHECK gr_rc signature_template(const char *text, const char **why);

/* The key behind a secret's text, appended to `out`. GR_REFUSE: it should be
 * base64 and is not. */
GR_MUST_CHECK gr_rc signature_key(const struct verify *verify,
                                  const char *secret, struct buf *out);

void signature_mac(uint8_t mac[MAC_BYTES], struct bytes key,
                   struct bytes content);
/* Prefix and encoded MAC, appended to `out`: the value of the header. */
void signature_print(const struct verify *verify, const uint8_t mac[MAC_BYTES],
                     struct buf *out);
/* The other way. GR_REFUSE: no prefix, wrong length, bad digits. Hex may be
 * upper case; base64 must be padded as RFC 4648 says. */
GR_MUST_CHECK gr_rc signature_parse(const struct verify *verify,
                                    struct bytes text, uint8_t mac[MAC_BYTES]);
/* Equal, in a time that does not depend on where they differ. */
bool signature_same(const uint8_t a[MAC_BYTES], const uint8_t b[MAC_BYTES]);

#endif
