/* checksum: 64 bits over what is stored, to find what a disk has changed. Not against
 * deliberate changes.
 *
 * Each step is a bijection of the state and of the eight bytes that it takes, so a
 * change within eight aligned bytes (any flipped bit) is always found, any other but
 * once in 2^64 (docs/decisions/0052-checksums.md). */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include "rc.h"
#include <stdint.h>

#define CHECKSUM_BEGIN 0x9e3779b97f4a7c15ULL

/* These bytes, and how many they are. */
uint64_t checksum_add(uint64_t sum, const void *p, size_t n);

#endif
