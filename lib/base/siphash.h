/* siphash: a hash with a secret key, for tables whose keys come from clients: a client that
 * does not know the key cannot choose names that share a bucket. The key is drawn at the
 * first use and exists in memory only, so these hashes are never stored or sent
 * (lib/base/hash.h has those that may be). docs/decisions/0051. */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t k0, k1;
};

/* SipHash-C-D of n bytes (Aumasson and Bernstein, 2012; the numbers are read as little
 * endian). */
uint64_t siphash(struct siphash_key key, int c_rounds, int d_rounds,
                 const void *bytes, size_t n);

/* SipHash-1-3 with this process's key. `before` is the hash of what belongs before these
 * bytes, or any number that tells tables apart: "ab", "c" is not "a", "bc". Any thread. */
uint64_t hash_keyed(uint64_t before, const void *bytes, size_t n);
uint64_t hash_keyed_text(uint64_t before, const char *text);

#endif
