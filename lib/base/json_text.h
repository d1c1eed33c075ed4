/* json_text: bytes from clients, and times, as JSON values; and steps through a JSON text. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include "rc.h"
#include <jansson.h>

/* As json_loadb(), but half of a surrogate pair is read as U+FFFD. RFC 8259 permits it
 * (section 8.2), and programs that cut a text in JavaScript or Python write it; refusing
 * the whole body would lose an event because of one character. */
json_t *json_read(struct bytes text, size_t flags, json_error_t *error);

/* Positions in a text that is valid JSON, such as one that json_read() has read, so that no
 * step can leave the text. The position after blanks: */
const char *json_skip_blanks(const char *p);
/* The position after the string that begins at `p`. */
const char *json_skip_string(const char *p);
/* The position after the value that begins at `p` inside an object or a list, and after the
 * blanks behind it: a comma, or the end of the object or list. *value (or NULL): its text,
 * without blanks around it. */
const char *json_skip_value(const char *p, struct bytes *value);

/* The number of bytes of the character at `p`, where `n` bytes, at least one, are left; 0:
 * no character begins there (RFC 3629). */
size_t utf8_character(const unsigned char *p, size_t n);
/* Whether all of it is UTF-8, without surrogates and over-long forms. NUL is allowed. */
bool utf8_valid(struct bytes b);
/* A JSON string, owned by the caller, never NULL. Each byte that is not UTF-8 becomes
 * U+FFFD, so that a response can always be written. */
json_t *json_text(struct bytes b);
/* The same of a string; NULL becomes JSON's null. */
json_t *json_text_of(const char *s);
/* The same; "" becomes null, too. */
json_t *json_text_or_null(const char *s);
/* 0 becomes null. */
json_t *json_number_or_null(int64_t v);
/* RFC 3339 in UTC with milliseconds; 0 becomes null. */
json_t *json_time(int64_t wall_ms);

#endif
