/* turn: writes and reads the form of a turn, and computes its chain. */
#include "turn.h"
#include "le64.h"
#include "sha256.h"
#include "wal_file.h"
#include <endian.h>
#include <string.h>

enum {
    N_AT = HISTORY_BYTES,
    SIZE_AT = N_AT + 8,
    PAGE_BYTES_AT = SIZE_AT + 4,
    COUNT_AT = PAGE_BYTES_AT + 4,
    HEAD_BYTES = COUNT_AT + 4,
    NUMBER_BYTES = 4, /* before each image */
    LOCKED_BYTE = 0x40000000,
};

bool position_equal(const struct position *a, const struct position *b)
{
    return a->n == b->n && memcmp(a->history, b->history, HISTORY_BYTES) == 0 &&
           memcmp(a->chain, b->chain, CHAIN_BYTES) == 0;
}

uint32_t turn_locked_page(uint32_t page_bytes)
{
    return LOCKED_BYTE / page_bytes + 1;
}

static uint32_t number(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static void put_number(struct buf *out, uint32_t v)
{
    v = htole32(v);
    buf_put(out, &v, sizeof v);
}

uint64_t turn_bytes(const struct turn_head *head)
{
    return HEAD_BYTES +
           head->page_count * (NUMBER_BYTES + (uint64_t)head->page_bytes);
}

void turn_put_head(struct buf *form, const struct turn_head *head)
{
    buf_put(form, head->history, HISTORY_BYTES);
    put_le64(form, (uint64_t)head->n);
    put_number(form, head->size_pages);
    put_number(form, head->page_bytes);
    put_number(form, head->page_count);
}

void turn_put_page(struct buf *form, uint32_t page, const void *image,
                   uint32_t page_bytes)
{
    put_number(form, page);
    buf_put(form, image, page_bytes);
}

const uint8_t *turn_page(struct bytes form, const struct turn_head *head,
                         uint32_t i, uint32_t *page)
{
    const uint8_t *p = form.p;

    p += HEAD_BYTES + i * (NUMBER_BYTES + (size_t)head->page_bytes);
    *page = number(p);
    return p + NUMBER_BYTES;
}

static bool numbers_are_good(struct bytes form, const struct turn_head *head)
{
    uint32_t before = 0, page;

    for (uint32_t i = 0; i < head->page_count; i++, before = page) {
        turn_page(form, head, i, &page);
        if (page <= before || page > head->size_pages ||
            page == turn_locked_page(head->page_bytes))
            return false;
    }
    return true;
}

gr_rc turn_read(struct bytes form, struct turn_head *head)
{
    const uint8_t *p = form.p;

    if (form.n < HEAD_BYTES)
        return GR_REFUSE;
    memcpy(head->history, p, HISTORY_BYTES);
    head->n = (int64_t)get_le64(p + N_AT);
    head->size_pages = number(p + SIZE_AT);
    head->page_bytes = number(p + PAGE_BYTES_AT);
    head->page_count = number(p + COUNT_AT);
    if (head->n < 1 || !head->size_pages ||
        !wal_file_is_page_size(head->page_bytes) || form.n != turn_bytes(head))
        return GR_REFUSE;
    return numbers_are_good(form, head) ? GR_OK : GR_REFUSE;
}

void position_next(struct position *at, struct bytes form)
{
    struct bytes parts[] = {{at->chain, CHAIN_BYTES}, form};

    sha256_of_parts(parts, COUNT_OF(parts), at->chain);
    at->n++;
}
