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

/* Move the cursor over what is settled, clearing the bits for other numbers. */
static void advance(struct settle *s)
{
    while (s->base < s->taken && get(s, s->base + 1)) {
        s->base++;
        set(s, s->base, false);
    }
}

static uint64_t epoch_of(const struct settle *s, uint64_t n)
{
    for (int i = s->epoch_count; i-- > 0;)
        if (s->epochs[i].first <= n)
            return s->epochs[i].epoch;
    return 0;
}

/* Forget all numbers above `last`. */
static void cut(struct settle *s, uint64_t last)
{
    for (; s->taken > last; s->taken--)
        set(s, s->taken, false);
    while (s->epoch_count && s->epochs[s->epoch_count - 1].first > last)
        s->epoch_count--;
}

/* Numbers from `first` on are of this epoch. false: they are of too many. */
static bool note_epoch(struct settle *s, uint64_t first, uint64_t epoch)
{
    int gone = 0;

    if (s->epoch_count && s->epochs[s->epoch_count - 1].epoch == epoch)
        return true;
    while (gone + 1 < s->epoch_count &&
           s->epochs[gone + 1].first <= s->base + 1)
        gone++;
    if (s->base == s->taken)
        gone = s->epoch_count;
    s->epoch_count -= gone;
    memmove(s->epochs, s->epochs + gone,
            (size_t)s->epoch_count * sizeof s->epochs[0]);
    if (s->epoch_count == SETTLE_EPOCHS)
        return false;
    s->epochs[s->epoch_count++] = (struct settle_epoch){first, epoch};
    return true;
}

gr_rc settle_take(struct settle *s, uint64_t n, uint64_t epoch)
{
    if (n <= s->base)
        return GR_REFUSE;
    if (n <= s->taken && epoch_of(s, n) != epoch)
        cut(s, n - 1);
    if (n <= s->taken) {
        if (!get(s, n))
            return GR_OK;
        advance(s);
        return GR_REFUSE;
    }
    if (s->base == s->taken) /* nothing is open: go there directly */
        s->base = s->taken = n - 1;
    else if (n - s->base > SETTLE_SPAN)
        return GR_AGAIN;
    if (!note_epoch(s, s->taken + 1, epoch))
        return GR_AGAIN;
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

size_t settle_save(const struct settle *s, uint8_t out[SETTLE_SAVED_MAX_BYTES])
{
    uint8_t *p = out + 8 + SETTLE_BYTES;

    set_le64(out, s->base);
    memcpy(out + 8, s->bits, SETTLE_BYTES);
    for (int i = 0; i < s->epoch_count; i++, p += 16) {
        set_le64(p, s->epochs[i].first);
        set_le64(p + 8, s->epochs[i].epoch);
    }
    return (size_t)(p - out);
}

static void load_epochs(struct settle *s, const uint8_t *in, size_t bytes)
{
    s->epoch_count = 0;
    for (; bytes >= 16; bytes -= 16, in += 16)
        s->epochs[s->epoch_count++] = (struct settle_epoch){get_le64(in),
                                                            get_le64(in + 8)};
}

void settle_load(struct settle *s, struct bytes saved)
{
    const uint8_t *in = saved.p;
    uint64_t base, last = 0;

    if (saved.n < SETTLE_BYTES + 8 || saved.n > SETTLE_SAVED_MAX_BYTES)
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
    load_epochs(s, in + 8 + SETTLE_BYTES, saved.n - 8 - SETTLE_BYTES);
}
