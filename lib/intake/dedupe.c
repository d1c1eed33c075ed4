/* dedupe: idempotency keys as numbers, and filters of keys. */
#include "dedupe.h"
#include "clock.h"
#include "sha256.h"
#include <stdlib.h>
#include <string.h>

#define KEY_MASK ((1ULL << KEY_HASH_BITS) - 1)

enum { PROBES = 4, SPANS_A_TTL = 4 };

static const int64_t class_ttl_ms[KEY_CLASSES] = {
    HOUR_MS, 6 * HOUR_MS, 2 * DAY_MS, 8 * DAY_MS, INT64_MAX, INT64_MAX};

static uint64_t six_bytes(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 0; i < 6; i++)
        v = v << 8 | p[i];
    return v;
}

struct key key_make(const void *text, size_t n)
{
    uint8_t digest[SHA256_BYTES];

    sha256((struct bytes){text, n}, digest);
    return (struct key){six_bytes(digest), six_bytes(digest + 6)};
}

/* ---- filters ---- */

void filter_init(struct filter *f, uint64_t bit_count)
{
    f->bit_count = bit_count;
    f->bits = bit_count ? gr_alloc(bit_count / 8) : NULL;
}

void filter_fini(struct filter *f)
{
    free(f->bits);
    *f = (struct filter){0};
}

/* The key's i-th bit. Both halves are bits of a SHA-256, and so as good as two independent
 * hashes (Kirsch and Mitzenmacher: two suffice). A smaller filter uses fewer of the lower
 * bits of the same number, so a filter can be folded. */
static uint64_t bit_of(const struct filter *f, struct key k, int i)
{
    return (k.hash + (uint64_t)i * (k.check | 1)) & (f->bit_count - 1);
}

void filter_add(struct filter *f, struct key k)
{
    for (int i = 0; i < PROBES && f->bit_count; i++) {
        uint64_t b = bit_of(f, k, i);

        f->bits[b / 8] |= (uint8_t)(1 << b % 8);
    }
}

bool filter_may_have(const struct filter *f, struct key k)
{
    for (int i = 0; i < PROBES && f->bit_count; i++) {
        uint64_t b = bit_of(f, k, i);

        if (!(f->bits[b / 8] & 1 << b % 8))
            return false;
    }
    return true;
}

void filter_fold(struct filter *f, uint64_t count)
{
    uint64_t half = f->bit_count / 2;

    for (; half >= FILTER_BITS_MIN && half >= 16 * count; half /= 2) {
        for (uint64_t i = 0; i < half / 8; i++)
            f->bits[i] |= f->bits[half / 8 + i];
        f->bit_count = half;
    }
    if (f->bit_count)
        f->bits = gr_realloc(f->bits, f->bit_count / 8);
}

/* ---- classes ---- */

int key_class(int64_t ttl_ms)
{
    int c = 0;

    while (ttl_ms > class_ttl_ms[c])
        c++;
    return c;
}

int64_t key_class_span_ms(int class)
{
    int64_t ttl = class_ttl_ms[class];

    return (ttl < 32 * DAY_MS ? ttl : 32 * DAY_MS) / SPANS_A_TTL;
}

int64_t key_class_ttl_ms(int class)
{
    int64_t ttl = class_ttl_ms[class], max = 3650 * DAY_MS;

    return ttl < max ? ttl : max;
}
