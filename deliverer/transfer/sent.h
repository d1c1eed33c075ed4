/* sent: packs the request of an attempt, so that `grapnel trace` can show it later: method,
 * URL without its query, and headers. It is bounded and has no secrets: signatures, tokens and
 * all headers that the endpoint's configuration adds are left out before they are stored. The
 * body is not in it; ingress has the event's request. Pure. */
#ifndef DELIVERER_SENT_H
#define DELIVERER_SENT_H

#include "transfer.h"
#include <jansson.h>

enum { SENT_MAX_BYTES = 4096 };

/* Packed (headers.h), ":method" and ":url" first; a header that does not fit is left out. */
void sent_pack(const struct transfer *f, struct buf *out);
/* The same for a template (templates.h): a header whose value varies has an empty value, and
 * "=" before its name. */
void sent_pack_template(const struct transfer *f, struct buf *out);
/* This value of a header is part of a template: nearly all events have the same. */
bool sent_is_constant(struct bytes name, struct bytes value);

/* {"method","url","rebuilt","headers":[[name, value]…]}; null if `packed` is empty. In a
 * template ("rebuilt": true) values that are not in the row are null: they are the event's. */
struct attempt_row;
json_t *sent_json(const struct attempt_row *row, struct bytes packed);

#endif
