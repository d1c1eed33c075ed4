/* le64: a 64-bit number as 8 bytes, lowest byte first, as frames and rows hold it. */
#ifndef BASE_LE64_H
#define BASE_LE64_H

#include "alloc.h"

void put_le64(struct buf *out, uint64_t v);
void set_le64(void *out, uint64_t v); /* Reads 8 bytes. */
uint64_t get_le64(const void *p);

#endif
