/* checksum: a 64-bit checksum of stored data, which finds changes made by a disk. It does
 * not protect from deliberate changes.
 *
 * Each step is a bijection of the state and of the eight bytes that it takes, so a change
 * within eight aligned bytes (any flipped bit) is always found, and any other change except
 * for one in 2^64 (docs/decisions/0052-checksums.md). */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include "rc.h"
#include <stdint.h>

#define CHECKSUM_BEGIN 0x9e3779b97f4a7c15ULL

/* Adds these bytes, and their number. */
uint64_t checksum_add(uint64_t sum, const void *p, size_t n);

#endif
