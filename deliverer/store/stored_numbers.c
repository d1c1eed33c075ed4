/* stored_numbers: a ring of bits past the cursor, and the epochs of these numbers. */
#include "stored_numbers.h"
#include "le64.h"
#include <string.h>

static bool get(const struct stored_numbers *s, uint64_t n)
{
    uint64_t i = n % STORED_NUMBERS_SPAN;

    return s->bits[i / 8] >> (i % 8) & 1;
}

static void set(struct stored_numbers *s, uint64_t n, bool value)
{
    uint64_t i = n % STORED_NUMBERS_SPAN;
    uint8_t bit = (uint8_t)(1u << (i % 8));

    if (value)
        s->bits[i / 8] |= bit;
    else
        s->bits[i / 8] &= (uint8_t)~bit;
}

void stored_numbers_init(struct stored_numbers *s, uint64_t base)
{
    *s = (struct stored_numbers){.base = base, .taken = base};
}

/* Move the cursor over stored numbers, and clear their bits for later numbers. */
static void advance(struct stored_numbers *s)
{
    while (s->base < s->taken && get(s, s->base + 1)) {
        s->base++;
        set(s, s->base, false);
    }
}

/* Numbers from `first` on are of this epoch. false: there are too many epochs. */
static bool note_epoch(struct stored_numbers *s, uint64_t first, uint64_t epoch)
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
    if (s->epoch_count == STORED_NUMBERS_EPOCHS)
        return false;
    s->epochs[s->epoch_count++] = (struct number_epoch){first, epoch};
    return true;
}

static uint64_t epoch_of(const struct stored_numbers *s, uint64_t n)
{
    for (int i = s->epoch_count; i-- > 0;)
        if (s->epochs[i].first <= n)
            return s->epochs[i].epoch;
    return 0;
}

gr_rc stored_numbers_receive(struct stored_numbers *s, uint64_t n,
                             uint64_t epoch)
{
    if (n <= s->base)
        return GR_REFUSE;
    /* Another epoch wrote this number: forget it and all later ones. */
    if (n <= s->taken && epoch_of(s, n) != epoch) {
        for (; s->taken >= n; s->taken--)
            set(s, s->taken, false);
        while (s->epoch_count && s->epochs[s->epoch_count - 1].first >= n)
            s->epoch_count--;
    }
    if (n <= s->taken) {
        if (!get(s, n))
            return GR_OK;
        advance(s);
        return GR_REFUSE;
    }
    if (s->base == s->taken) /* all are stored: move the cursor there */
        s->base = s->taken = n - 1;
    else if (n - s->base > STORED_NUMBERS_SPAN)
        return GR_AGAIN;
    if (!note_epoch(s, s->taken + 1, epoch))
        return GR_AGAIN;
    for (uint64_t jumped = s->taken + 1; jumped < n; jumped++)
        set(s, jumped, true);
    s->taken = n;
    return GR_OK;
}

void stored_numbers_add(struct stored_numbers *s, uint64_t n)
{
    if (n <= s->base || n > s->taken)
        return;
    set(s, n, true);
    advance(s);
}

uint64_t stored_numbers_span(const struct stored_numbers *s)
{
    return s->taken - s->base;
}

bool stored_numbers_past_cursor(const struct stored_numbers *s)
{
    for (int i = 0; i < STORED_NUMBERS_BYTES; i++)
        if (s->bits[i])
            return true;
    return false;
}

size_t stored_numbers_save(const struct stored_numbers *s,
                           uint8_t out[STORED_NUMBERS_MAX_BYTES])
{
    uint8_t *p = out + 8 + STORED_NUMBERS_BYTES;

    set_le64(out, s->base);
    memcpy(out + 8, s->bits, STORED_NUMBERS_BYTES);
    for (int i = 0; i < s->epoch_count; i++, p += 16) {
        set_le64(p, s->epochs[i].first);
        set_le64(p + 8, s->epochs[i].epoch);
    }
    return (size_t)(p - out);
}

void stored_numbers_load(struct stored_numbers *s, struct bytes saved)
{
    const uint8_t *in = saved.p;
    uint64_t base, last = 0;

    if (saved.n < STORED_NUMBERS_BYTES + 8 ||
        saved.n > STORED_NUMBERS_MAX_BYTES)
        return;
    base = get_le64(in);
    for (uint64_t n = base + 1; n <= base + STORED_NUMBERS_SPAN; n++)
        if (n > s->base && n - s->base <= STORED_NUMBERS_SPAN &&
            (in[8 + n % STORED_NUMBERS_SPAN / 8] >> (n % 8) & 1)) {
            set(s, n, true);
            last = n;
        }
    if (last > s->taken)
        s->taken = last;
    s->epoch_count = 0;
    for (size_t at = 8 + STORED_NUMBERS_BYTES; at + 16 <= saved.n; at += 16)
        s->epochs[s->epoch_count++] = (struct number_epoch){
            get_le64(in + at), get_le64(in + at + 8)};
}
