/* siphash: SipHash, and a key that is drawn once in each process. */
#include "siphash.h"
#include "rc.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

enum { WORD = 8 };

static uint64_t rotated(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void rounds(uint64_t v[4], int count)
{
    while (count--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 13) ^ v[0];
        v[3] = rotated(v[3], 16) ^ v[2];
        v[0] = rotated(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = rotated(v[3], 21) ^ v[0];
        v[1] = rotated(v[1], 17) ^ v[2];
        v[2] = rotated(v[2], 32);
    }
}

static inline void take(uint64_t v[4], uint64_t word, int count)
{
    v[3] ^= word;
    rounds(v, count);
    v[0] ^= word;
}

static uint64_t word_of(const uint8_t *p, size_t n)
{
    uint64_t word = 0;

    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)p[i] << 8 * i;
    return word;
}

uint64_t siphash(struct siphash_key key, int c_rounds, int d_rounds,
                 const void *bytes, size_t n)
{
    /* "somepseudorandomlygeneratedbytes" */
    uint64_t v[4] = {
        key.k0 ^ 0x736f6d6570736575ULL, key.k1 ^ 0x646f72616e646f6dULL,
        key.k0 ^ 0x6c7967656e657261ULL, key.k1 ^ 0x7465646279746573ULL};
    const uint8_t *p = bytes;
    size_t left = n;

    for (; left >= WORD; left -= WORD, p += WORD)
        take(v, word_of(p, WORD), c_rounds);
    take(v, (uint64_t)n << 56 | word_of(p, left), c_rounds);
    v[2] ^= 0xff;
    rounds(v, d_rounds);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct siphash_key process_key;
static pthread_once_t drawn = PTHREAD_ONCE_INIT;

static void draw(void)
{
    if (getrandom(&process_key, sizeof process_key, 0) != sizeof process_key)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
}

uint64_t hash_keyed(uint64_t before, const void *bytes, size_t n)
{
    struct siphash_key key;

    pthread_once(&drawn, draw);
    key = process_key;
    key.k0 ^= before;
    return siphash(key, 1, 3, bytes, n);
}

uint64_t hash_keyed_text(uint64_t before, const char *text)
{
    return hash_keyed(before, text, strlen(text));
}
