/* handshake: the request with which a provider checks a URL before it trusts it, or checks
 * later that the URL still verifies signatures. Pure. Ingress calls it only for requests
 * whose signature is valid. Such a request is not an event, so it is not stored. */
#ifndef WEBHOOK_HANDSHAKE_H
#define WEBHOOK_HANDSHAKE_H

#include "settings.h"

enum {
    HANDSHAKE_MAX_BYTES = 16 * 1024
}; /* of a body that can be a handshake */

/* true: `body` is a handshake of this kind. `reply` gets the body of the response: if
 * empty, the response is 204, otherwise 200 with `*content_type` (static). `key` is the
 * secret with which the signature was verified. */
bool handshake_response(enum handshake_kind kind, struct bytes key,
                        struct bytes body, struct buf *reply,
                        const char **content_type);

#endif
