/* sent: what was sent in an attempt, kept with it for who asks later: method, URL
 * without its query, and headers. Bounded, and without secrets: signatures, tokens
 * and all that the endpoint's own configuration adds are left out before they come
 * to the disk. The body is not in it; ingress has the request that it came from. */
#ifndef DELIVERER_SENT_H
#define DELIVERER_SENT_H

#include "transfer.h"
#include <jansson.h>

enum { SENT_MAX_BYTES = 4096 };

/* Packed (headers.h), ":method" and ":url" first; what does not fit is cut off at
 * a whole header. */
void sent_pack(const struct transfer *f, struct buf *out);
/* The same as of all requests of its kind (templates.h): of a value that differs from
 * one to another there is only the name, behind a "=". */
void sent_pack_template(const struct transfer *f, struct buf *out);
/* A value of a header that the event brings along is part of a template: it is the same
 * nearly always. */
bool sent_is_constant(struct bytes name, struct bytes value);

/* {"method","url","rebuilt","headers":[[name, value]…]}; null for an empty one. Of a
 * template ("rebuilt": true) the values that the row does not say are null: they are
 * the event's. */
struct attempt_row;
json_t *sent_json(const struct attempt_row *row, struct bytes packed);

#endif
