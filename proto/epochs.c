/* epochs: an ordered list of epochs, searched from its newest end. */
#include "epochs.h"
#include "bounds.h"
#include "le64.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

void epochs_fini(struct epochs *r)
{
    free(r->list);
    *r = (struct epochs){0};
}

void epochs_add(struct epochs *r, uint64_t epoch, uint64_t first)
{
    if (r->count && r->list[r->count - 1].epoch == epoch)
        return;
    assert(!r->count || r->list[r->count - 1].first < first);
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? r->capacity * 2 : 8;
        r->list = gr_realloc(r->list, r->capacity * sizeof *r->list);
    }
    r->list[r->count++] = (struct epoch){epoch, first};
}

void epochs_cut(struct epochs *r, uint64_t n)
{
    while (r->count && r->list[r->count - 1].first > n)
        r->count--;
}

bool epochs_shorten(struct epochs *r, size_t keep, uint64_t n)
{
    size_t gone = 0;

    while (r->count - gone > keep && gone + 1 < r->count &&
           r->list[gone + 1].first <= n)
        gone++;
    if (!gone)
        return false;
    r->count -= gone;
    memmove(r->list, r->list + gone, r->count * sizeof *r->list);
    return true;
}

uint64_t epochs_of(const struct epochs *r, uint64_t n)
{
    if (n == 0)
        return 0;
    for (size_t i = r->count; i-- > 0;)
        if (r->list[i].first <= n)
            return r->list[i].epoch;
    return 0;
}

bool epochs_forgot(const struct epochs *r, uint64_t n)
{
    return n > 0 && r->count > 0 && n < r->list[0].first;
}

/* Last row of the i-th epoch in a log that ends at `last`. */
static uint64_t end_of(const struct epochs *r, size_t i, uint64_t last)
{
    uint64_t end = i + 1 < r->count ? r->list[i + 1].first - 1 : last;

    return end < last ? end : last;
}

uint64_t epochs_common(const struct epochs *a, uint64_t a_last,
                       const struct epochs *b, uint64_t b_last)
{
    uint64_t best = 0;

    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            uint64_t a_end = end_of(a, i, a_last);
            uint64_t b_end = end_of(b, j, b_last);
            uint64_t end = a_end < b_end ? a_end : b_end;

            if (a->list[i].epoch == b->list[j].epoch && end > best &&
                end >= a->list[i].first && end >= b->list[j].first)
                best = end;
        }
    }
    return best;
}

size_t epochs_put(const struct epochs *r, struct buf *out)
{
    size_t from = r->count > EPOCHS_MAX_COUNT ? r->count - EPOCHS_MAX_COUNT : 0;

    for (size_t i = from; i < r->count; i++) {
        put_le64(out, r->list[i].epoch);
        put_le64(out, r->list[i].first);
    }
    return r->count - from;
}

gr_rc epochs_get(struct epochs *r, struct bytes in, uint64_t count)
{
    const uint8_t *p = in.p;

    if (count > EPOCHS_MAX_COUNT || in.n != count * 16)
        return GR_REFUSE;
    for (uint64_t i = 0; i < count; i++, p += 16) {
        uint64_t epoch = get_le64(p), first = get_le64(p + 8);

        if (epoch == 0 || first == 0 ||
            (r->count && (r->list[r->count - 1].first >= first ||
                          r->list[r->count - 1].epoch == epoch)))
            return GR_REFUSE;
        epochs_add(r, epoch, first);
    }
    return GR_OK;
}
