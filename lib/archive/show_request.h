/* show_request: shows an archived request as it came, a piece of its body at a time. */
#ifndef ARCHIVE_SHOW_REQUEST_H
#define ARCHIVE_SHOW_REQUEST_H

#include "rc.h"
#include <jansson.h>

/* Control command `request`. self: struct archive. */
json_t *show_request(void *self, json_t *args, char why[200]);

/* Adds the piece of a body from this offset to a reply, as base64, with its offset and the size
 * of the whole. */
void request_put_body(json_t *out, struct bytes body, int64_t offset);

#endif
