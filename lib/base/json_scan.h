/* json_scan: finds one value in a JSON text without building a tree of it.
 *
 * json_read() allocates a node for each value of the text. When only a few fields of a body
 * are needed, scanning the text is faster (docs/decisions/0031). Texts that this scanner
 * cannot decide are left to Jansson, so that the two agree and only Jansson's errors are
 * shown. */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include "rc.h"

enum json_scanned {
    JSON_SCAN_UNSURE, /* ask json_read() */
    JSON_SCAN_ABSENT,
    JSON_SCAN_FOUND,
};

/* Finds the value at `pointer` (RFC 6901, valid). FOUND: *value is its text, without blanks
 * around it, inside `text`. If an object has several equal names, the last one counts, as
 * with Jansson.
 *
 * FOUND and ABSENT also mean that all of `text` is JSON that json_loadb() accepts with
 * JSON_DECODE_ANY | JSON_ALLOW_NUL. UNSURE: it is not JSON, or only Jansson can decide:
 * half of a surrogate pair, an escape in a name, a number that does not fit into int64 or
 * may be too large for a double, more than 64 levels.
 *
 * Allocates nothing. Reads each byte once, and once more for each step of the pointer after
 * the first whose value contains it; *read_bytes grows by that number. */
enum json_scanned json_scan(struct bytes text, const char *pointer,
                            struct bytes *value, size_t *read_bytes);

/* The same for the member `name` (without ~ and /) of the object that `text` is, if no object in it has equal
 * names: FOUND also means
 * that json_loadb() accepts `text` with JSON_REJECT_DUPLICATES. UNSURE, too: an object has more
 * than 32 members. Reads each byte once. */
enum json_scanned json_scan_member(struct bytes text, const char *name,
                                   struct bytes *value);

#endif
