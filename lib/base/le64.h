/* le64: a number of 64 bits as 8 bytes, the lowest first: so it stands in frames
 * and in rows. */
#ifndef BASE_LE64_H
#define BASE_LE64_H

#include "alloc.h"

void put_le64(struct buf *out, uint64_t v);
void set_le64(void *out, uint64_t v); /* 8 bytes from there */
uint64_t get_le64(const void *p);

#endif
