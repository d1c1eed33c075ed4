/* handshake: what a provider wants to hear before it trusts a URL, or to see
 * whether the URL still checks signatures. Pure. Only asked of a request whose
 * signature holds; such a request is no event, so nothing of it is kept. */
#ifndef PROTO_HANDSHAKE_H
#define PROTO_HANDSHAKE_H

#include "alloc.h"
#include "rc.h"

enum handshake_kind {
    HANDSHAKE_NONE,
    HANDSHAKE_ECHO,       /* Slack: the challenge, as plain text */
    HANDSHAKE_HMAC_TOKEN, /* Zoom: its token, and its HMAC by our secret */
    HANDSHAKE_PING_PONG,  /* Discord: PONG, or nothing at all */
    HANDSHAKE_HEAD,       /* Intercom: 200 to a HEAD, which nobody signs */
};

enum { HANDSHAKE_MAX_BYTES = 16 * 1024 }; /* of a body that can be one */

/* true: `body` is a handshake of this kind. `reply` gets the body of the
 * answer: empty, the answer is 204; else it is 200, of `*content_type`
 * (static). `key` is the secret by which the signature holds. */
bool handshake_answer(enum handshake_kind kind, struct bytes key,
                      struct bytes body, struct buf *reply,
                      const char **content_type);

#endif
