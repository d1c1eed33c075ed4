/* hash: FNV-1a with 64 bits, for names. Use it for values that are stored, or that another
 * process or a later start must compute again. Tables in memory use lib/base/siphash.h:
 * names that collide here are easy to find. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

/* Hashes made with either start value are on disk. The second one lacks the last digit of
 * FNV's by mistake. */
#define HASH_BEGIN       14695981039346656037ULL
#define HASH_BEGIN_SHORT 1469598103934665603ULL
#define HASH_PRIME       1099511628211ULL

static inline uint64_t hash_byte(uint64_t h, unsigned char c)
{
    return (h ^ c) * HASH_PRIME;
}

static inline uint64_t hash_name(uint64_t h, const char *name)
{
    for (; *name; name++)
        h = hash_byte(h, (unsigned char)*name);
    return h;
}

static inline uint64_t hash_end(uint64_t h)
{
    return hash_byte(h, 0xff);
}

/* Adds one of several names: "ab", "c" differs from "a", "bc". */
static inline uint64_t hash_text(uint64_t h, const char *name)
{
    return hash_end(hash_name(h, name));
}

#endif
