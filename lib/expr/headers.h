/* headers: a request's headers as one packed blob: order and repeats kept.
 * For each header: u32 name bytes, u32 value bytes (little endian), name,
 * value. Strict: a blob that does not parse to its end is refused.
 *
 * A name that begins with a colon is no header (those are tokens) but a part
 * of the request's line, as in HTTP/2: `:query`, what stands behind the ?. */
#ifndef PROTO_HEADERS_H
#define PROTO_HEADERS_H

#include "alloc.h"
#include "rc.h"

enum { HEADERS_FRONT_BYTES = 8 }; /* before each name */

void headers_put(struct buf *packed, const char *name, struct bytes value);

/* Walk: start with *at = 0; true while there is one more. Borrows. */
bool headers_next(struct bytes packed, size_t *at, struct bytes *name,
                  struct bytes *value);
/* The blob is whole. */
bool headers_valid(struct bytes packed);

/* First value of `name`, any letter case. `count`, if not NULL, gets how many
 * there are. false: none. */
bool headers_get(struct bytes packed, const char *name, struct bytes *value,
                 int *count);

/* Its value proves who sent it, or opens something: not to be shown. By its name
 * alone: authorization, cookies, and all that speak of a signature, a token, a
 * secret, a key of an API or a password. */
bool headers_secret(struct bytes name);

/* It can be a header's name: an HTTP token. */
bool headers_name_valid(const char *name);

#endif
