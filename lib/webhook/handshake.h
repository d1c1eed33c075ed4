/* handshake: the request by which a provider checks a URL before it trusts it, or checks later
 * that the URL still verifies signatures. Pure. Called only for requests whose signature is
 * valid. Such a request is not an event, so nothing of it is stored. */
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
