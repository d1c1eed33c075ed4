#include "settle.h"
#include "le64.h"
#include <string.h>

static bool get(const struct settle *s, uint64_t n)
{
    uint64_t i = n % SETTLE_SPAN;

    return s->bits[i / 8] >> (i % 8) & 1;
}

static void set(struct settle *s, uint64_t n, bool value)
{
    uint64_t i = n % SETTLE_SPAN;
    uint8_t bit = (uint8_t)(1u << (i % 8));

    if (value)
        s->bits[i / 8] |= bit;
    else
        s->bits[i / 8] &= (uint8_t)~bit;
}

void settle_init(struct settle *s, uint64_t base)
{
    *s = (struct settle){.base = base, .taken = base};
}

/* Move the place over what is settled, clearing the bits for other numbers. */
static void advance(struct settle *s)
{
    while (s->base < s->taken && get(s, s->base + 1)) {
        s->base++;
        set(s, s->base, false);
    }
}

gr_rc settle_take(struct settle *s, uint64_t n)
{
    if (n <= s->base)
        return GR_REFUSE;
    if (n <= s->taken)
        return get(s, n) ? GR_REFUSE : GR_OK;
    if (s->base == s->taken) { /* nothing is open: go there directly */
        s->base = s->taken = n - 1;
    } else if (n - s->base > SETTLE_SPAN) {
        return GR_AGAIN;
    }
    for (uint64_t jumped = s->taken + 1; jumped < n; jumped++)
        set(s, jumped, true);
    s->taken = n;
    return GR_OK;
}

void settle_done(struct settle *s, uint64_t n)
{
    if (n <= s->base || n > s->taken)
        return;
    set(s, n, true);
    advance(s);
}

uint64_t settle_span(const struct settle *s)
{
    return s->taken - s->base;
}

bool settle_ahead(const struct settle *s)
{
    for (int i = 0; i < SETTLE_BYTES; i++)
        if (s->bits[i])
            return true;
    return false;
}

void settle_save(const struct settle *s, uint8_t out[SETTLE_BYTES + 8])
{
    set_le64(out, s->base);
    memcpy(out + 8, s->bits, SETTLE_BYTES);
}

void settle_load(struct settle *s, struct bytes saved)
{
    const uint8_t *in = saved.p;
    uint64_t base, last = 0;

    if (saved.n != SETTLE_BYTES + 8)
        return;
    base = get_le64(in);
    for (uint64_t n = base + 1; n <= base + SETTLE_SPAN; n++)
        if (n > s->base && n - s->base <= SETTLE_SPAN &&
            (in[8 + n % SETTLE_SPAN / 8] >> (n % 8) & 1)) {
            set(s, n, true);
            last = n;
        }
    if (last > s->taken)
        s->taken = last;
    advance(s);
}
