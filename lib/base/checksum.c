/* checksum: computes the checksum of stored data. */
#include "checksum.h"
#include <endian.h>
#include <string.h>

/* Odd, so multiplying by it loses nothing; the bits are those of the golden ratio. */
static uint64_t step(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
    return sum ^ sum >> 32;
}

uint64_t checksum_add(uint64_t sum, const void *p, size_t n)
{
    const unsigned char *at = p;
    uint64_t word;

    sum = step(sum, n);
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sum = step(sum, le64toh(word));
    }
    if (n) {
        word = 0;
        memcpy(&word, at, n);
        sum = step(sum, le64toh(word));
    }
    return sum;
}
