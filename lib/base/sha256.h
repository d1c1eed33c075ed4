/* sha256: SHA-256 of a text, and bytes as hexadecimal digits. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include "alloc.h"
#include "rc.h"

enum { SHA256_BYTES = 32 };

/* Ends the process when libcrypto has no SHA-256. Any thread may call it. */
void sha256(struct bytes text, uint8_t out[SHA256_BYTES]);
/* Of these parts, one behind the other. */
void sha256_of_parts(const struct bytes *parts, size_t count,
                     uint8_t out[SHA256_BYTES]);

/* Writes two digits, in lower case, for each byte, and no NUL. */
void hex_write(const void *p, size_t n, char *to);
/* Appends them. */
void hex_put(const void *p, size_t n, struct buf *out);

/* The value of a hexadecimal digit in either letter case, else -1. */
int hex_digit(char c);

#endif
