/* headers: the headers of a request as one packed blob that keeps order and repeated names.
 * For each header: u32 length of the name, u32 length of the value (little endian), name,
 * value. Strict: a blob that does not parse to its end is refused.
 *
 * A name that begins with a colon is a part of the request line, as in HTTP/2; header names
 * are tokens and cannot begin with one. `:query` is the text after the `?`. */
#ifndef EXPR_HEADERS_H
#define EXPR_HEADERS_H

#include "alloc.h"
#include "rc.h"

enum { HEADERS_FRONT_BYTES = 8 }; /* before each name */

void headers_put(struct buf *packed, const char *name, struct bytes value);

/* Reads one header after the other: start with *at = 0; false after the last. Borrows. */
bool headers_next(struct bytes packed, size_t *at, struct bytes *name,
                  struct bytes *value);
/* Whether the blob can be read to its end. */
bool headers_valid(struct bytes packed);

/* Finds the first value of `name`, in any letter case. `count`, if not NULL, gets how many
 * there are. false: there is none. */
bool headers_get(struct bytes packed, const char *name, struct bytes *value,
                 int *count);

/* Whether a header with this name is secret and must not be shown: authorization, cookies,
 * and names with signature, token, secret, API key or password in them. */
bool headers_secret(struct bytes name);

/* Whether it can be a header's name: an HTTP token. */
bool headers_name_valid(const char *name);

#endif
