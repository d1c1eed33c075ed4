/* json_text: bytes from clients, and times, as JSON values. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include "rc.h"
#include <jansson.h>

/* As json_loadb(), but half of a surrogate pair is read as U+FFFD. RFC 8259 lets it
 * be written (section 8.2), and who cuts a text in JavaScript or in Python writes
 * it; to refuse all of such a body would be to lose an event for one letter. */
json_t *json_read(struct bytes text, size_t flags, json_error_t *error);

/* Bytes of the character at `p`, which has `n` bytes, at least one, left; 0: no
 * character begins there (RFC 3629). */
size_t utf8_character(const unsigned char *p, size_t n);
/* Whole UTF-8, no surrogates, no over-long forms. NUL is allowed. */
bool utf8_valid(struct bytes b);
/* A JSON string; each byte that is no UTF-8 becomes U+FFFD, so that a response
 * can always be given. The caller's. Never NULL. */
json_t *json_text(struct bytes b);
/* The same of a string; NULL is JSON's null. */
json_t *json_text_of(const char *s);
/* The same; "" is null too. */
json_t *json_text_or_null(const char *s);
/* Null for 0, which stands for "none". */
json_t *json_number_or_null(int64_t v);
/* RFC 3339, UTC, milliseconds; null for 0. */
json_t *json_time(int64_t wall_ms);

#endif
