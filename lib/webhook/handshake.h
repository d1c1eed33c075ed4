/* handshake: the request by which a provider checks a URL before it trusts it, or checks later
 * that the URL still verifies signatures. Pure. Called only for requests whose signature is
 * valid. Such a request is not an event, so nothing of it is stored. */
#ifndef WEBHOOK_HANDSHAKE_H
#define WEBHOOK_HANDSHAKE_H

#include "settings.h"

enum { HANDSHAKE_MAX_BYTES = 16 * 1024 }; /* of a body that can be one */

/* true: `body` is a handshake of this kind. `reply` gets the body of the
 * response: empty, the response is 204; else it is 200, of `*content_type`
 * (static). `key` is the secret by which the signature holds. */
bool handshake_response(enum handshake_kind kind, struct bytes key,
                        struct bytes body, struct buf *reply,
                        const char **content_type);

#endif
