/* sent: what was sent in an attempt, kept with it for who asks later: method, URL
 * without its query, and headers. Bounded, and without secrets: signatures, tokens
 * and all that the endpoint's own configuration adds are left out before they come
 * to the disk. The body is not in it; ingress has the request that it came from. */
#ifndef DELIVERER_SENT_H
#define DELIVERER_SENT_H

#include "attempt.h"
#include <jansson.h>

enum { SENT_MAX_BYTES = 4096 };

/* Packed (headers.h), ":method" and ":url" first; what does not fit is cut off at
 * a whole header. */
void sent_pack(const struct flight *f, struct buf *out);
/* {"method","url","headers":[[name, value]…]}; null for an empty one. */
json_t *sent_json(struct bytes packed);

#endif
