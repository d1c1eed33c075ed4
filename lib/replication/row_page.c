/* row_page: takes the one cell of a leaf page apart. */
#include "row_page.h"
#include <string.h>

enum {
    LEAF_OF_TABLE = 0x0d,
    CELLS_AT = 3,      /* their number, two bytes */
    FIRST_AT = 8,      /* where the first one is, two bytes */
    PAYLOAD_MAX = 200, /* the row has about 60 bytes */
    /* Serial types: integers of 1, 2, 3, 4, 6 and 8 bytes, the numbers 0 and 1; of a BLOB of n bytes: 12 + 2 n. */
    ZERO = 8,
    ONE = 9,
    HISTORY_TYPE = 12 + 2 * HISTORY_BYTES,
    CHAIN_TYPE = 12 + 2 * CHAIN_BYTES,
};

struct reader {
    const uint8_t *at, *end;
    bool good;
};

static uint8_t take_byte(struct reader *r)
{
    r->good = r->good && r->at < r->end;
    return r->good ? *r->at++ : 0;
}

/* Of at most two bytes, which is all that this row needs. */
static uint32_t take_varint(struct reader *r)
{
    uint32_t first = take_byte(r), second;

    if (first < 0x80)
        return first;
    second = take_byte(r);
    r->good = r->good && second < 0x80;
    return (first & 0x7f) << 7 | second;
}

static int64_t take_integer(struct reader *r, size_t bytes)
{
    uint64_t n = 0;

    for (size_t i = 0; i < bytes; i++)
        n = n << 8 | take_byte(r);
    if (bytes && bytes < 8 && n >> (8 * bytes - 1)) /* negative */
        r->good = false;
    return (int64_t)n;
}

static void take_blob(struct reader *r, uint8_t *to, size_t n)
{
    r->good = r->good && (size_t)(r->end - r->at) >= n;
    if (!r->good)
        return;
    memcpy(to, r->at, n);
    r->at += n;
}

/* A column by its serial type: the history, the number and the chain come in this order; NULL is the key. */
static void take_column(struct reader *r, uint32_t type, int *have,
                        struct replicated_row *out)
{
    static const uint8_t bytes[] = {0, 1, 2, 3, 4, 6, 8};

    if (type == 0)
        return;
    if (*have == 0 && type == HISTORY_TYPE)
        take_blob(r, out->history, HISTORY_BYTES);
    else if (*have == 1 && type < sizeof bytes)
        out->n = take_integer(r, bytes[type]);
    else if (*have == 1 && (type == ZERO || type == ONE))
        out->n = type - ZERO;
    else if (*have == 2 && type == CHAIN_TYPE)
        take_blob(r, out->chain, CHAIN_BYTES);
    else
        r->good = false;
    ++*have;
}

static uint32_t two_bytes(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

void row_page_read(const uint8_t *image, uint32_t page_bytes,
                   struct replicated_row *out)
{
    uint32_t cells = two_bytes(image + CELLS_AT), payload, types_bytes;
    struct reader r = {image + two_bytes(image + FIRST_AT), image + page_bytes,
                       true},
                  types;
    int have = 0;

    *out = (struct replicated_row){.state = ROW_UNREADABLE};
    if (*image == LEAF_OF_TABLE && cells == 0)
        out->state = ROW_NONE;
    if (*image != LEAF_OF_TABLE || cells != 1 || r.at < image + FIRST_AT + 2 ||
        r.at >= r.end)
        return;
    payload = take_varint(&r);
    (void)take_varint(&r); /* the key */
    if (!r.good || payload > PAYLOAD_MAX || (size_t)(r.end - r.at) < payload)
        return;
    r.end = r.at + payload;
    types = r;
    types_bytes = take_varint(&types);
    if (!types.good || types_bytes > payload)
        return;
    types.end = r.at + types_bytes;
    r.at += types_bytes;
    while (types.good && r.good && types.at < types.end)
        take_column(&r, take_varint(&types), &have, out);
    if (types.good && r.good && have == 3 && r.at == r.end)
        out->state = ROW_FOUND;
}
